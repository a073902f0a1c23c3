package budget

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/text"
	"ravenbot/internal/feature"
)

// Limits are the daily limits of one person. 0 means no limit.
type Limits struct {
	MessageChars int // of one message
	Messages     int // that are answered
	Files        int // of messages
	Tokens       int // of models, in and out
}

// quota counts people's requests of today. The zero quota is ready to use; it is safe for concurrent use.
type quota struct {
	mu     sync.Mutex
	day    string
	used   map[string]*use // by user
	others map[string]int  // messages that other processes have answered, by user, as last read
	// filesElsewhere are files that other processes have taken, by user, as last told.
	filesElsewhere map[string]int
}

// use is what a user asked for today.
type use struct {
	messages, files int
	// recent are the keys of the newest messages: a question that is worked on again counts once.
	recent []string
	roles  []string // when the newest message was sent
}

// maxRecent is how many messages of a user are known to be counted.
const maxRecent = 16

// of returns what a user asked for today; q.mu is held.
func (q *quota) of(now time.Time, user string) *use {
	if day := now.UTC().Format(time.DateOnly); day != q.day {
		q.day, q.used, q.others, q.filesElsewhere = day, map[string]*use{}, nil, nil
	}
	if q.used[user] == nil {
		q.used[user] = &use{}
	}
	return q.used[user]
}

// add counts messages that were answered before the start.
func (q *quota) add(now time.Time, user string, messages int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.of(now, user).messages += messages
}

// rolesOf returns the roles of a user as of their newest message of today.
func (q *quota) rolesOf(now time.Time, user string) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.of(now, user).roles
}

// setOthers replaces the messages that other processes have answered on a day, unless that is over.
func (q *quota) setOthers(now time.Time, day string, messages map[string]int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of(now, ""); q.day == day {
		q.others = messages
	}
}

// take counts a message and its files. If a limit is exceeded, it returns the limit in words and counts nothing.
func (q *quota) take(now time.Time, l Limits, user string, m chat.Message) (exceeded string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.of(now, user)
	u.roles = m.Author.Roles
	if slices.Contains(u.recent, m.Key()) {
		return ""
	}
	switch {
	case l.Messages > 0 && u.messages+q.others[user] >= l.Messages:
		times := FormatCount(u.messages+q.others[user]) + " times"
		if u.messages+q.others[user] == 1 {
			times = "once"
		}
		return fmt.Sprintf("You have asked me %s today, which is the limit for one person.", times)
	case l.Files > 0 && len(m.Files) > 0 && u.files+q.filesElsewhere[user]+len(m.Files) > l.Files:
		return fmt.Sprintf("You have sent me %s files today; the limit for one person is %s.",
			FormatCount(u.files+q.filesElsewhere[user]), FormatCount(l.Files))
	}
	u.messages++
	u.files += len(m.Files)
	u.recent = append(u.recent, m.Key())
	u.recent = u.recent[max(0, len(u.recent)-maxRecent):]
	return ""
}

// Refuse returns the reason for refusing a message, for its author. Otherwise it counts the message and returns "".
// Holders of the admin token have no limits.
func (s *Spending) Refuse(m chat.Message) string {
	l, user := s.rates.Limits(m.Author.Roles), m.Conversation.Platform+"/"+m.Author.ID
	if m.Author.Operator || m.Author.ID == "" {
		return ""
	}
	if n := utf8.RuneCountInString(m.Text); l.MessageChars > 0 && n > l.MessageChars {
		return fmt.Sprintf("Your message has %s characters, and I read up to %s. Shorten it, or attach the text as a file.",
			FormatCount(n), FormatCount(l.MessageChars))
	}
	now := s.now().UTC()
	if exceeded := s.quota.take(now, l, user, m); exceeded != "" {
		tomorrow := now.Truncate(24 * time.Hour).Add(24 * time.Hour)
		return fmt.Sprintf("%s It starts again at midnight UTC, in %s. The bot's operator can raise it.",
			exceeded, formatHours(tomorrow.Sub(now)))
	}
	return ""
}

// remainingLimits lists the limits of a user, with the used amounts.
func (s *Spending) remainingLimits(user string) []string {
	s.quota.mu.Lock()
	u := *s.quota.of(s.now(), user)
	l := s.rates.Limits(u.roles)
	u.messages += s.quota.others[user]
	u.files += s.quota.filesElsewhere[user]
	s.quota.mu.Unlock()
	var list []string
	for _, one := range []struct {
		what        string
		used, limit int
	}{
		{"messages", u.messages, l.Messages},
		{"files", u.files, l.Files},
		{"tokens", int(s.tokens.Spent(Payer{User: user})), l.Tokens},
	} {
		if one.limit > 0 {
			list = append(list, fmt.Sprintf("- your %s of today: %s of %s", one.what, FormatCount(one.used),
				FormatCount(one.limit)))
		}
	}
	return list
}

// Limited passes messages within the limits of their author to an Answerer, and refuses the others.
type Limited struct {
	feature.Answerer
	Spending *Spending
}

// Answer answers a question, or names the limit that its author has reached. If several people are answered together,
// people within their limits get their answer, and a line below it for each of the others.
func (l Limited) Answer(
	ctx context.Context,
	q chat.Asked,
	show func(chat.Progress),
) (*conversation.Turn, *chat.Draft) {
	var within []chat.Message
	var refused []refusal
	for _, m := range q.Messages {
		switch reason := l.Spending.Refuse(m); {
		case reason == "":
			within = append(within, m)
		// Notify the author of several messages once.
		case !slices.ContainsFunc(refused, func(r refusal) bool { return r.author.ID == m.Author.ID }):
			refused = append(refused, refusal{m.Author, reason})
		}
	}
	switch {
	case len(refused) == 0:
		return l.Answerer.Answer(ctx, q, show)
	case len(within) == 0 && len(refused) == 1:
		return nil, &chat.Draft{Ephemeral: true, Failed: true, Text: refused[0].reason}
	case len(within) == 0:
		return nil, &chat.Draft{Failed: true, Text: listRefusals(refused)}
	}
	q.Messages = within
	turn, d := l.Answerer.Answer(ctx, q, show)
	if d != nil {
		withRefusals := *d
		withRefusals.Text = strings.TrimSpace(d.Text + "\n\n" + listRefusals(refused))
		d = &withRefusals
	}
	return turn, d
}

// refusal is why an author is not answered.
type refusal struct {
	author chat.User
	reason string
}

// listRefusals returns a line for each refusal that names whom it is for: "you" alone could be any of them.
func listRefusals(list []refusal) string {
	var lines []string
	for _, r := range list {
		lines = append(lines, cmp.Or(text.EscapeMarkdown(text.OneLine(r.author.Name)), r.author.ID)+": "+r.reason)
	}
	return strings.Join(lines, "\n")
}
