package discord

import (
	"context"
	"slices"
	"time"

	"ravenbot/internal/chat"
)

// gap is what was said in a place before a session began and may not have been
// taken.
type gap struct {
	at     chat.Address
	after  string        // id of the last message that needs no reading
	due    time.Time     // not to be read before
	pause  time.Duration // after the next failure
	taken  bool          // somebody reads it
	behind []inbound     // said since; waits until the gap is filled
}

// gate keeps the messages of a session behind those that were missed before it.
// It is part of the queue, whose lock guards it. A nil gate is open.
type gate struct {
	listed  bool // the places are known; before that nothing passes
	gaps    []*gap
	byPlace map[string]*gap // nil: filled
	wake    chan struct{}   // has an element when something may have become due
	read    tally           // since the last gap but these was filled
}

// tally counts what was read.
type tally struct{ places, messages int }

func newGate() *gate { return &gate{byPlace: map[string]*gap{}, wake: make(chan struct{}, 1)} }

func (g *gate) open() bool { return g == nil || g.listed }

// aside takes a message whose place has a gap.
func (g *gate) aside(in inbound) bool {
	if g == nil {
		return false
	}
	o := g.byPlace[place(in.message.Conversation)]
	if o == nil {
		return false
	}
	o.behind = append(o.behind, in)
	signal(g.wake) // it is more urgent now
	return true
}

// next chooses what to read: a place where somebody waits before the others. If
// nothing is due it tells when something will be, as far as it knows.
func (g *gate) next() (*gap, time.Duration) {
	var chosen *gap
	now, pause := time.Now(), time.Hour
	for _, o := range g.gaps {
		switch {
		case o.taken:
		case o.due.After(now):
			pause = min(pause, o.due.Sub(now))
		case chosen == nil || len(chosen.behind) == 0 && len(o.behind) > 0:
			chosen = o
		}
	}
	if chosen != nil {
		chosen.taken = true
	}
	return chosen, pause
}

// shut puts a gate in the place of the present one.
func (q *queue) shut(g *gate) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gate != nil {
		for _, o := range q.gate.gaps {
			q.items = slices.Concat(o.behind, q.items)
		}
	}
	q.gate = g
}

// add makes places known in which something may have been missed; those that are
// known stay as they are. A gate that was replaced is left alone, here and below.
func (q *queue) add(g *gate, gaps []*gap) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range gaps {
		where := place(o.at)
		if _, known := g.byPlace[where]; !known && q.gate == g {
			g.byPlace[where] = o
			g.gaps = append(g.gaps, o)
		}
	}
	g.listed = true
	signal(g.wake)
	signal(q.wake)
}

// ready makes the places of a server due.
func (q *queue) ready(g *gate, guild string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, o := range g.gaps {
		if o.at.Workspace == guild && o.pause == 0 {
			o.due = time.Time{}
		}
	}
	signal(g.wake)
}

// behind counts the places that are not read yet.
func (q *queue) behind() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gate == nil {
		return 0
	}
	return len(q.gate.gaps)
}

// due waits for a gap to read; false: ctx ended.
func (q *queue) due(ctx context.Context, g *gate) (*gap, bool) {
	for {
		q.mu.Lock()
		o, pause := g.next()
		q.mu.Unlock()
		if o != nil {
			return o, true
		}
		timer := time.NewTimer(pause)
		select {
		case <-g.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, false
		}
	}
}

// retry leaves a gap to be read later, and tells after how long.
func (q *queue) retry(g *gate, o *gap, least time.Duration) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	o.pause = min(max(2*o.pause, firstPause), longestPause)
	pause := max(o.pause, least)
	o.taken, o.due = false, time.Now().Add(pause)
	signal(g.wake)
	return pause
}

// fill puts what was missed in a place before what was said there since. After
// the last gap it tells what has been read in all.
func (q *queue) fill(g *gate, o *gap, missed []inbound) (done tally, last bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gate != g {
		return tally{}, false
	}
	q.items = slices.Concat(missed, o.behind, q.items)
	q.size += len(missed)
	g.byPlace[place(o.at)] = nil
	g.gaps = slices.DeleteFunc(g.gaps, func(other *gap) bool { return other == o })
	signal(q.wake)
	g.read.places, g.read.messages = g.read.places+1, g.read.messages+len(missed)
	if len(g.gaps) > 0 {
		return tally{}, false
	}
	done, g.read = g.read, tally{}
	return done, true
}
