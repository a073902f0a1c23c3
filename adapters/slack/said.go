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
	historyWithin = 15 * time.Second
	mostThread    = 1000 // messages of a thread that are read for the newest of them
	namesWithin   = 4 * time.Second
)

// History reads back a channel, without the replies in its threads, or a thread.
func (s *Slack) History(ctx context.Context, at chat.Address, before string, most int) ([]chat.Said, error) {
	ctx, cancel := context.WithTimeout(ctx, historyWithin)
	defer cancel()
	if before != "" && !timestamp.MatchString(before) {
		return nil, &chat.SetupError{Reason: "there is no message " + before, Remedy: "take an id that was given before"}
	}
	var all []inner
	p := passage{channel: at.Channel, thread: at.Thread, latest: before, pageSize: min(max(most, 1), missedPage)}
	_, err := read(ctx, s.patient, p, func(page []inner) bool {
		all = append(all, page...)
		return at.Thread != "" && len(all) < mostThread
	})
	switch word := code(err); {
	case word == "missing_scope", word == "not_in_channel", word == "channel_not_found":
		return nil, &chat.SetupError{Reason: "Slack does not show the bot this channel (" + word + ")", Remedy: "invite the bot to the channel; `ravenbot doctor` names scopes that are missing"}
	case err != nil:
		return nil, fmt.Errorf("read back a slack conversation: %w", err)
	}
	slices.SortStableFunc(all, func(a, b inner) int { return strings.Compare(a.TS, b.TS) })
	all = slices.DeleteFunc(all, func(m inner) bool { return before != "" && m.TS >= before || s.readable(m) == "" })
	all = all[max(0, len(all)-most):]
	names := s.names(ctx, all)
	list := make([]chat.Said, 0, len(all))
	for _, m := range all {
		who := cmp.Or(names[m.User], m.User, m.BotID, "somebody")
		list = append(list, chat.Said{ID: m.TS, By: who, Bot: m.BotID != "", Text: s.readable(m), At: instant(m.TS)})
	}
	return list, nil
}

// names gives the names of who wrote messages, as far as Slack tells them in time.
func (s *Slack) names(ctx context.Context, messages []inner) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, namesWithin)
	defer cancel()
	names := map[string]string{}
	for _, m := range messages {
		if _, asked := names[m.User]; !asked && m.User != "" && ctx.Err() == nil {
			who, _ := s.person(ctx, m.User)
			names[m.User] = who.name
		}
	}
	return names
}
