package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/resident"
	"ravenbot/internal/core/tool"
)

// FromConfig is the Source of servers in the configuration.
const FromConfig = "config"

// maxLease bounds how long a replaced or removed server keeps running for the holders of leases.
const maxLease = 30 * time.Minute

// Reasons to refuse a change of the servers. Errors of Host wrap them.
var (
	ErrNotFound   = errors.New("there is no such MCP server")
	ErrExists     = errors.New("the name is taken by another MCP server")
	ErrConfigured = errors.New("the MCP server belongs to the configuration")
	ErrDisabled   = errors.New("the MCP server is disabled in the configuration")
	ErrNotRunning = errors.New("the MCP host does not run")
	ErrChanged    = errors.New("what waits for the approval has changed since it was shown; look at it again")
)

// Host has one supervised connection per server. It is safe for concurrent use.
type Host struct {
	o Options
	// answers bounds the memory of all large answers over HTTP.
	answers *resident.Pool

	// changing is held while servers are set or removed, also while the store deletes the state of a server, which a
	// new server of that name must not read. It is taken before mu.
	changing sync.Mutex

	mu      sync.Mutex
	servers map[string]*server // changed with both locks held, so that one of them is enough to read it
	started bool
	ctx     context.Context // nil unless Run runs
	work    sync.WaitGroup  // goroutines started for ctx

	// toolNames maps the names of tools for models to their servers. The first server to claim a name keeps it as long
	// as its entry exists, so that no other server can take it over.
	toolNames sync.Map
	// listed contains the URIs of resources and the names of prompts that servers have listed. Reading them needs no
	// approval.
	listed sync.Map
}

// NewHost returns a host of the servers in o, or an error that names every invalid entry. It starts nothing and does
// not read the store. Tools in the store can be listed before Run.
func NewHost(o Options) (*Host, error) {
	h := &Host{
		o:       withDefaults(o),
		servers: map[string]*server{},
		answers: resident.SharePool(8, 64<<20),
	}
	if err := h.Apply(h.o.Servers); err != nil {
		return nil, err
	}
	return h, nil
}

// Run connects servers in the background and keeps them connected until ctx ends. Then it ends every connection and
// process, and returns when they are gone. A second call returns an error.
func (h *Host) Run(ctx context.Context) error {
	h.mu.Lock()
	if h.started {
		h.mu.Unlock()
		return errors.New("the MCP host was run before")
	}
	h.started, h.ctx = true, ctx
	for _, s := range h.servers {
		h.startServer(s)
	}
	h.mu.Unlock()
	<-ctx.Done()
	// Under the lock, so that no server starts after Wait.
	h.mu.Lock()
	h.ctx = nil
	h.mu.Unlock()
	h.work.Wait()
	return nil
}

// startServer starts the supervisor of a server; h.mu is held.
func (h *Host) startServer(s *server) {
	if h.ctx == nil { // Run starts all servers
		return
	}
	ctx, quit := context.WithCancel(h.ctx)
	s.quit = quit
	h.work.Go(func() {
		defer quit()
		s.run(ctx)
	})
}

