// Package app constructs and runs the bot. It is the only package that names concrete types. It promises that New
// starts nothing, that Run returns only after everything that it started has ended, and that a part that cannot work
// (a refused credential, a tool server that hangs) does not stop the other parts.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"ravenbot/adapters/web"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature"
	"ravenbot/internal/feature/approval"
	"ravenbot/internal/feature/jobs"
	"ravenbot/internal/mcp"
	"ravenbot/internal/mcp/mcpserve"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/ops/admin"
	"ravenbot/internal/ops/audit"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/ops/replica"
	"ravenbot/internal/ops/retention"
	"ravenbot/internal/recall/history"
	"ravenbot/internal/recall/meaning"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/turn/access"
	"ravenbot/internal/turn/agent"
	"ravenbot/internal/turn/budget"
	"ravenbot/internal/turn/delivery"
	"ravenbot/internal/turn/platform"
	"ravenbot/internal/turn/roster"
)

// Options are what an App needs.
type Options struct {
	Config  *config.Config
	Token   string // the administrator's
	Version string
	Log     *slog.Logger
	Now     func() time.Time
	// Local leaves out everything that others could see: no listener, no platform but the web
	// rooms, no scheduled digests. The command line uses it beside no daemon.
	Local bool
	// ReadPDF returns the text of the pages of a PDF; nil: it is read in this process, which
	// a hostile file can harm.
	ReadPDF func(ctx context.Context, data []byte) ([]string, error)
	// Storage is the open store, which Close closes; nil: New opens the one that the configuration names.
	Storage *storage.Storage
	// Listener is where HTTP is served; nil: Listen opens the configured address.
	Listener net.Listener
	// Replica is this process among those that share the store; nil: it has the store alone.
	Replica *replica.Node
	// Watcher is told of the processes of tool servers; nil: should the bot be killed, what
	// they have started may be left behind.
	Watcher mcp.Watcher
}

// App is the bot.
type App struct {
	o         Options
	store     *storage.Storage
	setup     atomic.Pointer[setup]
	platforms *platform.Set
	web       *web.Web
	features  *feature.Registry
	gate      *access.Gate
	roster    *roster.Roster
	mcp       *mcp.Host
	catalog   *mcp.Catalog
	registry  *tool.Registry
	endpoint  *mcpserve.Server
	agent     *agent.Engine
	history   *history.Service
	meaning   *meaning.Index
	delivery  *delivery.Service
	digests   *digest.Service
	jobs      *jobs.Service
	spending  *budget.Spending
	audit     *audit.Log
	grants    *approval.Grants
	changes   audit.ChangeStore // the store, for what people change in the chat
	admin     *admin.Server

	listener    net.Listener
	started     time.Time
	ready       chan struct{} // closed when every platform has connected or was refused
	serversGo   chan struct{} // closed when MCP servers may start
	reloading   sync.Mutex
	keepChanged retention.Signal
}

// New puts the bot together and opens its store. The errors are those of the store, and of
// a configuration that only its parts can judge.
func New(o Options) (*App, error) {
	opened := o.Storage
	if opened == nil {
		var err error
		if opened, err = storage.Open(context.Background(), o.Config, o.Log, o.Now); err != nil {
			return nil, err
		}
	}
	a := &App{o: o, store: opened, started: o.Now(), ready: make(chan struct{}), serversGo: make(chan struct{}),
		keepChanged: retention.NewSignal()}
	if err := a.assemble(); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return a, nil
}

// Close closes the store; call it after Run has returned.
func (a *App) Close() error { return a.store.Close() }

// Listen opens the address of the HTTP server, so that Addr is known before Run.
func (a *App) Listen() error {
	if a.o.Listener != nil {
		a.listener = a.o.Listener
		return nil
	}
	l, err := net.Listen("tcp", a.conf().HTTP.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s (is another ravenbot running? http.listen in config.json names the address): %w",
			a.conf().HTTP.Listen, err)
	}
	a.listener = l
	return nil
}

// Addr returns where HTTP is served, after Listen.
func (a *App) Addr() string { return a.listener.Addr().String() }

// LoginLink returns a link that opens the dashboard once.
func (a *App) LoginLink() string { return a.admin.LoginLink(a.baseURL()) }

func (a *App) baseURL() string {
	if url := a.conf().HTTP.PublicURL.Reveal(); url != "" {
		return url
	}
	host, port, err := net.SplitHostPort(a.Addr())
	if err != nil || net.ParseIP(host).IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// Run works until ctx ends. HTTP is served first; what needs the network comes up beside it.
func (a *App) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 2)
	start := func(name string, run func() error) {
		wg.Go(func() {
			if err := run(); err != nil && ctx.Err() == nil {
				failed <- fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	if !a.o.Local {
		start("serve http", func() error { return a.admin.Serve(ctx, a.listener) })
	}
	late, stopLate := context.WithCancel(context.WithoutCancel(ctx))
	for _, t := range a.features.Tasks() {
		switch {
		case t.Daemon && a.o.Local:
			continue
		case t.Leads:
			t.Run = a.o.Replica.WhenLeading(t.Run)
		}
		wg.Go(func() {
			if t.Outlives {
				t.Run(late)
			} else {
				t.Run(ctx)
			}
		})
	}
	start("delivery", func() error {
		defer stopLate()
		return a.delivery.Run(ctx)
	})
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// Limits of starting and ending.
const (
	// serversAfter is how long MCP servers wait for the platforms to connect: starting
	// programs takes processor time that connecting can use.
	serversAfter = 500 * time.Millisecond
	// grace is how long answers under way may take when the bot is told to end.
	grace = 5 * time.Second
)

// startServers lets the MCP servers start when the platforms have connected, or have had time
// to.
func (a *App) startServers(ctx context.Context) {
	defer close(a.serversGo)
	if a.o.Local {
		return
	}
	select {
	case <-a.ready:
	case <-time.After(serversAfter):
	case <-ctx.Done():
	}
}

// announce logs one line when every platform has connected or was refused.
func (a *App) announce(ctx context.Context) {
	connected, refused, ok := a.platforms.WaitReady(ctx)
	if !ok {
		return
	}
	attrs := []any{"http", a.baseURL(), "platforms", connected}
	if refused != "" {
		attrs = append(attrs, "refused", refused)
	}
	a.o.Log.Info("ready", attrs...)
	close(a.ready)
	debug.FreeOSMemory() // what only starting needed
}
