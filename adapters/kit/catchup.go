package kit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
)

// Rules of catching up.
const (
	firstPause = time.Second // after a failure; each further one doubles it
	maxPause   = time.Minute
	listWithin = 30 * time.Second
	// busyPause is the wait before a message is offered again that there was no room for.
	busyPause = 2 * time.Second
)

// Gap is a place with messages that the bot may have missed.
type Gap struct {
	Key   string       // of the place; whoever Waits names it
	At    chat.Address // where it is
	After string       // id of the last message that needs no reading
	// NotBefore is when it may be read at the earliest.
	NotBefore time.Time

	filled chan struct{} // closed when messages may pass
	failed int
}

// CatchUp knows what is still to be read of what was said while the bot was away, and lets
// live messages wait for what came before them. A nil CatchUp has nothing to read.
type CatchUp struct {
	Platform string
	Readers  int // gaps that are read at the same time; 0: one
	// List returns the gaps there are. It is asked again after an error.
	List func(ctx context.Context) ([]*Gap, error)
	// Read reads a gap, hands over what it holds and returns how many messages that were. It calls
	// Advance as messages are safe, so that another attempt begins behind them.
	Read func(ctx context.Context, g *Gap) (messages int, err error)
	// IsFinal tells whether an error means that the gap can never be read. It tells the
	// operator; all other errors are logged here, and the gap is read again.
	IsFinal func(g *Gap, err error) bool
	// RetryAfter returns how long the platform wants to be left alone after an error; may be nil.
	RetryAfter func(error) time.Duration
	Log        *slog.Logger
	Now        func() time.Time

	mu      sync.Mutex
	asking  chan struct{} // closed when the gaps are known; nil: they are
	queue   []*Gap        // next first, without those that are being read
	open    map[string]*Gap
	changed chan struct{} // closed and replaced when there may be something to do
	done    tally
}

// tally is what was done since there was nothing to do.
type tally struct{ conversations, messages, unreadable int }

// Begin says that there may be gaps. Live messages wait until they are known.
func (c *CatchUp) Begin() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking == nil {
		c.asking = make(chan struct{})
	}
	c.announce()
}

// announce wakes the readers. The lock is held.
func (c *CatchUp) announce() {
	if c.changed != nil {
		close(c.changed)
	}
	c.changed = make(chan struct{})
}

// Run reads gaps until ctx ends.
func (c *CatchUp) Run(ctx context.Context) {
	if c == nil {
		return
	}
	var readers sync.WaitGroup
	defer readers.Wait()
	for range max(c.Readers, 1) {
		readers.Go(func() {
			for {
				g := c.take(ctx)
				if g == nil {
					return
				}
				c.fill(ctx, g)
			}
		})
	}
	for c.awaitOutage(ctx) {
		if gaps, ok := c.list(ctx); ok {
			c.known(gaps)
		}
	}
}

// awaitOutage waits until the gaps have to be asked for; false: ctx ended first.
func (c *CatchUp) awaitOutage(ctx context.Context) bool {
	for {
		c.mu.Lock()
		asking, changed := c.asking != nil, c.waitChange()
		c.mu.Unlock()
		if ctx.Err() != nil {
			return false
		}
		if asking {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// waitChange returns what is closed at the next change. The lock is held.
func (c *CatchUp) waitChange() <-chan struct{} {
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// list asks for the gaps until there is an answer: whatever passed before could make the
// store forget where they begin.
func (c *CatchUp) list(ctx context.Context) ([]*Gap, bool) {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		limited, cancel := context.WithTimeout(ctx, listWithin)
		gaps, err := c.List(limited)
		cancel()
		if err == nil {
			return gaps, true
		}
		if ctx.Err() != nil {
			return nil, false
		}
		c.Log.Error("failed to list conversations to catch up with; retrying",
			"platform", c.Platform, "wait", pause, "error", err)
		if !Sleep(ctx, pause) {
			return nil, false
		}
	}
}

// known ends an outage with the gaps that it left. A place that still has one is read from
// where that one begins, and once more where it is being read just now.
func (c *CatchUp) known(gaps []*Gap) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range gaps {
		if former := c.open[g.Key]; former != nil {
			g.After = older(g.After, former.After)
			if slices.Contains(c.queue, former) {
				former.After = g.After
				continue
			}
		}
		c.add(g)
	}
	close(c.asking)
	c.asking = nil
	c.announce()
}

// add opens a gap and queues it to be filled; c's lock is held.
func (c *CatchUp) add(g *Gap) {
	g.filled = make(chan struct{})
	if c.open == nil {
		c.open = map[string]*Gap{}
	}
	c.open[g.Key] = g
	c.queue = append(c.queue, g)
}

// older returns the older of two ids: on every platform a later id is longer, or as long and
// greater. An empty one is the oldest.
func older(a, b string) string {
	if cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) < 0 {
		return a
	}
	return b
}

// Add makes further gaps known. Those whose places have one are left out.
func (c *CatchUp) Add(gaps []*Gap) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range gaps {
		if c.open[g.Key] == nil {
			c.add(g)
		}
	}
	c.announce()
}

// Advance notes that everything up to a message of a gap that is being read is safe.
func (c *CatchUp) Advance(g *Gap, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g.After = message
}

