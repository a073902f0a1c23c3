// Package app puts the bot together: it is the only place that names concrete
// types. It promises that nothing is started by New, that Run ends only after
// everything it started has ended, and that a part which cannot work (a refused
// credential, a tool server that hangs) keeps nothing else from working.
package app

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"ravenbot/adapters/web"
	"ravenbot/internal/admin"
	"ravenbot/internal/agent"
	"ravenbot/internal/approval"
	"ravenbot/internal/audit"
	"ravenbot/internal/budget"
	"ravenbot/internal/chat"
	"ravenbot/internal/config"
	"ravenbot/internal/delivery"
	"ravenbot/internal/digest"
	"ravenbot/internal/elicit"
	"ravenbot/internal/invoke"
	"ravenbot/internal/knowledge"
	"ravenbot/internal/mcp"
	"ravenbot/internal/mcp/oauth"
	"ravenbot/internal/mcpserve"
	"ravenbot/internal/schedule"
	"ravenbot/internal/settings"
	"ravenbot/internal/store/bolt"
	"ravenbot/internal/tool"
	"ravenbot/internal/toolsearch"
)

// Options are what an App needs.
type Options struct {
	Config  *config.Config
	Token   string // the administrator's
	Version string
	Log     *slog.Logger
	Now     func() time.Time
	// Local leaves out everything that others could see: no listener, no platform
	// but the web rooms, no scheduled digests. The command line uses it beside no
	// daemon.
	Local bool
	// ReadPDF gives the text of the pages of a PDF; nil: it is read in this process, which
	// a hostile one can harm.
	ReadPDF func(ctx context.Context, data []byte) ([]string, error)
	// Watch is told of every group of processes that a tool server is, as in mcp.Options;
	// nil: should the bot be killed, what servers have started may be left behind.
	Watch func(group int) (done func())
}

// App is the bot.
type App struct {
	o         Options
	store     *bolt.DB
	backups   *bolt.Backups
	web       *web.Web
	mcp       *mcp.Host
	registry  *tool.Registry
	approvals *approval.Book
	audit     *audit.Book
	questions *elicit.Desk
	calls     *invoke.Invoker
	tokens    *mcpserve.Tokens
	endpoint  *mcpserve.Server
	agent     *agent.Engine
	meaning   *toolsearch.SemanticIndex
	delivery  *delivery.Service
	digests   *digest.Service
	loop      *schedule.Loop
	settings  *settings.Repository
	ledger    *budget.Ledger
	knowledge *knowledge.Repository
	admin     *admin.Server
	listener  net.Listener
	started   time.Time
	announced chan struct{} // closed when the bot is ready
	hold      chan struct{} // closed when MCP servers may start

	signIn    *oauth.Broker
	added     sync.Map // name of an MCP server added through the API → config.MCPServer
	callers   sync.Map // who has to sign in for themselves → tool.Caller
	setup     atomic.Pointer[setup]
	reloading sync.Mutex

	mu        sync.Mutex
	platforms map[string]chat.Platform
	refused   map[string]error // platforms that cannot ever connect
	runs      map[string]*connected
	connects  func(name string, p chat.Platform) // while Run runs
}

