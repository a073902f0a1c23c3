// Package elicit puts questions of tool servers to people: a form that the one on
// whose behalf the server was called fills in, or an address that they open. It
// promises that nobody else can answer or see what is asked, that what comes back
// has the types that the server wants, that a server's text is shown as a stranger's,
// and that no answer is given for somebody who does not. A question lives as long as
// the call that it belongs to.
package elicit

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/feature"
	"ravenbot/internal/tool"
)

// Question is what a server wants to know.
type Question struct {
	Server  string
	Tool    string // that was called
	Message string
	Schema  json.RawMessage // an object of plain fields; nil: URL is to be opened
	URL     string
}

// Action is what a person does with a question.
type Action string

// The actions, by the names that MCP has for them.
const (
	Accept  Action = "accept"
	Decline Action = "decline"
	Cancel  Action = "cancel"
)

// Answer is what the person said. Content has the form of the question's Schema.
type Answer struct {
	Action  Action
	Content json.RawMessage
}

// What buttons, forms and words say: followed by a space and the ID of a question.
const (
	pressAnswer  = "elicit"
	pressDecline = "decline"
	wordAnswer   = "answer"
)

// maxOpen is how many questions may be open at a time.
const maxOpen = 200

// ErrNobody is returned where there is nobody who could be asked.
var ErrNobody = errors.New("there is nobody here who could be asked")

// Offer tells a person that a server wants them to open an address, which only they
// can see, as often as they like, until it ends.
func (d *Service) Offer(ctx context.Context, to tool.Caller, q Question, until time.Time) error {
	if to.User.ID == "" || !d.o.Reaches(to.Conversation) {
		return ErrNobody
	}
	offer := &question{Question: q, id: newID(), caller: to, until: until}
	d.mu.Lock()
	for id, other := range d.open {
		if !other.until.IsZero() && !d.o.Now().Before(other.until) {
			delete(d.open, id)
		}
	}
	full := len(d.open) >= maxOpen
	if !full {
		d.open[offer.id] = offer
	}
	d.mu.Unlock()
	if full {
		return errors.New("too many questions are open")
	}
	p := chat.Draft{Key: offer.key(), Buttons: []chat.Button{{Label: "Show the link", Value: pressAnswer + " " + offer.id, Style: chat.Primary}},
		Text: fmt.Sprintf("**The MCP server `%s` wants %s to sign in.** Only they can see the link.", q.Server, nameOf(to.User))}
	if err := d.o.Post(ctx, to.Conversation, p, ""); err != nil {
		d.forget(offer)
		return err
	}
	return nil
}

// Options are what a Desk needs.
type Options struct {
	// Post posts at once, past what waits in the conversation; with replaces it takes
	// the place of the post that has this key. Reaches tells whether it can.
	Post    func(ctx context.Context, to chat.Address, d chat.Draft, replaces string) error
	Reaches func(to chat.Address) bool
	Log     *slog.Logger
	Now     func() time.Time
}

// Service holds the questions that are open. It is safe for concurrent use.
type Service struct {
	o Options

	mu   sync.Mutex
	open map[string]*question
}

type question struct {
	Question
	id       string
	caller   tool.Caller
	fields   []field
	answer   chan Answer // has room for one; nil: nobody waits for it
	until    time.Time   // of an offer
	answered bool
}

// New returns an empty Desk.
func New(o Options) *Service { return &Service{o: o, open: map[string]*question{}} }

