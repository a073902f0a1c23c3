package slack

import (
	"context"
	"slices"
	"strings"
	"time"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// Bounds of catching up.
const (
	// maxCatchUp bounds Options.CatchUp.
	maxCatchUp = 30 * 24 * time.Hour
	maxMissed  = 1000 // messages of one conversation
	// historyPageSize is what Slack recommends at most for conversations.history.
	historyPageSize = 200
	// interactionWait is how long what Slack wants answered within three seconds may wait
	// for what was missed before it.
	interactionWait = 2 * time.Second
)

// newCatchUp returns the reader of missed messages; nil if none are to be read.
func (s *Slack) newCatchUp() *kit.CatchUp {
	if s.o.CatchUp <= 0 || s.o.LastSeen == nil {
		return nil
	}
	return &kit.CatchUp{
		Platform:   s.Name(),
		List:       s.gaps,
		Read:       s.readGap,
		IsFinal:    s.isUnreadable,
		RetryAfter: retryAfter,
		Log:        s.o.Log,
		Now:        s.o.Now,
	}
}

// awaitMissed waits until nothing is missing before a message of a conversation. A thread waits for
// its channel, too, because its first message may be missing there.
func (s *Slack) awaitMissed(ctx context.Context, at chat.Address) {
	s.missed.Wait(ctx, threadKey(at.Channel, at.Thread), threadKey(at.Channel, ""))
}

// newGap returns the gap of a channel or thread, keyed as awaitMissed asks for it.
func newGap(at chat.Address) *kit.Gap { return &kit.Gap{Key: threadKey(at.Channel, at.Thread), At: at} }

// gaps returns the conversations to be read, channels first. Of a channel nothing is read that is
// older than a thread in it that the bot knows, because the bot saw that thread begin.
func (s *Slack) gaps(ctx context.Context) ([]*kit.Gap, error) {
	heard, err := s.o.LastSeen(ctx)
	if err != nil {
		return nil, err
	}
	since := s.o.Now().Add(-min(s.o.CatchUp, maxCatchUp))
	bound := formatTimestamp(since)
	recent := map[*kit.Gap]bool{} // something was taken there lately, whatever Slack's clock says
	var channels, threads []*kit.Gap
	byChannel := map[string]*kit.Gap{}
	for _, h := range heard {
		at := h.Conversation
		if at.Platform != s.Name() || at.Channel == "" {
			continue
		}
		top := byChannel[at.Channel]
		if top == nil {
			top = newGap(at.Base())
			byChannel[at.Channel] = top
			channels = append(channels, top)
		}
		// Slack's clock and ours may differ: what was accepted recently counts as recent whatever
		// its timestamp says.
		lately := h.At.After(since)
		recent[top] = recent[top] || lately
		if at.Thread == "" {
			top.After = max(top.After, timestampOf(h.Message))
			continue
		}
		top.After = max(top.After, timestampOf(at.Thread))
		in := newGap(at)
		in.After = timestampOf(h.Message)
		recent[in] = lately
		threads = append(threads, in)
	}
	all := append(channels, threads...)
	for _, g := range all {
		if !recent[g] || g.After == "" {
			g.After = max(g.After, bound)
		}
	}
	return all, nil
}

// isUnreadable reports whether an error of reading a gap is final. Then nothing else of the
// channel is read, and the operator is told.
func (s *Slack) isUnreadable(g *kit.Gap, err error) bool {
	if !isFinal(err) {
		return false
	}
	s.reportUnreadable(g.At.Channel, err)
	s.missed.Drop(func(other *kit.Gap) bool { return other.At.Channel == g.At.Channel })
	return true
}

// reportUnreadable tells the operator once that the bot may not read a channel.
func (s *Slack) reportUnreadable(channel string, err error) {
	if known, _ := s.unreadable.Change(channel, func(bool, bool) bool { return true }); known {
		return
	}
	remedy := remedies[errorCode(err)]
	if remedy == "" {
		remedy = "give the bot access to the channel, or take the channel out of its configuration"
	}
	s.o.Log.Warn("failed to read missed slack messages", "channel", channel, "error", err, "remedy", remedy)
}

// readGap reads a gap and hands its messages over, oldest first. It returns how many were accepted; when it is called
// again it continues behind them, because g.After moves with each. It fails where Slack does not answer, or accept
// refuses a message.
func (s *Slack) readGap(ctx context.Context, g *kit.Gap) (n int, err error) {
	// The process that the channel belongs to has seen what was said there.
	if mine, err := s.owns(ctx, g.At.Channel); err != nil || !mine {
		return 0, err
	}
	messages, err := s.readHistory(ctx, g.At, g.After)
	if err != nil {
		return 0, err
	}
	answered := s.findAnswered(g.At.Workspace, messages)
	// A thread that begins within the gap is read with its first message, so that a reply never
	// comes before what it answers.
	roots := map[string]bool{}
	for _, m := range messages {
		roots[m.TS] = m.ThreadTS == m.TS
	}
	for _, m := range messages {
		reply := m.ThreadTS != "" && m.ThreadTS != m.TS
		if g.At.Thread == "" && reply && (roots[m.ThreadTS] || s.missed.Has(threadKey(g.At.Channel, m.ThreadTS))) {
			continue // also shown in the channel, but read with its thread
		}
		found := []*wireMessage{m}
		if g.At.Thread == "" && roots[m.TS] && m.ReplyCount > 0 {
			thread := g.At
			thread.Thread = m.TS
			replies, err := s.readHistory(ctx, thread, m.TS)
			if err != nil {
				return n, err
			}
			found = append(found, replies...)
		}
		inThread := s.findAnswered(g.At.Workspace, found)
		found = slices.DeleteFunc(found, func(one *wireMessage) bool { return answered(one) || inThread(one) })
		taken, err := s.acceptMissed(ctx, g.At.Workspace, found)
		n += taken
		if err != nil {
			return n, err
		}
		// Behind its replies: an attempt that fails among them must read the whole thread again.
		s.missed.Advance(g, m.TS)
	}
	return n, nil
}

// acceptMissed hands over the messages that people wrote, and returns how many. It ends at the first error of accept.
func (s *Slack) acceptMissed(ctx context.Context, team string, messages []*wireMessage) (n int, err error) {
	for _, one := range messages {
		m, ok := s.parseMessage(team, one)
		if !ok {
			continue
		}
		s.setName(&m)
		if err := kit.AcceptMissed(ctx, s.accept, m); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// readHistory returns the messages of a channel, or the replies of a thread, after a timestamp, oldest first. About
// maxMissed are returned at most, which is logged; of a thread that is gone there are none.
func (s *Slack) readHistory(ctx context.Context, at chat.Address, oldest string) ([]*wireMessage, error) {
	var all []*wireMessage
	whole, err := readPages(
		ctx,
		s.fetchPagePatiently,
		historyQuery{channel: at.Channel, thread: at.Thread, oldest: oldest, pageSize: historyPageSize},
		func(page []*wireMessage) bool {
			all = append(all, page...)
			return len(all) < maxMissed
		},
	)
	switch {
	case errorCode(err) == "thread_not_found":
		return nil, nil
	case err != nil:
		return nil, err
	case !whole:
		s.o.Log.Warn("too many missed slack messages; the rest is not read", "channel", at.Channel, "thread", at.Thread,
			"messages", len(all))
	}
	// The first message of a thread comes with the replies, and is handed over with the channel.
	all = slices.DeleteFunc(all, func(m *wireMessage) bool { return m.TS == at.Thread })
	// Slack sends the newest of a page first; questions must be taken in the order in which they were asked.
	slices.SortStableFunc(all, func(a, b *wireMessage) int { return strings.Compare(a.TS, b.TS) })
	return all, nil
}

// fetchPagePatiently fetches a page, and waits as often as Slack says that it was too soon.
func (s *Slack) fetchPagePatiently(
	ctx context.Context,
	p historyQuery,
	cursor string,
) ([]*wireMessage, string, error) {
	for {
		messages, next, err := s.fetchPage(ctx, p, cursor)
		wait := retryAfter(err)
		// Whoever has less time than that is not kept waiting for nothing.
		end, limited := ctx.Deadline()
		if wait == 0 || limited && time.Until(end) < wait || !kit.Sleep(ctx, wait) {
			return messages, next, err
		}
	}
}

// findAnswered returns a function that reports whether a message has a reply of the bot among those
// that were read: after the store was lost such a message must not be answered again.
func (s *Slack) findAnswered(team string, messages []*wireMessage) func(*wireMessage) bool {
	keys, stamps := map[string]bool{}, map[string]bool{}
	for _, m := range messages {
		if l, ok := labelOf(m); ok && s.isOwnPost(m) {
			keys[l.Key] = true
			for _, ts := range strings.Fields(l.Answers) {
				stamps[ts] = true
			}
		}
	}
	return func(m *wireMessage) bool {
		asked := chat.Message{ID: messageID(team, m.Channel, m.TS), Conversation: chat.Address{Platform: s.Name()}}
		return stamps[m.TS] || keys[shortKey(asked.Key())] || slices.Contains(m.ReplyUsers, s.self.user)
	}
}
