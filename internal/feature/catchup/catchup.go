// Package catchup summarizes the messages that somebody missed in a channel: decisions, questions to them, links and
// other topics. It promises:
//   - It reads only messages that the asker can read in that place, and only the asker sees the answer if the platform
//     supports that.
//   - Every statement cites a message. A statement of the model without a citation is dropped.
//   - Without a language model it lists the messages themselves.
//
// Package history finds the messages.
package catchup

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature"
	"ravenbot/internal/recall/history"
	"ravenbot/internal/store"
)

// Limits of input and output.
const (
	maxMessages     = 300 // the newest
	maxMessageChars = 400
	maxRequestBytes = 48 << 10
	maxListed       = 8 // of one kind
	maxListedChars  = 240
	defaultPeriod   = 24 * time.Hour
	// maxPeriod is the longest period that a request can cover, which is also the range of platform searches.
	maxPeriod = 31 * 24 * time.Hour
	// awayAfter is the time without a message after which a person counts as away.
	awayAfter = 10 * time.Minute
	// writeTimeout is how long a model may take before the messages themselves are listed.
	writeTimeout = 90 * time.Second
)

// Reader reads messages, as history.Service does.
type Reader interface {
	// Since reads the messages that a person can read in a place.
	Since(ctx context.Context, c tool.Caller, after time.Time) ([]history.Message, bool, error)
	// ReadChannel reads a channel and its threads, without a check of the reader.
	ReadChannel(ctx context.Context, channel chat.Address, after time.Time) ([]history.Message, error)
}

// Agent has a language model write, as the bot's agent does.
type Agent interface {
	Complete(ctx context.Context, on store.Usage, models []string, system, prompt string) (text, served string, err error)
}

// Roster names the models that write for agents.
type Roster interface {
	// Writers returns the language models of the named agent, or of the agent of a channel. It returns none if the
	// agent has none.
	Writers(name string, channel chat.Address) []string
}

// Options are what a Service needs.
type Options struct {
	Reader Reader
	Agent  Agent
	Roster Roster
	// Timezone returns the time zone of the author of a message.
	Timezone func(ctx context.Context, m chat.Message) *time.Location
	Log      *slog.Logger
	Now      func() time.Time
}

// Service summarizes missed messages. It is safe for concurrent use.
type Service struct{ o Options }

// New returns a Service.
func New(o Options) *Service { return &Service{o: o} }

// commandName is the word behind /raven.
const commandName = "catchup"

// Module returns the catch-up feature.
func (s *Service) Module() feature.Module { return feature.Module{Features: []feature.Feature{s}} }

// Commands returns the command.
func (*Service) Commands() []chat.CommandSpec {
	return []chat.CommandSpec{{
		Name:    commandName,
		Summary: "What you missed here",
		Help: "messages here while you were away: decisions, questions to you, links; `catchup 3 hours`, " +
			"`catchup yesterday`",
		Options: []chat.CommandOption{
			{Name: "since", Summary: "3 hours, 2 days, today, yesterday, monday; nothing: since you last wrote here"},
		},
	}}
}

// commandFrom is the command in the menu of a message.
const commandFrom = "summarise-from"

// MessageCommands returns the entry in the menu of a message.
func (*Service) MessageCommands() []chat.MessageCommand {
	return []chat.MessageCommand{{
		Name:    commandFrom,
		Title:   "Summarise from here",
		Summary: "Shows only you the messages since this one",
	}}
}

// Handle carries out the command.
func (s *Service) Handle(ctx context.Context, m chat.Message) (*chat.Draft, error) {
	zone := s.o.Timezone(ctx, m)
	now := s.o.Now().In(zone)
	since, err := sinceOf(m, now)
	if err != nil {
		words := "That does not work: " + text.EscapeMarkdown(err.Error()) + "."
		return &chat.Draft{Ephemeral: true, Failed: true, Text: words}, nil
	}
	from := since
	if from.IsZero() {
		from = now.Add(-maxPeriod)
	}
	said, ok, err := s.o.Reader.Since(ctx, tool.Caller{Conversation: m.Conversation, User: m.Author}, from)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return &chat.Draft{Ephemeral: true, Failed: true, Text: "I cannot read the earlier messages here."}, nil
	}
	if since.IsZero() {
		since, said = missed(said, m, now)
	}
	said = ofOthers(withTarget(said, m), m, zone)
	heading := "**Messages here since " + formatSince(since, now) + "**"
	if len(said) == 0 {
		words := "Nobody has written here since " + formatSince(since, now) + ", as far as I can read it."
		return &chat.Draft{Ephemeral: true, Text: words}, nil
	}
	left := max(0, len(said)-maxMessages)
	said = said[left:]
	d := &chat.Draft{Ephemeral: true, Text: heading + "\n\n" + s.summarize(ctx, m.Conversation.String(),
		reader{who: m.Author}, said, s.writerFor(m), "")}
	d.Footer = fmt.Sprintf("%d messages", len(said))
	if left > 0 {
		d.Footer += fmt.Sprintf(", %d older ones left out", left)
	}
	return d, nil
}

