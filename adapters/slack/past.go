package slack

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ravenbot/internal/chat"
)

// mostPast is how many messages of a thread are looked through for the newest of them:
// Slack gives a thread from its beginning.
const mostPast = 1000

// History reads the messages of a channel, or of a thread with its root.
func (s *Slack) History(ctx context.Context, at chat.Address, before string, n int) ([]chat.Said, error) {
	if before != "" && !timestamp.MatchString(before) {
		return nil, fmt.Errorf("read what was said on slack: %q names no message", before)
	}
	p := passage{channel: at.Channel, thread: at.Thread, latest: before, pageSize: n}
	if at.Thread != "" {
		p.pageSize = missedPage
	}
	var said []chat.Said
	seen := 0
	_, err := read(ctx, s.patient, p, func(page []inner) bool {
		seen += len(page)
		for _, m := range page {
			if one, ok := s.past(m); ok && one.ID != before {
				said = append(said, one)
			}
		}
		return seen < mostPast && (at.Thread != "" || len(said) < n)
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(said, func(a, b chat.Said) int { return strings.Compare(a.ID, b.ID) })
	return said[max(0, len(said)-n):], nil
}

// past is what a message of a history says; false: it only tells of an event.
func (s *Slack) past(m inner) (chat.Said, bool) {
	if m.TS == "" || !written[m.Subtype] && m.Subtype != "bot_message" {
		return chat.Said{}, false
	}
	one := chat.Said{ID: m.TS, Author: chat.User{ID: m.User}, Own: s.posted(m), Time: instant(m.TS), Text: s.readable(m)}
	if one.Author.ID == "" {
		one.Author.ID = m.BotID
	}
	if m.ReplyCount > 0 {
		one.Thread = m.TS
	}
	return one, true
}
