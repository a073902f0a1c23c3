package feed

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// hosts lets one request at a time to each host.
type hosts struct {
	mu    sync.Mutex
	known map[string]*host
}

type host struct {
	turn  chan struct{}
	users int       // who hold the turn or wait for it
	asked time.Time // when Poll last asked it
	until time.Time // before which it wants no requests
}

// mostHosts that nobody waits for are remembered.
const mostHosts = 1000

// turn is the sole right to ask a host.
type turn struct {
	all  *hosts
	name string
	*host
}

// enter waits for the host's turn, which is to be left again.
func (l *hosts) enter(ctx context.Context, name string) (*turn, error) {
	l.mu.Lock()
	h := l.known[name]
	if h == nil {
		h = &host{turn: make(chan struct{}, 1)}
		l.known[name] = h
	}
	h.users++
	l.mu.Unlock()
	t := &turn{l, name, h}
	select {
	case h.turn <- struct{}{}:
		return t, nil
	case <-ctx.Done():
		t.forget()
		return nil, ctx.Err()
	}
}

func (t *turn) leave() {
	<-t.host.turn
	t.forget()
}

// forget drops what is known of a host that nobody asks, where it is of no use.
func (t *turn) forget() {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	t.users--
	if t.users == 0 && (t.asked.IsZero() && t.until.IsZero() || len(t.all.known) > mostHosts) {
		delete(t.all.known, t.name)
	}
}

// closed notes until when the host wants no requests.
func (t *turn) closed(until time.Time) { t.until = until }

// pause waits until the host may be asked for another of its feeds. A host that
// told one feed to wait is not asked for others meanwhile: now is held against that.
func (t *turn) pause(ctx context.Context, gap time.Duration, now time.Time) error {
	if now.Before(t.until) {
		return &WaitError{t.name, t.until}
	}
	if gap <= 0 {
		return nil
	}
	if wait := gap/2 + rand.N(gap) - time.Since(t.asked); wait > 0 && !t.asked.IsZero() {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	t.asked = time.Now()
	return nil
}
