package app

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"

	"ravenbot/internal/agent"
	"ravenbot/internal/chat"
	"ravenbot/internal/config"
	"ravenbot/internal/conversation"
	"ravenbot/internal/invoke"
	"ravenbot/internal/llm"
	"ravenbot/internal/llm/gemini"
	"ravenbot/internal/llm/offline"
	"ravenbot/internal/llm/openai"
	"ravenbot/internal/store"
	"ravenbot/internal/toolsearch"
)

func (a *App) buildAgent() error {
	commands := map[string]agent.Command{}
	a.agent = agent.New(agent.Options{
		Route: a.route, Model: a.model, Tools: a.registry, Settled: a.toolsSettled, Memory: a.store, Summaries: a.store, Feedback: a.store.SaveFeedback, Fetch: a.fetch,
		Window: conversation.DefaultWindow(), Commands: commands,
		Calls: a.calls, Hold: a.mcp.Hold, Fresh: a.approvals.Fresh, Aside: a.answerAside, Used: a.store.CountUsage, Spend: a.spend,
		Discovery: a.discovery(), Threshold: a.threshold,
		Log: a.o.Log, Now: a.o.Now, Jitter: rand.Float64,
	})
	commands["help"] = a.agent.Help
	commands["tools"] = a.toolsCommand
	commands["settings"] = a.settings.Command
	commands[chat.Submitted] = a.submitted
	commands["usage"] = a.usageCommand
	commands["memory"] = a.memory().Command
	commands["forget"] = a.forgetCommand
	commands["digest"] = func(ctx context.Context, m chat.Message) chat.Draft { return a.digests.Command(ctx, m) }
	a.registry.Add(native{invoke.Reader(a.store)})
	return nil
}

// fetch reads a file that came with a message.
func (a *App) fetch(ctx context.Context, platform string, f chat.File, limit int64) ([]byte, error) {
	p, ok := a.platform(platform).(chat.Fetcher)
	if !ok {
		return nil, fmt.Errorf("%s gives no files", platform)
	}
	return p.Fetch(ctx, f, limit)
}

// discovery finds tools where there are many.
func (a *App) discovery() agent.Discovery {
	a.meaning = toolsearch.NewSemanticIndex(a.embedding, a.o.Log)
	return toolsearch.NewFinder(toolsearch.New(), a.aboutServer).WithSemantics(a.meaning)
}

// embedding gives the model that compares tools by what they mean, if one is
// configured and has its key.
func (a *App) embedding() (toolsearch.Embedder, bool) {
	name := a.conf().Tools.Discovery.Embeddings
	if name == "" {
		return toolsearch.Embedder{}, false
	}
	m, _ := a.model(name)
	embedder, ok := m.Model.(llm.Embedder)
	if !ok {
		return toolsearch.Embedder{}, false
	}
	return toolsearch.Embedder{Name: m.ID(), Embed: func(ctx context.Context, texts []string) ([][]float32, error) {
		vectors, used, err := embedder.Embed(ctx, texts)
		if used != (llm.Usage{}) {
			if err := a.store.CountUsage(context.WithoutCancel(ctx), store.Usage{Model: m.ID(), Tokens: used}); err != nil {
				a.o.Log.Error("usage not counted", "error", err)
			}
		}
		return vectors, err
	}}, true
}

// aboutServer is what the operator says of an MCP server.
func (a *App) aboutServer(name string) string {
	v, _ := a.mcp.Server(name) // of native packs there is none
	return v.Description
}

// threshold is the number of tools above which they have to be found.
func (a *App) threshold() int {
	switch d := a.conf().Tools.Discovery; d.Mode {
	case "always":
		return 0
	case "never":
		return math.MaxInt
	default:
		return d.Threshold
	}
}

// toolsSettled waits until every MCP server is connected, or has failed to.
func (a *App) toolsSettled(ctx context.Context) {
	for _, s := range a.mcp.Servers() {
		if a.mcp.Wait(ctx, s.Name) != nil {
			return
		}
	}
}

// model gives the model of a configured name, if it is switched on.
func (a *App) model(name string) (agent.Model, bool) {
	m, ok := a.setup.Load().models[name]
	return m, ok
}

// buildModels makes the models that have what they need; a model without its key
// is left out, and what stands in for it answers. One that old has as it is now is
// used again.
func buildModels(c *config.Config, old *setup) (map[string]agent.Model, error) {
	models := map[string]agent.Model{}
	for name, m := range c.Models {
		if m.KeyMissing {
			continue
		}
		if old != nil && reflect.DeepEqual(old.config.Models[name], m) {
			models[name] = old.models[name]
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

// welcome is admit for what a platform brings. A command or a press shows its sender
// that it is being worked on, so whoever may not use the bot is told.
func (a *App) welcome(ctx context.Context, m chat.Message) bool {
	if a.admit(ctx, m) {
		return true
	}
	if m.Command != "" && m.Change == "" {
		d := chat.Draft{Key: m.Key() + "/refused", Reply: m.Reply, Ephemeral: true, Failed: true, Text: "You may not use me here: whoever runs this bot decides who may."}
		if err := a.interject(ctx, m.Conversation, d, ""); err != nil {
			a.o.Log.Error("refusal not posted", "message", m.Key(), "error", err)
		}
	}
	return false
}

// admit says whether a message is for the bot: the rules of its channel, and
// whether it is said to the bot.
func (a *App) admit(ctx context.Context, m chat.Message) bool {
	if m.Conversation.Platform == a.web.Name() {
		return true // whoever is there has logged in
	}
	rule := a.conf().ChannelFor(m.Conversation.String())
	if !rule.AllowsUser(m.Author.ID, m.Author.Name) {
		a.o.Log.Debug("message of a user who is not allowed here", "message", m.Key(), "user", m.Author.ID)
		return false
	}
	switch {
	case m.Reach == chat.Addressed, rule.RespondTo == "all", m.Reach == chat.Followed && a.digests.Threaded(m):
		return true
	case m.Reach == chat.Followed && !m.ForOther:
		known, err := a.store.HasConversation(ctx, m.Conversation)
		return err == nil && known || a.delivery.Working(m.Conversation)
	}
	return false
}
