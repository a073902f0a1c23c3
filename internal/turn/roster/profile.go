package roster

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature/settings"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/recall/meaning"
	"ravenbot/internal/recall/skill"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/agent"
	"ravenbot/internal/turn/policy"
	"ravenbot/internal/turn/prompt"
)

const (
	// utilityModel is the model for small work where an agent names none.
	utilityModel = "utility"
	// offlineProvider is the provider that summarizes without a language model.
	offlineProvider = "offline"
)

// profiles returns the agents ready for work, without people's settings.
func (r *Roster) profiles(c *config.Config, members map[string]member) map[string]agent.Profile {
	profiles := map[string]agent.Profile{}
	for name, m := range members {
		profiles[name] = agent.Profile{
			Agent:     name,
			Models:    modelChain(c, m.Model),
			Utility:   utilityModels(c, m.Agent),
			System:    strings.TrimSpace(toolPrompt(c) + "\n\n" + m.SystemPrompt),
			ToolText:  toolPrompt(c) != "",
			MaxSteps:  cmp.Or(m.Limits.MaxSteps, c.Tools.MaxSteps),
			MaxResult: cmp.Or(m.Limits.MaxResultBytes, c.Tools.MaxResultBytes),
			Uses:      toolFilter(m, c.Tools.Enabled),
			Servers:   m.access.server,
			Skills:    promptSkills(m.skills),
			Recall: func(ctx context.Context, question string, earlier []string) (known agent.Knowledge) {
				known.Standing, known.Passages = r.o.Knowledge.Recall(ctx, name, m.Agent.Knowledge, question, earlier)
				return known
			},
			ContextMessages: m.Context.Messages,
			Window: conversation.Window{
				MaxTurns: m.Context.Turns,
				MaxBytes: m.Context.Tokens * conversation.BytesPerToken,
			},
		}
	}
	return profiles
}

// promptSkills returns the descriptions of skills for a model.
func promptSkills(skills []skill.Skill) []prompt.Skill {
	var list []prompt.Skill
	for _, s := range skills {
		list = append(list, prompt.Skill{Name: s.Name, Description: s.Description})
	}
	return list
}

// modelChain returns a model with its fallbacks. A name that is not configured means the default model.
func modelChain(c *config.Config, model string) []string {
	if _, ok := c.Models[model]; !ok {
		model = "default"
	}
	return c.ModelChain(model)
}

// utilityModels returns the models for titles and summaries: the cheaper one with its fallbacks, then the agent's own.
// It returns none if there is no cheaper one.
func utilityModels(c *config.Config, a config.Agent) []string {
	name := cmp.Or(a.UtilityModel, utilityModel)
	if _, ok := c.Models[name]; !ok {
		return nil
	}
	var list []string
	for _, model := range slices.Concat(c.ModelChain(name), modelChain(c, a.Model)) {
		if c.Models[model].Provider != offlineProvider && !slices.Contains(list, model) {
			list = append(list, model)
		}
	}
	return list
}

// toolPrompt returns what goes before the agent's prompt where tools are declared.
func toolPrompt(c *config.Config) string {
	if !c.Tools.Enabled {
		return ""
	}
	return c.Tools.SystemPrompt
}

// Route returns the profile for a message. A message of a task gets the agent, limits and tools of the task, and the
// settings of its target channel. Every other message gets the settings of its channel and author.
func (r *Roster) Route(m chat.Message) agent.Profile {
	s := r.state.Load()
	if t, ok := r.o.Tasks.Task(m.Conversation); ok {
		name := r.agentOf(s, t.Agent, t.Channel)
		p := r.profileWith(s, name, r.o.Settings.Effective(t.Channel, ""))
		p.MaxTokens = t.MaxTokens
		p.Unattended, p.Granted = true, t.Tools
		p.System += "\n\nThis is a task that is carried out on a schedule, with nobody there to answer questions. What " +
			"you write is posted as it is."
		return p
	}
	name, _ := r.agentAt(s, m.Conversation, m.Author.Roles)
	return r.profileWith(s, name, r.o.Settings.Effective(m.Conversation, m.Author.ID))
}

// profileWith returns the profile of an agent with settings applied. The log reports a chosen model that is missing:
// another replica may have it, or the configuration has changed since.
func (r *Roster) profileWith(s *state, name string, set settings.Layer) agent.Profile {
	if _, ok := s.config.Models[set.Model]; !ok && set.Model != "" && s.isFirst("model "+set.Model) {
		r.o.Log.Warn("model chosen in settings is not in config.json; using the default one", "model", set.Model)
	}
	return withSettings(s.config, s.profiles[name], s.members[name], set)
}

// agentOf returns the agent of a digest: the named one, otherwise the agent of its channel.
func (r *Roster) agentOf(s *state, name string, channel chat.Address) string {
	if _, ok := s.members[name]; ok {
		return name
	}
	instead, _ := r.agentAt(s, channel, nil)
	if name != "" && s.isFirst("agent "+name) {
		r.o.Log.Warn("agent named by a digest or job does not exist; using that of its channel", "agent", name,
			"used", instead)
	}
	return instead
}

