package slack

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
)

// maxLinked is how many links of a message to other messages are followed.
const maxLinked = 5

var _ chat.ContextReader = (*Slack)(nil)

// Context returns what a message is about: where it was said and by whom, what was said before it
// there, and the messages of its channel that it links to. What Slack does not tell before ctx ends
// is missing.
func (s *Slack) Context(ctx context.Context, m chat.Message, q chat.ContextQuery) chat.Context {
	select {
	case <-s.ready: // else it is not known who the bot is
	case <-ctx.Done():
		return chat.Context{}
	}
	// What is asked for is on its way at the same time, so that one slow answer costs no more than itself. Mostly all
	// of it is known, and then nothing runs beside.
	s.people.Prefetch(m.Author.ID)
	if !m.Direct {
		s.channels.Prefetch(m.Conversation.Channel)
	}
	var linked readMessages
	var parts sync.WaitGroup
	if permalink().MatchString(m.Text) {
		parts.Go(func() { linked = s.readLinked(ctx, m) })
	}
	recent := s.readRecent(ctx, m, q)
	parts.Wait()
	place := s.placeOf(ctx, m)
	messages := slices.Concat(recent.list, linked.list)
	if recent.root != nil {
		messages = append(messages, recent.root)
	}
	users := append(mentionedIn(m.Text), m.Author.ID)
	names := s.lookUpNames(ctx, append(users, peopleIn(messages)...))
	c := chat.Context{
		Place:  place,
		Names:  map[string]string{},
		Recent: s.saidAll(m.Conversation, recent.list, names),
		Linked: s.saidAll(m.Conversation, linked.list, names),
		Notes:  slices.Concat(recent.notes, linked.notes),
	}
	for _, user := range users {
		if names[user] != "" {
			c.Names[user] = names[user]
		}
	}
	author, _ := s.people.Known(m.Author.ID)
	c.Zone = author.zone
	if recent.root != nil {
		root := s.said(m.Conversation, recent.root, names)
		c.Root = &root
	}
	return c
}

// readMessages is what was read of a channel, and what is to be said of what was not.
type readMessages struct {
	root  *wireMessage
	list  []*wireMessage
	notes []string
}

// readRecent returns the newest messages before m in its thread or channel, and the thread's first. What could not be
// read is said in notes; there is no error.
func (s *Slack) readRecent(ctx context.Context, m chat.Message, q chat.ContextQuery) readMessages {
	p := passage{
		channel: m.Conversation.Channel,
		thread:  threadOf(m),
		before:  timestampOf(m.ID),
		after:   timestampOf(q.After),
		max:     q.Messages,
	}
	// In the agent view each direct message outside of a thread begins a new chat.
	isNewChat := m.Direct && s.self.agent && p.thread == ""
	if q.Messages <= 0 || isNewChat {
		return readMessages{}
	}
	if r, ok := s.recallPassage(ctx, p); ok {
		return r
	}
	all, whole, err := s.fetchPassage(ctx, p)
	r := s.selectRecent(p, all)
	if note := unreadableNote(err); note != "" {
		r.notes = []string{note}
	} else if p.thread != "" && !whole {
		r.notes = []string{fmt.Sprintf("Only the first %d messages of this thread were read.", len(all))}
	}
	return r
}

// passage is what is wanted of what was said in a channel, or in a thread of it.
type passage struct {
	channel, thread string
	before          string // timestamp of the first message that is not wanted; empty: to the end
	after           string // timestamp of the last one that is known already; empty: none is
	max             int    // the newest so many
}

// fetchPassage asks Slack for the messages of a passage. whole: there are no older ones in a channel, or no newer ones
// in a thread.
func (s *Slack) fetchPassage(ctx context.Context, p passage) (all []*wireMessage, whole bool, err error) {
	h := historyQuery{
		channel:  p.channel,
		thread:   p.thread,
		latest:   p.before,
		pageSize: min(p.max+maxNotices, historyPageSize),
	}
	if p.thread != "" {
		// A thread comes oldest first: what is known already need not be read again.
		h.oldest, h.pageSize = p.after, historyPageSize
	}
	reading := s.recent.BeginReading(threadKey(p.channel, p.thread))
	whole, err = readPages(ctx, s.fetchPagePatiently, h, func(page []*wireMessage) bool {
		all = append(all, page...)
		return p.thread != "" && len(all) < maxThreadMessages
	})
	slices.SortStableFunc(all, func(a, b *wireMessage) int { return strings.Compare(a.TS, b.TS) })
	s.endReading(reading, p, all, whole && err == nil, err)
	return all, whole, err
}

