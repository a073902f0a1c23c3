package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/chat"
)

// Bounds of catching up.
const (
	longestCatchUp = 30 * 24 * time.Hour
	mostMissed     = 1000 // messages of one conversation
	missedPage     = 200
	// Waits after a failed read: between any two, and of the same gap at most.
	failPause   = time.Second
	longestWait = time.Minute
	// busyPause is the wait before a message is offered again that there was no room for.
	busyPause = 2 * time.Second
)

// tally is what one round of catching up did.
type tally struct{ conversations, messages, unreadable int }

// catchUp reads what was missed whenever that may be something, until ctx ends.
// It makes one call at a time.
func (s *Slack) catchUp(ctx context.Context) {
	var done tally
	for ctx.Err() == nil {
		if s.missed.unknown() {
			s.missed.known(s.gaps(ctx))
		}
		g, at := s.missed.next(s.o.Now())
		switch {
		case g != nil:
			s.settle(ctx, g, &done)
		case at.IsZero():
			if done != (tally{}) {
				s.o.Log.Info("caught up", "platform", s.Name(), "conversations", done.conversations, "messages", done.messages,
					"unreadable", done.unreadable)
				done = tally{}
			}
			select {
			case <-s.missed.wake:
			case <-ctx.Done():
			}
		default:
			s.sleep(ctx, at.Sub(s.o.Now()))
		}
	}
}

// sleep waits for a time, or until there may be other work.
func (s *Slack) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.missed.wake:
	case <-ctx.Done():
	}
}

// gaps asks for the conversations to be read until it is told. Channels come
// first. Of a channel nothing is read from before a thread in it that the bot
// knows: it has seen the thread begin.
func (s *Slack) gaps(ctx context.Context) []*gap {
	var heard []chat.Heard
	for wait := failPause; ; wait = min(2*wait, longestWait) {
		var err error
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		heard, err = s.o.Heard(limited)
		cancel()
		if err == nil {
			break
		}
		s.o.Log.Error("conversations to catch up with not read, trying again", "wait", wait, "error", err)
		if !pause(ctx, wait) {
			return nil
		}
	}
	since := s.o.Now().Add(-min(s.o.CatchUp, longestCatchUp))
	bound := stampOf(since)
	recent := map[*gap]bool{} // something was taken there lately, whatever Slack's clock says
	var channels, threads []*gap
	byChannel := map[string]*gap{}
	for _, h := range heard {
		at := h.Conversation
		if at.Platform != s.Name() || at.Channel == "" {
			continue
		}
		top := byChannel[at.Channel]
		if top == nil {
			top = &gap{place: place{at.Channel, ""}, team: at.Workspace, filled: make(chan struct{})}
			byChannel[at.Channel] = top
			channels = append(channels, top)
		}
		lately := h.At.After(since)
		recent[top] = recent[top] || lately
		if at.Thread == "" {
			top.oldest = max(top.oldest, stamp(h.Message))
			continue
		}
		top.oldest = max(top.oldest, stamp(at.Thread))
		in := &gap{place: place{at.Channel, at.Thread}, team: at.Workspace, oldest: stamp(h.Message), filled: make(chan struct{})}
		recent[in] = lately
		threads = append(threads, in)
	}
	all := append(channels, threads...)
	for _, g := range all {
		if !recent[g] || g.oldest == "" {
			g.oldest = max(g.oldest, bound)
		}
	}
	return all
}

// settle reads a gap and decides what becomes of it.
func (s *Slack) settle(ctx context.Context, g *gap, done *tally) {
	n, err := s.regain(ctx, g)
	done.messages += n
	switch {
	case err == nil:
		done.conversations++
		s.missed.fill(g)
	case forGood(err):
		done.unreadable++
		s.deaf(g.channel, err)
		s.missed.fill(g)
		s.missed.leave(g.channel)
	default:
		wait := min(failPause<<min(g.failed, 6), longestWait)
		if ctx.Err() == nil {
			s.o.Log.Warn("missed messages not read, trying again", "channel", g.channel, "wait", wait, "error", err)
		}
		s.missed.later(g, s.o.Now().Add(wait))
		pause(ctx, failPause)
	}
}

