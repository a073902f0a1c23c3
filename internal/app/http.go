package app

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"path/filepath"
	"time"

	"ravenbot/adapters/web"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/mcp/mcpserve"
	"ravenbot/internal/mcp/signin"
	"ravenbot/internal/model/breaker"
	"ravenbot/internal/model/provider"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/ops/admin"
	"ravenbot/internal/ops/audit"
	"ravenbot/internal/ops/metrics"
	"ravenbot/internal/ops/replica"
	"ravenbot/internal/ops/retention"
	"ravenbot/internal/ops/totals"
	"ravenbot/internal/ops/transfer"
	"ravenbot/internal/store"
	"ravenbot/internal/store/seal"
	"ravenbot/internal/turn/invoke"
	"ravenbot/internal/turn/roster"
)

func (a *App) buildAdmin(ctx context.Context, p *parts) error {
	c := a.o.Config
	p.totals = totals.New(totals.Options{Store: a.store, Log: a.o.Log, Now: a.o.Now, Counters: totals.Counters{
		totals.Answers: a.agent.AnswerTotals, totals.ToolCalls: p.calls.Totals,
		totals.DigestRuns: a.digests.RunTotals, totals.FeedReads: a.digests.FeedTotals}})
	var err error
	if p.tokens, err = mcpserve.LoadTokens(ctx, a.changes, a.o.Now); err != nil {
		return err
	}
	mounts := p.signIn.Handlers()
	mounts[signin.CallbackPath] = a.o.Replica.Held(signin.CallbackPath, p.signIn.HasConsent, mounts[signin.CallbackPath])
	for _, path := range []string{"/slack/events", "/slack/commands", "/slack/interactive"} {
		mounts[path] = http.HandlerFunc(a.serveSlack)
	}
	o := admin.Options{
		Token:          a.o.Token,
		MetricsToken:   c.HTTP.MetricsToken.Reveal(),
		Listen:         c.HTTP.Listen,
		PublicURL:      c.HTTP.PublicURL.Reveal(),
		TrustedProxies: c.HTTP.Proxies(),
		Static:         a.web.Static(),
		Render:         web.Draft,
		Rooms:          rooms{a.web},
		Platforms:      a.platforms,
		Servers:        a.catalog,
		ServerCalls: &invoke.OperatorCalls{
			Calls:   invoke.Recorded{Invoker: p.calls, Store: a.store},
			Tools:   a.registry,
			Servers: a.mcp,
			Shown:   a.maxResultBytes,
			At:      admin.OperatorCallsAt(),
		},
		Agents:        a.roster,
		Files:         roster.Files{Roster: a.roster},
		Tools:         a.roster,
		Digests:       digest.Catalog{Service: a.digests, Config: a.conf, Agents: a.roster},
		Jobs:          a.jobs,
		Hooks:         a.jobs,
		Published:     a.digests,
		Conversations: a.changes,
		Memories:      p.notes,
		History:       a.history,
		Transfer: transfer.New(transfer.Options{
			Store:        imports{a.changes, p.sealed},
			Reload:       func(ctx context.Context) error { return replica.Reload(ctx, a.features.Shared()...) },
			IsConfigured: a.digests.IsConfigured,
			Check:        a.features.Check,
			IsOver:       retention.IsOver(a.conf, a.web.Name(), a.o.Now),
		}),
		Agent:      a.agent,
		Instance:   instance{a},
		Spending:   a.spending,
		Totals:     p.totals,
		Troubles:   p.troubles.Current,
		Calls:      maskedCalls{a.store, a},
		Approvals:  p.approvals,
		Grants:     a.grants,
		Audit:      a.audit,
		Tokens:     p.tokens,
		HostAccess: mcpserve.NewAuthorization(p.tokens, admin.Owner, a.o.Now),
		Settings:   p.settings,
		FileMemory: p.files,
		Logouts:    admin.StoredLogouts{Items: a.store},
		Store:      a.store,
		Metrics: metrics.Handler(metrics.Bot{
			Version:   a.o.Version,
			Delivery:  a.delivery,
			Platforms: a.platforms,
			Servers:   a.mcp,
			Store:     a.store,
			Models:    a.circuits,
			Calls:     p.calls,
			Spending:  a.spending,
			Digests:   a.digests,
			Feeds:     p.feeds,
			IsLeader:  a.o.Replica.IsLeader,
			Troubles:  p.troubles.Current,
		}.Samples),
		MCP:     func(refuse http.HandlerFunc) http.Handler { return a.endpoint.Handler(p.tokens, refuse) },
		Backup:  a.copyStore,
		Backups: a.store.Backups,
		Wrap:    a.o.Replica.Handler,
		Mounts:  mounts,
		Log:     a.o.Log,
		Now:     a.o.Now,
	}
	if c.Platforms.Web.Enabled {
		o.Chat, o.ChatBody = a.web.Handler(), web.MaxBody
	}
	a.admin = admin.New(o)
	return a.admin.Reload(ctx)
}

