package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"ravenbot/adapters/web"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/resident"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature"
	"ravenbot/internal/feature/approval"
	"ravenbot/internal/feature/catchup"
	"ravenbot/internal/feature/elicit"
	"ravenbot/internal/feature/jobs"
	"ravenbot/internal/feature/poll"
	"ravenbot/internal/feature/settings"
	"ravenbot/internal/mcp"
	"ravenbot/internal/mcp/mcpserve"
	"ravenbot/internal/mcp/signin"
	"ravenbot/internal/news/bundled"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/ops/audit"
	"ravenbot/internal/ops/egress"
	"ravenbot/internal/ops/retention"
	"ravenbot/internal/ops/totals"
	"ravenbot/internal/ops/trouble"
	"ravenbot/internal/recall/document"
	"ravenbot/internal/recall/history"
	"ravenbot/internal/recall/knowledge"
	"ravenbot/internal/recall/meaning"
	"ravenbot/internal/recall/memory"
	"ravenbot/internal/recall/pdftext"
	"ravenbot/internal/recall/toolsearch"
	"ravenbot/internal/store/seal"
	"ravenbot/internal/store/storage"
	webtool "ravenbot/internal/tools/web"
	"ravenbot/internal/turn/access"
	"ravenbot/internal/turn/agent"
	"ravenbot/internal/turn/budget"
	"ravenbot/internal/turn/delivery"
	"ravenbot/internal/turn/invoke"
	"ravenbot/internal/turn/platform"
	"ravenbot/internal/turn/policy"
	"ravenbot/internal/turn/roster"
	"ravenbot/internal/turn/schema"
)

// filesSuffix is added to the store's path for the folder of uploaded files.
const filesSuffix = ".files"

// parts are what only construction shares.
type parts struct {
	pages     *egress.Client
	documents *document.Reader
	feeds     *feed.Fetcher
	knowledge *knowledge.Repository
	settings  *settings.Repository
	approvals *approval.Queue
	questions *elicit.Service
	signIn    *signin.Service
	calls     *invoke.Invoker
	polls     *poll.Service
	catchup   *catchup.Service
	totals    *totals.Recorder
	box       *seal.Box
	files     *resident.Pool // the memory for what people attach or upload
	sealed    seal.Store     // the store, with secrets encrypted
	notes     *memory.Pack
	troubles  *trouble.Watch
	tokens    *mcpserve.Tokens
}

// assemble makes the parts in the order in which they need one another. What must come later
// is reached through the App when it is used, never while assembling.
func (a *App) assemble() error {
	ctx := context.Background()
	p := parts{files: resident.SharePool(2, 128<<20)}
	a.features = feature.New(a.o.Log)
	steps := []func(context.Context, *parts) error{
		a.buildEgress, a.buildStored, a.buildPlatforms, a.buildCalls, a.buildTools, a.buildRoster, a.buildAgent,
		a.buildDelivery, a.buildDigests, a.buildJobs, a.buildPolls, a.buildTroubles, a.buildEndpoint, a.buildAdmin, a.register,
	}
	for _, build := range steps {
		if err := build(ctx, &p); err != nil {
			return err
		}
	}
	return nil
}

// buildEgress makes the two guarded ways out: for feeds, and for pages.
func (a *App) buildEgress(_ context.Context, p *parts) error {
	c := a.o.Config
	var err error
	p.pages, err = egress.New(egress.Options{AllowPrivateHosts: c.Egress.AllowPrivateHosts, UserAgent: egress.UserAgent})
	if err != nil {
		return fmt.Errorf("egress.allowPrivateHosts: %w", err)
	}
	wider, err := p.pages.WithAllowed(c.Feeds.AllowPrivateHosts...)
	if err != nil {
		return fmt.Errorf("feeds.allowPrivateHosts: %w", err)
	}
	p.feeds = feed.NewFetcher(wider, feed.StoredStates{Records: a.store}, feed.Options{
		Bundled:   bundled.Feeds(),
		Now:       a.o.Now,
		HostPause: 500 * time.Millisecond,
	})
	return nil
}