// Ask asks the caller in ctx, and returns their answer; the error is that of ctx, or
// says that nobody can be asked.
func (d *Service) Ask(ctx context.Context, q Question) (Answer, error) {
	caller := tool.CallerFrom(ctx)
	if caller.User.ID == "" || !d.o.Reaches(caller.Conversation) {
		return Answer{}, ErrNobody
	}
	asked := &question{Question: q, id: newID(), caller: caller, answer: make(chan Answer, 1)}
	if q.URL == "" {
		fields, err := parseFields(q.Schema)
		if err != nil {
			return Answer{}, fmt.Errorf("read what MCP server %s asks for: %w", q.Server, err)
		}
		asked.fields = fields
	} else if u, err := url.Parse(q.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return Answer{}, fmt.Errorf("MCP server %s asks to open what is no address", q.Server)
	}
	d.mu.Lock()
	if len(d.open) >= maxOpen {
		d.mu.Unlock()
		return Answer{}, errors.New("too many questions are open")
	}
	d.open[asked.id] = asked
	d.mu.Unlock()
	defer d.forget(asked)
	if err := d.o.Post(ctx, caller.Conversation, asked.draft(), ""); err != nil {
		return Answer{}, err
	}
	report(caller, "waits for an answer of "+nameOf(caller.User))
	outcome := "Not answered"
	defer func() {
		over := context.WithoutCancel(ctx)
		if err := d.o.Post(over, caller.Conversation, chat.Draft{Key: asked.key() + "/over", Text: asked.title() + "\n\n" + outcome + "."}, asked.key()); err != nil {
			d.o.Log.Warn("end of a question not shown", "server", q.Server, "error", err)
		}
	}()
	select {
	case a := <-asked.answer:
		if outcome = "Declined"; a.Action == Accept {
			outcome = "Answered"
		}
		return a, nil
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
}

func report(c tool.Caller, note string) {
	if c.Report != nil {
		c.Report(note)
	}
}

func newID() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func (d *Service) forget(q *question) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, q.id)
}

func (q *question) key() string { return "question/" + q.id }

func (q *question) title() string {
	return fmt.Sprintf("**The MCP server `%s` asks something** before `%s` can go on.", q.Server, q.Tool)
}

// draft is what everybody sees: that something is asked, and not what.
func (q *question) draft() chat.Draft {
	label := "Answer"
	if q.URL != "" {
		label = "Show the link"
	}
	text := q.title() + "\n\nOnly " + nameOf(q.caller.User) + " can see it and answer."
	if len(q.fields) == 1 {
		text += " Press the button, or write `answer` and the answer, or `decline`."
	}
	return chat.Draft{Key: q.key(), Text: text, Buttons: []chat.Button{
		{Label: label, Value: pressAnswer + " " + q.id, Style: chat.Primary}, {Label: "Decline", Value: pressDecline + " " + q.id}}}
}

// nameOf is safe to stand in Markdown.
func nameOf(u chat.User) string {
	name := strings.Map(func(c rune) rune {
		if strings.ContainsRune("*_`~[]()<>@#|\\\n\r", c) {
			return -1
		}
		return c
	}, u.Name)
	return cmp.Or(name, "whoever asked")
}

// find gives the open question that a message is about, and what it says of it.
func (d *Service) find(m chat.Message) (q *question, what, rest string) {
	text := strings.TrimSpace(m.Text)
	what, rest, _ = strings.Cut(text, " ")
	what = strings.ToLower(strings.Trim(what, "`.!"))
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case m.Kind() == chat.EventEdit || m.Kind() == chat.EventDelete:
	case m.Kind() == chat.EventPress && (what == pressAnswer || what == pressDecline), m.Kind() == chat.EventForm && what == pressAnswer:
		return d.open[rest], what, ""
	case m.IsQuestion() && (what == wordAnswer && rest != "" || what == pressDecline && rest == ""):
		for _, open := range d.open {
			if open.isFrom(m) && !open.answered && open.answer != nil {
				return open, what, strings.TrimSpace(rest)
			}
		}
	}
	return nil, "", ""
}

// isFrom reports that a message comes from the one who is asked.
func (q *question) isFrom(m chat.Message) bool {
	return q.caller.Conversation.Platform == m.Conversation.Platform && q.caller.User.ID == m.Author.ID
}

