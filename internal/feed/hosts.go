package feed

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// hostLocks lets one request at a time to each host.
type hostLocks struct {
	mu     sync.Mutex
	byName map[string]*host
}

type host struct {
	lock         chan struct{}
	users        int       // who hold the turn or wait for it
	lastPoll     time.Time // when Poll last asked it
	blockedUntil time.Time // before which it wants no requests
}

// maxIdleHosts that nobody waits for are remembered.
const maxIdleHosts = 1000

// hostLock is the sole right to ask a host.
type hostLock struct {
	all  *hostLocks
	name string
	*host
}

// acquire waits for the host's turn, which is to be left again.
func (l *hostLocks) acquire(ctx context.Context, name string) (*hostLock, error) {
	l.mu.Lock()
	h := l.byName[name]
	if h == nil {
		h = &host{lock: make(chan struct{}, 1)}
		l.byName[name] = h
	}
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

func (t *hostLock) release() {
	<-t.host.lock
	t.dropIfIdle()
}

// dropIfIdle drops what is known of a host that nobody asks, where it is of no use.
func (t *hostLock) dropIfIdle() {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	t.users--
	if t.users == 0 && (t.lastPoll.IsZero() && t.blockedUntil.IsZero() || len(t.all.byName) > maxIdleHosts) {
		delete(t.all.byName, t.name)
	}
}

// blockUntil notes until when the host wants no requests.
func (t *hostLock) blockUntil(until time.Time) { t.blockedUntil = until }

// waitForGap waits until the host may be asked for another of its feeds. A host that
// told one feed to wait is not asked for others meanwhile: now is held against that.
func (t *hostLock) waitForGap(ctx context.Context, gap time.Duration, now time.Time) error {
	if now.Before(t.blockedUntil) {
		return &WaitError{t.name, t.blockedUntil}
	}
	if gap <= 0 {
		return nil
	}
	if wait := gap/2 + rand.N(gap) - time.Since(t.lastPoll); wait > 0 && !t.lastPoll.IsZero() {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	t.lastPoll = time.Now()
	return nil
}
