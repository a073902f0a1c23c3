// Package sim is the common ground of the simulated world: a front door that
// listens on loopback, writes down every request and fails on demand, and a
// lock whose changes can be waited for. The platforms stand in the folders
// beside it, one a package.
//
// They speak the wire protocols of the real services as their own documents
// give them, over real sockets, and know nothing of the program under test.
// All methods of all of them are safe for concurrent use. Whoever observes
// waits with a context and never sleeps.
//
// They hold everything in memory and forget nothing until Close: they serve
// tests and trials, not production.
package sim

import (
	"context"
	"sync"
)

// Watch is a lock whose holders announce what they changed, so that others
// can wait for a condition under it. The zero value is ready.
type Watch struct {
	mu      sync.Mutex
	changed chan struct{}
}

// Lock takes the lock.
func (w *Watch) Lock() { w.mu.Lock() }

// Unlock gives the lock back without waking anyone.
func (w *Watch) Unlock() { w.mu.Unlock() }

// Release gives the lock back after a change and wakes whoever waits.
func (w *Watch) Release() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
	w.mu.Unlock()
}

// Wait returns nil once holds, called under the lock, is true, or the
// context's error. holds must not take the lock itself.
func (w *Watch) Wait(ctx context.Context, holds func() bool) error {
	for {
		w.mu.Lock()
		if holds() {
			w.mu.Unlock()
			return nil
		}
		if w.changed == nil {
			w.changed = make(chan struct{})
		}
		changed := w.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
