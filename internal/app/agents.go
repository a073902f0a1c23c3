package app

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"ravenbot/internal/agent"
	"ravenbot/internal/chat"
	"ravenbot/internal/config"
	"ravenbot/internal/conversation"
	"ravenbot/internal/llm/gemini"
	"ravenbot/internal/llm/offline"
	"ravenbot/internal/llm/openai"
	"ravenbot/internal/policy"
	"ravenbot/internal/schema"
	"ravenbot/internal/settings"
	"ravenbot/internal/tool"
	"ravenbot/internal/toolsearch"
)

func (a *App) buildAgent() error {
	models, err := buildModels(a.o.Config)
	if err != nil {
		return err
	}
	a.models = models
	rules := policies(a.o.Config)
	commands := map[string]agent.Command{}
	a.agent = agent.New(agent.Options{
		Route: a.router(), Models: models, Tools: a.registry, Settled: a.toolsSettled, Memory: a.store, Summaries: a.store, Feedback: a.store.SaveFeedback, Fetch: a.fetch,
		Window: conversation.DefaultWindow(), Check: schema.New().Check, Commands: commands,
		Discovery: a.discovery(), Threshold: a.threshold(),
		Decide: func(_ tool.Caller, n tool.Named) agent.Verdict {
			d, why := rules.Decide(n)
			return agent.Verdict{Allowed: d == policy.Allow, Reason: why}
		},
		Log: a.o.Log, Now: a.o.Now, Jitter: rand.Float64,
	})
	commands["help"] = a.agent.Help
	commands["tools"] = a.toolsCommand
	commands["settings"] = a.settings.Command
	commands[chat.Submitted] = a.submitted
	commands["usage"] = a.usageCommand
	commands["memory"] = a.memory().Command
	commands["forget"] = a.forgetCommand
	commands["digest"] = a.digestCommand
	a.registry.Add(native{a.agent.ResultReader()})
	return nil
}

// fetch reads a file that came with a message.
func (a *App) fetch(ctx context.Context, platform string, f chat.File, limit int64) ([]byte, error) {
	p, ok := a.platforms[platform].(chat.Fetcher)
	if !ok {
		return nil, fmt.Errorf("%s gives no files", platform)
	}
	return p.Fetch(ctx, f, limit)
}

// discovery finds tools where there are many; nil: never.
func (a *App) discovery() agent.Discovery {
	if a.o.Config.Tools.Discovery.Mode == "never" {
		return nil
	}
	return toolsearch.NewFinder(toolsearch.New(), func(server string) string {
		return a.o.Config.MCPServers[server].Description
	})
}

// threshold is the number of tools above which they have to be found.
func (a *App) threshold() int {
	if a.o.Config.Tools.Discovery.Mode == "always" {
		return 0
	}
	return a.o.Config.Tools.Discovery.Threshold
}

// toolsSettled waits until every MCP server is connected, or has failed to.
func (a *App) toolsSettled(ctx context.Context) {
	for _, s := range a.mcp.Servers() {
		if a.mcp.Wait(ctx, s.Name) != nil {
			return
		}
	}
}

// buildModels makes the models that have what they need; a model without its key
// is left out, and what stands in for it answers.
func buildModels(c *config.Config) (map[string]agent.Model, error) {
	models := map[string]agent.Model{}
	for name, m := range c.Models {
		if m.KeyMissing {
			continue
		}
		built := agent.Model{Timeout: m.Timeout.Std()}
		switch m.Provider {
		case "gemini":
			g, err := gemini.New(gemini.Options{APIKey: m.APIKey.Reveal(), Model: m.Model, BaseURL: m.BaseURL.Reveal(),
				Temperature: m.Temperature, MaxOutputTokens: m.MaxOutputTokens})
			if err != nil {
				return nil, fmt.Errorf("models.%s: %w", name, err)
			}
			built.Model = g
		case "openai":
			built.Model = openai.New(openai.Options{Name: name, APIKey: m.APIKey.Reveal(), Model: m.Model,
				BaseURL: m.BaseURL.Reveal(), Temperature: m.Temperature, MaxOutputTokens: m.MaxOutputTokens})
		default:
			built.Model = offline.Model{}
		}
		models[name] = built
	}
	return models, nil
}

// router gives the profile of a message: the agent of the first rule that
// matches its channel.
func (a *App) router() func(chat.Message) agent.Profile {
	c := a.o.Config
	profiles := map[string]agent.Profile{}
	for name, ag := range c.Agents {
		profiles[name] = agent.Profile{Agent: name, Models: c.ModelChain(ag.Model),
			System:   strings.TrimSpace(toolText(c) + "\n\n" + ag.SystemPrompt),
			ToolText: toolText(c) != "",
			MaxSteps: c.Tools.MaxSteps, MaxResult: c.Tools.MaxResultBytes, Uses: usable(c, ag, c.Tools.Enabled)}
	}
	return func(m chat.Message) agent.Profile {
		name := c.ChannelFor(m.Conversation.String()).Agent
		return adjusted(c, profiles[name], c.Agents[name], a.settings.For(m.Conversation, m.Author.ID))
	}
}

// adjusted is a profile with what was set for a user, a channel or the bot.
func adjusted(c *config.Config, p agent.Profile, ag config.Agent, set settings.Layer) agent.Profile {
	if set.Model != "" {
		p.Models = c.ModelChain(set.Model)
	}
	if set.Tools.MaxSteps != nil {
		p.MaxSteps = *set.Tools.MaxSteps
	}
	if set.Tools.SystemPrompt != nil {
		p.ToolText = *set.Tools.SystemPrompt != ""
		p.System = strings.TrimSpace(*set.Tools.SystemPrompt + "\n\n" + ag.SystemPrompt)
	}
	if set.Tools.Enabled != nil {
		p.Uses = usable(c, ag, *set.Tools.Enabled)
	}
	if set.Language != "" {
		p.System += "\n\nAnswer in this language, whatever the question is written in: " + set.Language + "."
	}
	return p
}

// admit says whether a message is for the bot: the rules of its channel, and
// whether it is said to the bot.
func (a *App) admit(ctx context.Context, m chat.Message) bool {
	if m.Conversation.Platform == a.web.Name() {
		return true // whoever is there has logged in
	}
	rule := a.o.Config.ChannelFor(m.Conversation.String())
	if !rule.AllowsUser(m.Author.ID, m.Author.Name) {
		a.o.Log.Debug("message of a user who is not allowed here", "message", m.Key(), "user", m.Author.ID)
		return false
	}
	switch {
	case m.Reach == chat.Addressed, rule.RespondTo == "all":
		return true
	case m.Reach == chat.Followed && !m.ForOther:
		known, err := a.store.HasConversation(ctx, m.Conversation)
		return err == nil && known || a.delivery.Working(m.Conversation)
	}
	return false
}