// deaf tells the operator, once, of a channel that the bot may not read.
func (s *Slack) deaf(channel string, err error) {
	if known, _ := s.unread.change(channel, func(bool, bool) bool { return true }); known {
		return
	}
	remedy := remedies[code(err)]
	if remedy == "" {
		remedy = "give the bot access to the channel, or take the channel out of its configuration"
	}
	s.o.Log.Warn("channel cannot be read to catch up", "channel", channel, "error", err, "remedy", remedy)
}

// regain reads what a gap holds and hands it over, oldest first. It counts the
// messages that were taken, and begins behind them when it is called again.
func (s *Slack) regain(ctx context.Context, g *gap) (n int, err error) {
	messages, err := s.history(ctx, g.place, g.oldest)
	if err != nil {
		return 0, err
	}
	answered := s.answered(g.team, messages)
	roots := map[string]bool{}
	for _, m := range messages {
		roots[m.TS] = m.ThreadTS == m.TS
	}
	for _, m := range messages {
		reply := m.ThreadTS != "" && m.ThreadTS != m.TS
		if g.thread == "" && reply && (roots[m.ThreadTS] || s.missed.has(place{g.channel, m.ThreadTS})) {
			continue // also shown in the channel, but read with its thread
		}
		found := []inner{m}
		if g.thread == "" && roots[m.TS] && m.ReplyCount > 0 {
			replies, err := s.history(ctx, place{g.channel, m.TS}, m.TS)
			if err != nil {
				return n, err
			}
			found = append(found, replies...)
		}
		inThread := s.answered(g.team, found)
		found = slices.DeleteFunc(found, func(one inner) bool { return answered(one) || inThread(one) })
		taken, err := s.offer(ctx, g.team, found)
		n += taken
		if err != nil {
			return n, err
		}
		g.oldest = m.TS
	}
	return n, nil
}

// offer hands messages over, each as often as there is no room for it, and counts
// those that people wrote.
func (s *Slack) offer(ctx context.Context, team string, messages []inner) (n int, err error) {
	for _, one := range messages {
		m, ok := s.said(team, one)
		if !ok {
			continue
		}
		m.Missed = true
		for {
			err := s.accept(ctx, m)
			if err == nil {
				break
			}
			if !errors.Is(err, chat.ErrBusy) || !pause(ctx, busyPause) {
				return n, fmt.Errorf("store the missed message %s: %w", m.ID, err)
			}
		}
		n++
	}
	return n, nil
}

// history reads the messages of a place after a timestamp, oldest first; of a
// thread only the replies.
func (s *Slack) history(ctx context.Context, at place, oldest string) ([]inner, error) {
	var all []inner
	whole, err := read(ctx, s.patient, passage{channel: at.channel, thread: at.thread, oldest: oldest, pageSize: missedPage}, func(page []inner) bool {
		all = append(all, page...)
		return len(all) < mostMissed
	})
	switch {
	case code(err) == "thread_not_found":
		return nil, nil
	case err != nil:
		return nil, err
	case !whole:
		s.o.Log.Warn("more was missed than is read", "channel", at.channel, "thread", at.thread, "messages", len(all))
	}
	all = slices.DeleteFunc(all, func(m inner) bool { return m.TS == at.thread })
	slices.SortStableFunc(all, func(a, b inner) int { return strings.Compare(a.TS, b.TS) })
	return all, nil
}

// patient asks for a page as often as Slack says that it was too soon.
func (s *Slack) patient(ctx context.Context, p passage, cursor string) ([]inner, string, error) {
	for {
		messages, next, err := s.page(ctx, p, cursor)
		wait := retryAfter(err)
		if wait == 0 || !pause(ctx, wait) {
			return messages, next, err
		}
	}
}

// answered tells which messages have a reply of the bot among those read: a store
// that was lost must not answer them again.
func (s *Slack) answered(team string, messages []inner) func(inner) bool {
	keys, stamps := map[string]bool{}, map[string]bool{}
	for _, m := range messages {
		if l, ok := labelOf(m); ok && s.posted(m) {
			keys[l.Key] = true
			for _, ts := range strings.Fields(l.Answers) {
				stamps[ts] = true
			}
		}
	}
	return func(m inner) bool {
		asked := chat.Message{ID: identity(team, m.Channel, m.TS), Conversation: chat.Address{Platform: s.Name()}}
		return stamps[m.TS] || keys[shortKey(asked.Key())] || slices.Contains(m.ReplyUsers, s.self.user)
	}
}
