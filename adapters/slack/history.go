package slack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
)

// Rules of reading back what was said.
const (
	historyTimeout    = 15 * time.Second
	maxThreadMessages = 1000 // messages of a thread that are read for the newest of them
	namesTimeout      = 4 * time.Second
)

// History reads back a channel, without the replies in its threads, or a thread: the newest most messages before the
// one with a timestamp, oldest first; before "" is the end. It returns fewer where notices are among them, and of a
// thread only what is among its first maxThreadMessages. A *chat.SetupError says that Slack does not show the channel.
func (s *Slack) History(ctx context.Context, at chat.Address, before string, most int) ([]chat.Said, error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	if before != "" && !timestampPattern().MatchString(before) {
		return nil, &chat.SetupError{
			Reason: "there is no message " + before,
			Remedy: "take an id that was given before",
		}
	}
	var all []*wireMessage
	p := historyQuery{
		channel:  at.Channel,
		thread:   at.Thread,
		latest:   before,
		pageSize: min(max(most, 1), historyPageSize),
	}
	_, err := readPages(ctx, s.fetchPagePatiently, p, func(page []*wireMessage) bool {
		all = append(all, page...)
		// A thread comes oldest first, so that its newest messages are on the last page.
		return at.Thread != "" && len(all) < maxThreadMessages
	})
	switch word := errorCode(err); {
	case word == "missing_scope", word == "not_in_channel", word == "channel_not_found":
		return nil, &chat.SetupError{
			Reason: "Slack does not show the bot this channel (" + word + ")",
			Remedy: "invite the bot to the channel; `ravenbot doctor` names scopes that are missing",
		}
	case err != nil:
		return nil, fmt.Errorf("read back a slack conversation: %w", err)
	}
	slices.SortStableFunc(all, func(a, b *wireMessage) int { return strings.Compare(a.TS, b.TS) })
	all = slices.DeleteFunc(
		all,
		func(m *wireMessage) bool { return before != "" && m.TS >= before || s.saidText(m, nil) == "" },
	)
	all = all[max(0, len(all)-most):]
	ctx, cancelNames := context.WithTimeout(ctx, namesTimeout)
	defer cancelNames()
	return s.saidAll(at, all, s.lookUpNames(ctx, peopleIn(all))), nil
}

// Link returns the address of a message by the ID of its Message or Said; empty if that names no message.
func (s *Slack) Link(at chat.Address, id string) string {
	ts := timestampOf(id)
	if ts == "" {
		return ""
	}
	return s.linkTo(at.Channel, &wireMessage{TS: ts, ThreadTS: at.Thread})
}

// OpenThreads returns up to limit threads among the newest messages of a channel with replies after an instant, the one
// with the newest first. Whoever reads the channel reads them. It asks Slack once, unless that is over its limits.
func (s *Slack) OpenThreads(
	ctx context.Context,
	channel chat.Address,
	after time.Time,
	limit int,
) ([]chat.Address, error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	page, _, err := s.fetchPagePatiently(ctx, historyQuery{channel: channel.Channel, pageSize: historyPageSize}, "")
	if err != nil {
		return nil, fmt.Errorf("list the threads of a slack channel: %w", err)
	}
	since := fmt.Sprintf("%d.%06d", after.Unix(), after.Nanosecond()/1000)
	page = slices.DeleteFunc(page, func(m *wireMessage) bool { return m.ReplyCount == 0 || m.LastReply <= since })
	slices.SortFunc(page, func(a, b *wireMessage) int { return strings.Compare(b.LastReply, a.LastReply) })
	var threads []chat.Address
	for _, m := range page[:min(len(page), limit)] {
		at := channel
		at.Thread = m.TS
		threads = append(threads, at)
	}
	return threads, nil
}

// SharesThreads reports true: who reads a channel of Slack reads its threads.
func (s *Slack) SharesThreads(chat.Address) bool { return true }