// buildStored makes what is read from the store at start.
func (a *App) buildStored(ctx context.Context, p *parts) error {
	c := a.o.Config
	p.documents = document.NewReader(a.readPDF)
	a.meaning = meaning.New(func() (meaning.Embedder, bool) {
		return a.roster.Embedder(a.conf().EmbeddingsModel(), a.store.CountUsage)
	}, a.store.DB(), a.o.Log)
	files := knowledge.Options{
		Folder:    c.StorePath() + filesSuffix,
		Documents: p.documents,
		Log:       a.o.Log,
		Named:     func(agent string) []string { return a.roster.Knowledge(agent) },
		Meaning:   a.meaning,
	}
	if c.UsesPostgres() { // other machines need the files, too
		files.Copies = &knowledge.Copies{Items: a.store}
	}
	p.knowledge = knowledge.New(files)
	if err := p.knowledge.Unpack(ctx, knowledge.Copies{Items: a.store}); err != nil { // the store may have been a database
		return err
	}
	var err error
	if a.audit, err = audit.Load(ctx, a.store, a.o.Now, a.o.Log); err != nil {
		return err
	}
	if p.box, err = storage.OpenBox(ctx, c, a.store); err != nil {
		return err
	}
	p.sealed = seal.Store{Store: a.store, Box: p.box, Kinds: []string{mcp.CatalogKind}, Log: a.o.Log}
	a.changes = audit.ChangeStore{Store: p.sealed, Log: a.audit,
		Mask: func(s string) string { return a.setup.Load().mask(s) }}
	if a.grants, err = approval.LoadGrants(ctx, a.changes, a.o.Now); err != nil {
		return err
	}
	p.notes = memory.New(memory.Options{
		Store:   a.changes,
		Now:     a.o.Now,
		Log:     a.o.Log,
		Manages: chat.Message.AuthorManages,
		Meaning: a.meaning,
	})
	first, err := a.prepare(c, nil)
	if err != nil {
		return err
	}
	a.setup.Store(first)
	p.settings = settings.New(a.changes, func() []string { return a.roster.ModelNames() }, func() settings.MemberRules {
		rules := a.conf().Settings
		return settings.MemberRules{Locked: rules.Locked, Models: rules.Models}
	}, a.o.Log)
	if err := p.settings.Load(ctx); err != nil {
		return err
	}
	a.spending, err = budget.LoadSpending(ctx, a.store.Engine, budget.ConfiguredRates(a.conf), a.o.Log, a.o.Now)
	return err
}

func (a *App) readPDF(ctx context.Context, data []byte) ([]string, error) {
	if a.o.ReadPDF != nil {
		return a.o.ReadPDF(ctx, data)
	}
	return pdftext.Pages(data)
}

// buildPlatforms makes the platforms that are switched on. The web rooms are always there for
// the command line and the API; the page is served only where it is switched on.
func (a *App) buildPlatforms(_ context.Context, p *parts) error {
	c := a.o.Config
	a.gate = access.NewGate(a.conf, a.store, a.o.Log)
	a.web = web.New(web.Options{
		Log:      a.changes,
		Now:      a.o.Now,
		Logger:   a.o.Log,
		Rooms:    c.WebRooms(),
		Former:   a.openForm,
		Agents:   roomAgents{a},
		Commands: CommandSpecs(),
		Picture:  webtool.Reader{Client: p.pages}.Picture,
		IsOver:   retention.IsOver(a.conf, "web", a.o.Now),
	})
	list := []chat.Platform{a.web}
	for _, name := range []string{"discord", "slack", chat.MailPlatform} {
		if other := a.newPlatform(name); other != nil {
			list = append(list, other)
		}
	}
	a.platforms = platform.NewSet(a.o.Log, a.newPlatform, list...)
	a.o.Replica.SetPlatforms(a.platforms.Get)
	a.history = history.New(history.Options{
		Store:    a.store,
		Platform: a.platforms.Get,
		Place:    a.readableConversation,
		IsOver:   retention.IsOver(a.conf, a.web.Name(), a.o.Now),
		Meaning:  a.meaning,
		Log:      a.o.Log,
		Now:      a.o.Now,
	})
	return nil
}

// buildCalls makes what every tool call goes through.
func (a *App) buildCalls(ctx context.Context, p *parts) error {
	p.approvals = approval.New(approval.Options{
		Store:   a.store,
		Grants:  a.grants,
		Log:     a.o.Log,
		Now:     a.o.Now,
		Post:    a.interject,
		Decided: a.audit.RecordDecision,
		Page:    signin.BaseURL(a.o.Config) + "/calls",
	})
	if err := p.approvals.Load(ctx); err != nil {
		return err
	}
	p.questions = elicit.New(elicit.Options{Post: a.interject, Reaches: a.platforms.CanPost, Log: a.o.Log, Now: a.o.Now})
	var err error
	p.signIn, err = signin.New(signin.Options{
		Box:       p.box,
		BaseURL:   signin.BaseURL(a.o.Config),
		Egress:    p.pages,
		Store:     a.store.Engine,
		Questions: p.questions,
		Log:       a.o.Log,
		Now:       a.o.Now,
	})
	if err != nil {
		return err
	}
	p.calls = invoke.New(invoke.Options{
		Rules:     rules{a, p.signIn},
		Check:     schema.New().Check,
		Free:      agent.FreeOfPolicy,
		Approvals: p.approvals,
		Log:       a.o.Log,
		Now:       a.o.Now,
		Called:    a.audit.RecordCall,
	})
	return nil
}