// Writers returns the language models that write for an agent, or for the agent of a channel if the name is unknown.
// It returns none if there is no language model.
func (r *Roster) Writers(name string, channel chat.Address) []string {
	s := r.state.Load()
	chain := s.config.ModelChain(s.members[r.agentOf(s, name, channel)].Model)
	return slices.DeleteFunc(chain, func(m string) bool { return s.config.Models[m].Provider == offlineProvider })
}

// Model returns a model by its configured name, or false if it is disabled.
func (r *Roster) Model(name string) (agent.Model, bool) {
	m, ok := r.state.Load().models[name]
	return m, ok
}

// Embedder returns a configured embedding model by its name, or false. count is called with the usage of each request.
func (r *Roster) Embedder(
	name string,
	count func(context.Context, store.Usage) error,
) (meaning.Embedder, bool) {
	m, _ := r.Model(name)
	embedder, ok := llm.As[llm.Embedder](m.Model)
	if name == "" || !ok {
		return meaning.Embedder{}, false
	}
	embed := func(ctx context.Context, texts []string) ([][]float32, error) {
		vectors, used, err := embedder.Embed(ctx, texts)
		if used != (llm.Usage{}) {
			// The usage costs money even if nobody waits for the answer any more.
			err := count(context.WithoutCancel(ctx), store.Usage{Model: m.ID(), Tokens: used})
			if err != nil {
				r.o.Log.Error("failed to count the usage of an embedding model", "error", err)
			}
		}
		return vectors, err
	}
	return meaning.Embedder{Name: m.ID(), Embed: embed}, true
}

// ModelNames returns the configured names of the models that are switched on, sorted.
func (r *Roster) ModelNames() []string { return slices.Sorted(maps.Keys(r.state.Load().models)) }

// DiscoveryThreshold returns the number of tools above which models search for tools.
func (r *Roster) DiscoveryThreshold() int {
	switch d := r.state.Load().config.Tools.Discovery; d.Mode {
	case "always":
		return 0
	case "never":
		return math.MaxInt
	default:
		return d.Threshold
	}
}

// withSettings returns a profile with the settings of a user, a channel and the bot. p is a copy, but turns share the
// data behind its pointers, which must not change.
func withSettings(c *config.Config, p agent.Profile, m member, set settings.Layer) agent.Profile {
	if set.Model != "" {
		p.Models = modelChain(c, set.Model)
	}
	// An agent's own limit is the operator's: settings may lower it, never raise it.
	if n := set.Tools.MaxSteps; n != nil && (m.Limits.MaxSteps == 0 || *n < m.Limits.MaxSteps) {
		p.MaxSteps = *n
	}
	if set.Tools.SystemPrompt != nil {
		p.ToolText = *set.Tools.SystemPrompt != ""
		p.System = strings.TrimSpace(*set.Tools.SystemPrompt + "\n\n" + m.SystemPrompt)
	}
	if set.Tools.Enabled != nil {
		p.Uses = toolFilter(m, *set.Tools.Enabled)
	}
	if set.Language != "" {
		p.System += "\n\nAnswer in this language, whatever the question is written in: " + set.Language + "."
	}
	return p
}

// toolAccess is the set of tools of an agent other than the native tools in its entry.
type toolAccess struct {
	server   func(name string) bool // MCP servers
	fallback []string               // patterns of enabled servers and native packs
}

// toolAccess returns the tools of an agent. Without a list of servers it has every server, otherwise the listed ones.
// If none of these is enabled, it has the servers that match its fallbacks.
func (r *Roster) toolAccess(c *config.Config, a config.Agent) toolAccess {
	if a.MCPServers == nil {
		return toolAccess{server: func(string) bool { return true }}
	}
	linked := map[string]bool{}
	for _, l := range a.MCPServers {
		if l.Enabled && !r.isDisabled(c, l.Name) {
			linked[l.Name] = true
		}
	}
	if len(linked) > 0 {
		return toolAccess{server: func(name string) bool { return linked[name] }}
	}
	return toolAccess{
		server:   func(name string) bool { return matchAny(a.FallbackServers, name) },
		fallback: a.FallbackServers,
	}
}

// matchAny reports whether a name matches one of some patterns.
func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return policy.Match(p, name) })
}

// isDisabled reports whether an MCP server is disabled by its entry: the configured one, otherwise the added one.
func (r *Roster) isDisabled(c *config.Config, server string) bool {
	if e, ok := c.MCPServers[server]; ok {
		return e.Disabled
	}
	e, _ := r.o.Servers.Config(server)
	return e.Disabled
}

// toolFilter returns the test by which an agent's tools are chosen.
func toolFilter(m member, enabled bool) func(tool.Named) bool {
	if !enabled {
		return func(tool.Named) bool { return false }
	}
	return func(n tool.Named) bool {
		spec := n.Tool.Spec()
		switch {
		case !spec.Native:
			return m.access.server(spec.Server)
		case spec.Server == "mcp" && m.MCPServers == nil: // only from servers that the agent can use
			return true
		case spec.Server == "skill":
			return len(m.skills) > 0
		case spec.Server == "knowledge":
			return m.knows()
		}
		return spec.Server == "result" || matchAny(m.access.fallback, spec.Server) || policy.MatchesAny(m.Tools, n)
	}
}
