package discord

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// pacer gives requests their turn: in order within a route, not before the time
// that Discord named for the route or for all, and no more a second than it
// takes from one bot.
type pacer struct {
	mu     sync.Mutex
	all    time.Time // no request before
	slot   time.Time // when the next request is due at the steady rate
	routes map[string]*route
	swept  time.Time
}

// route is a line of requests. It is forgotten when nobody stands in it and its
// rest is over, so that the routes of interactions, one each, do not pile up.
type route struct {
	turn  chan struct{} // holds an element while a request is under way
	users int
	rest  time.Time // no request before
}

// The steady rate stays below the 50 requests a second that Discord takes.
const (
	perRequest = time.Second / 45
	burst      = 20 * perRequest
	sweepEvery = time.Minute
)

func newPacer() *pacer { return &pacer{routes: map[string]*route{}} }

// limitedError says that a turn would come only after the caller's deadline.
type limitedError struct{ after time.Duration }

func (e *limitedError) Error() string {
	return fmt.Sprintf("rate limited for another %v", e.after.Round(time.Millisecond))
}

// turn is the right to send one request; it must be given back.
type turn struct {
	p     *pacer
	key   string
	route *route
	free  bool
}

// enter waits for a turn. Free requests know no limit but their route's.
func (p *pacer) enter(ctx context.Context, key string, free bool) (turn, error) {
	p.mu.Lock()
	r := p.routes[key]
	if r == nil {
		r = &route{turn: make(chan struct{}, 1)}
		p.routes[key] = r
	}
	r.users++
	p.mu.Unlock()
	t := turn{p: p, key: key, route: r, free: free}
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		t.forget()
		return t, ctx.Err()
	}
	for {
		pause := p.claim(r, free)
		if pause == 0 {
			return t, nil
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < pause {
			t.leave(0, false)
			return t, &limitedError{after: pause}
		}
		if !wait(ctx, pause) {
			t.leave(0, false)
			return t, ctx.Err()
		}
	}
}

// claim takes a slot, or tells how long to wait before asking again.
func (p *pacer) claim(r *route, free bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if pause := r.rest.Sub(now); pause > 0 || free {
		return max(pause, 0)
	}
	if pause := p.all.Sub(now); pause > 0 {
		return pause
	}
	if p.slot.Before(now) {
		p.slot = now
	}
	if pause := p.slot.Sub(now) - burst; pause > 0 {
		return pause
	}
	p.slot = p.slot.Add(perRequest)
	return 0
}

// leave ends a turn; pause is how long the route, or everything, has to rest.
func (t turn) leave(pause time.Duration, global bool) {
	t.p.mu.Lock()
	until := time.Now().Add(pause)
	if global && !t.free {
		if until.After(t.p.all) {
			t.p.all = until
		}
	} else if pause > 0 {
		t.route.rest = until
	}
	t.p.mu.Unlock()
	<-t.route.turn
	t.forget()
}

// forget drops the route if it is of no more use.
func (t turn) forget() {
	p := t.p
	p.mu.Lock()
	defer p.mu.Unlock()
	t.route.users--
	now := time.Now()
	if t.route.users == 0 && !t.route.rest.After(now) {
		delete(p.routes, t.key)
	}
	if now.Sub(p.swept) < sweepEvery {
		return
	}
	p.swept = now
	for key, r := range p.routes {
		if r.users == 0 && !r.rest.After(now) {
			delete(p.routes, key)
		}
	}
}