// Commands returns nothing: questions are answered by a button, a form or a word.
func (*Service) Commands() []chat.CommandSpec { return nil }

// Buttons returns those below a question.
func (*Service) Buttons() []feature.Button {
	const who = "the person who is asked"
	return []feature.Button{
		{Word: pressAnswer, Who: who, Does: "opens the form, or shows the link, of a question that a tool server asks"},
		{Word: pressDecline, Who: who, Does: "declines a question that a tool server asks"},
	}
}

// Forms returns the form of a question.
func (*Service) Forms() []string { return []string{pressAnswer} }

// Urgent reports that a message answers a question, and so must not wait behind the
// work that waits for it.
func (d *Service) Urgent(m chat.Message) bool {
	q, what, _ := d.find(m)
	return q != nil || what != "" // of a question that is over the answer says so
}

// OpenForm returns the form of the question whose button was pressed. Nil: the message is
// about none.
func (d *Service) OpenForm(_ context.Context, m chat.Message) (*chat.Form, error) {
	q, what, _ := d.find(m)
	switch {
	case what != pressAnswer || m.Kind() != chat.EventPress:
		return nil, nil
	case q == nil:
		return nil, errors.New("this question is over")
	case !q.isFrom(m):
		return nil, errors.New("only " + nameOf(q.caller.User) + " can answer this")
	case q.URL != "":
		return nil, nil
	}
	f := &chat.Form{ID: pressAnswer + " " + q.id, Title: "Asked by " + q.Server, Submit: "Answer",
		Intro: "The MCP server " + q.Server + " asks: " + q.Message + "\n\nWhat you enter goes to that server. Never enter a password."}
	for _, x := range q.fields {
		f.Fields = append(f.Fields, x.formField)
	}
	return f, nil
}

// Handle takes what a message says to a question. The draft is nil where it is about none.
func (d *Service) Handle(_ context.Context, m chat.Message) (*chat.Draft, error) {
	q, what, rest := d.find(m)
	switch {
	case what == "":
		return nil, nil
	case q == nil:
		return refusalDraft("This question is over."), nil
	case !q.isFrom(m):
		return refusalDraft("Only " + nameOf(q.caller.User) + " can answer this."), nil
	case what == pressDecline:
		return d.deliverAnswer(q, Answer{Action: Decline}, "Declined."), nil
	case q.URL != "":
		u, _ := url.Parse(q.URL) // it was read before
		text := fmt.Sprintf("The MCP server `%s` asks you to open a page on **%s**:\n\n%s\n\n<%s>\n\nOpen it only if you expected this.", q.Server, u.Host, quote(q.Message), q.URL)
		return d.deliverAnswer(q, Answer{Action: Accept}, text), nil
	case m.Kind() == chat.EventForm:
	case what == wordAnswer && len(q.fields) == 1:
		m.Values = map[string]string{q.fields[0].formField.Name: rest}
	default:
		return refusalDraft("Please press the button below the question: it asks for several things."), nil
	}
	content, err := buildContent(q.fields, m.Values)
	if err != nil {
		return refusalDraft("Not sent: " + err.Error() + ". Press the button again."), nil
	}
	return d.deliverAnswer(q, Answer{Action: Accept, Content: content}, "Sent to `"+q.Server+"`."), nil
}

// deliverAnswer hands an answer over, if it is the first.
func (d *Service) deliverAnswer(q *question, a Answer, words string) *chat.Draft {
	if q.answer == nil {
		return &chat.Draft{Ephemeral: true, Text: words}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.answered {
		return refusalDraft("This was answered before.")
	}
	q.answered = true
	q.answer <- a
	return &chat.Draft{Ephemeral: true, Text: words}
}

func refusalDraft(s string) *chat.Draft { return &chat.Draft{Ephemeral: true, Failed: true, Text: s} }

func quote(s string) string { return "> " + strings.ReplaceAll(s, "\n", "\n> ") }
