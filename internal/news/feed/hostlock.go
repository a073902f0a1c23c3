package feed

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// hostLocks lets callers make one request at a time to each host.
type hostLocks struct {
	mu     sync.Mutex
	byName map[string]*host
}

// host is a host with those who hold its lock or wait for it. hostLocks.mu guards users; the other
// fields belong to whoever holds the lock.
type host struct {
	lock         chan struct{} // holds an element while somebody has the lock
	users        int           // who hold the turn or wait for it
	lastPoll     time.Time     // when Poll last made a request
	blockedUntil time.Time     // before this time the host wants no requests
	blockedBy    string        // the address of which it said so
}

// hostLock is the right to make requests to a host, until release, which is called once.
type hostLock struct {
	all  *hostLocks
	name string
	*host
}

// acquire waits for the lock of a host. It returns ctx's error when ctx ends first.
func (l *hostLocks) acquire(ctx context.Context, name string) (*hostLock, error) {
	l.mu.Lock()
	h := l.byName[name]
	if h == nil {
		h = &host{lock: make(chan struct{}, 1)}
		l.byName[name] = h
	}
	// Counted before waiting, so that dropIfIdle does not remove a host that somebody waits for.
	h.users++
	l.mu.Unlock()
	t := &hostLock{l, name, h}
	select {
	case h.lock <- struct{}{}:
		return t, nil
	case <-ctx.Done():
		t.dropIfIdle()
		return nil, ctx.Err()
	}
}

// release lets the next caller make a request to the host.
func (t *hostLock) release() {
	// Unlock first: whoever waits holds a reference that keeps the host from being dropped.
	<-t.host.lock
	t.dropIfIdle()
}

// dropIfIdle forgets a host that nobody uses and of which nothing worth keeping is known.
func (t *hostLock) dropIfIdle() {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	t.users--
	// lastPoll and blockedUntil belong to the holder of the lock. They may be read here once nobody uses the host.
	if t.users == 0 && t.lastPoll.IsZero() && t.blockedUntil.IsZero() {
		delete(t.all.byName, t.name)
	}
}

// waitForGap waits until Poll may make another request to the host. now is the Fetcher's clock; the wait itself
// follows the real clock. It returns a *WaitError where the host has asked one of its feeds to wait: that holds for
// its other feeds too.
func (t *hostLock) waitForGap(ctx context.Context, gap time.Duration, now time.Time) error {
	if now.Before(t.blockedUntil) {
		return &WaitError{t.name, t.blockedUntil, t.blockedBy}
	}
	if gap <= 0 {
		return nil
	}
	// The pause varies from half to one and a half gaps, so that polls do not fall into step with other readers.
	if wait := gap/2 + rand.N(gap) - time.Since(t.lastPoll); wait > 0 && !t.lastPoll.IsZero() {
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	t.lastPoll = time.Now()
	return nil
}
