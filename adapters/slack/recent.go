package slack

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"ravenbot/adapters/kit"
)

// Bounds of what is remembered of channels and threads.
const (
	maxRecentMessages = 64      // of a channel or thread: more than a question brings along
	maxRecentBytes    = 4 << 20 // of all
	// recentLife is how long a channel is trusted without reading it. Slack does not tell a process that another one
	// connects later, which then gets a part of the events, nor of messages that a retention policy deletes.
	recentLife = 10 * time.Minute
	// rateLimitPause is how long nothing is remembered after Slack kept events back: it says so once for each minute
	// in which it does.
	rateLimitPause = 2 * time.Minute
	// retryPause is how long nothing is remembered after Slack had to send an event again: others may be late, too.
	retryPause = 10 * time.Second
	// eventWait is how long the event "message" of a mention may come after its "app_mention".
	eventWait = 250 * time.Millisecond
)

// newRecent returns the memory of what was said. Events fill it over the socket alone: over HTTP one that Slack could
// not deliver comes a minute later or never, and others pass it meanwhile.
//
// A question is answered from it only if it came as an event "message" itself, beside "app_mention": apps that are not
// subscribed to message.channels and its like get mentions alone.
func newRecent(now func() time.Time) kit.Recent[*wireMessage] {
	return kit.Recent[*wireMessage]{
		MaxMessages: maxRecentMessages,
		MaxBytes:    maxRecentBytes,
		Life:        recentLife,
		Now:         now,
	}
}

// trustEvents says whether all events come to this process, and in order: on one connection, which is the only one of
// the app. Between two connections events may be missed.
func (k *socket) trustEvents() {
	k.recent.SetLive(len(k.links) == 1 && k.links[0].greeted && !k.hasOthers && k.o.Replicas == nil)
}

// recentPlaces returns the places in which a message stands: its channel, its thread, or both.
func recentPlaces(channel string, m *wireMessage) []string {
	isReply := m.ThreadTS != "" && m.ThreadTS != m.TS
	switch {
	case !isReply:
		return []string{threadKey(channel, ""), threadKey(channel, m.TS)}
	case m.Subtype == "thread_broadcast":
		return []string{threadKey(channel, ""), threadKey(channel, m.ThreadTS)}
	}
	return []string{threadKey(channel, m.ThreadTS)}
}

// noteMessage remembers a message that an event brought. In direct messages the history has everything that was said.
func (s *Slack) noteMessage(e *wireMessage) {
	if e.TS == "" || e.ChannelType == "im" || isDirectChannel(e.Channel) {
		return
	}
	if e.User == s.self.user && (e.Subtype == "channel_join" || e.Subtype == "group_join") {
		s.dropRecent(e.Channel) // what was said while the bot was not in it did not come
		return
	}
	m := newRecentMessage(e)
	for _, place := range recentPlaces(e.Channel, e) {
		// A thread that nobody has begun is one where the bot is going to answer.
		if place == threadKey(e.Channel, e.TS) && !s.isMentioned(e) {
			continue
		}
		s.recent.Add(place, m)
	}
}

// isMentioned reports whether a message mentions the bot, in either form in which Slack writes that.
func (s *Slack) isMentioned(e *wireMessage) bool {
	return strings.Contains(e.Text, "<@"+s.self.user+">") || strings.Contains(e.Text, "<@"+s.self.user+"|")
}

// noteEdit remembers what a message says now.
func (s *Slack) noteEdit(channel string, now *wireMessage) {
	now.Channel = channel
	m := newRecentMessage(now)
	for _, place := range recentPlaces(channel, now) {
		s.recent.Replace(place, m)
	}
}

// noteDeletion forgets a message.
func (s *Slack) noteDeletion(e *wireMessage) {
	var was wireMessage
	if json.Unmarshal(e.Previous, &was) != nil || was.TS != e.DeletedTS {
		s.dropRecent(e.Channel) // it may have been in any thread
		return
	}
	for _, place := range recentPlaces(e.Channel, &was) {
		s.recent.Delete(place, e.DeletedTS, nil)
	}
}