// rules are the operator's, as configured now.
type rules struct {
	a      *App
	signIn *signin.Service
}

func (r rules) Decide(in tool.Intent) tool.Verdict {
	r.signIn.NoteCaller(in.Caller, in.Tool)
	return r.a.setup.Load().rules.Decide(in)
}

func (r rules) Hooks() []tool.Hook { return r.a.setup.Load().hooks }

func (r rules) Mask(s string) string { return r.a.setup.Load().mask(s) }

// interject posts at once where a platform can; a call of another MCP host has none, and is
// shown on the dashboard and by the API.
func (a *App) interject(ctx context.Context, to chat.Address, d chat.Draft, replaces string) error {
	if !a.platforms.CanPost(to) {
		return nil
	}
	return a.delivery.Interject(ctx, to, d, replaces)
}

func (a *App) buildRoster(ctx context.Context, p *parts) error {
	a.roster = roster.New(roster.Options{
		Store:        a.changes,
		Knowledge:    p.knowledge,
		Settings:     p.settings,
		Servers:      a.mcp,
		Tools:        a.registry,
		Tasks:        tasks{a},
		Rules:        func() *policy.Policy { return a.setup.Load().rules },
		RoomPlatform: a.web.Name(),
		CheckRoom:    web.CheckRoom,
		Log:          a.o.Log,
	})
	// Added servers come before the agents, which may be linked to them.
	if err := a.catalog.Restore(ctx); err != nil {
		return err
	}
	if err := a.roster.Apply(a.conf(), a.setup.Load().models); err != nil {
		return err
	}
	return a.roster.RestoreFiles(ctx)
}

// tasks lets the roster, which is made first, ask the digests.
type tasks struct{ a *App }

func (t tasks) Task(at chat.Address) (roster.Task, bool) {
	if j, channel, ok := t.a.jobs.Find(at); ok {
		return roster.Task{Agent: j.Agent, Channel: channel, MaxTokens: jobs.MaxTokens, Tools: j.Tools}, true
	}
	p, channel, ok := t.a.digests.Task(at)
	return roster.Task{Agent: p.Agent, Channel: channel, MaxTokens: p.MaxTokens, Tools: p.Tools}, ok
}

func (a *App) buildAgent(_ context.Context, p *parts) error {
	a.agent = agent.New(agent.Options{
		Roster:     a.roster,
		Store:      a.changes,
		Tools:      a.registry,
		Servers:    a.mcp,
		Discovery:  toolsearch.NewFinder(toolsearch.New(), a.roster.AboutServer).WithMeaning(a.meaning),
		Calls:      p.calls,
		Approvals:  p.approvals,
		Files:      a.platforms,
		Documents:  p.documents,
		FileMemory: p.files,
		Budget:     a.spending,
		Places:     jobs.TaskPlaces{AgentPlaces: a.platforms, Jobs: func() *jobs.Service { return a.jobs }},
		Notes:      p.notes,
		Access:     a.gate,
		Flush:      func() bool { return a.delivery.Flush() },
		Log:        a.o.Log,
		Now:        a.o.Now,
		Jitter:     rand.Float64,
	})
	a.o.Replica.OnAcquire(a.agent.ForgetChannel)
	a.o.Replica.CompareConfiguration(func() map[string]string { return a.conf().Sums() })
	return nil
}

func (a *App) buildDelivery(context.Context, *parts) error {
	end := grace
	if a.o.Local {
		end = 0 // whoever asked is the one who ends the bot
	}
	var replicas delivery.Replicas // nil for a process that has its store alone
	if a.o.Replica != nil {
		replicas = a.o.Replica
	}
	a.delivery = delivery.New(delivery.Options{
		Store:    a.store,
		Replicas: replicas,
		Answerer: feature.Router{Registry: a.features, Agent: budget.Limited{Answerer: a.agent, Spending: a.spending}},
		Platform: a.platforms.Get,
		Admit:    a.gate.Admit,
		Urgent:   a.features.Urgent,
		Log:      a.o.Log,
		Now:      a.o.Now,
		Grace:    end,
	})
	return nil
}

// openForm is the chat.Former of all platforms.
func (a *App) openForm(ctx context.Context, m chat.Message) (*chat.Form, error) {
	if ok, _ := a.gate.Admit(ctx, m, false); !ok {
		return nil, nil
	}
	return a.features.OpenForm(ctx, m)
}

