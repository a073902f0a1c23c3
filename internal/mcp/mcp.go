// Package mcp is the host of MCP servers: it starts or reaches each one that is
// configured, keeps it connected, and offers its tools.
//
// It promises that a server cannot hurt the bot or another server. Each has a
// supervisor of its own, which connects in the background, asks again and again
// whether the server lives, and starts it anew with growing delays when it does
// not; every request has a deadline, every message a size limit, every log an
// end. Processes get a short list of harmless environment variables, are ended
// with all that they started, and are always reaped. A call is sent once: it is
// repeated after a loss only if the tool says that this does no harm.
//
// Tool schemas are kept as the server wrote them. Arguments are expected to have
// been checked; who may call what is policy's business. Results are strangers'
// text: bounded here, made safe to show by whoever shows them.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"ravenbot/internal/tool"
)

// Transports by name, as in Config and Status.
const (
	Stdio = "stdio"
	HTTP  = "http" // Streamable HTTP
	SSE   = "sse"  // the older HTTP+SSE
)

// Config is one server: a command to start, or a URL to reach.
type Config struct {
	Name        string // unique; tools are named after it
	Description string // for people

	Command string            // the program; looked for in PATH, or relative to Dir
	Args    []string          // handed over as they are; no shell reads them
	Env     map[string]string // added to the few variables that every server gets
	Dir     string            // working folder; "": the bot's

	URL       string            // http or https
	Headers   map[string]string // sent to the origin of URL alone
	Transport string            // Stdio, HTTP or SSE; "": by Command or URL, HTTP before SSE
	Protocol  string            // the one version to speak, as "2025-06-18"; "": what the server prefers

	Timeout  time.Duration // of one call; 0: 30 s
	Include  []string      // names of tools to offer, * stands for anything; empty: all
	Exclude  []string      // names of tools to leave out
	Eager    bool          // connect with the host although the tools are known from Cache
	Disabled bool          // never connect
}

// Cache keeps tool lists over restarts, so that a server need not be started
// before its first call. It must be safe for concurrent use.
type Cache interface {
	// Load gives what was last saved under the name of a server, or nil.
	Load(server string) ([]byte, error)
	Save(server string, list []byte) error
}

// Options are what a Host is made of.
type Options struct {
	Servers []Config

	// HealthInterval is how often a connected server is asked for its tools,
	// which also shows that it lives; 0: 60 s.
	HealthInterval time.Duration
	// StatusTTL is the age at which a status that is read is checked anew; 0: 300 s.
	StatusTTL time.Duration
	// StartTimeout is how long a server may take to start and list its tools; 0: 120 s.
	StartTimeout time.Duration

	Cache Cache // nil: every server is connected when the host starts
	// Hold keeps servers from starting until it is closed; what Cache knows of them
	// is listed at once. nil: they start with the host.
	Hold    <-chan struct{}
	Version string // what servers are told of our version
	Log     *slog.Logger
	Now     func() time.Time // nil: time.Now

	Authorize Authorize // nil: servers get the configured headers alone

	silence time.Duration // see tap; set by tests
}

// Host has one supervised connection per server. All methods are safe for
// concurrent use.
type Host struct {
	servers map[string]*server
	names   []string // sorted

	mu      sync.Mutex
	started bool
	running bool
}

// NewHost checks the options. It starts nothing; Run does.
func NewHost(o Options) (*Host, error) {
	o = withDefaults(o)
	h := &Host{servers: map[string]*server{}}
	var faults []error
	for _, c := range o.Servers {
		if err := check(c); err != nil {
			faults = append(faults, fmt.Errorf("MCP server %q: %w", c.Name, err))
			continue
		}
		if h.servers[c.Name] != nil {
			faults = append(faults, fmt.Errorf("MCP server %q: the name is given twice", c.Name))
			continue
		}
		h.servers[c.Name] = newServer(c, &o)
	}
	h.names = slices.Sorted(maps.Keys(h.servers))
	return h, errors.Join(faults...)
}

