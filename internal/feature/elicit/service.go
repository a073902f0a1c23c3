// Package elicit asks people the questions of tool servers: a form to fill in or an address to open, for the person on
// whose behalf the server was called. It promises that nobody else can see or answer the question, that the answer has
// the types that the server requested, that the text of a server is marked as such, and that silence is never an
// answer. A question ends with its call. Package mcp decides when a server can ask.
package elicit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature"
)

// Question is what a server wants to know.
type Question struct {
	Server  string
	Tool    string // that was called
	Message string
	Schema  json.RawMessage // of the answer: an object of plain fields; nil to open URL
	URL     string
}

// Action is how a person reacts to a question.
type Action string

// The actions, named as in MCP.
const (
	Accept  Action = "accept"
	Decline Action = "decline"
	Cancel  Action = "cancel"
)

// Answer is the person's answer. Content satisfies the question's Schema.
type Answer struct {
	Action  Action
	Content json.RawMessage
}

// Words of buttons, forms and messages, followed by a space and the ID of a question.
const (
	pressAnswer  = "elicit"
	pressOpen    = "elicit-open" // opens the address whose host was shown
	pressDecline = "decline"
	wordAnswer   = "answer"
)

const (
	maxOpen = 200 // questions at a time
	// idBytes is the length of a question's ID. Knowing one is not enough to answer.
	idBytes = 4
)

// ErrNobody is returned if there is nobody to ask.
var ErrNobody = errors.New("there is nobody here who could be asked")

// Offer notifies a person that a server wants them to open an address. Only they can see it, as often as they like,
// until the given time. It returns ErrNobody if it can notify nobody.
func (s *Service) Offer(ctx context.Context, to tool.Caller, q Question, until time.Time) error {
	if to.User.ID == "" || !s.o.Reaches(to.Conversation) {
		return ErrNobody
	}
	offer := &question{Question: q, id: text.RandomID(idBytes), caller: to, until: until}
	s.mu.Lock()
	s.dropExpired()
	// Counted with the questions of calls: each of them may be looked at with every message.
	full := len(s.open) >= maxOpen
	if !full {
		s.open[offer.id] = offer
	}
	s.mu.Unlock()
	if full {
		return errors.New("too many questions are open")
	}
	p := chat.Draft{
		Key:     offer.key(),
		Buttons: []chat.Button{{Label: "Show the link", Value: pressAnswer + " " + offer.id, Style: chat.Primary}},
		Text: fmt.Sprintf("**The MCP server `%s` wants %s to sign in.** Only they can see the link.",
			q.Server, nameOf(to.User)),
	}
	if err := s.o.Post(ctx, to.Conversation, p, ""); err != nil {
		s.forget(offer)
		return err
	}
	return nil
}

// Options are what a Service needs.
type Options struct {
	// Post posts at once, ahead of what waits in the conversation; if replaces is not
	// empty, the post with that key is replaced. Reaches reports whether it can post there.
	Post    func(ctx context.Context, to chat.Address, d chat.Draft, replaces string) error
	Reaches func(to chat.Address) bool
	Log     *slog.Logger
	Now     func() time.Time
}

// Service holds the questions that are open. It is safe for concurrent use.
type Service struct {
	o Options

	// mu guards open and others, and answered of each question.
	mu     sync.Mutex
	open   map[string]*question
	others map[string]*question // with forms, that calls of other replicas wait for
}

// question is an open Question: a call waits for it, or it is an offer.
type question struct {
	Question
	id       string
	caller   tool.Caller
	fields   []field
	answer   chan Answer // has room for one; nil if nobody waits for it
	until    time.Time   // of an offer
	answered bool
}

// New returns a Service without questions.
func New(o Options) *Service { return &Service{o: o, open: map[string]*question{}} }