// sinceOf returns the requested start, or zero if the request has none.
func sinceOf(m chat.Message, now time.Time) (time.Time, error) {
	if m.Command != commandFrom || m.Target == nil {
		return parseSince(m.Text, now)
	}
	if now.Sub(m.Target.At) > maxPeriod {
		return time.Time{}, fmt.Errorf("this message is more than %d days old, which is too long ago",
			int(maxPeriod.Hours()/24))
	}
	return m.Target.At.Add(-time.Microsecond).In(now.Location()), nil // the message itself counts
}

// missed returns the messages since the person's last message if that is long ago, otherwise the messages of the last
// day.
func missed(said []history.Message, m chat.Message, now time.Time) (time.Time, []history.Message) {
	since := now.Add(-defaultPeriod)
	for _, one := range said {
		if isBy(one, m.Author) && now.Sub(one.At) > awayAfter {
			since = one.At
		}
	}
	for i, one := range said {
		if one.At.After(since) {
			return since, said[i:]
		}
	}
	return since, nil
}

// withTarget returns the messages with the target of the command in front, if the platform delivers it only with the
// command.
func withTarget(said []history.Message, m chat.Message) []history.Message {
	t := m.Target
	if m.Command != commandFrom || t == nil ||
		slices.ContainsFunc(said, func(one history.Message) bool { return one.ID == t.ID }) {
		return said
	}
	return slices.Insert(said, 0, history.Message{Conversation: m.Conversation, ID: t.ID, AuthorID: t.ByID,
		Author: cmp.Or(t.By, t.ByID), Bot: t.Bot, At: t.At, Text: t.Text, Link: t.Link})
}

// isBy reports whether a person wrote a message themselves.
func isBy(one history.Message, who chat.User) bool {
	return !one.Bot && one.AuthorID == who.ID && who.ID != ""
}

// ofOthers returns the messages that somebody else wrote, with times in a zone.
func ofOthers(said []history.Message, m chat.Message, zone *time.Location) []history.Message {
	var list []history.Message
	for _, one := range said {
		if !isBy(one, m.Author) && strings.TrimSpace(one.Text) != "" {
			one.At = one.At.In(zone)
			list = append(list, one)
		}
	}
	return list
}

// formatSince returns a time for readers, with its day unless that is today.
func formatSince(since, now time.Time) string {
	since = since.In(now.Location())
	if now.Sub(since) < 20*time.Hour && since.Day() == now.Day() {
		return since.Format("15:04")
	}
	return since.Format("Mon 2 Jan 15:04")
}

// writer has a language model write.
type writer func(ctx context.Context, system, prompt string) (string, error)

// writerFor returns the writer for the author of a message, or nil if there is no language model.
func (s *Service) writerFor(m chat.Message) writer {
	models := s.o.Roster.Writers("", m.Conversation)
	if len(models) == 0 {
		return nil
	}
	on := store.Usage{Channel: m.Conversation.Base(), User: m.Conversation.Platform + "/" + m.Author.ID}
	return func(ctx context.Context, system, prompt string) (string, error) {
		limited, cancel := context.WithTimeout(ctx, writeTimeout)
		defer cancel()
		answer, _, err := s.o.Agent.Complete(limited, on, models, system, prompt)
		return answer, err
	}
}

// summarize returns a model's summary of messages, or lists of them. extra is an additional instruction for the model,
// and at is the place for the log.
func (s *Service) summarize(
	ctx context.Context,
	at string,
	r reader,
	said []history.Message,
	write writer,
	extra string,
) string {
	if write == nil {
		return r.list(said)
	}
	answer, err := write(ctx, r.instructions(extra), r.request(said, maxRequestBytes))
	if err != nil {
		s.o.Log.Warn("failed to write the summary of a channel; listing messages instead", "conversation", at, "error", err)
		return r.list(said)
	}
	if words := r.cite(answer, said); words != "" {
		return words
	}
	s.o.Log.Warn("summary of a channel cites nothing; listing messages instead", "conversation", at)
	return r.list(said)
}

// line returns a message as an entry of a list.
func line(one history.Message) string {
	return "- **" + text.EscapeMarkdown(text.OneLine(one.Author)) + "** " + at(one) + ": " + one.Shown(maxListedChars)
}

// at returns the time of a message, linked to it if it has an address.
func at(one history.Message) string {
	when := one.At.Format("Mon 15:04")
	if one.Link == "" {
		return "(" + when + ")"
	}
	return "([" + when + "](" + one.Link + "))"
}

// section returns a heading with the newest maxListed entries, or "" if there are none.
func section(heading string, entries []string) string {
	if len(entries) == 0 {
		return ""
	}
	left := max(0, len(entries)-maxListed)
	if left > 0 {
		heading += fmt.Sprintf(" (the newest %d of %d)", maxListed, len(entries))
	}
	return "**" + heading + "**\n" + strings.Join(entries[left:], "\n")
}

// nameOf returns a person's display name.
func nameOf(u chat.User) string { return cmp.Or(u.Name, u.Handle, u.ID) }
