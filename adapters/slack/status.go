package slack

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	slackgo "github.com/slack-go/slack"

	"ravenbot/internal/core/chat"
)

// What shows that an answer is being made: the status of a thread or, where Slack takes none, a
// reaction to the question. A command in a channel is neither in a thread nor a message: its author
// alone gets a note.
const (
	statusThinking   = "is thinking…"
	thinkingReaction = "eyes"
	noteThinking     = "I am working on it…"
)

// noteWithin is how long after a command its author is told that the answer is being made. One that the bot has dropped
// stays among those without an answer.
const noteWithin = 5 * time.Minute

// Keys of what Slack refuses everywhere.
const (
	noStatus    = "status of threads"
	noReactions = "reactions"
)

// Typing shows that an answer is being made, until something is posted there. Channels take a status since March 2026
// (scope chat:write); a place without a thread gets a reaction. It returns nil where nothing can be shown, and an error
// where Slack did not answer; either way the answer itself is not affected.
func (s *Slack) Typing(ctx context.Context, to chat.Address) error {
	select {
	case <-s.ready:
	default:
		return nil
	}
	if showing, _ := s.partialShown.Get(threadKey(to.Channel, to.Thread)); showing {
		return nil
	}
	if noted, err := s.noteCommands(ctx, to); noted || err != nil {
		return err
	}
	if refused, _ := s.unsupported.Get(noStatus); to.Thread == "" || refused {
		return s.react(ctx, to)
	}
	limited, cancel := context.WithTimeout(ctx, choreTimeout)
	defer cancel()
	err := s.api.SetAssistantThreadsStatusContext(
		limited,
		slackgo.AssistantThreadsSetStatusParameters{
			ChannelID: to.Channel,
			ThreadTS:  to.Thread,
			Status:    statusThinking,
		},
	)
	word := errorCode(err)
	if word == "" || transientCodes[word] {
		return err
	}
	// A refusal of this one place says nothing about others.
	if !channelCodes[word] {
		s.noteUnsupported(noStatus, err)
	}
	return s.react(ctx, to)
}

// expectAnswer remembers a question by /raven until its answer is posted.
func (s *Slack) expectAnswer(m chat.Message) {
	var h handle
	if m.Command != chat.CommandAsk || json.Unmarshal(m.Reply.Handle, &h) != nil || h.ResponseURL == "" {
		return
	}
	where := threadKey(m.Conversation.Channel, m.Conversation.Thread)
	s.commands.Change(where, func(list []pendingCommand, _ bool) []pendingCommand {
		if slices.ContainsFunc(list, func(c pendingCommand) bool { return c.ResponseURL == h.ResponseURL }) {
			return list // Slack delivers it again
		}
		return append(slices.Clip(list), pendingCommand{handle: h})
	})
}

// pendingCommand is a command without an answer.
type pendingCommand struct {
	handle
	noted bool // its author knows that the answer is being made
}

// noteCommands tells the authors of the commands in a place that their answers are being made, each once. It reports
// whether there are commands.
func (s *Slack) noteCommands(ctx context.Context, to chat.Address) (bool, error) {
	where := threadKey(to.Channel, to.Thread)
	if list, _ := s.commands.Get(where); len(list) == 0 {
		return false, nil
	}
	// Change returns the list as it was, so that of several callers one alone finds a command that is not noted.
	list, _ := s.commands.Change(where, func(list []pendingCommand, _ bool) []pendingCommand {
		list = slices.Clone(list)
		for i := range list {
			list[i].noted = true
		}
		return list
	})
	var failed error
	for _, c := range list {
		if c.noted || s.o.Now().Sub(c.Received) > noteWithin || !s.isSlackAddress(c.ResponseURL) ||
			!s.countResponseUse(c.ResponseURL) {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, choreTimeout)
		err := slackgo.PostWebhookCustomHTTPContext(limited, c.ResponseURL, s.client,
			&slackgo.WebhookMessage{Text: noteThinking, ResponseType: slackgo.ResponseTypeEphemeral})
		cancel()
		if err != nil {
			failed = errors.Join(failed, redact(err))
		}
	}
	return len(list) > 0, failed
}

// endCommand forgets a command whose answer is being posted.
func (s *Slack) endCommand(to chat.Address, h handle) {
	if h.ResponseURL == "" {
		return
	}
	where := threadKey(to.Channel, to.Thread)
	if list, _ := s.commands.Get(where); len(list) == 0 {
		return
	}
	s.commands.Change(where, func(list []pendingCommand, _ bool) []pendingCommand {
		return slices.DeleteFunc(slices.Clone(list), func(c pendingCommand) bool { return c.ResponseURL == h.ResponseURL })
	})
}

// noteUnsupported remembers that Slack refuses something everywhere, and tells the operator once.
func (s *Slack) noteUnsupported(what string, err error) {
	if known, _ := s.unsupported.Change(what, func(bool, bool) bool { return true }); !known {
		s.o.Log.Warn("slack refuses to show that an answer is being made", "what", what, "error", err,
			"remedy", "reinstall the app with the scopes that ravenbot slack manifest prints")
	}
}

// react puts a reaction on the newest question of a place, unless it has one. A reaction that is not certain is noted
// as there, so that clearReaction takes it back.
func (s *Slack) react(ctx context.Context, to chat.Address) error {
	where := threadKey(to.Channel, to.Thread)
	ts, known := s.asked.Get(where)
	if refused, _ := s.unsupported.Get(noReactions); !known || refused {
		return nil
	}
	if was, _ := s.reacted.Change(where, func(string, bool) string { return ts }); was == ts {
		return nil
	}
	// Not cut off when the answer comes: it would not be known whether there is a reaction to take back.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), choreTimeout)
	defer cancel()
	err := s.api.AddReactionContext(limited, thinkingReaction, slackgo.NewRefToMessage(to.Channel, ts))
	if word := errorCode(err); word != "" && word != "already_reacted" {
		s.reacted.Drop(where)
		if !transientCodes[word] && !channelCodes[word] {
			s.noteUnsupported(noReactions, err)
		}
		return err
	}
	if ctx.Err() != nil { // the answer came meanwhile
		s.clearReaction(to)
	}
	return nil
}

// clearReaction takes the reaction back that showed that an answer is being made.
func (s *Slack) clearReaction(to chat.Address) {
	where := threadKey(to.Channel, to.Thread)
	ts, known := s.reacted.Get(where)
	if !known {
		return
	}
	s.reacted.Drop(where)
	s.queueChore(func(ctx context.Context) error {
		err := s.api.RemoveReactionContext(ctx, thinkingReaction, slackgo.NewRefToMessage(to.Channel, ts))
		if word := errorCode(err); word == "no_reaction" || channelCodes[word] || word == "message_not_found" {
			return nil
		}
		return err
	})
}
