package admin

import (
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/store"
)

// turnView is a turn as the API shows it, without the data of a provider and the thinking of the model.
type turnView struct {
	ID       string             `json:"id"`
	Began    time.Time          `json:"began"`
	State    conversation.State `json:"state"`
	Served   string             `json:"served,omitempty"`
	Error    string             `json:"error,omitempty"`
	Usage    llm.Usage          `json:"usage"`
	Origin   origin.Origin      `json:"origin,omitzero"`
	Messages []messageView      `json:"messages"`
}

type messageView struct {
	Role    llm.Role     `json:"role"`
	Text    string       `json:"text,omitempty"`
	Calls   []llm.Call   `json:"calls,omitempty"`
	Results []llm.Result `json:"results,omitempty"`
}

// plainTurns returns turns as the API shows them.
func plainTurns(turns []conversation.Turn) []turnView {
	views := make([]turnView, len(turns))
	for i, t := range turns {
		views[i] = turnView{ID: t.ID, Began: t.Began, State: t.State, Served: t.Served, Error: t.Error, Usage: t.Usage, Origin: t.Origin,
			Messages: make([]messageView, len(t.Messages))}
		for j, m := range t.Messages {
			views[i].Messages[j] = plainMessage(m)
		}
	}
	return views
}

// plainMessage returns a message as the API shows it.
func plainMessage(m llm.Message) messageView {
	v := messageView{Role: m.Role}
	for _, p := range m.Parts {
		switch {
		case p.Call != nil:
			v.Calls = append(v.Calls, *p.Call)
		case p.Result != nil:
			v.Results = append(v.Results, *p.Result)
		case p.Text != "" && !p.Thought:
			v.Text += p.Text
		}
	}
	return v
}

// lineView is a line of a web room: a person's message, or a post of the bot.
type lineView struct {
	ID   string    `json:"id"`
	At   time.Time `json:"at"`
	User string    `json:"user,omitempty"` // absent: the bot
	// Deleted: it is empty, because a person deleted it or the question that it answered.
	Deleted bool `json:"deleted,omitempty"`
	answerView
}

// plainLines returns the lines of a web room as the API shows them.
func plainLines(lines []store.Entry) []lineView {
	views := make([]lineView, len(lines))
	for i, l := range lines {
		views[i] = lineView{ID: l.ID, At: l.At, Deleted: l.Deleted, answerView: answerView{Text: l.Text}}
		if l.User != nil {
			views[i].User = l.User.Name
		}
		if d := l.Draft; d != nil {
			views[i].answerView = answerView{l.ID, d.Text, d.Cards, d.Tools, d.Footer, d.Failed}
		}
	}
	return views
}

// storedMessageView is a message that is part of no turn, as in exports.
type storedMessageView struct {
	Conversation string    `json:"conversation"`
	ID           string    `json:"id"`
	Author       chat.User `json:"author"`
	Bot          bool      `json:"bot"`
	At           time.Time `json:"at"`
	Text         string    `json:"text"`
}

// plainMessages returns messages that are part of no turn as the API shows them.
func plainMessages(list []store.Message) []storedMessageView {
	views := make([]storedMessageView, len(list))
	for i, m := range list {
		views[i] = storedMessageView{m.Conversation.String(), m.ID, m.Author, m.Bot, m.At, m.Text}
	}
	return views
}
