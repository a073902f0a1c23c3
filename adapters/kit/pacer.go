package kit

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Pacer returns requests their turn: one at a time and in order within a key, not before the
// time that the platform named for the key or for all requests, and no more a second than it
// takes. The zero value only keeps the order. It is safe for use by several goroutines.
type Pacer struct {
	// Every is the time between requests at the steady rate, 0: there is no such limit.
	// Burst is how far ahead of that rate requests may be.
	Every, Burst time.Duration
	// Learn keeps the requests of a key apart after a refusal, by a gap that grows with each
	// further one and shrinks while requests are taken. It is for platforms that do not say
	// at which pace they take requests.
	Learn bool

	mu    sync.Mutex
	among int       // how many processes share the rate; 0: this one has it alone
	all   time.Time // no request before
	slot  time.Time // when the next request is due at the steady rate
	lines map[string]*line
	swept time.Time
}

// line is the requests of one key. It is forgotten when nobody stands in it and nothing needs
// to be remembered of it, so that keys that are used once do not pile up.
type line struct {
	turn  chan struct{} // holds an element while a request is under way
	users int
	next  time.Time     // no request before
	gap   time.Duration // learnt
}

// Rules of the gap that is learnt, and of forgetting.
const (
	gapStep    = 250 * time.Millisecond // more with each refusal
	maxGap     = 2 * time.Second
	minGap     = 50 * time.Millisecond // less is none
	gapShrink  = 32                    // a part of so many less with each request taken
	gapLife    = time.Minute           // without requests
	sweepEvery = time.Minute
)

// MaxRest is how long a platform is left alone at most, whatever it asks for: a wrong number must not silence the bot
// for good. What it asks for next is heard again.
const MaxRest = time.Hour

// WaitError says that a turn would come only after the caller's deadline.
type WaitError struct{ After time.Duration }

func (e *WaitError) Error() string {
	return fmt.Sprintf("rate limited for another %v", e.After.Round(time.Millisecond))
}

// Turn is the right to send one request; it must be given back by Leave.
type Turn struct {
	p    *Pacer
	key  string
	line *line
	free bool
}

// Enter waits for a turn. A free request knows no limit but that of its key. Where the turn
// would come after ctx's deadline Enter returns a *WaitError at once.
func (p *Pacer) Enter(ctx context.Context, key string, free bool) (Turn, error) {
	p.mu.Lock()
	if p.lines == nil {
		p.lines = map[string]*line{}
	}
	l := p.lines[key]
	if l == nil {
		l = &line{turn: make(chan struct{}, 1)}
		p.lines[key] = l
	}
	l.users++
	p.mu.Unlock()
	t := Turn{p: p, key: key, line: l, free: free}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		t.forget()
		return t, ctx.Err()
	}
	// The turn is held during the wait, so that those behind it keep their order.
	for {
		pause := p.claim(l, free)
		if pause == 0 {
			return t, nil
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < pause {
			t.giveUp()
			return t, &WaitError{After: pause}
		}
		if !Sleep(ctx, pause) {
			t.giveUp()
			return t, ctx.Err()
		}
	}
}

// Share has this process take an equal part of the steady rate, which n processes share.
func (p *Pacer) Share(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.among = n
}

// claim takes a slot, or returns how long to wait before asking again.
func (p *Pacer) claim(l *line, free bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if pause := l.next.Sub(now); pause > 0 || free {
		return max(pause, 0)
	}
	if pause := p.all.Sub(now); pause > 0 {
		return pause
	}
	if p.Every == 0 {
		return 0
	}
	// A time without requests saves up no more than Burst.
	if p.slot.Before(now) {
		p.slot = now
	}
	if pause := p.slot.Sub(now) - p.Burst; pause > 0 {
		return pause
	}
	// Burst is a time, so that fewer requests fit into it, too.
	p.slot = p.slot.Add(p.Every * time.Duration(max(p.among, 1)))
	return 0
}

// Leave ends a turn whose request was sent. Rest is how long the platform wants to be left
// alone with requests of this key or, where all is set, with any.
func (t Turn) Leave(rest time.Duration, all bool) {
	t.p.mu.Lock()
	now := time.Now()
	switch {
	// A free request is outside of the limit on all, and must not hold up the others.
	case all && !t.free:
		if until := now.Add(rest); until.After(t.p.all) {
			t.p.all = until
		}
	case t.p.Learn:
		t.line.learn(now, rest)
	case rest > 0:
		t.line.next = now.Add(rest)
	}
	t.p.mu.Unlock()
	t.giveUp()
}

// learn takes note of how a request went: refused for a time, or taken. Where nothing was
// sent for a while what was learnt no longer counts.
func (l *line) learn(now time.Time, refused time.Duration) {
	if now.Sub(l.next) > gapLife {
		l.gap = 0
	}
	switch {
	case refused > 0:
		l.gap = min(l.gap+gapStep, maxGap)
	case l.gap < minGap:
		l.gap = 0
	default:
		l.gap -= l.gap / gapShrink
	}
	if pause := max(refused, l.gap); pause > 0 {
		l.next = now.Add(pause)
	}
}

// giveUp lets the next in line have its turn.
func (t Turn) giveUp() {
	<-t.line.turn
	t.forget()
}

// forget drops the line if it is of no more use, and now and then all that are not.
func (t Turn) forget() {
	p := t.p
	p.mu.Lock()
	defer p.mu.Unlock()
	t.line.users--
	now := time.Now()
	if t.line.isIdle(now) {
		delete(p.lines, t.key)
	}
	if now.Sub(p.swept) < sweepEvery {
		return
	}
	p.swept = now
	for key, l := range p.lines {
		if l.isIdle(now) {
			delete(p.lines, key)
		}
	}
}

// isIdle reports whether a line can be forgotten: nobody waits in it, and a new one would let the
// next request through no sooner.
func (l *line) isIdle(now time.Time) bool {
	keep := l.next
	if l.gap > 0 {
		keep = keep.Add(gapLife)
	}
	return l.users == 0 && !keep.After(now)
}

// Rest returns how long requests of a key have to wait; 0: not at all.
func (p *Pacer) Rest(key string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lines[key]
	if l == nil {
		return 0
	}
	return max(0, time.Until(l.next))
}

// Len returns how many keys are remembered.
func (p *Pacer) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.lines)
}
