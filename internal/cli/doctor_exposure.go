package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"ravenbot/internal/mcp"
	"ravenbot/internal/ops/config"
)

// diagnoseExposure names settings that are safe on their own, and together let other people act through the bot.
func diagnoseExposure(cfg *config.Config) finding {
	f := finding{Name: "exposure", OK: true}
	for _, path := range mcp.ExposedHooks(cfg) {
		f.Notes = append(f.Notes, fmt.Sprintf("MCP servers can change the hook %s, or add files to its folder that it loads: "+
			"move it into a folder of its own, and leave mcp.isolation at auto", path))
	}
	for i, r := range cfg.Tools.Policy {
		if r.Decision == "allow" && len(r.Users)+len(r.Roles) > 0 {
			f.Notes = append(f.Notes, fmt.Sprintf("tools.policy[%d] allows %s to certain people: in a channel, the words of others "+
				"that they read can use that right. Name channels in which only those people write, or let it ask",
				i, strings.Join(r.Tools, ", ")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Webhooks)) {
		for _, post := range cfg.Webhooks[name].Post {
			if by := findAllowed(cfg, post); by != "" {
				f.Notes = append(f.Notes, fmt.Sprintf("the webhook %s posts to %s, where %s lets tools change something without "+
					"a question: answers there may read what is sent to it. Post elsewhere, or let the tools ask",
					name, post, by))
			}
		}
	}
	return f
}

// findAllowed returns what lets tools that change something run in a channel without a question; empty if nothing does.
func findAllowed(cfg *config.Config, channel string) string {
	if cfg.Tools.Mode == "open" {
		return "tools.mode"
	}
	for i, r := range cfg.Tools.Policy {
		isHere := len(r.Channels) == 0 ||
			slices.ContainsFunc(r.Channels, func(pattern string) bool { return config.Covers(pattern, channel) })
		if r.Decision == "allow" && r.Hint != "readOnly" && isHere {
			return fmt.Sprintf("tools.policy[%d]", i)
		}
	}
	return ""
}

// noteAlwaysAllowed returns notes on tools of a server that run without a question although they may destroy something.
func noteAlwaysAllowed(allowed []string, tools []mcp.ToolInfo) (notes []string) {
	for _, t := range tools {
		if t.Hint == "destructive" && slices.Contains(allowed, t.Name) {
			notes = append(notes, "alwaysAllow names "+t.Name+", which may destroy something: remove it, so that it asks")
		}
	}
	return notes
}
