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

// FromConfig is the Source of servers given by Options and Apply.
const FromConfig = "config"

// maxLease is how long a server that was replaced or removed keeps running for those who hold a lease on it.
const maxLease = 30 * time.Minute

// Reasons why a change of the servers is refused. Errors of Host wrap them.
var (
	ErrNotFound   = errors.New("there is no such MCP server")
	ErrExists     = errors.New("the name is taken by another MCP server")
	ErrConfigured = errors.New("the MCP server belongs to the configuration")
	ErrDisabled   = errors.New("the MCP server is disabled in the configuration")
	ErrNotRunning = errors.New("the MCP host does not run")
	ErrChanged    = errors.New("what waits for the approval has changed since it was shown; look at it again")
)

// Host has one supervised connection per server. All methods are safe for concurrent use.
type Host struct {
	o Options
	// answers bounds what large answers over HTTP take together.
	answers *resident.Pool

	// changing is held while servers are set or removed, and taken before mu: mu is not held while the store deletes what
	// it keeps of a server, and a new server of that name must not read it meanwhile.
	changing sync.Mutex

	mu      sync.Mutex
	servers map[string]*server // changed with both locks held, so that one of them is enough to read it
	started bool
	ctx     context.Context // while Run runs, else nil
	work    sync.WaitGroup  // goroutines started for ctx

	// toolNames are the names under which models call the tools of servers, with the server that owns each. The first
	// server to claim a name keeps it as long as its entry exists, so that no other server can take it over.
	toolNames sync.Map
	// listed are the URIs of resources and the names of prompts that servers have listed, by server and key: they may
	// be read again without a question.
	listed sync.Map
}

// NewHost returns a host of the servers in o, or an error that names every invalid entry of them. It starts nothing and
// reads nothing from the store. Tools known from the store can be listed before Run.
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

// Run connects servers in the background and keeps them connected until ctx
// ends; then it ends every connection and process, and returns when they are
// gone. It may be called once. A second call returns an error at once; the result is nil otherwise.
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
	// Under the lock, so that no server is started once Wait runs.
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

// Apply makes servers the configured set: entries that differ from before are replaced, new ones start, missing ones
// end, all others keep running. A configured server replaces one that was added under the same name. If any entry is
// invalid, Apply returns an error and changes nothing.
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
	// Servers that go are retired before new ones are set, so that the names of their tools
	// are free; the new ones are set in order, for the same result at every start.
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

// Put adds a server beside the configured ones, or replaces the one of that name; source says where it comes from. It
// returns an error that wraps ErrConfigured if that one belongs to the configuration. An invalid entry is refused with
// what is wrong with it. An entry that equals the one that runs changes nothing, and so does not interrupt its calls.
// Before Run the server is only kept; Run starts it.
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

// Remove ends a server that was added, and deletes its saved state. The error wraps ErrNotFound or ErrConfigured. The
// names of its tools are free at once, while those who hold a lease still call it. After an error of the store the
// server is gone all the same, and some of its saved state is not.
func (h *Host) Remove(name string) error {
	h.changing.Lock()
	defer h.changing.Unlock()
	s, err := h.take(name)
	if err != nil {
		return fmt.Errorf("MCP server %q: %w", name, err)
	}
	return s.deleteSaved()
}

// take ends a server that was added, and returns it, or ErrNotFound or ErrConfigured. h.changing is held.
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

// drop ends a server that was added, where another process has removed it and deleted its saved state.
func (h *Host) drop(name string) {
	h.changing.Lock()
	defer h.changing.Unlock()
	_, _ = h.take(name) // one that is not there, or configured here, stays as it is
}

// setServer adds or replaces a server, unless it runs already with the same entry; both locks are held. The new server
// begins with the log of the old one, and with its other saved state.
func (h *Host) setServer(c Config, source string) {
	s, old := newServer(h, c, source), h.servers[c.Name]
	if old != nil {
		if old.source == source && reflect.DeepEqual(normalize(old.c), normalize(c)) {
			return
		}
		h.retire(old)
		// Masked here: the new entry may no longer name the secrets of the old one.
		s.logs.entries = old.logs.lines(old.mask)
	}
	h.servers[c.Name] = s
	h.startServer(s)
}

// normalize returns an entry with nil for empty lists and maps, so that entries from JSON and from code compare equal.
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

// retire ends a server once every lease on it has been released, or maxLease has passed; h.mu is held.
func (h *Host) retire(s *server) {
	s.retired.Store(true)
	h.toolNames.Range(func(name, owner any) bool {
		if owner == s.c.Name {
			h.toolNames.Delete(name)
		}
		return true
	})
	// Before Run no server has been started, and at its end all of them are ended.
	switch {
	case h.ctx == nil:
	case s.leases == 0:
		s.quit()
	default:
		time.AfterFunc(maxLease, s.quit)
	}
}

// Lease keeps all current servers running: one that is replaced or removed from now on
// still serves the tools that the holder has listed, until release is called or half an
// hour has passed. Whoever works with a list of tools holds a lease meanwhile.
func (h *Host) Lease() (release func()) { return h.leaseServer(nil) }

// leaseServer keeps one server running, or all for nil. The function returned may be called more than once.
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

// sortedServers returns every server, sorted by name. Their saved state is read in this order, because the first one that
// claims the name of a tool keeps it.
func (h *Host) sortedServers() []*server {
	h.mu.Lock()
	list := slices.SortedFunc(maps.Values(h.servers), func(a, b *server) int { return strings.Compare(a.c.Name, b.c.Name) })
	h.mu.Unlock()
	for _, s := range list {
		s.restoreSaved()
	}
	return list
}

// Servers returns the status of every server, sorted by name; an empty list, not nil, if there is
// none. It waits for no server: a status that is old is refreshed for the next reader.
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

// Config returns the entry that a server runs with; false: there is no such server. It holds
// secrets in clear, and its maps and slices are the server's own: they must not be changed.
func (h *Host) Config(name string) (Config, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.servers[name]
	if s == nil {
		return Config{}, false
	}
	return s.c, true
}

// Start connects a server that was stopped, or waits for its next attempt, in the
// background. The error wraps ErrNotFound, ErrDisabled or ErrNotRunning.
func (h *Host) Start(name string) error {
	return h.control(name, func(s *server) error { return s.begin(nil) })
}

// Stop ends a server's connection and process, and returns when both are gone. It
// returns the errors of Start. A server that was stopped stays so until Start, Restart, a change of
// its entry, or the next start of the bot: a call does not start it.
func (h *Host) Stop(name string) error { return h.control(name, (*server).stop) }

// Restart ends a server's connection and connects again, in the background. It returns the errors of Start.
func (h *Host) Restart(name string) error {
	return h.control(name, func(s *server) error { return s.begin(errRestarted) })
}

// control has a server start, stop or begin anew. It fails with ErrNotFound, ErrDisabled, or ErrNotRunning before Run.
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

// isRunning reports whether Run has begun.
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

// Wait returns when the first attempt to connect a server has succeeded or failed, or when the server will only be
// started by a call. The error is that of ctx, or wraps ErrNotFound.
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

// Tools returns the offered tools of all servers, sorted by server and name. It makes
// Host a tool.Source. A tool stays valid after the list was made: it is called over whichever
// connection its server has by then, and its result is a failure where there is none.
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