// Hasten lets the chosen gaps be read at once, unless reading them has failed.
func (c *CatchUp) Hasten(chosen func(*Gap) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.queue {
		if g.failed == 0 && chosen(g) {
			g.NotBefore = time.Time{}
		}
	}
	c.announce()
}

// Drop ends the chosen gaps unread, apart from those that are being read.
func (c *CatchUp) Drop(chosen func(*Gap) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = slices.DeleteFunc(c.queue, func(g *Gap) bool {
		if !chosen(g) {
			return false
		}
		delete(c.open, g.Key)
		close(g.filled)
		return true
	})
}

// take waits for a gap to read; nil: ctx ended first.
func (c *CatchUp) take(ctx context.Context) *Gap {
	for ctx.Err() == nil {
		c.mu.Lock()
		// Both under one lock: a gap that is added after the look closes the channel that is waited for.
		g, at := c.next(c.Now())
		changed := c.waitChange()
		c.mu.Unlock()
		if g != nil {
			return g
		}
		var due <-chan time.Time
		stop := func() bool { return true }
		if !at.IsZero() {
			timer := time.NewTimer(at.Sub(c.Now()))
			due, stop = timer.C, timer.Stop
		}
		select {
		case <-due:
		case <-changed:
		case <-ctx.Done():
		}
		stop()
	}
	return nil
}

// next takes the gap to be read next. Where none is ready it returns the time at which one
// will be; zero: there is none at all. The lock is held.
func (c *CatchUp) next(now time.Time) (*Gap, time.Time) {
	var soonest time.Time
	for i, g := range c.queue {
		if !g.NotBefore.After(now) {
			c.queue = slices.Delete(c.queue, i, i+1)
			return g, time.Time{}
		}
		if soonest.IsZero() || g.NotBefore.Before(soonest) {
			soonest = g.NotBefore
		}
	}
	return nil, soonest
}

// fill reads a gap and decides what becomes of it.
func (c *CatchUp) fill(ctx context.Context, g *Gap) {
	n, err := c.Read(ctx, g)
	switch {
	// The gap stays open: what stands behind it must not pass before it was read.
	case ctx.Err() != nil:
	case err == nil:
		c.end(g, tally{conversations: 1, messages: n})
	case c.IsFinal(g, err):
		c.end(g, tally{messages: n, unreadable: 1})
	default:
		pause := min(firstPause<<min(g.failed, 6), maxPause)
		if c.RetryAfter != nil {
			pause = max(pause, c.RetryAfter(err))
		}
		c.Log.Warn("failed to read missed messages; retrying",
			"platform", c.Platform, "conversation", g.At.String(), "wait", pause, "error", err)
		c.retry(g, n, c.Now().Add(pause))
		// What fails in one place often fails in all: one attempt a second is enough.
		Sleep(ctx, firstPause)
	}
}

// retry puts a gap back that could not be read.
func (c *CatchUp) retry(g *Gap, messages int, notBefore time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done.messages += messages
	g.failed++
	g.NotBefore = notBefore
	if c.open[g.Key] == g {
		c.queue = append(c.queue, g)
	} else {
		close(g.filled) // another one has taken its place
	}
	c.announce()
}

// end lets the messages behind a gap pass.
func (c *CatchUp) end(g *Gap, did tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[g.Key] == g {
		delete(c.open, g.Key)
	}
	close(g.filled)
	c.done.conversations += did.conversations
	c.done.messages += did.messages
	c.done.unreadable += did.unreadable
	if len(c.open) == 0 && c.asking == nil {
		c.Log.Info("caught up", "platform", c.Platform, "conversations", c.done.conversations,
			"messages", c.done.messages, "unreadable", c.done.unreadable)
		c.done = tally{}
	}
}

// Has reports whether a place has a gap of its own.
func (c *CatchUp) Has(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[key] != nil
}

// IsBehind reports whether something is not read yet, or may not be.
func (c *CatchUp) IsBehind() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asking != nil || len(c.open) > 0
}

// Len returns how many places are not read yet.
func (c *CatchUp) Len() int {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// Wait returns when nothing is missing any more in the places with these keys, or ctx ends.
// What it waits for is read before all else.
func (c *CatchUp) Wait(ctx context.Context, keys ...string) {
	for c != nil {
		filled := c.before(keys)
		if filled == nil {
			return
		}
		select {
		case <-filled:
		case <-ctx.Done():
			return
		}
	}
}

// before returns what messages of places have to wait for; nil: nothing.
func (c *CatchUp) before(keys []string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking != nil {
		return c.asking
	}
	var first *Gap
	for _, key := range keys {
		g := c.open[key]
		if g == nil {
			continue
		}
		first = g
		if i := slices.Index(c.queue, g); i > 0 {
			c.queue = slices.Insert(slices.Delete(c.queue, i, i+1), 0, g)
		}
	}
	if first == nil {
		return nil
	}
	// One is enough: Wait looks again when it is filled.
	return first.filled
}

// AcceptMissed hands over a message that was read or brought afterwards, again and again where there is
// no room for it: unlike one that is live it can wait.
func AcceptMissed(ctx context.Context, accept func(context.Context, chat.Message) error, m chat.Message) error {
	m.Missed = true
	for {
		err := accept(ctx, m)
		if err == nil {
			return nil
		}
		if !errors.Is(err, chat.ErrBusy) || !Sleep(ctx, busyPause) {
			return fmt.Errorf("store the missed message %s: %w", m.ID, err)
		}
	}
}
