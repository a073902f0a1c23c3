package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ravenbot/internal/chat"
	"ravenbot/internal/tool"
)

// Bounds of what /raven tools shows: of more tools than fewTools only the names, by
// the servers that they are of.
const (
	fewTools     = 30
	shownServers = 40
	shownNames   = 6
	shownTools   = 60
	shownWords   = 80 // characters of a description
)

// toolsCommand lists the tools that may be used here, or those of the server that
// is named.
func (a *App) toolsCommand(ctx context.Context, m chat.Message) chat.Draft {
	profile := a.route(m)
	servers, all := map[string][]tool.Named{}, 0
	for _, n := range a.registry.List() {
		if profile.Uses(n) {
			server := n.Tool.Spec().Server
			servers[server] = append(servers[server], n)
			all++
		}
	}
	name := strings.TrimSpace(m.Text)
	switch list := servers[name]; {
	case name != "" && len(list) == 0:
		return chat.Draft{Ephemeral: true, Failed: true, Text: fmt.Sprintf("Nothing here may be used of %q; `/raven tools` names what may.", name)}
	case name != "":
		return chat.Draft{Ephemeral: true, Text: "**Tools of " + name + "**\n\n" + ofServer(list)}
	case all <= fewTools:
		return a.agent.Tools(ctx, m)
	}
	return chat.Draft{Ephemeral: true, Text: fmt.Sprintf("**%d tools can be used here**; `/raven tools NAME` tells more of one row.\n\n%s", all, byServer(servers))}
}

func byServer(servers map[string][]tool.Named) string {
	var lines []string
	for n, server := range slices.Sorted(maps.Keys(servers)) {
		if n == shownServers {
			lines = append(lines, fmt.Sprintf("- and %d more", len(servers)-n))
			break
		}
		list := servers[server]
		var names []string
		for _, t := range list[:min(len(list), shownNames)] {
			names = append(names, "`"+t.Name+"`")
		}
		line := fmt.Sprintf("- **%s** (%d): %s", server, len(list), strings.Join(names, ", "))
		if more := len(list) - len(names); more > 0 {
			line += fmt.Sprintf(" and %d more", more)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func ofServer(list []tool.Named) string {
	var lines []string
	for n, t := range list {
		if n == shownTools {
			lines = append(lines, fmt.Sprintf("- and %d more", len(list)-n))
			break
		}
		words, _, _ := strings.Cut(strings.TrimSpace(t.Tool.Spec().Description), "\n")
		if runes := []rune(words); len(runes) > shownWords {
			words = string(runes[:shownWords-1]) + "…"
		}
		lines = append(lines, "- `"+t.Name+"`: "+literal.Replace(words))
	}
	return strings.Join(lines, "\n")
}
