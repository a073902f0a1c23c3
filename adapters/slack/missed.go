package slack

import (
	"context"
	"slices"
	"sync"
	"time"

	"ravenbot/internal/chat"
)

// shortWait is how long what Slack wants answered within three seconds may wait
// for what was missed before it.
const shortWait = 2 * time.Second

// place is a channel without its threads, or a thread.
type place struct{ channel, thread string }

// gap is a place with messages that the bot may have missed.
type gap struct {
	place
	team   string
	oldest string // timestamp of the last message that is known
	filled chan struct{}
	failed int
	after  time.Time // not to be tried before
}

// missed knows what is still to be read, and lets live messages wait for it. The
// gaps are read by one goroutine.
type missed struct {
	on   bool          // or there is never a gap
	wake chan struct{} // holds a token when there may be work

	mu     sync.Mutex
	asking chan struct{} // closed when the gaps are known; nil: they are
	queue  []*gap        // next first
	open   map[place]*gap
}

func newMissed(on bool) missed {
	return missed{on: on, wake: make(chan struct{}, 1), open: map[place]*gap{}}
}

// begin says that there may be gaps; live messages wait until they are known.
func (m *missed) begin() {
	if !m.on {
		return
	}
	m.mu.Lock()
	if m.asking == nil {
		m.asking = make(chan struct{})
	}
	m.mu.Unlock()
	m.rouse()
}

func (m *missed) rouse() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// unknown reports that the gaps have to be asked for.
func (m *missed) unknown() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asking != nil
}

// known adds the gaps there are. A place that still has one is read from where
// that one begins, and once more where it is being read just now.
func (m *missed) known(gaps []*gap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range gaps {
		if former := m.open[g.place]; former != nil {
			g.oldest = min(g.oldest, former.oldest)
			if slices.Contains(m.queue, former) {
				former.oldest = g.oldest
				continue
			}
		}
		m.open[g.place] = g
		m.queue = append(m.queue, g)
	}
	close(m.asking)
	m.asking = nil
}

// next takes the gap to be read next. Where none is ready it gives the time at
// which one will be; zero: there is none at all.
func (m *missed) next(now time.Time) (*gap, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var soonest time.Time
	for i, g := range m.queue {
		if !g.after.After(now) {
			m.queue = slices.Delete(m.queue, i, i+1)
			return g, time.Time{}
		}
		if soonest.IsZero() || g.after.Before(soonest) {
			soonest = g.after
		}
	}
	return nil, soonest
}

// later puts a gap back that could not be read.
func (m *missed) later(g *gap, after time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g.failed++
	g.after = after
	if m.open[g.place] == g {
		m.queue = append(m.queue, g)
	} else {
		close(g.filled) // another one has taken its place
	}
}

// fill ends a gap that was read, or cannot be.
func (m *missed) fill(g *gap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open[g.place] == g {
		delete(m.open, g.place)
	}
	close(g.filled)
}

// leave ends all gaps of a channel that cannot be read.
func (m *missed) leave(channel string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = slices.DeleteFunc(m.queue, func(g *gap) bool {
		if g.channel != channel {
			return false
		}
		delete(m.open, g.place)
		close(g.filled)
		return true
	})
}

// has reports whether a place has a gap of its own.
func (m *missed) has(p place) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open[p] != nil
}

// wait returns when nothing is missing before a message of a conversation any
// more, or ctx ends. What it waits for is read before all else.
func (m *missed) wait(ctx context.Context, at chat.Address) {
	for {
		filled := m.before(place{at.Channel, at.Thread})
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

// before gives what a message of a place has to wait for; nil: nothing. A thread
// waits for its channel, too, where its root may be missing.
func (m *missed) before(p place) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asking != nil {
		return m.asking
	}
	var first *gap
	for _, at := range []place{p, {p.channel, ""}} {
		g := m.open[at]
		if g == nil {
			continue
		}
		first = g
		if i := slices.Index(m.queue, g); i > 0 {
			m.queue = slices.Insert(slices.Delete(m.queue, i, i+1), 0, g)
		}
	}
	if first == nil {
		return nil
	}
	return first.filled
}
