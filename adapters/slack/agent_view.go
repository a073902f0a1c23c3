package slack

import (
	"context"
	"slices"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/turn/markdown"
)

// assistantScope lets the bot take part in Slack's agent view. In an app with this scope each
// direct message begins a thread.
const assistantScope = "assistant:write"

// Bounds of what is done for the agent view beside answering.
const (
	choreTimeout = 10 * time.Second
	maxChores    = 64
	maxTitle     = 60 // characters
)

// prompt is what the agent view offers to ask.
type prompt struct {
	Title   string `json:"title"`
	Message string `json:"message"`
}

// suggestedPrompts returns the questions that the agent view and the manifest show.
func suggestedPrompts() []prompt {
	return []prompt{
		{"What can you do?", "What can you do for me?"},
		{"What is new?", "What is new in the feeds that you know?"},
		{"Which tools do you have?", "Which tools can you use here, and what for?"},
	}
}

// agentView holds what is to be done for the agent view. All of it is optional: work for which
// there is no room is dropped.
type agentView struct {
	chores   chan func(context.Context) error
	untitled kit.Memory[bool] // threads that Slack began and that have no title yet
}

// queueChore queues work and returns at once. Where maxChores wait already the work is dropped: none of it is needed
// for an answer.
func (s *Slack) queueChore(do func(context.Context) error) {
	select {
	case s.agentView.chores <- do:
	default:
		s.o.Log.Debug("agent view queue full, update dropped")
	}
}

// runChores does queued work, one after the other and each within choreTimeout, until ctx ends.
func (s *Slack) runChores(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case do := <-s.agentView.chores:
			limited, cancel := context.WithTimeout(ctx, choreTimeout)
			err := do(limited)
			cancel()
			if err != nil && ctx.Err() == nil {
				s.reportChoreError(err)
			}
		}
	}
}

// reportChoreError logs an error of work for the agent view. A refusal that will not change is
// logged once.
func (s *Slack) reportChoreError(err error) {
	word := errorCode(err)
	if word == "" || transientCodes[word] {
		s.o.Log.Debug("agent view not updated", "error", redact(err))
		return
	}
	if known, _ := s.unsupported.Change("agent view: "+word, func(bool, bool) bool { return true }); known {
		return
	}
	remedy := remedies[word]
	if remedy == "" {
		remedy = "switch on the agent view of the app and reinstall it; its manifest is printed by ravenbot slack manifest"
	}
	s.o.Log.Warn("slack refuses updates of the agent view", "error", err, "remedy", remedy)
}

// handleOpened offers suggested questions where somebody opened the bot's messages, by an event of
// the agent view or of the older assistant view. It reports whether the event was one of them.
func (s *Slack) handleOpened(e *wireEvent) bool {
	if e.Type != "assistant_thread_started" && e.Type != "app_home_opened" {
		return false
	}
	channel, thread := e.Channel, ""
	if e.Type == "assistant_thread_started" {
		channel, thread = e.Thread.Channel, e.Thread.TS
		s.agentView.untitled.Put(threadKey(channel, thread), true)
	} else if e.Tab != "messages" || !s.self.agent {
		return true
	}
	if channel == "" {
		return true
	}
	s.queueChore(func(ctx context.Context) error {
		p := slackgo.AssistantThreadsSetSuggestedPromptsParameters{ChannelID: channel, ThreadTS: thread}
		for _, one := range suggestedPrompts() {
			p.AddPrompt(one.Title, one.Message)
		}
		return s.api.SetAssistantThreadsSuggestedPromptsContext(ctx, p)
	})
	return true
}

// titleThread names a thread of the agent view after its first question.
func (s *Slack) titleThread(m chat.Message) {
	at, ts := m.Conversation, m.Reply.MessageID
	if at.Thread == "" || m.Kind() != chat.EventMessage || !m.Direct {
		return
	}
	// Slack says that a thread began, or, in the agent view, the question itself is its first message.
	_, begun := s.agentView.untitled.Get(threadKey(at.Channel, at.Thread))
	if !begun && !(s.self.agent && at.Thread == ts) {
		return
	}
	s.agentView.untitled.Drop(threadKey(at.Channel, at.Thread))
	if makeTitle(m.Text) == "" {
		return
	}
	s.queueChore(func(ctx context.Context) error {
		err := s.setTitle(ctx, at, makeTitle(m.Text))
		if err != nil || s.o.Title == nil {
			return err
		}
		if better := makeTitle(s.o.Title(ctx, m)); better != "" {
			return s.setTitle(ctx, at, better)
		}
		return nil
	})
}

// makeTitle returns a text as a title: one line, cut to maxTitle.
func makeTitle(text string) string {
	return cutText(markdown.Slack(strings.Join(strings.Fields(text), " ")), maxTitle)
}

// setTitle names a thread of the agent view, in place of the name that it has.
func (s *Slack) setTitle(ctx context.Context, at chat.Address, title string) error {
	return s.api.SetAssistantThreadsTitleContext(
		ctx,
		slackgo.AssistantThreadsSetTitleParameters{ChannelID: at.Channel, ThreadTS: at.Thread, Title: title},
	)
}

// isDirectChannel reports whether a channel is a direct message between one person and the bot.
func isDirectChannel(channel string) bool { return strings.HasPrefix(channel, "D") }

// scopesOf returns the scopes of a token, sorted, which Slack names in a header of its answers, separated by commas;
// false if the header is empty.
func scopesOf(header string) ([]string, bool) {
	var list []string
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one != "" {
			list = append(list, one)
		}
	}
	slices.Sort(list)
	return list, len(list) > 0
}
