package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature/elicit"
	"ravenbot/internal/mcp"
	"ravenbot/internal/mcp/sampling"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/recall/toolsearch"
	"ravenbot/internal/store"
	"ravenbot/internal/tools/billing"
	"ravenbot/internal/tools/channel"
	"ravenbot/internal/tools/feeds"
	"ravenbot/internal/tools/files"
	"ravenbot/internal/tools/web"
	"ravenbot/internal/tools/websearch"
	"ravenbot/internal/turn/agent"
	"ravenbot/internal/turn/invoke"
	"ravenbot/internal/turn/schema"
)

// packs is a source of native tools that change with the configuration.
type packs func() []tool.Tool

// Tools returns the tools that there are now.
func (p packs) Tools() []tool.Tool { return p() }

// resourceTools are the tools by which models read what MCP servers offer beside their tools.
type resourceTools struct{ *mcp.Host }

func (r resourceTools) Tools() []tool.Tool { return r.ResourceTools() }

// buildTools makes the native tools, the MCP host, and the registry of both.
func (a *App) buildTools(_ context.Context, p *parts) error {
	always := append(feeds.Tools(p.feeds, func() []string { return a.digests.FeedURLs() }),
		web.Fetch(web.Reader{Client: p.pages, Documents: p.documents}),
		channel.History(a.readHistory, a.readableConversation),
		invoke.Reader(a.store))
	pack := packs(func() []tool.Tool {
		list := slices.Concat(always, a.features.Tools(), a.setup.Load().packs, a.roster.SkillTools())
		if a.roster.KnowsFiles() {
			list = append(list, p.knowledge.SearchTool(a.roster.Knowledge))
		}
		return list
	})
	sampler := &sampling.Sampler{
		Calls: invoke.Recorded{Invoker: p.calls, Store: a.store},
		Agent: lateAgent{a},
		Cost:  func(u store.Usage) float64 { return a.spending.Cost(u) },
	}
	c := a.o.Config
	host, err := mcp.NewHost(mcp.Options{
		Servers:    mcp.ConfiguredServers(c),
		Store:      a.store,
		StartAfter: a.serversGo,
		IsReserved: tool.ReservedNames(pack, fixedNames()),
		Schemas:    schema.New(),
		Ask:        askPerson(p.questions),
		Sample:     sampler.Sample,
		Roots:      mcp.FileRoots(c),
		SignIns:    p.signIn,
		Watcher:    a.o.Watcher,
		Protected:  mcp.Protection(c),
		OwnFolders: mcp.OwnFolders(c),
		Guard: mcp.Guard(a.conf, func() (paths []string) {
			for _, agent := range a.roster.List() {
				paths = append(paths, slices.Concat(agent.Skills, agent.Knowledge)...)
			}
			return paths
		}),
		Version:        a.o.Version,
		Log:            a.o.Log,
		Now:            a.o.Now,
		HealthInterval: c.MCP.HealthInterval.Std(),
		StatusTTL:      c.MCP.StatusTTL.Std(),
	})
	if err != nil {
		return fmt.Errorf("mcpServers: %w", err)
	}
	a.mcp = host
	p.signIn.Attach(host)
	a.registry = tool.NewRegistry(pack, resourceTools{host}, host)
	a.catalog = mcp.NewCatalog(host, a.changes, func(name string, entry json.RawMessage) (mcp.Config, error) {
		var e config.MCPServer
		_, err := a.conf().ParseEntry(entry, &e)
		c := mcp.FromEntry(name, e)
		c.Hold = a.conf().MCP.NewServers == "hold"
		return c, err
	}, tool.PackNames(pack), a.o.Log)
	return nil
}

// fixedNames returns the names of the tools that belong to no pack.
func fixedNames() []string {
	return append(toolsearch.MetaToolNames(), "result_read", "knowledge_search", "skill_read",
		"mcp_resources_list", "mcp_resource_read", "mcp_prompts_list", "mcp_prompt_get")
}

// lateAgent lets sampling, which is made first, use the agent and the roster.
type lateAgent struct{ *App }

func (l lateAgent) CompleteRequest(
	ctx context.Context,
	on store.Usage,
	models []string,
	q llm.Request,
) (agent.Completion, error) {
	return l.agent.CompleteRequest(ctx, on, models, q)
}

func (l lateAgent) Route(m chat.Message) agent.Profile { return l.roster.Route(m) }

// askPerson puts the question of an MCP server to the person on whose behalf it is called.
func askPerson(questions *elicit.Service) func(context.Context, mcp.Question) (mcp.Answer, error) {
	return func(ctx context.Context, q mcp.Question) (mcp.Answer, error) {
		got, err := questions.Ask(ctx, elicit.Question{
			Server:  q.Server,
			Tool:    q.Tool,
			Message: q.Message,
			Schema:  q.Schema,
			URL:     q.URL,
		})
		return mcp.Answer{Action: string(got.Action), Content: got.Content}, err
	}
}

// configuredPacks returns the native tools that the configuration turns on, or that are always there.
func (a *App) configuredPacks(c *config.Config) ([]tool.Tool, error) {
	var roots []files.Root
	for _, r := range c.Tools.Files.Roots {
		roots = append(roots, files.Root{Name: r.Name, Path: r.Path, Write: r.Write})
	}
	list := files.Tools(roots, c.OwnFiles())
	if file := c.Tools.Billing.File; file != "" {
		tariff, err := billing.Load(file)
		if err != nil {
			return nil, fmt.Errorf("tools.billing.file: %w", err)
		}
		list = append(list, billing.Tools(tariff, a.o.Now)...)
	}
	s := c.Tools.Search
	search := websearch.Options{Provider: s.Provider, BaseURL: s.BaseURL.Reveal(), APIKey: s.APIKey.Reveal()}
	search.Model = s.Model
	return append(list, websearch.Tools(search)...), nil
}

// readHistory reads what was said in a conversation.
func (a *App) readHistory(ctx context.Context, at chat.Address, before string, limit int) ([]chat.Said, error) {
	h, ok := a.platforms.Get(at.Platform).(chat.Historian)
	if !ok {
		return nil, &chat.SetupError{
			Reason: at.Platform + " cannot read earlier messages",
			Remedy: "ask on another platform",
		}
	}
	return h.History(ctx, at, before, limit)
}

// readableConversation returns the conversation that a caller may read back: its own, and for
// the task of a digest the channel that it posts to.
func (a *App) readableConversation(c tool.Caller) (chat.Address, bool) {
	at := c.Conversation
	if at.Platform == chat.TaskPlatform {
		if channel, ok := a.jobs.Readable(at); ok {
			at = channel
		} else if at, ok = a.digests.Readable(at); !ok {
			return chat.Address{}, false
		}
	}
	return at, !at.IsZero() && a.platforms.CanPost(at)
}