// Apply replaces the configured servers: changed entries are replaced, new ones start, missing ones end, and all others
// keep running. A configured server replaces an added server of the same name. If an entry is invalid, Apply returns an
// error and changes nothing.
func (h *Host) Apply(servers []Config) error {
	var faults []error
	wanted := map[string]Config{}
	for _, c := range servers {
		err := check(c)
		if _, twice := wanted[c.Name]; err == nil && twice {
			err = errors.New("the name is given twice")
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("MCP server %q: %w", c.Name, err))
			continue
		}
		wanted[c.Name] = c
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	// Old servers are retired before new ones are set, so that the names of their tools are free. The new ones are set
	// in order, so that every start has the same result.
	h.changing.Lock()
	defer h.changing.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, s := range h.servers {
		if _, stays := wanted[name]; s.source == FromConfig && !stays {
			delete(h.servers, name)
			h.retire(s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		h.setServer(wanted[name], FromConfig)
	}
	return nil
}

// Put adds a server at run time, or replaces the added server of that name; source is its Source. The error wraps
// ErrConfigured if the server is configured, or describes an invalid entry. An unchanged entry does not interrupt
// calls.
func (h *Host) Put(c Config, source string) error {
	err := check(c)
	h.changing.Lock()
	defer h.changing.Unlock()
	if old := h.servers[c.Name]; err == nil && old != nil && old.source == FromConfig {
		err = ErrConfigured
	}
	if err != nil {
		return fmt.Errorf("MCP server %q: %w", c.Name, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.setServer(c, source)
	return nil
}

// Remove ends an added server and deletes its saved state. The error wraps ErrNotFound or ErrConfigured. The names of
// its tools are free at once, but holders of leases can still call it. After an error of the store the server is gone,
// but some of its saved state may remain.
func (h *Host) Remove(name string) error {
	h.changing.Lock()
	defer h.changing.Unlock()
	s, err := h.take(name)
	if err != nil {
		return fmt.Errorf("MCP server %q: %w", name, err)
	}
	return s.deleteSaved()
}

// take ends an added server and returns it, or ErrNotFound or ErrConfigured; h.changing is held.
func (h *Host) take(name string) (*server, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.servers[name]
	switch {
	case s == nil:
		return nil, ErrNotFound
	case s.source == FromConfig:
		return nil, ErrConfigured
	}
	delete(h.servers, name)
	h.retire(s)
	return s, nil
}

// drop ends an added server that another process has removed.
func (h *Host) drop(name string) {
	h.changing.Lock()
	defer h.changing.Unlock()
	_, _ = h.take(name) // an error means that there is nothing to end
}

// setServer adds or replaces a server, unless it runs with the same entry; both locks are held. A replacement takes
// over the log.
func (h *Host) setServer(c Config, source string) {
	s, old := newServer(h, c, source), h.servers[c.Name]
	if old != nil {
		if old.source == source && reflect.DeepEqual(normalize(old.c), normalize(c)) {
			return
		}
		h.retire(old)
		// The new entry may not contain the secrets of the old one.
		s.logs.entries = old.logs.lines(old.mask)
	}
	h.servers[c.Name] = s
	h.startServer(s)
}

// normalize returns an entry with nil for empty lists and maps, for comparison.
func normalize(c Config) Config {
	for _, list := range []*[]string{&c.Args, &c.Allow, &c.Include, &c.Exclude, &c.AllowPrivateHosts, &c.SignIn.Scopes} {
		if len(*list) == 0 {
			*list = nil
		}
	}
	for _, table := range []*map[string]string{&c.Env, &c.Headers} {
		if len(*table) == 0 {
			*table = nil
		}
	}
	return c
}

// retire ends a server when all leases on it are released, or after maxLease; h.mu is held.
func (h *Host) retire(s *server) {
	s.retired.Store(true)
	h.toolNames.Range(func(name, owner any) bool {
		if owner == s.c.Name {
			h.toolNames.Delete(name)
		}
		return true
	})
	switch {
	case h.ctx == nil:
	case s.leases == 0:
		s.quit()
	default:
		time.AfterFunc(maxLease, s.quit)
	}
}

// Lease keeps all current servers running, including those that are replaced or removed later, until release is called
// or half an hour has passed. Users of a list of tools hold a lease.
func (h *Host) Lease() (release func()) { return h.leaseServer(nil) }

// leaseServer keeps one server running, or all if one is nil. release may be called several times.
func (h *Host) leaseServer(one *server) (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := []*server{one}
	if one == nil {
		list = slices.Collect(maps.Values(h.servers))
	}
	for _, s := range list {
		s.leases++
	}
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, s := range list {
			if s.leases--; s.leases == 0 && s.retired.Load() {
				s.quit()
			}
		}
	})
}

func (h *Host) server(name string) (*server, error) {
	h.mu.Lock()
	s := h.servers[name]
	h.mu.Unlock()
	if s == nil {
		return nil, fmt.Errorf("MCP server %q: %w", name, ErrNotFound)
	}
	s.restoreSaved()
	return s, nil
}

// sortedServers returns all servers, sorted by name. Their saved state is read in this order, because the first server
// that claims the name of a tool keeps it.
func (h *Host) sortedServers() []*server {
	h.mu.Lock()
	list := slices.SortedFunc(maps.Values(h.servers), func(a, b *server) int { return strings.Compare(a.c.Name, b.c.Name) })
	h.mu.Unlock()
	for _, s := range list {
		s.restoreSaved()
	}
	return list
}

// Servers returns the status of every server, sorted by name. The list is never nil. It does not wait for servers: an
// old status is refreshed for the next reader.
func (h *Host) Servers() []Status {
	list := []Status{}
	for _, s := range h.sortedServers() {
		list = append(list, s.status())
	}
	return list
}

// Get returns the status of one server. The error wraps ErrNotFound.
func (h *Host) Get(name string) (Status, error) {
	s, err := h.server(name)
	if err != nil {
		return Status{}, err
	}
	return s.status(), nil
}

// Config returns the entry of a server, or false if there is no such server. It contains secrets in clear. Callers must
// not change its maps and slices.
func (h *Host) Config(name string) (Config, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.servers[name]
	if s == nil {
		return Config{}, false
	}
	return s.c, true
}

// Start connects a stopped or waiting server in the background. The error wraps ErrNotFound, ErrDisabled or
// ErrNotRunning.
func (h *Host) Start(name string) error {
	return h.control(name, func(s *server) error { return s.begin(nil) })
}

// Stop ends the connection and the process of a server, and returns when both are gone. It returns the errors of Start.
// The server stays stopped until Start, Restart, a change of its entry, or the next start of the bot.
func (h *Host) Stop(name string) error { return h.control(name, (*server).stop) }

// Restart reconnects a server in the background. It returns the errors of Start.
func (h *Host) Restart(name string) error {
	return h.control(name, func(s *server) error { return s.begin(errRestarted) })
}

// control calls do for a server. It fails with ErrNotFound, ErrDisabled, or ErrNotRunning before Run.
func (h *Host) control(name string, do func(*server) error) error {
	s, err := h.server(name)
	if err != nil {
		return err
	}
	switch {
	case s.c.Disabled:
		err = ErrDisabled
	case !h.isRunning():
		return ErrNotRunning
	default:
		err = do(s)
	}
	if err != nil {
		return fmt.Errorf("MCP server %q: %w", name, err)
	}
	return nil
}

func (h *Host) isRunning() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ctx != nil
}

// Logs returns the newest lines of a server's log, oldest first. The error wraps ErrNotFound.
func (h *Host) Logs(name string) ([]LogLine, error) {
	s, err := h.server(name)
	if err != nil {
		return nil, err
	}
	return s.logs.lines(s.mask), nil
}

// Wait returns when the first attempt to connect a server has ended, or if only a call will start the server. The error
// is the cause of ctx, or wraps ErrNotFound.
func (h *Host) Wait(ctx context.Context, name string) error {
	s, err := h.server(name)
	if err != nil {
		return err
	}
	select {
	case <-s.firstAttempt:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for MCP server %q: %w", name, context.Cause(ctx))
	}
}

// Tools returns the offered tools of all servers, sorted by server and name. A tool stays valid: it is called over its
// server's current connection.
func (h *Host) Tools() []tool.Tool {
	var list []tool.Tool
	for _, s := range h.sortedServers() {
		list = append(list, s.offeredTools()...)
	}
	return list
}

// WaitAll returns when the first attempt to connect each server has ended, or ctx ends.
func (h *Host) WaitAll(ctx context.Context) {
	for _, s := range h.sortedServers() {
		if h.Wait(ctx, s.c.Name) != nil {
			return
		}
	}
}