func (a *App) buildDigests(ctx context.Context, p *parts) error {
	p.catchup = catchup.New(catchup.Options{
		Reader:   a.history,
		Agent:    a.agent,
		Roster:   a.roster,
		Timezone: func(ctx context.Context, m chat.Message) *time.Location { return a.jobs.Zone(ctx, m) },
		Log:      a.o.Log,
		Now:      a.o.Now,
	})
	a.digests = digest.New(digest.Options{
		Feeds:        p.feeds,
		Store:        a.changes,
		Delivery:     a.delivery,
		Platforms:    a.platforms,
		Pages:        webtool.Reader{Client: p.pages},
		Channels:     p.catchup,
		Writer:       digest.AgentWriter(a.agent, a.roster),
		Task:         digest.AgentTask(a.agent, a.store, a.o.Now),
		Settings:     digestSettings{a, p.settings},
		PollInterval: a.conf().Feeds.PollInterval.Std(),
		PublicURL:    signin.BaseURL(a.conf()),
		MailURL:      a.conf().HTTP.PublicURL.Reveal(),
		Log:          a.o.Log,
		Now:          a.o.Now,
	})
	return errors.Join(a.digests.Configure(digest.Plans(a.conf())), a.digests.Reload(ctx))
}

// digestSettings are what is set for digests.
type digestSettings struct {
	app      *App
	settings *settings.Repository
}

func (d digestSettings) Language(to chat.Address) string {
	return d.settings.Effective(to, "").Language
}

func (d digestSettings) MaxDigestsPerUser() int { return d.app.conf().Limits.UserDigests }

func (a *App) buildJobs(ctx context.Context, p *parts) error {
	a.jobs = jobs.New(jobs.Options{
		Digests:  a.digests,
		Store:    a.changes,
		Delivery: a.delivery,
		Places:   a.platforms,
		Task:     jobs.AgentTask(a.agent, a.store, a.o.Now),
		Calls: &invoke.UnattendedCalls{
			Calls:   invoke.Recorded{Invoker: p.calls, Store: a.store},
			Tools:   a.registry,
			Servers: a.mcp,
		},
		Config:   a.conf,
		Timezone: func(at chat.Address, user string) string { return p.settings.Effective(at, user).Timezone },
		Log:      a.o.Log,
		Now:      a.o.Now,
	})
	return a.jobs.Load(ctx)
}

func (a *App) buildPolls(ctx context.Context, p *parts) error {
	p.polls = poll.New(poll.Options{
		Store:     a.store,
		Poster:    a.delivery,
		CanPost:   a.platforms.CanPost,
		CheckPost: a.platforms.CheckPost,
		Log:       a.o.Log,
		Now:       a.o.Now,
	})
	return p.polls.Load(ctx)
}

// buildTroubles makes what tells operators about faults.
func (a *App) buildTroubles(_ context.Context, p *parts) error {
	bot := trouble.Bot{
		Platforms:   a.platforms,
		Servers:     a.mcp,
		Models:      a.circuits,
		Spending:    a.spending,
		Digests:     a.digests,
		Problem:     a.store.Problem,
		Backup:      a.store.Backups.Status,
		BackupEvery: a.o.Config.Backup.Every.Std(),
		Started:     a.started,
		Now:         a.o.Now,
	}
	if a.o.Config.UsesPostgres() {
		bot.BackupEvery = 0 // the operator backs up the database
	}
	p.troubles = trouble.New(trouble.Options{
		Find: bot.Find,
		Channel: func() chat.Address {
			to, _ := chat.ParseAddress(a.conf().Ops.Channel) // empty, or checked with the configuration
			return to
		},
		Post:      a.delivery.Interject,
		Leads:     a.o.Replica.IsLeader,
		PublicURL: strings.TrimSuffix(a.o.Config.HTTP.PublicURL.Reveal(), "/"),
		Store:     a.store,
		Log:       a.o.Log,
		Now:       a.o.Now,
	})
	return nil
}

// buildEndpoint makes the bot an MCP server for other hosts.
func (a *App) buildEndpoint(_ context.Context, p *parts) error {
	a.endpoint = mcpserve.New(mcpserve.Options{
		Tools:     a.usableTools,
		Discovery: toolsearch.NewFinder(toolsearch.New(), a.roster.AboutServer),
		Matches:   policy.MatchesAny,
		Calls:     invoke.Recorded{Invoker: p.calls, Store: a.store},
		Servers:   a.mcp,
		Shown:     a.maxResultBytes,
		Version:   a.o.Version,
		Log:       a.o.Log,
	})
	return nil
}

// usableTools returns the tools that there are, unless tools are switched off.
func (a *App) usableTools() []tool.Named {
	if !a.conf().Tools.Enabled {
		return nil
	}
	return a.registry.List()
}

// maxResultBytes returns how many bytes of a tool's result are shown at once.
func (a *App) maxResultBytes() int { return a.conf().Tools.MaxResultBytes }
