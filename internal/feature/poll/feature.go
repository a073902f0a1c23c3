package poll

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/feature"
	"ravenbot/internal/store"
)

// commandName is the word behind /raven.
const commandName = "poll"

// First words of the buttons below a poll.
const (
	wordVote  = "poll-vote"
	wordClose = "poll-close"
)

// inputError is a sentence for the author of an invalid message.
type inputError string

func (e inputError) Error() string { return string(e) }

// Module returns the ability to hold polls.
func (s *Service) Module() feature.Module {
	return feature.Module{
		Features: []feature.Feature{s},
		Shared:   []store.Shared{s},
		Tasks:    []feature.Task{{Name: "polls", Run: s.Run, Leads: true}},
	}
}

// Commands returns the command that starts a poll.
func (*Service) Commands() []chat.CommandSpec {
	return []chat.CommandSpec{{
		Name:    commandName,
		Summary: "Ask this channel a question with buttons to vote",
		Help:    "a vote with buttons: `/raven poll Lunch? | Pizza | Soup`, and `| closes 2h` for another time than a day",
		Options: []chat.CommandOption{
			{Name: "question", Summary: "What to ask", Required: true},
			{
				Name:     "options",
				Summary:  "Two to ten answers with | between them: Pizza | Soup",
				Required: true,
				Label:    labelOptions,
			},
			{Name: "closes", Summary: "When it closes: 30m, 2h or 3d; after a day by default", Label: labelCloses},
		},
	}}
}

// Buttons returns those below a poll.
func (*Service) Buttons() []feature.Button {
	return []feature.Button{
		{Word: wordVote, Who: "everybody in the conversation", Does: "votes in a poll; again takes the vote back"},
		{Word: wordClose, Who: "the person who started the poll, or an administrator", Does: "closes a poll"},
	}
}

// Urgent reports that a press is a vote or closes a poll: nobody should wait for an answer that is being written.
func (*Service) Urgent(m chat.Message) bool {
	word, _, _ := strings.Cut(m.Text, " ")
	return m.Kind() == chat.EventPress && (word == wordVote || word == wordClose)
}

// Handle starts a poll, counts a vote, or closes a poll.
func (s *Service) Handle(ctx context.Context, m chat.Message) (*chat.Draft, error) {
	words, err := s.handle(ctx, m)
	var fault inputError
	switch {
	case errors.As(err, &fault):
		return &chat.Draft{Ephemeral: true, Failed: true, Text: string(fault)}, nil
	case err != nil:
		return nil, err
	}
	return &chat.Draft{Ephemeral: true, Text: words}, nil
}

// handle returns the answer to the author of the message.
func (s *Service) handle(ctx context.Context, m chat.Message) (string, error) {
	if m.Kind() == chat.EventPress {
		parts := strings.Fields(m.Text)
		switch {
		case len(parts) == 3 && parts[0] == wordVote:
			option, err := strconv.Atoi(parts[2])
			if err != nil {
				option = -1
			}
			return s.vote(ctx, m, parts[1], option)
		case len(parts) == 2 && parts[0] == wordClose:
			return s.closeByPress(ctx, m, parts[1])
		}
		return "", inputError("This poll is no longer known.")
	}
	q, err := parseRequest(m.Text)
	if err != nil {
		return "", err
	}
	var fault *chat.SetupError
	if err := s.o.CheckPost(ctx, m.Conversation, nil); errors.As(err, &fault) {
		return "", inputError("A poll needs a channel that I can post to: " + fault.Error() + ".")
	}
	return "The poll has begun.", s.start(ctx, m, q)
}
