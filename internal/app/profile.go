package app

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"ravenbot/internal/agent"
	"ravenbot/internal/chat"
	"ravenbot/internal/config"
	"ravenbot/internal/policy"
	"ravenbot/internal/settings"
	"ravenbot/internal/tool"
)

// profiles are agents, ready for work.
func (a *App) profiles(c *config.Config, agents map[string]member) map[string]agent.Profile {
	profiles := map[string]agent.Profile{}
	for name, ag := range agents {
		profiles[name] = agent.Profile{Agent: name, Models: chain(c, ag.Model), Utility: utility(c, ag.Agent),
			System:   strings.TrimSpace(toolText(c) + "\n\n" + ag.SystemPrompt),
			ToolText: toolText(c) != "",
			MaxSteps: cmp.Or(ag.Limits.MaxSteps, c.Tools.MaxSteps), MaxResult: cmp.Or(ag.Limits.MaxResultBytes, c.Tools.MaxResultBytes),
			Uses: usable(ag, c.Tools.Enabled), Servers: ag.reach.to,
			Recall: func(ctx context.Context, question string) string {
				return a.knowledge.PromptText(ctx, name, ag.Knowledge, question)
			}}
	}
	return profiles
}

// chain gives the models of a name; one that the configuration no longer has is the
// default one.
func chain(c *config.Config, model string) []string {
	if _, ok := c.Models[model]; !ok {
		model = "default"
	}
	return c.ModelChain(model)
}

// utilityModel is the model for small work where an agent names none.
const utilityModel = "utility"

// utility gives the models for titles and for summaries of what is old: the cheaper
// one with what stands in for it, then the agent's own. None: there is no cheaper one.
func utility(c *config.Config, ag config.Agent) []string {
	name := cmp.Or(ag.UtilityModel, utilityModel)
	if _, ok := c.Models[name]; !ok {
		return nil
	}
	var list []string
	for _, model := range slices.Concat(c.ModelChain(name), chain(c, ag.Model)) {
		if c.Models[model].Provider != "offline" && !slices.Contains(list, model) {
			list = append(list, model)
		}
	}
	return list
}

// route gives the profile of a message.
func (a *App) route(m chat.Message) agent.Profile {
	if p, ok := a.taskProfile(m); ok {
		return p
	}
	set := a.setup.Load()
	name := set.agentAt(m.Conversation)
	return adjusted(set.config, set.profiles[name], set.agents[name], a.settings.Effective(m.Conversation, m.Author.ID))
}

// adjusted is a profile with what was set for a user, a channel or the bot.
func adjusted(c *config.Config, p agent.Profile, ag member, set settings.Layer) agent.Profile {
	if set.Model != "" {
		p.Models = chain(c, set.Model)
	}
	if n := set.Tools.MaxSteps; n != nil && (ag.Limits.MaxSteps == 0 || *n < ag.Limits.MaxSteps) {
		p.MaxSteps = *n
	}
	if set.Tools.SystemPrompt != nil {
		p.ToolText = *set.Tools.SystemPrompt != ""
		p.System = strings.TrimSpace(*set.Tools.SystemPrompt + "\n\n" + ag.SystemPrompt)
	}
	if set.Tools.Enabled != nil {
		p.Uses = usable(ag, *set.Tools.Enabled)
	}
	if set.Language != "" {
		p.System += "\n\nAnswer in this language, whatever the question is written in: " + set.Language + "."
	}
	return p
}

// reach is what an agent may reach beside its own native tools.
type reach struct {
	to       func(server string) bool // MCP servers
	fallback []string                 // patterns of native packs, in use
}

// reachOf finds what an agent may reach (contract §1).
func (a *App) reachOf(c *config.Config, ag config.Agent) reach {
	if ag.MCPServers == nil {
		return reach{to: func(string) bool { return true }}
	}
	linked := map[string]bool{}
	for _, l := range ag.MCPServers {
		if l.Enabled && !a.disabled(c, l.Name) {
			linked[l.Name] = true
		}
	}
	if len(linked) > 0 {
		return reach{to: func(server string) bool { return linked[server] }}
	}
	return reach{func(server string) bool { return anyMatch(ag.FallbackServers, server) }, ag.FallbackServers}
}

func anyMatch(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return policy.Match(p, name) })
}

// disabled reports that an MCP server is switched off by its entry.
func (a *App) disabled(c *config.Config, server string) bool {
	e, ok := c.MCPServers[server]
	if !ok {
		added, _ := a.added.Load(server)
		e, _ = added.(config.MCPServer)
	}
	return e.Disabled
}

// usable gives the test by which an agent's tools are chosen.
func usable(ag member, enabled bool) func(tool.Named) bool {
	if !enabled {
		return func(tool.Named) bool { return false }
	}
	return func(n tool.Named) bool {
		spec := n.Tool.Spec()
		switch {
		case !spec.Native:
			return ag.reach.to(spec.Server)
		case spec.Server == "mcp" && ag.MCPServers == nil: // it reaches no server but those that the agent does
			return true
		case spec.Server == "knowledge":
			return ag.knows()
		}
		return spec.Server == "result" || anyMatch(ag.reach.fallback, spec.Server) || policy.Any(ag.Tools, n)
	}
}

// toolText goes before the agent's prompt where tools are declared.
func toolText(c *config.Config) string {
	if !c.Tools.Enabled {
		return ""
	}
	return c.Tools.SystemPrompt
}
