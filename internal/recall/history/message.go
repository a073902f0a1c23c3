package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/text"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/markdown"
)

// botName is the author of what the bot said.
const botName = "ravenbot"

// Message is one thing that was said in a conversation.
type Message struct {
	Conversation chat.Address
	ID           string // unique in the conversation; that of an answer is its turn's with AnswerSuffix
	AuthorID     string // on the platform; empty: not known
	Author       string // a display name, or what is known in its place
	Bot          bool
	At           time.Time
	Text         string
	Link         string // leads people to the message; empty: not known
}

// Shown returns the words of the message for a list, on one line of at most n characters without formatting, as Markdown.
func (m Message) Shown(n int) string {
	return text.EscapeMarkdown(text.Shorten(text.OneLine(markdown.Plain(m.Text)), n))
}

// AnswerSuffix is added to the ID of a question for that of the answer.
const AnswerSuffix = "/answer"

// FromTurn returns what was said in a turn: the words of people, and the answer where there is one.
func FromTurn(a chat.Address, t conversation.Turn) []Message {
	var list []Message
	subjects := t.Subjects()
	for i, m := range t.UserMessages() {
		name, words := splitSpeaker(m)
		if words == "" {
			continue
		}
		// A turn that was stored with fewer subjects than messages still needs an ID for each.
		id := fmt.Sprintf("%s/%d", messageID(t.ID), i)
		if i < len(subjects) {
			id = messageID(subjects[i])
		}
		_, userID, _ := strings.Cut(t.User, "/")
		list = append(list, Message{
			Conversation: a,
			ID:           id,
			AuthorID:     userID,
			Author:       cmp.Or(name, userID, "somebody"),
			At:           t.Began,
			Text:         words,
		})
	}
	if answer := answerOf(t); answer != "" {
		list = append(list, Message{
			Conversation: a,
			ID:           messageID(t.ID) + AnswerSuffix,
			Author:       botName,
			Bot:          true,
			// Behind the question, whose time is all that a turn knows.
			At:   t.Began.Add(time.Millisecond),
			Text: answer,
		})
	}
	return list
}

// messageID returns the ID of a message within its platform, by its subject.
func messageID(subject string) string {
	if _, id, found := strings.Cut(subject, "/"); found {
		return id
	}
	return subject
}

// speakerLine matches what stands before the words of a message in the prompt: its author, and perhaps when it was
// said.
var speakerLine = text.Pattern(`^(.{1,100}?) says(?: \([^\n]*\))?:\n$`)

// splitSpeaker returns the author and the words of a user's message. The author is empty where the message does not
// tell.
func splitSpeaker(m llm.Message) (name, words string) {
	var said []string
	for _, p := range m.Parts {
		// The speaker has a source of its own; turns from before that have it as the first text.
		if found := speakerLine().FindStringSubmatch(p.Text); found != nil && len(said) == 0 &&
			(p.Source == llm.SourceSpeaker || p.Source == llm.SourceWords) {
			name = found[1]
			continue
		}
		if p.Source == llm.SourceWords && p.Text != "" && !p.Thought {
			said = append(said, p.Text)
		}
	}
	return name, strings.TrimSpace(text.Clean(strings.Join(said, "\n")))
}

// answerOf returns the text of the answer of a turn, or "".
func answerOf(t conversation.Turn) string {
	if t.State != conversation.Answered {
		return ""
	}
	for _, m := range slices.Backward(t.Messages) {
		if m.Role != llm.Assistant {
			break
		}
		if words := strings.TrimSpace(text.Clean(m.Text())); words != "" && len(m.Calls()) == 0 {
			return words
		}
	}
	return ""
}

// FromStored returns a message that is part of no turn.
func FromStored(m store.Message) Message {
	return Message{
		Conversation: m.Conversation,
		ID:           m.ID,
		AuthorID:     m.Author.ID,
		Author:       cmp.Or(m.Author.Name, m.Author.ID, "somebody"),
		Bot:          m.Bot,
		At:           m.At,
		Text:         m.Text,
	}
}

// fromSaid returns a message as a platform read it back.
func fromSaid(a chat.Address, s chat.Said) Message {
	return Message{
		Conversation: a,
		ID:           cmp.Or(messageID(s.Subject), s.ID),
		AuthorID:     s.ByID,
		Author:       cmp.Or(text.OneLine(s.By), "somebody"),
		Bot:          s.Bot || s.Self,
		At:           s.At,
		Text:         strings.TrimSpace(text.Clean(s.Text)),
		Link:         s.Link,
	}
}