// dropRecent forgets what was said in a channel and its threads.
func (s *Slack) dropRecent(channel string) {
	s.recent.Drop(func(place string) bool { return strings.HasPrefix(place, threadKey(channel, "")) })
}

// messageOverhead is what a message counts as beside its texts, in bytes.
const messageOverhead = 700

// newRecentMessage returns a message as it is remembered: without what only events of changes have.
func newRecentMessage(said *wireMessage) kit.RecentMessage[*wireMessage] {
	m := *said
	m.Message, m.Previous, m.ReplyUsers = nil, nil, nil
	if l, ok := labelOf(said); ok {
		m.label = &l
	}
	size := messageOverhead + len(m.Text) + len(m.Blocks) + len(m.Metadata)
	for _, raw := range m.Files {
		size += len(raw)
	}
	for _, raw := range m.Attachments {
		size += len(raw)
	}
	return kit.RecentMessage[*wireMessage]{ID: m.TS, Value: &m, Size: size}
}

// recallPassage returns what is told of a passage, if all of it is remembered; else it is to be read. It waits up to
// eventWait for the event of the question itself, which says that events come here.
func (s *Slack) recallPassage(ctx context.Context, p passage) (r readMessages, ok bool) {
	if p.before == "" {
		return r, false // a command, which is no message
	}
	place := threadKey(p.channel, p.thread)
	wait, cancel := context.WithTimeout(ctx, eventWait)
	defer cancel()
	s.recent.Await(wait, place, p.before)
	w, ok := s.recent.Window(place, p.before)
	if !ok || p.thread != "" && w.Since > p.thread {
		return r, false
	}
	last, _ := s.lastPosts.Get(place)
	isLastKnown := last == "" || last < w.Since || last > p.before
	all := make([]*wireMessage, 0, len(w.Values))
	for _, m := range w.Values {
		one, ok := s.withLabel(m)
		if !ok {
			return r, false
		}
		all = append(all, one)
		isLastKnown = isLastKnown || one.TS == last
	}
	// What the bot posted must have come, too, or else events go elsewhere.
	if !isLastKnown {
		s.dropRecent(p.channel)
		return r, false
	}
	r = s.selectRecent(p, all)
	return r, p.thread != "" || w.Since == "" || p.after >= w.Since || len(r.list) == p.max
}

// withLabel returns a message with its label. Where an event brought a post of the bot without metadata, as it may
// while a stream grows, it is the one that it was posted with; false: not known.
func (s *Slack) withLabel(m *wireMessage) (*wireMessage, bool) {
	if m.isRead || len(m.Metadata) > 0 || !s.isOwnPost(m) {
		return m, true
	}
	label, ok := s.labels.Get(threadKey(m.Channel, m.TS))
	labelled := *m
	labelled.label = &label
	return &labelled, ok
}

// rememberLabel takes note of a post of the bot.
func (p *postJob) rememberLabel(n int, ts string) {
	p.labels.Put(threadKey(p.to.Channel, ts), p.label(n))
	p.lastPosts.Put(threadKey(p.to.Channel, p.to.Thread), ts)
}

// endReading remembers what was read of a passage; nothing of it where the reading failed or was not whole. What events
// brought meanwhile is newer and stays.
func (s *Slack) endReading(reading *kit.Reading, p passage, all []*wireMessage, isWhole bool, err error) {
	before, since := p.before, ""
	switch {
	case err != nil, p.thread != "" && (p.after != "" || !isWhole):
		before = "" // a part of it
	case !isWhole && len(all) > 0:
		since = all[0].TS
	}
	messages := make([]kit.RecentMessage[*wireMessage], 0, len(all))
	for _, m := range all {
		if m.TS < p.before {
			messages = append(messages, newRecentMessage(m))
		}
	}
	s.recent.EndReading(reading, since, before, messages)
}
