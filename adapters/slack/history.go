package slack

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/chat"
)

// Rules of reading back what was said.
const (
	historyTimeout    = 15 * time.Second
	maxThreadMessages = 1000 // messages of a thread that are read for the newest of them
	namesTimeout      = 4 * time.Second
)

// History reads back a channel, without the replies in its threads, or a thread.
func (s *Slack) History(ctx context.Context, at chat.Address, before string, most int) ([]chat.Said, error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	if before != "" && !timestampPattern.MatchString(before) {
		return nil, &chat.SetupError{
			Reason: "there is no message " + before,
			Remedy: "take an id that was given before",
		}
	}
	var all []wireMessage
	p := historyQuery{
		channel:  at.Channel,
		thread:   at.Thread,
		latest:   before,
		pageSize: min(max(most, 1), historyPageSize),
	}
	_, err := readPages(ctx, s.fetchPagePatiently, p, func(page []wireMessage) bool {
		all = append(all, page...)
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
	slices.SortStableFunc(all, func(a, b wireMessage) int { return strings.Compare(a.TS, b.TS) })
	all = slices.DeleteFunc(
		all,
		func(m wireMessage) bool { return before != "" && m.TS >= before || s.plainMarkdown(m) == "" },
	)
	all = all[max(0, len(all)-most):]
	names := s.lookUpNames(ctx, all)
	list := make([]chat.Said, 0, len(all))
	for _, m := range all {
		who := cmp.Or(names[m.User], m.User, m.BotID, "somebody")
		list = append(
			list,
			chat.Said{ID: m.TS, By: who, Bot: m.BotID != "", Text: s.plainMarkdown(m), At: parseTimestamp(m.TS)},
		)
	}
	return list, nil
}

// lookUpNames returns the names of the authors of messages, as far as Slack tells them in time.
func (s *Slack) lookUpNames(ctx context.Context, messages []wireMessage) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, namesTimeout)
	defer cancel()
	names := map[string]string{}
	for _, m := range messages {
		if _, asked := names[m.User]; !asked && m.User != "" && ctx.Err() == nil {
			who, _ := s.lookUpPerson(ctx, m.User)
			names[m.User] = who.name
		}
	}
	return names
}
