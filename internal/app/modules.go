package app

import (
	"context"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/feature"
	"ravenbot/internal/ops/replica"
	"ravenbot/internal/ops/retention"
	"ravenbot/internal/store"
)

// modules lists what people can do with the bot, in the order of menus and help: one line for each ability. Services
// that are not made yet are nil, and their modules declare the same commands.
func (a *App) modules(p *parts) []feature.Module {
	return []feature.Module{
		a.agent.Module(),
		a.digests.Module(),
		p.settings.Module(),
		a.spending.Module(),
		p.notes.Module(),
		a.history.Module(),
		p.polls.Module(),
		a.jobs.Module(),
		p.catchup.Module(),
		p.approvals.Module(a.grants),
		p.questions.Module(),
	}
}

// CommandSpecs returns the words behind /raven, of all modules.
func CommandSpecs() []chat.CommandSpec { return feature.Commands(new(App).modules(&parts{})...) }

// MessageCommands returns the entries in the menus of messages, of all modules.
func MessageCommands() []chat.MessageCommand {
	return feature.MessageCommands(new(App).modules(&parts{})...)
}

// services lists what works in the background without commands of its own. Shared parts come after those that they need:
// agents may be linked to servers.
func (a *App) services(p *parts) []feature.Module {
	shared := func(parts ...store.Shared) feature.Module { return feature.Module{Shared: parts} }
	return []feature.Module{
		{
			Shared: []store.Shared{a.catalog},
			Checks: map[string]feature.Check{"server": a.catalog.CheckEntry},
			Tasks: []feature.Task{
				// Run returns an error only if it was called before.
				{Name: "mcp", Run: func(ctx context.Context) { _ = a.mcp.Run(ctx) }, Outlives: true},
				{Name: "start servers", Run: a.startServers},
			},
		},
		a.roster.Module(),
		p.troubles.Module(),
		shared(p.tokens, a.admin, p.signIn),
		{
			Shared: []store.Shared{a.audit},
			Tasks: []feature.Task{
				{Name: "audit entries", Run: a.audit.Retry},
				{Name: "audit", Run: a.audit.Run, Leads: true, Daemon: true},
			},
		},
		{Tasks: []feature.Task{
			{Name: "platforms", Run: func(ctx context.Context) { a.platforms.Run(ctx, a.delivery.Accept) }},
			{Name: "announce", Run: a.announce, Daemon: true},
			{Name: "store", Run: func(ctx context.Context) { a.store.Run(ctx, a.o.Log) }},
			{Name: "backups", Run: a.store.Backups.Run, Leads: true, Daemon: true},
			{Name: "replica", Run: func(ctx context.Context) { a.o.Replica.Run(ctx, a.delivery, a.features.Shared()...) }},
			{Name: "changes", Run: func(ctx context.Context) {
				replica.Watch(ctx, a.store.Engine, a.o.Log, a.features.Shared()...)
			}},
			{Name: "limits", Run: func(ctx context.Context) {
				a.o.Replica.ShareCounts(ctx, a.delivery, a.spending, p.questions)
			}},
			{Name: "retention", Run: func(ctx context.Context) { retention.Run(ctx, a.retention(p)) }, Leads: true},
			{Name: "totals", Run: p.totals.Run, Outlives: true},
			{Name: "embeddings", Run: a.meaning.Run},
		}},
	}
}

// retention returns how records that are kept long enough are deleted.
func (a *App) retention(p *parts) retention.Options {
	return retention.Options{
		Store:   a.store,
		Now:     a.o.Now,
		Keep:    func() store.Retention { return retention.Configured(a.conf(), a.web.Name()) },
		Forget:  a.agent.ForgetExpired,
		Changed: a.keepChanged,
		Totals:  p.totals,
		Vectors: a.meaning,
		Log:     a.o.Log,
	}
}

// register registers all modules.
func (a *App) register(_ context.Context, p *parts) error {
	return a.features.Register(append(a.services(p), a.modules(p)...)...)
}