// selectRecent returns what is told of the messages of a passage and of others, which are oldest first: up to p.max
// that somebody spoke, between the last known one and the question.
func (s *Slack) selectRecent(p passage, all []*wireMessage) (r readMessages) {
	if p.thread != "" {
		return s.selectReplies(p, all)
	}
	r.list = make([]*wireMessage, 0, min(p.max, len(all))) // a list that grows would copy each of them twice
	for i := len(all) - 1; i >= 0 && len(r.list) < p.max && all[i].TS > p.after; i-- {
		if (p.before == "" || all[i].TS < p.before) && s.isSpoken(all[i]) {
			r.list = append(r.list, all[i])
		}
	}
	slices.Reverse(r.list)
	return r
}

// selectReplies is selectRecent in a thread, with the message that it began with.
func (s *Slack) selectReplies(p passage, all []*wireMessage) (r readMessages) {
	there := map[string]bool{}
	for _, one := range all {
		// A deleted one leaves a notice in its place.
		there[one.TS] = s.isSpoken(one)
		if one.TS == p.thread && there[one.TS] {
			r.root = one
		}
		isBefore := p.before == "" || one.TS < p.before
		// An answer whose question was deleted would tell what that said.
		asked := s.answeredBy(one)
		isOrphan := asked > p.after && !there[asked]
		if isBefore && one.TS > p.after && one.TS != p.thread && there[one.TS] && !isOrphan {
			r.list = append(r.list, one)
		}
	}
	r.list = r.list[max(0, len(r.list)-p.max):]
	return r
}

// answeredBy returns the timestamp of the message that a post of the bot answers; empty: none.
func (s *Slack) answeredBy(m *wireMessage) string {
	label, ok := labelOf(m)
	if !ok || !s.isOwnPost(m) {
		return ""
	}
	first, _, _ := strings.Cut(label.Answers, " ")
	return first
}

// maxNotices is how many more messages of a channel are read than are wanted: some are only
// notices, such as that somebody joined.
const maxNotices = 10

// isSpoken reports whether somebody said something in a message.
func (s *Slack) isSpoken(m *wireMessage) bool {
	if !spokenSubtypes[m.Subtype] && m.Subtype != "bot_message" {
		return false
	}
	// Words behind all mentions and links are said as they are, so that the rest need not be translated.
	behind := m.Text[strings.LastIndexByte(m.Text, '>')+1:]
	return strings.TrimSpace(behind) != "" || s.saidText(m, nil) != ""
}

// unreadableNote returns what the model is told where messages could not be read.
func unreadableNote(err error) string {
	switch word := errorCode(err); {
	case err == nil, word == "thread_not_found":
		return ""
	case word == "missing_scope":
		return "The messages before this one are not shown to me, because the Slack app lacks a scope; " +
			"`ravenbot doctor` names it to my operator."
	case word == "not_in_channel", word == "channel_not_found":
		return "The messages before this one are not shown to me, because I am not a member of this channel; " +
			"inviting me to it helps."
	}
	return "The messages before this one could not be read in time."
}

// permalink matches the address of a message as Slack copies it.
var permalink = text.Pattern(`https://[\w.-]+/archives/([CDG][A-Z0-9]+)/p(\d{10})(\d{6})(\?[^\s<>)\]]*)?`)

