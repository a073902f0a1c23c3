// Package platform runs the chat platforms: it connects them, replaces a platform whose configuration has changed, and
// collects evidence of their connections. A refused platform does not affect the others and is retried after some
// minutes.
package platform

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
)

// Health is the evidence of one platform's connection.
type Health struct {
	Name string `json:"name"`
	chat.Health
}

// Set is the platforms that are switched on. It is safe for concurrent use.
type Set struct {
	log    *slog.Logger
	remake func(name string) chat.Platform

	mu        sync.Mutex
	platforms map[string]chat.Platform
	refused   map[string]error // why platforms that have not connected since were refused
	running   map[string]*connection
	connect   func(name string, p chat.Platform) // while Run runs, else nil
}

// connection is a platform that runs.
type connection struct {
	stop context.CancelFunc
	done chan struct{}
}

// NewSet returns the given platforms, by name. Run connects them. remake returns another instance
// of a platform that was refused, because each runs once; nil: it is not tried again.
func NewSet(log *slog.Logger, remake func(name string) chat.Platform, platforms ...chat.Platform) *Set {
	s := &Set{
		log:       log,
		remake:    remake,
		platforms: map[string]chat.Platform{},
		refused:   map[string]error{},
		running:   map[string]*connection{},
	}
	for _, p := range platforms {
		s.platforms[p.Name()] = p
	}
	return s
}

// Get returns a platform as it is now; nil: it is switched off.
func (s *Set) Get(name string) chat.Platform {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.platforms[name]
}

// CanPost reports whether anything can be posted to a conversation: its platform is
// switched on.
func (s *Set) CanPost(to chat.Address) bool { return s.Get(to.Platform) != nil }

// CanThread reports whether a post to a conversation can have a thread below it.
func (s *Set) CanThread(to chat.Address) bool {
	t, ok := s.Get(to.Platform).(chat.Threader)
	return ok && t.CanThread(to)
}

// ReadersCanRead reports whether everybody who can read one place can read another, too. Where the platform cannot tell
// it is assumed of places of the same workspace.
func (s *Set) ReadersCanRead(ctx context.Context, readers, source chat.Address) (bool, error) {
	if c, ok := s.Get(source.Platform).(chat.AudienceChecker); ok {
		return c.ReadersCanRead(ctx, readers, source)
	}
	return readers.Platform == source.Platform && readers.Workspace == source.Workspace, nil
}

// CheckPost returns a *chat.SetupError if a post with tags cannot be made in a place, as far as its platform knows, and
// another error if that could not be found out.
func (s *Set) CheckPost(ctx context.Context, to chat.Address, tags []string) error {
	if !s.CanPost(to) {
		return &chat.SetupError{Reason: "that platform is not switched on"}
	}
	if t, ok := s.Get(to.Platform).(chat.PlaceChecker); ok {
		return t.CheckPost(ctx, to, tags)
	}
	return nil
}

// Link returns the address of a message by its ID, or "".
func (s *Set) Link(at chat.Address, id string) string {
	if l, ok := s.Get(at.Platform).(chat.Linker); ok {
		return l.Link(at, id)
	}
	return ""
}

// Fetch returns a file of a message of a platform; more than limit bytes are an error.
func (s *Set) Fetch(ctx context.Context, name string, f chat.File, limit int64) ([]byte, error) {
	fetcher, ok := s.Get(name).(chat.Fetcher)
	if !ok {
		return nil, fmt.Errorf("read file %q: %s cannot read files", f.Name, name)
	}
	return fetcher.Fetch(ctx, f, limit)
}

// Context returns what a message is about. It is zero where the platform cannot tell.
func (s *Set) Context(ctx context.Context, m chat.Message, q chat.ContextQuery) chat.Context {
	if reader, ok := s.Get(m.Conversation.Platform).(chat.ContextReader); ok {
		return reader.Context(ctx, m, q)
	}
	return chat.Context{}
}

// Formatting returns the rules of a platform's text for a model, or "".
func (s *Set) Formatting(name string) string {
	if f, ok := s.Get(name).(chat.Formatter); ok {
		return f.Formatting()
	}
	return ""
}

