package jobs

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/text"
)

// formRemind is the command in the menu of a message, and the first word of the id of its form; the message's id
// follows.
const formRemind = "remind-about"

// Names of the fields of the form.
const (
	fieldWhen  = "when"
	fieldWords = "words"
	fieldText  = "text"
)

// quickTimes are the times that the form offers.
var quickTimes = []chat.Option{
	{Value: "in an hour", Label: "In an hour"},
	{Value: "in 3 hours", Label: "In three hours"},
	{Value: "tomorrow at 9", Label: "Tomorrow at 9:00"},
	{Value: "in 7 days at 9", Label: "In a week at 9:00"},
}

// maxQuoted is how many characters of a message a reminder repeats.
const maxQuoted = 300

// MessageCommands returns the entry in the menu of a message.
func (*Service) MessageCommands() []chat.MessageCommand {
	return []chat.MessageCommand{{
		Name:    formRemind,
		Title:   "Remind me",
		Summary: "Reminds you of this message at a time that you choose",
	}}
}

// OpenForm returns the form that asks when to be reminded of a message; nil for any other message.
func (s *Service) OpenForm(_ context.Context, m chat.Message) (*chat.Form, error) {
	if m.Command != formRemind || m.Target == nil {
		return nil, nil
	}
	return &chat.Form{
		ID:     formRemind + " " + m.Target.ID,
		Title:  "Remind me",
		Submit: "Remind me",
		Fields: []chat.Field{
			{Name: fieldWhen, Label: "When", Kind: chat.Choice, Options: quickTimes, Value: quickTimes[0].Value},
			{
				Name:  fieldWords,
				Label: "Or in your own words",
				Help:  "friday at 15, 24 December 18:00, every monday at 9",
				Kind:  chat.Line,
				Max:   maxFieldBytes,
			},
			{
				Name:  fieldText,
				Label: "What to say then",
				Help:  "A link to the message is added.",
				Kind:  chat.Text,
				Value: text.Shorten(text.OneLine(m.Target.Text), maxQuoted),
				Max:   2 * maxQuoted,
			},
		},
	}, nil
}

// CheckForm returns an error about the time of a form, so that the platform can show it in the form.
func (s *Service) CheckForm(ctx context.Context, m chat.Message) map[string]string {
	words := strings.TrimSpace(m.Values[fieldWords])
	if words == "" {
		return nil
	}
	if _, err := parseWhen(words, s.Zone(ctx, m), s.o.Now()); err != nil {
		return map[string]string{fieldWords: "That does not work: " + err.Error() + "."}
	}
	return nil
}

// remindAbout makes a reminder of a submitted form, and returns the answer to its author.
func (s *Service) remindAbout(ctx context.Context, m chat.Message) (string, error) {
	_, id, ok := strings.Cut(m.Text, " ")
	if !ok {
		return "", BadJob{errors.New("the form names no message")}
	}
	words := cmp.Or(strings.TrimSpace(m.Values[fieldWords]), m.Values[fieldWhen])
	if words == "" {
		return "", BadJob{errors.New("it does not say when")}
	}
	w, err := parseWhen(words, s.Zone(ctx, m), s.o.Now())
	if err != nil {
		return "", BadJob{err}
	}
	what := text.Shorten(strings.TrimSpace(m.Values[fieldText]), 2*maxQuoted)
	return s.addReminder(ctx, m, w, Job{Text: cmp.Or(what, "this message"), Link: s.o.Places.Link(m.Conversation, id),
		Origin: origin.Foreign("a message that somebody is reminded of")}) // the form proposes its words
}
