package replica_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/ops/replica"
	"ravenbot/internal/store"
)

// numbers is a store that others change.
type numbers struct {
	mu     sync.Mutex
	n      map[string]int64
	failed error
	looks  int
	notice chan struct{}
}

func (n *numbers) Changed() <-chan struct{} { return n.notice }

func (n *numbers) Changes(context.Context) (map[string]int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.looks++
	list := map[string]int64{}
	for kind, number := range n.n {
		list[kind] = number
	}
	return list, n.failed
}

func (n *numbers) change(kind string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.n[kind]++
	n.failed = err
}

// part counts its reloads.
type part struct {
	kinds []string
	count atomic.Int64
	do    func() error
}

func (p *part) SharedKinds() []string { return p.kinds }

func (p *part) Reload(context.Context) error {
	p.count.Add(1)
	if p.do != nil {
		return p.do()
	}
	return nil
}

// watching runs Watch until the test ends. later lets a time pass.
func watching(t *testing.T, db any, log *slog.Logger, parts ...store.Shared) (later func(time.Duration)) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		replica.Watch(ctx, db, log, parts...)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return func(d time.Duration) {
		time.Sleep(d) // of the clock of the bubble
		synctest.Wait()
	}
}

func TestWatch_ReloadsWhatOthersHaveChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &numbers{n: map[string]int64{}}
		settings, jobs := &part{kinds: []string{"settings"}}, &part{kinds: []string{"job", "hook"}}
		later := watching(t, s, slog.New(slog.DiscardHandler), settings, jobs)
		check := func(when string, wantSettings, wantJobs int64) {
			t.Helper()
			if settings.count.Load() != wantSettings || jobs.count.Load() != wantJobs {
				t.Errorf("%s: %d and %d reloads, want %d and %d", when, settings.count.Load(), jobs.count.Load(),
					wantSettings, wantJobs)
			}
		}
		later(time.Minute)
		check("nothing was changed since the start", 1, 1)
		s.change("settings", nil)
		s.change("settings", nil)
		later(time.Second)
		check("settings were changed twice", 2, 1)
		s.change("job", nil)
		s.change("hook", nil)
		s.change("memory", nil)
		later(time.Second)
		check("jobs were changed", 2, 2)
	})
}

func TestWatch_ToldOfChanges_LooksSoonAndOnceForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := &numbers{n: map[string]int64{}, notice: make(chan struct{})}, &part{kinds: []string{"job"}}
		later := watching(t, s, slog.New(slog.DiscardHandler), p)
		later(10 * time.Millisecond) // behind the first look, and long before the second one
		s.change("job", nil)
		s.notice <- struct{}{}
		later(100 * time.Millisecond)
		if p.count.Load() != 2 {
			t.Errorf("%d reloads", p.count.Load())
		}
		before := s.looks
		for began := time.Now(); time.Since(began) < time.Second; {
			s.change("job", nil)
			s.notice <- struct{}{}
		}
		if looks := s.looks - before; looks > 30 {
			t.Errorf("%d looks in a second", looks)
		}
	})
}

func TestWatch_TroubleIsLoggedOnceAndPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var fails atomic.Bool
		fails.Store(true)
		s, p := &numbers{n: map[string]int64{}}, &part{kinds: []string{"job"}}
		p.do = func() error {
			if fails.Load() {
				return errors.New("no answer")
			}
			return nil
		}
		later := watching(t, s, slog.New(slog.NewTextHandler(&log, nil)), p)
		later(3 * time.Second)
		if p.count.Load() < 4 {
			t.Errorf("a reload that fails was tried %d times in 3 seconds", p.count.Load())
		}
		fails.Store(false)
		later(time.Second)
		was := p.count.Load()
		s.change("job", errors.New("no answer"))
		later(3 * time.Second)
		if p.count.Load() != was {
			t.Error("reloaded although the numbers cannot be read")
		}
		s.change("", nil)
		later(time.Second)
		if p.count.Load() != was+1 {
			t.Errorf("%d reloads after the store is back, want 1", p.count.Load()-was)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 2 {
			t.Errorf("%d lines in the log, want one for each trouble:\n%s", lines, log.String())
		}
	})
}

// A large part that changes all the time leaves room for the rest.
func TestWatch_SlowReloadsRestAndHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, slow, quick := &numbers{n: map[string]int64{}}, &part{kinds: []string{"job"}}, &part{kinds: []string{"job"}}
		slow.do = func() error { time.Sleep(2 * time.Second); return nil }
		later := watching(t, s, slog.New(slog.DiscardHandler), slow, quick)
		for range 100 {
			s.change("job", nil)
			later(time.Second)
		}
		if slow.count.Load() > 4 || slow.count.Load() < 2 || quick.count.Load() < 99 {
			t.Errorf("in 100 seconds of changes %d slow reloads and %d quick ones", slow.count.Load(), quick.count.Load())
		}
	})
}

func TestWatch_AStoreOfOneProcessIsLeftAlone(t *testing.T) {
	p := &part{kinds: []string{"job"}}
	replica.Watch(t.Context(), struct{}{}, slog.New(slog.DiscardHandler), p)
	if p.count.Load() != 0 {
		t.Error("reloaded")
	}
}