// readLinked returns the messages that a message links to, as far as they are in its own channel:
// nothing tells whether its author may read others.
func (s *Slack) readLinked(ctx context.Context, m chat.Message) readMessages {
	var r readMessages
	for n, found := range permalink().FindAllStringSubmatch(m.Text, -1) {
		link, channel, ts := found[0], found[1], found[2]+"."+found[3]
		switch {
		case !strings.HasPrefix(link, s.self.teamURL):
			continue // a page of somebody else, or of another workspace
		case n >= maxLinked:
			r.notes = append(r.notes, fmt.Sprintf("Only the first %d linked messages were looked at.", maxLinked))
			return r
		case channel != m.Conversation.Channel:
			r.notes = append(r.notes, "The linked message "+link+" was not read, because it is in another channel, "+
				"which the asker may not be allowed to read.")
			continue
		}
		one, err := s.readMessage(ctx, channel, threadOfLink(found[4]), ts)
		if err != nil || one == nil {
			r.notes = append(r.notes, "The linked message "+link+" could not be read.")
			continue
		}
		r.list = append(r.list, one)
	}
	return r
}

// threadOfLink returns the thread that the query of a permalink names; empty: none.
func threadOfLink(query string) string {
	values, err := url.ParseQuery(strings.TrimPrefix(query, "?"))
	if err != nil || !timestampPattern().MatchString(values.Get("thread_ts")) {
		return ""
	}
	return values.Get("thread_ts")
}

// readMessage returns one message of a channel or thread; nil without an error where there is none.
func (s *Slack) readMessage(ctx context.Context, channel, thread, ts string) (*wireMessage, error) {
	// The range holds only the message itself. A thread comes with its first message before that.
	p := historyQuery{channel: channel, thread: thread, oldest: ts, latest: ts, inclusive: true, pageSize: 2}
	messages, _, err := s.fetchPagePatiently(ctx, p, "")
	if i := slices.IndexFunc(messages, func(one *wireMessage) bool { return one.TS == ts }); i >= 0 {
		return messages[i], err
	}
	return nil, err
}

// peopleIn returns the users who wrote messages or are mentioned in them.
func peopleIn(messages []*wireMessage) []string {
	var users []string
	for _, m := range messages {
		if m.User != "" {
			users = append(users, m.User)
		}
		users = append(users, mentionedIn(m.Text)...)
	}
	return users
}

// saidAll returns messages of one place as they are read back, in their order.
func (s *Slack) saidAll(at chat.Address, messages []*wireMessage, names map[string]string) []chat.Said {
	list := make([]chat.Said, 0, len(messages))
	for _, m := range messages {
		list = append(list, s.said(at, m, names))
	}
	return list
}

// said returns a message as it is read back. names are those of users, by their ids. Its subject is that of the message
// itself, of an answer of the bot that of the question: whoever has the question deleted has the answer forgotten, too.
func (s *Slack) said(at chat.Address, m *wireMessage, names map[string]string) chat.Said {
	about := chat.Message{ID: messageID(at.Workspace, at.Channel, m.TS), Conversation: at}
	subject := about.Subject()
	if s.isOwnPost(m) {
		subject = ""
	}
	if ts := s.answeredBy(m); ts != "" {
		about.ID = messageID(at.Workspace, at.Channel, ts)
		subject = about.Subject()
	}
	return chat.Said{
		ID:      m.TS,
		Subject: subject,
		By:      cmp.Or(names[m.User], m.Username, m.BotProfile.Name, m.User, m.BotID, "somebody"),
		ByID:    m.User,
		Bot:     m.BotID != "",
		Self:    s.isOwnPost(m),
		Text:    s.saidText(m, names),
		At:      parseTimestamp(m.TS),
		Files:   parseFiles(m.Files),
		Link:    s.linkTo(at.Channel, m),
	}
}

// linkTo returns the address at which people find a message; empty where the address of the workspace is not known.
func (s *Slack) linkTo(channel string, m *wireMessage) string {
	if s.self.teamURL == "" {
		return ""
	}
	link := s.self.teamURL + "archives/" + channel + "/p" + strings.Replace(m.TS, ".", "", 1)
	if m.ThreadTS != "" && m.ThreadTS != m.TS {
		link += "?" + url.Values{"thread_ts": {m.ThreadTS}, "cid": {channel}}.Encode()
	}
	return link
}

// Formatting returns what Slack's markdown block shows (reference of 2026-11).
func (s *Slack) Formatting() string {
	return "Slack shows standard Markdown: headings, bold, italics, links, lists, block quotes, code and tables. " +
		"It shows no HTML, no footnotes and no pictures in the text; keep tables narrow."
}