func withDefaults(o Options) Options {
	if o.HealthInterval <= 0 {
		o.HealthInterval = 60 * time.Second
	}
	if o.StatusTTL <= 0 {
		o.StatusTTL = 300 * time.Second
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = 120 * time.Second
	}
	if o.silence <= 0 {
		o.silence = silence
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func check(c Config) error {
	switch {
	case c.Name == "":
		return errors.New("it has no name")
	case c.Disabled:
		return nil
	case (c.Command == "") == (c.URL == ""):
		return errors.New("give either a command to start or a url to reach")
	case !slices.Contains([]string{"", Stdio, HTTP, SSE}, c.Transport):
		return fmt.Errorf("unknown transport %q; known are stdio, http and sse", c.Transport)
	case c.Transport != "" && (c.Transport == Stdio) != (c.Command != ""):
		return fmt.Errorf("transport %q does not go with what is given: stdio needs a command, http and sse a url", c.Transport)
	}
	if err := checkProtocol(c.Protocol); c.URL == "" || err != nil {
		return err
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("its url is not an http or https address")
	}
	return nil
}

// Run connects every server in the background and keeps it connected until ctx
// ends; then it ends every connection and process, and returns when they are
// gone. It may be called once.
func (h *Host) Run(ctx context.Context) error {
	h.mu.Lock()
	again := h.started
	h.started, h.running = true, true
	h.mu.Unlock()
	if again {
		return errors.New("the MCP host was run before")
	}
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.running = false
	}()
	var wg sync.WaitGroup
	for _, s := range h.servers {
		wg.Go(func() { s.run(ctx) })
	}
	wg.Wait()
	return nil
}

// Servers gives the status of every server, sorted by name.
func (h *Host) Servers() []Status {
	list := make([]Status, 0, len(h.names))
	for _, name := range h.names {
		list = append(list, h.servers[name].status())
	}
	return list
}

// Server gives the status of one server.
func (h *Host) Server(name string) (Status, bool) {
	s, ok := h.servers[name]
	if !ok {
		return Status{}, false
	}
	return s.status(), true
}

// Start connects a server that was stopped, or is waiting to be tried again, in
// the background.
func (h *Host) Start(name string) error { return h.control(name, (*server).start) }

// Stop ends a server's connection and process, and returns when both are gone.
func (h *Host) Stop(name string) error { return h.control(name, (*server).stop) }

// Restart ends a server's connection and connects it anew, in the background.
func (h *Host) Restart(name string) error { return h.control(name, (*server).restart) }

func (h *Host) control(name string, do func(*server) error) error {
	s, ok := h.servers[name]
	if !ok {
		return fmt.Errorf("there is no MCP server %q", name)
	}
	h.mu.Lock()
	running := h.running
	h.mu.Unlock()
	switch {
	case s.c.Disabled:
		return fmt.Errorf("MCP server %q is disabled in the configuration", name)
	case !running:
		return errors.New("the MCP host does not run")
	}
	return do(s)
}

// Logs gives the newest lines that a server wrote, oldest first; nil if there is
// no such server.
func (h *Host) Logs(name string) []LogLine {
	s, ok := h.servers[name]
	if !ok {
		return nil
	}
	return s.logs.lines(s.mask)
}

// Wait returns when the first attempt to connect a server has ended, well or
// badly, or will not be made before somebody asks for it. The error is that of
// ctx, or says that there is no such server.
func (h *Host) Wait(ctx context.Context, name string) error {
	s, ok := h.servers[name]
	if !ok {
		return fmt.Errorf("there is no MCP server %q", name)
	}
	select {
	case <-s.settled:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for MCP server %q: %w", name, context.Cause(ctx))
	}
}

// Tools gives the tools of all connected servers, by server and name. It makes
// Host a tool.Source.
func (h *Host) Tools() []tool.Tool {
	var list []tool.Tool
	for _, name := range h.names {
		list = append(list, h.servers[name].offered()...)
	}
	return list
}

// Source gives the tools of one server; none if there is no such server.
func (h *Host) Source(name string) tool.Source {
	return source(func() []tool.Tool {
		if s, ok := h.servers[name]; ok {
			return s.offered()
		}
		return nil
	})
}

type source func() []tool.Tool

func (s source) Tools() []tool.Tool { return s() }