// rooms shows the web rooms to the API.
type rooms struct{ *web.Web }

func (r rooms) Ask(ctx context.Context, room string, user chat.User, text string) iter.Seq2[admin.Event, error] {
	return func(yield func(admin.Event, error) bool) {
		r.Web.Ask(ctx, room, user, text)(func(e web.Event, err error) bool {
			return yield(admin.Event{Entry: e.Entry, Progress: e.Progress}, err)
		})
	}
}

// imports is the store of exports and imports. The notes of an import, of which there may be many, are counted in one entry
// of the audit.
type imports struct {
	audit.ChangeStore
	sealed seal.Store
}

func (i imports) SaveMemory(ctx context.Context, m store.Memory, limit int) (store.Memory, bool, error) {
	return i.sealed.SaveMemory(ctx, m, limit)
}

func (i imports) Unreadable(ctx context.Context, kind string) ([]string, error) {
	return i.sealed.Unreadable(ctx, kind)
}

// maskedCalls shows tool calls without secrets that the configuration names.
type maskedCalls struct {
	store.Store
	a *App
}

func (c maskedCalls) ToolResult(ctx context.Context, id string) (store.ToolResult, error) {
	r, err := c.Store.ToolResult(ctx, id)
	r.Text = c.a.setup.Load().mask(r.Text)
	return r, err
}

// copyStore makes a copy of the store for the API.
func (a *App) copyStore(ctx context.Context) (admin.Copy, error) {
	f, err := a.store.Backups.Copy(ctx)
	if err != nil {
		return admin.Copy{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return admin.Copy{}, errors.Join(err, f.Close())
	}
	return admin.Copy{ReadCloser: f, Name: filepath.Base(a.conf().Store.Reveal()), Bytes: info.Size()}, nil
}

// instance tells of the bot as a whole.
type instance struct{ a *App }

func (i instance) ToolsEnabled() bool { return i.a.conf().Tools.Enabled }

// Status returns what /api/v1/status answers.
func (i instance) Status() admin.Status {
	a := i.a
	posts := []string{}
	undelivered, err := a.store.Undelivered(context.Background())
	for _, p := range undelivered {
		posts = append(posts, p.To.String()+": "+p.Error)
	}
	if err != nil {
		posts = append(posts, "the store could not be read")
	}
	return admin.Status{
		Version:              a.o.Version,
		Started:              a.started,
		UptimeSeconds:        int(a.o.Now().Sub(a.started) / time.Second),
		Platforms:            a.platforms.Health(),
		Load:                 a.delivery.Load(),
		Counts:               a.delivery.Counts(),
		Models:               a.roster.ModelNames(),
		ModelCircuits:        breaker.Statuses(a.circuits()),
		Tools:                len(a.registry.List()),
		RefusedTools:         a.refusedTools(),
		Store:                a.store.Status(),
		PostsGivenUp:         posts,
		ConfigurationDiffers: a.o.Replica.ConfigurationDiffers(),
	}
}

// refusedTools returns the tools that endpoints of models refuse.
func (a *App) refusedTools() []admin.RefusedTool {
	var list []admin.RefusedTool
	for _, r := range provider.Refusals(a.setup.Load().models) {
		one := admin.RefusedTool{Tool: r.Tool, Model: r.Model, Reason: r.Reason}
		for _, n := range a.registry.List() {
			if n.Name == r.Tool && !n.Tool.Spec().Native {
				one.Server = n.Tool.Spec().Server
			}
		}
		list = append(list, one)
	}
	return list
}

// circuits returns the models that may fail.
func (a *App) circuits() []*breaker.Model { return provider.WithCircuits(a.setup.Load().models) }