// Run connects the platforms and returns when ctx has ended and all are disconnected.
func (s *Set) Run(ctx context.Context, accept func(context.Context, chat.Message) error) {
	var wg sync.WaitGroup
	defer wg.Wait()
	s.mu.Lock()
	s.connect = func(name string, p chat.Platform) {
		ctx, stop := context.WithCancel(ctx)
		c := &connection{stop, make(chan struct{})}
		s.running[name] = c
		delete(s.refused, name)
		wg.Go(func() {
			defer close(c.done)
			defer stop()
			s.runOne(ctx, name, p, accept)
		})
	}
	for name, p := range s.platforms {
		s.connect(name, p)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	// From here on Replace connects nothing: a goroutine must not be added to wg while it is waited for.
	s.connect = nil
	s.mu.Unlock()
}

// A refused platform is retried after firstRetry, and then after twice the wait each time. Some refusals are mistakes
// of the platform, and an operator may fix the others without a restart. Discord blocks an address that is refused
// 10,000 times in ten minutes.
const (
	firstRetry = time.Minute
	maxRetry   = 15 * time.Minute
)

// runOne runs a platform, and again when it was refused, until ctx ends.
func (s *Set) runOne(
	ctx context.Context,
	name string,
	p chat.Platform,
	accept func(context.Context, chat.Message) error,
) {
	for wait := firstRetry; ; wait = min(2*wait, maxRetry) {
		began := time.Now()
		err := p.Run(ctx, accept)
		if err == nil || ctx.Err() != nil {
			return
		}
		if time.Since(began) > maxRetry { // it had worked
			wait = firstRetry
		}
		var setup *chat.SetupError
		if errors.As(err, &setup) {
			s.log.Error("platform refused", "platform", name, "wait", wait, "error", setup.Error(), "remedy", setup.Remedy)
		} else {
			s.log.Error("platform stopped", "platform", name, "wait", wait, "error", err)
		}
		s.mu.Lock()
		s.refused[name] = fmt.Errorf("%w; trying again every few minutes", err)
		s.mu.Unlock()
		if s.remake == nil || !sleep(ctx, wait) {
			return
		}
		if p = s.remake(name); p == nil {
			return
		}
		// Replace waits for this function before it changes the map.
		s.mu.Lock()
		s.platforms[name] = p
		s.mu.Unlock()
	}
}

// sleep waits for d. It returns false where ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Replace disconnects a platform and connects another in its place; nil: none.
func (s *Set) Replace(name string, p chat.Platform) {
	s.mu.Lock()
	old := s.running[name]
	s.mu.Unlock()
	// The old connection ends before the new one begins, because two at a time would receive every message twice. The
	// lock is not held, because ending calls back.
	if old != nil {
		old.stop()
		<-old.done
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.platforms, name)
	delete(s.running, name)
	delete(s.refused, name)
	if p == nil {
		return
	}
	s.platforms[name] = p
	if s.connect != nil {
		s.connect(name, p)
	}
}

// Health returns the evidence of each platform, sorted by name.
func (s *Set) Health() []Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Health{}
	for _, name := range slices.Sorted(maps.Keys(s.platforms)) {
		list = append(list, Health{name, s.healthLocked(name)})
	}
	return list
}

// healthLocked returns the health of a platform; s's lock is held. A refusal counts until the
// platform reports that it is connected.
func (s *Set) healthLocked(name string) chat.Health {
	health := chat.Health{Connected: s.refused[name] == nil}
	if r, ok := s.platforms[name].(chat.Reporter); ok {
		health = r.Health()
	}
	switch err := s.refused[name]; {
	case err != nil && health.Connected: // a later attempt was taken
		delete(s.refused, name)
	case err != nil:
		health.Detail = err.Error()
	}
	return health
}

// How often WaitReady looks: often while connecting usually succeeds, then less.
const (
	readyInterval     = 5 * time.Millisecond
	readyIntervalLate = 250 * time.Millisecond
	readyLateAfter    = 2 * time.Second
)

// WaitReady returns when every platform has connected or was refused, with the names of
// both, separated by commas; ok is false when ctx ends before.
func (s *Set) WaitReady(ctx context.Context) (connected, refused string, ok bool) {
	begin := time.Now()
	for {
		var up, down []string
		waiting := false
		s.mu.Lock()
		for _, name := range slices.Sorted(maps.Keys(s.platforms)) {
			switch {
			case s.healthLocked(name).Connected:
				up = append(up, name)
			case s.refused[name] != nil:
				down = append(down, name)
			default:
				waiting = true
			}
		}
		s.mu.Unlock()
		if !waiting {
			return strings.Join(up, ","), strings.Join(down, ","), true
		}
		interval := readyInterval
		if time.Since(begin) > readyLateAfter {
			interval = readyIntervalLate
		}
		select {
		case <-ctx.Done():
			return "", "", false
		case <-time.After(interval):
		}
	}
}