// Ask asks the caller in ctx, and returns their answer. It waits as long as ctx lasts, and replaces the post at the
// end. It returns an error when ctx ends, when the question is invalid, when too many are open, and ErrNobody when
// nobody can be asked.
func (s *Service) Ask(ctx context.Context, q Question) (Answer, error) {
	caller := tool.CallerFrom(ctx)
	if caller.User.ID == "" || !s.o.Reaches(caller.Conversation) {
		return Answer{}, ErrNobody
	}
	asked := &question{Question: q, id: text.RandomID(idBytes), caller: caller, answer: make(chan Answer, 1)}
	if q.URL == "" {
		fields, err := parseFields(q.Schema)
		if err != nil {
			return Answer{}, fmt.Errorf("read what MCP server %s asks for: %w", q.Server, err)
		}
		asked.fields = fields
	} else if u, err := url.Parse(q.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return Answer{}, fmt.Errorf("MCP server %s asks to open something that is not a web address", q.Server)
	}
	s.mu.Lock()
	s.dropExpired()
	if len(s.open) >= maxOpen {
		s.mu.Unlock()
		return Answer{}, errors.New("too many questions are open")
	}
	// Before it is posted: the button may be pressed at once.
	s.open[asked.id] = asked
	s.mu.Unlock()
	defer s.forget(asked)
	if err := s.o.Post(ctx, caller.Conversation, asked.draft(), ""); err != nil {
		return Answer{}, err
	}
	caller.WaitForPerson("waits for an answer of " + nameOf(caller.User))
	outcome := "Not answered"
	defer func() {
		// Remove the buttons even if ctx has ended.
		over := context.WithoutCancel(ctx)
		d := chat.Draft{Key: asked.key() + "/over", Text: asked.title() + "\n\n" + outcome + "."}
		if err := s.o.Post(over, caller.Conversation, d, asked.key()); err != nil {
			s.o.Log.Warn("failed to post the end of a question", "server", q.Server, "error", err)
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

// dropExpired removes expired offers, since no call ends them. It is called before open is read: an expired offer must
// neither show its link nor take the place of a question. s.mu must be held.
func (s *Service) dropExpired() {
	now := s.o.Now()
	maps.DeleteFunc(s.open, func(_ string, q *question) bool { return !q.until.IsZero() && !now.Before(q.until) })
}

// forget removes a question from the open ones, if it is there.
func (s *Service) forget(q *question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, q.id)
}

// key is the key of the post that asks.
func (q *question) key() string { return "question/" + q.id }

// title says who asks and why, without the question itself, which is for one person alone.
func (q *question) title() string {
	return fmt.Sprintf("**The MCP server `%s` asks something** before `%s` can go on.", q.Server, q.Tool)
}

// draft returns the post that everybody sees: that something is asked, but not what.
func (q *question) draft() chat.Draft {
	label := "Answer"
	if q.URL != "" {
		label = "Show the link"
	}
	words := q.title() + "\n\nOnly " + nameOf(q.caller.User) + " can see it and answer."
	if len(q.fields) == 1 {
		words += " Press the button, or write here `answer` and the answer, or `decline`."
	}
	return chat.Draft{Key: q.key(), Text: words, Buttons: []chat.Button{
		{Label: label, Value: pressAnswer + " " + q.id, Style: chat.Primary},
		{Label: "Decline", Value: pressDecline + " " + q.id},
	}}
}

// nameOf returns a user's name without the characters that Markdown or a platform
// interprets.
func nameOf(u chat.User) string {
	name := strings.Map(func(c rune) rune {
		if strings.ContainsRune("*_`~[]()<>@#|\\\n\r", c) {
			return -1
		}
		return c
	}, u.Name)
	return cmp.Or(name, "whoever asked")
}

// find returns the open question that a message is about, the word that it says, and for an
// answer in writing the rest. A word without a question means that the question is over;
// without a word the message is about no question.
func (s *Service) find(m chat.Message) (q *question, what, rest string) {
	what, rest, _ = strings.Cut(strings.TrimSpace(m.Text), " ")
	what = strings.ToLower(strings.Trim(what, "`.!"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropExpired()
	switch {
	case m.Kind() == chat.EventEdit || m.Kind() == chat.EventDelete:
	case m.Kind() == chat.EventPress && (what == pressAnswer || what == pressOpen || what == pressDecline),
		m.Kind() == chat.EventForm && what == pressAnswer:
		// A missing one is over: the button of its post may still be there.
		return s.open[rest], what, ""
	case m.IsQuestion() && (what == wordAnswer && rest != "" || what == pressDecline && rest == ""):
		switch open := s.openHere(m); len(open) {
		case 0:
		case 1:
			return open[0], what, strings.TrimSpace(rest)
		default: // the words may be meant for any of them, and must not reach the wrong server
			return nil, wordWhich, ""
		}
	}
	return nil, "", ""
}

// wordWhich is what find returns for words that several questions could be meant by.
const wordWhich = "which"

// openHere returns the questions in the conversation of a message that its author may answer in
// words. s.mu is held.
func (s *Service) openHere(m chat.Message) []*question {
	var list []*question
	for _, q := range s.open {
		// Messages elsewhere are no answer: a server would get words that were not for it.
		if q.isFrom(m) && q.caller.Conversation == m.Conversation && !q.answered && q.answer != nil {
			list = append(list, q)
		}
	}
	return list
}

// isFrom reports whether a message comes from the person who is asked.
func (q *question) isFrom(m chat.Message) bool {
	return q.caller.Conversation.Platform == m.Conversation.Platform && q.caller.User.ID == m.Author.ID
}

// Module returns the ability to answer what tool servers ask.
func (s *Service) Module() feature.Module { return feature.Module{Features: []feature.Feature{s}} }

// Commands returns nothing: questions are answered by a button, a form or a word.
func (*Service) Commands() []chat.CommandSpec { return nil }

// Buttons returns the buttons below a question.
func (*Service) Buttons() []feature.Button {
	const who = "the person who is asked"
	return []feature.Button{
		{Word: pressOpen, Who: who, Does: "shows the address that a tool server asks to open"},
		{Word: pressAnswer, Who: who, Does: "opens the form, or shows the link, of a question that a tool server asks"},
		{Word: pressDecline, Who: who, Does: "declines a question that a tool server asks"},
	}
}

// Forms returns the form of a question.
func (*Service) Forms() []string { return []string{pressAnswer} }

// Urgent reports whether a message answers a question, and so must not wait behind the turn that waits for the answer.
func (s *Service) Urgent(m chat.Message) bool {
	q, what, _ := s.find(m)
	return q != nil || what != "" // even for a closed question, because Handle answers that
}

// OpenForm returns the form of the question whose button was pressed; nil if the message is
// about none. Its error is for the person who pressed.
func (s *Service) OpenForm(_ context.Context, m chat.Message) (*chat.Form, error) {
	q, what := s.findForm(m)
	switch {
	case what != pressAnswer || m.Kind() != chat.EventPress:
		return nil, nil
	case q == nil:
		return nil, errors.New("this question is over")
	case !q.isFrom(m):
		return nil, errors.New("only " + nameOf(q.caller.User) + " can answer this")
	case q.URL != "": // a link needs no form: Handle shows it
		return nil, nil
	}
	f := &chat.Form{
		ID:     pressAnswer + " " + q.id,
		Title:  "Asked by " + q.Server,
		Submit: "Answer",
		Intro: "The MCP server " + q.Server + " asks: " + q.Message +
			"\n\nWhat you enter goes to that server. Never enter a password.",
	}
	for _, x := range q.fields {
		f.Fields = append(f.Fields, x.formField)
	}
	return f, nil
}

// Handle delivers the answer of a message, and returns the confirmation. The draft is nil if the message answers no
// question.
func (s *Service) Handle(_ context.Context, m chat.Message) (*chat.Draft, error) {
	q, what, rest := s.find(m)
	switch {
	case what == "":
		return nil, nil
	case what == wordWhich:
		return refusalDraft("Several questions are open here; please press the button below the one you mean."), nil
	case q == nil:
		return refusalDraft("This question is over."), nil
	case !q.isFrom(m):
		return refusalDraft("Only " + nameOf(q.caller.User) + " can answer this."), nil
	case what == pressDecline:
		return s.deliverAnswer(q, Answer{Action: Decline}, "Declined."), nil
	case q.URL != "" && q.answer != nil && what != pressOpen:
		return q.hostDraft(), nil
	case q.URL != "":
		words := q.hostText() + "\n\n<" + q.URL + ">\n\nOpen it only if you expected this."
		return s.deliverAnswer(q, Answer{Action: Accept}, words), nil
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
	return s.deliverAnswer(q, Answer{Action: Accept, Content: content}, "Sent to `"+q.Server+"`."), nil
}

// CheckForm returns the errors of an answer, by the names of fields.
func (s *Service) CheckForm(_ context.Context, m chat.Message) map[string]string {
	q, what := s.findForm(m)
	if what != pressAnswer || q == nil || !q.isFrom(m) {
		return nil
	}
	faults := map[string]string{}
	for _, f := range q.fields {
		if _, err := buildContent([]field{f}, m.Values); err != nil {
			faults[f.formField.Name] = "Not taken: " + err.Error() + "."
		}
	}
	return faults
}

// hostText names the host that a person is asked to open, with the server's description.
func (q *question) hostText() string {
	u, _ := url.Parse(q.URL) // Ask has checked it
	// The host stands out, because the rest of an address can be made to mislead.
	return fmt.Sprintf("The MCP server `%s` asks you to open a page on **%s**:\n\n%s", q.Server, u.Host, quote(q.Message))
}

// hostDraft asks for consent to open the page: the server gets a yes only when the person has seen the host.
func (q *question) hostDraft() *chat.Draft {
	return &chat.Draft{Ephemeral: true, Text: q.hostText(), Buttons: []chat.Button{
		{Label: "Show the address", Value: pressOpen + " " + q.id, Style: chat.Primary},
		{Label: "Decline", Value: pressDecline + " " + q.id},
	}}
}

// deliverAnswer passes an answer to the waiting call, if it is the first one, and returns
// the reply with words.
func (s *Service) deliverAnswer(q *question, a Answer, words string) *chat.Draft {
	if q.answer == nil { // an offer: nobody waits, and the link may be shown again
		return &chat.Draft{Ephemeral: true, Text: words}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// A form may be sent twice, from two devices: the channel has room for one answer.
	if q.answered {
		return refusalDraft("This was answered before.")
	}
	q.answered = true
	q.answer <- a
	return &chat.Draft{Ephemeral: true, Text: words}
}

// refusalDraft returns an answer, for its reader alone, that nothing was sent.
func refusalDraft(s string) *chat.Draft { return &chat.Draft{Ephemeral: true, Failed: true, Text: s} }

// quote returns a text as a block quote, so that a server's words are not taken for the bot's.
func quote(s string) string { return "> " + strings.ReplaceAll(s, "\n", "\n> ") }
