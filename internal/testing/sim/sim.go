// Package sim is the common part of the simulated services: an HTTP server that listens on loopback, records every
// request and fails on demand, and a lock whose changes can be waited for. Each service is a package below.
//
// The services speak the documented wire protocols over real sockets, and know nothing of the program under test. All
// methods are safe for concurrent use. Observers wait with a context and never sleep. All state is in memory until
// Close.
package sim

import (
	"context"
	"sync"
)

// Watch is a lock whose holders announce their changes, so that others can wait for a condition under it. The zero
// value is ready to use.
type Watch struct {
	mu      sync.Mutex
	changed chan struct{}
}

// Lock takes the lock.
func (w *Watch) Lock() { w.mu.Lock() }

// Unlock releases the lock without waking anyone.
func (w *Watch) Unlock() { w.mu.Unlock() }

// Release releases the lock after a change and wakes those that wait.
func (w *Watch) Release() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
	w.mu.Unlock()
}

// Wait returns nil once holds, called under the lock, is true, or ctx's error. holds must not take the lock itself.
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
		// Taken under the lock, so that no change between the check and the wait is missed.
		changed := w.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