// New puts the bot together and opens its store. The errors are those of the
// store, and of a configuration that only its parts can judge.
func New(o Options) (*App, error) {
	db, err := openStore(o)
	if err != nil {
		return nil, err
	}
	a := &App{o: o, store: db, backups: backupsOf(db, o), started: o.Now(), announced: make(chan struct{}), hold: make(chan struct{}), refused: map[string]error{}}
	if err := a.assemble(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return a, nil
}

func (a *App) assemble() error {
	a.knowledge = knowledge.New(knowledge.Options{Folder: a.o.Config.Store.Reveal() + filesSuffix, PDF: a.readPDF, Log: a.o.Log})
	first, err := a.prepare(a.o.Config, nil)
	if err != nil {
		return err
	}
	a.setup.Store(first)
	feeds, pages, err := a.buildEgress()
	if err != nil {
		return err
	}
	a.buildPlatforms(pages)
	a.settings = settings.New(a.store, a.modelNames)
	if err := a.settings.Load(context.Background()); err != nil {
		return err
	}
	if err := a.buildLedger(); err != nil {
		return err
	}
	if err := a.buildSignIn(pages); err != nil {
		return err
	}
	if err := a.buildTools(feeds, pages); err != nil {
		return err
	}
	if err := a.buildCalls(); err != nil {
		return err
	}
	if err := a.buildAgent(); err != nil {
		return err
	}
	a.delivery = delivery.New(delivery.Options{Store: a.store, Answerer: a.agent, Platform: a.platform,
		Admit: a.welcome, Aside: a.aside, Log: a.o.Log, Now: a.o.Now, Grace: a.grace()})
	if err := a.buildDigests(feeds, pages); err != nil {
		return err
	}
	if err := a.buildEndpoint(); err != nil {
		return err
	}
	return a.buildAdmin()
}

// mcpAfter is how long MCP servers wait for the platforms to connect first.
const mcpAfter = 500 * time.Millisecond

// grace is how long answers under way may take when the bot is told to end.
const grace = 5 * time.Second

// grace is nothing where the one who asked is the one who ends the bot.
func (a *App) grace() time.Duration {
	if a.o.Local {
		return 0
	}
	return grace
}

// Close closes the store; call it after Run has returned.
func (a *App) Close() error { return a.store.Close() }

// Digests are the bot's digests.
func (a *App) Digests() *digest.Service { return a.digests }

// Listen opens the address of the HTTP server, so that Addr is known before Run.
func (a *App) Listen() error {
	l, err := net.Listen("tcp", a.conf().HTTP.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s (is another ravenbot running? http.listen in config.json names the address): %w", a.conf().HTTP.Listen, err)
	}
	a.listener = l
	return nil
}

// Addr is where HTTP is served, after Listen.
func (a *App) Addr() string { return a.listener.Addr().String() }

// LoginLink makes a link that opens the dashboard once.
func (a *App) LoginLink() string { return a.admin.LoginLink(a.base()) }

func (a *App) base() string {
	if url := a.conf().HTTP.PublicURL.Reveal(); url != "" {
		return url
	}
	host, port, err := net.SplitHostPort(a.Addr())
	if err != nil || net.ParseIP(host).IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Run works until ctx ends. HTTP is served first; what needs the network comes
// up beside it.
func (a *App) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 4)
	start := func(what string, run func(context.Context) error) {
		wg.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				failed <- fmt.Errorf("%s: %w", what, err)
			}
		})
	}
	if !a.o.Local {
		start("serve http", a.serve)
	}
	tools, stopTools := context.WithCancel(context.WithoutCancel(ctx))
	start("delivery", func(ctx context.Context) error {
		defer stopTools() // answers that are finished in the time of grace may need them
		return a.delivery.Run(ctx)
	})
	start("agent", a.agent.Run)
	start("approvals", a.approvals.Run)
	start("mcp", func(context.Context) error { return a.mcp.Run(tools) })
	a.connectAll(ctx, &wg)
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.connects = nil
	}()
	if !a.o.Local {
		wg.Go(func() { a.loop.Run(ctx) })
		wg.Go(func() { a.poll(ctx) })
		wg.Go(func() { a.backups.Run(ctx) })
		wg.Go(func() { a.announce(ctx) })
	}
	wg.Go(func() { a.startServers(ctx) })
	wg.Go(func() { a.meaning.Run(ctx) })
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// startServers lets the MCP servers start, when the platforms have connected or have
// had time to: starting programs takes processor time that connecting can use.
func (a *App) startServers(ctx context.Context) {
	defer close(a.hold)
	if a.o.Local {
		return
	}
	select {
	case <-a.announced:
	case <-time.After(mcpAfter):
	case <-ctx.Done():
	}
}

// connect runs a platform. One that cannot ever connect is reported and left.
func (a *App) connect(ctx context.Context, name string, p chat.Platform) {
	err := p.Run(ctx, a.delivery.Accept)
	if err == nil || ctx.Err() != nil {
		return
	}
	var setup *chat.SetupError
	if errors.As(err, &setup) {
		a.o.Log.Error("platform refused", "platform", name, "error", setup.Error(), "remedy", setup.Remedy)
	} else {
		a.o.Log.Error("platform stopped", "platform", name, "error", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused[name] = err
}

// health is the evidence of each platform, by name.
func (a *App) health() map[string]chat.Health {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[string]chat.Health{}
	for name, p := range a.platforms {
		h := chat.Health{Connected: true}
		if r, ok := p.(chat.Reporter); ok {
			h = r.Health()
		}
		if err := a.refused[name]; err != nil {
			h = chat.Health{Detail: err.Error()}
		}
		all[name] = h
	}
	return all
}

// announce logs one line when every platform has connected or was refused.
func (a *App) announce(ctx context.Context) {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for looks := 0; ; looks++ {
		if looks == 400 { // two seconds: it will take longer
			look.Reset(250 * time.Millisecond)
		}
		var connected, refused []string
		waiting := false
		for name, h := range a.health() {
			switch {
			case h.Connected:
				connected = append(connected, name)
			case a.isRefused(name):
				refused = append(refused, name)
			default:
				waiting = true
			}
		}
		if !waiting {
			attrs := []any{"http", a.base(), "platforms", join(connected)}
			if len(refused) > 0 {
				attrs = append(attrs, "refused", join(refused))
			}
			a.o.Log.Info("ready", attrs...)
			close(a.announced)
			release()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

func (a *App) isRefused(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused[name] != nil
}

// serve serves HTTP until ctx ends, then lets requests finish for a moment.
func (a *App) serve(ctx context.Context) error {
	s := &http.Server{Handler: a.admin.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(a.o.Log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx }}
	done := make(chan error, 1)
	go func() { done <- s.Serve(a.listener) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := s.Shutdown(stop); err != nil {
		_ = s.Close()
	}
	<-done
	return nil
}

// Ask says something in a web room and yields what happens until the answer has
// come.
func (a *App) Ask(ctx context.Context, room string, user chat.User, text string) iter.Seq2[web.Event, error] {
	return a.web.Ask(ctx, room, user, text)
}
