// Package agent is the turn engine: it takes a message, works on it with a
// language model and tools, and makes the answer. It promises that every message
// gets an answer or one plain sentence about what went wrong, that tools run at
// most once unless they say that repeating is harmless, that a turn cut off by a
// crash goes on at the step where it stood, and that no model or tool can keep it
// busy for ever. A conversation that outgrows its window is summed up in the
// background (Run). Who may use what is handed in as a Profile and a decision; when
// and where the answer is posted is delivery's business.
package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/tool"
)

// Memory keeps conversations.
type Memory interface {
	Turns(ctx context.Context, a chat.Address, r store.Range) ([]conversation.Turn, error)
	// TurnOf gives the turn that holds a message; store.ErrNotFound: none does. The
	// conversation is given also where the turn itself is gone.
	TurnOf(ctx context.Context, subject string) (chat.Address, conversation.Turn, error)
	// SaveTurn keeps a turn, with the calls that ended since it was saved last.
	SaveTurn(ctx context.Context, a chat.Address, turn *conversation.Turn, calls ...store.ToolCall) error
	DeleteTurn(ctx context.Context, a chat.Address, seq uint64) error
}

// Summaries keeps what stands for the older turns of conversations.
type Summaries interface {
	Summary(ctx context.Context, a chat.Address) (conversation.Summary, error)
	SaveSummary(ctx context.Context, a chat.Address, s conversation.Summary) error
}

// Toolbox gives the tools that are there now.
type Toolbox interface {
	List() []tool.Named
}

// Discovery stands for many tools with a few that find and run them.
type Discovery interface {
	// Sync tells of all tools there are.
	Sync(all []tool.Named)
	// Tools gives the few for one turn; they show nothing but what usable gives.
	Tools(usable func() []tool.Named) []tool.Named
	// Unwrap gives the call that is meant by one. The error is for the model.
	Unwrap(name string, args json.RawMessage) (string, json.RawMessage, error)
	Prompt() string // explains them to a model
}

// Model is a language model under its configured name. Timeout bounds one
// request with all its repeats.
type Model struct {
	llm.Model
	Timeout time.Duration
}

// Profile is how a message is to be worked on: an agent of the configuration
// with the settings of its channel.
type Profile struct {
	Agent     string
	Models    []string // configured names, each standing in for those before it
	Utility   []string // the same for titles and for summaries of what is old; none: Models
	System    string
	MaxSteps  int // rounds of tool calls
	MaxResult int // bytes of a tool result shown to the model at once
	MaxTokens int // that a turn may use before it has to answer; 0: any number
	Uses      func(tool.Named) bool
	Servers   func(name string) bool // MCP servers that it may reach; nil: all
	ToolText  bool                   // System holds a text of the operator's about tools
	// Recall gives what the agent knows from files about a question, for the system
	// prompt. nil: nothing.
	Recall func(ctx context.Context, question string) string
}

// Calls makes tool calls that fit and are allowed.
type Calls interface {
	// Call gives what became of a call, and its record. shown is how many bytes of a
	// result the model is shown at once.
	Call(ctx context.Context, in tool.Intent, shown int) (tool.Outcome, store.ToolCall)
	// Refuse gives the same of a call that is not to be made; in.Tool may have a name alone.
	Refuse(ctx context.Context, in tool.Intent, why string, shown int) (tool.Outcome, store.ToolCall)
}

// Command answers one of the words behind /raven.
type Command func(ctx context.Context, m chat.Message) chat.Draft

// Options are what an Engine needs. All functions may be called concurrently.
type Options struct {
	Route func(m chat.Message) Profile
	Model func(name string) (Model, bool) // by its configured name; false: it is not switched on
	Tools Toolbox
	// Discovery is used where a profile has more tools than Threshold; nil: never.
	Discovery Discovery
	Threshold func() int
	// Settled returns when every source of tools that is being connected is there
	// or has failed once, or ctx ends; nil: there is nothing to wait for.
	Settled func(ctx context.Context)
	// Hold keeps the tools that are there now until release is called; nil: they stay.
	Hold  func() (release func())
	Calls Calls
	// Aside answers a message that is about work under way, such as a decision that
	// it waits for; false: it is none. nil: there are none.
	Aside func(ctx context.Context, m chat.Message) (chat.Draft, bool)
	// Fresh reports that a call of a turn waited for somebody's approval and was not
	// made; nil: none ever does.
	Fresh     func(turn, call string) bool
	Memory    Memory
	Summaries Summaries
	Feedback  func(context.Context, store.Feedback) error // keeps what somebody thinks of an answer
	// Fetch reads a file of a message of a platform: at most limit bytes.
	Fetch func(ctx context.Context, platform string, f chat.File, limit int64) ([]byte, error)
	Used  func(context.Context, store.Usage) error // counts what was used outside of turns; nil: nobody does
	// Spend lets a request be made in the name of a channel and a user, and gives what
	// takes its count when it has ended; an error keeps it from being made. nil: all are.
	Spend    func(ctx context.Context, on store.Usage, q llm.Request) (settle func(llm.Usage), err error)
	Window   conversation.Window
	Commands map[string]Command
	Log      *slog.Logger
	Now      func() time.Time
	Jitter   func() float64 // in [0,1)
}

// Engine answers messages. It is safe for concurrent use by different
// conversations; one conversation's messages must come one at a time.
type Engine struct {
	o       Options
	history *histories
	full    chan chat.Address // conversations to be compacted

	summing sync.Mutex   // held while a summary is written
	purges  atomic.Int64 // counts what was removed, so that no summary brings it back
}

// New returns an engine.
func New(o Options) *Engine {
	return &Engine{o: o, history: newHistories(o), full: make(chan chat.Address, mostFull)}
}

// Forget drops what the engine remembers of a conversation that was deleted.
func (e *Engine) Forget(a chat.Address) {
	e.purges.Add(1)
	e.history.forget(a)
}

// Answer works on a message, or on several at once. The turn is nil where nothing
// is to be remembered. When what was asked is revised both are nil and what was
// found out so far is kept for the next call.
func (e *Engine) Answer(ctx context.Context, q chat.Asked, show func(chat.Progress)) (*conversation.Turn, *chat.Draft) {
	m := q.Last()
	if e.o.Aside != nil {
		if d, ok := e.o.Aside(ctx, m); ok {
			return nil, &d
		}
	}
	name := m.Command
	what, turn := m.Press()
	if name == chat.Pressed && what != chat.PressRetry {
		return nil, e.pressed(ctx, m, what, turn)
	}
	if strings.TrimSpace(m.Text) == "" && len(m.Files) == 0 && (name == "" || name == "ask") && len(q.Messages) == 1 {
		name = "help" // a mention and nothing more
	}
	if command := e.o.Commands[name]; command != nil && m.Change == "" {
		d := command(ctx, m)
		return nil, &d
	}
	if name != "" && name != "ask" && name != chat.Pressed && m.Change == "" {
		return nil, &chat.Draft{Ephemeral: true, Failed: true, Text: "The command `" + name + "` is not there in this version. `/raven help` names those there are."}
	}
	if e.o.Hold != nil {
		defer e.o.Hold()()
	}
	r, err := e.begin(ctx, q, show)
	if err != nil {
		return nil, e.failure(ctx, m, err)
	}
	if r == nil && name == chat.Pressed {
		return nil, &chat.Draft{Ephemeral: true, Text: "I no longer know what this was about; please ask again."}
	}
	if r == nil {
		return nil, nil
	}
	text, err := r.loop(ctx)
	switch {
	case errors.Is(err, errRevised):
		return nil, nil
	case errors.Is(context.Cause(ctx), chat.ErrStopped):
		return r.stop(m)
	case ctx.Err() != nil:
		return nil, nil
	}
	d := &chat.Draft{Text: text, Footer: r.footer(), Tools: r.runs, Files: r.files}
	r.turn.State = conversation.Answered
	if err != nil {
		d = e.failure(ctx, m, err)
		d.Tools, d.Footer = r.runs, strings.Join(r.told(), " · ")
		r.turn.State = conversation.Failed
		if isKind(err, llm.Blocked) {
			r.turn.Messages = nil // a refused prompt would be refused again with every later one
		}
	}
	e.remember(m.Conversation, r.turn)
	return r.turn, d
}

// pressed answers the press of a button that asks for no new answer.
func (e *Engine) pressed(ctx context.Context, m chat.Message, what, turn string) *chat.Draft {
	if what == chat.PressTools {
		return e.callsOf(ctx, m, turn)
	}
	if what != chat.PressGood && what != chat.PressBad {
		return &chat.Draft{Ephemeral: true, Text: "This button does nothing any more."}
	}
	f := store.Feedback{Turn: turn, User: m.Author.ID, Good: what == chat.PressGood, At: e.o.Now()}
	if err := e.o.Feedback(ctx, f); err != nil {
		return e.failure(ctx, m, err)
	}
	return &chat.Draft{Ephemeral: true, Text: "Thank you, noted."}
}

// stop ends a turn at the word of a user. What was done until then stays known.
func (r *run) stop(m chat.Message) (*conversation.Turn, *chat.Draft) {
	said := llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Text: "(Stopped by a user before there was an answer.)"}}}
	r.turn.Messages = append(r.turn.Messages, said)
	r.turn.State = conversation.Answered
	r.e.remember(m.Conversation, r.turn)
	return r.turn, &chat.Draft{Text: "Stopped.", Tools: r.runs, Footer: strings.Join(r.told(), " · ")}
}

// remember adds a turn to the history, and has it compacted when it is full.
func (e *Engine) remember(a chat.Address, t *conversation.Turn) {
	if e.history.add(a, t) {
		e.compactLater(a)
	}
}

// failure makes the one sentence that the user sees and logs the chain of causes
// under the same reference.
func (e *Engine) failure(_ context.Context, m chat.Message, err error) *chat.Draft {
	ref := reference()
	e.o.Log.Error("message not answered", "reference", ref, "message", m.Key(),
		"conversation", m.Conversation.String(), "error", err)
	return &chat.Draft{Failed: true, Text: explain(err, ref)}
}

// reference is short enough to be read out and long enough to be found in a log.
func reference() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Complete asks the models of a chain one question without tools or history, and
// gives the answer and the name of the model that gave it. What it used counts for
// the channel and the user of on.
func (e *Engine) Complete(ctx context.Context, on store.Usage, models []string, system, prompt string) (text, served string, err error) {
	r := &run{e: e, show: func(chat.Progress) {}, turn: &conversation.Turn{}, p: Profile{Models: models}, on: on}
	request := llm.Request{System: system, Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: prompt}}}}}
	answer, err := r.ask(ctx, func(string) llm.Request { return request })
	if on.Model, on.Tokens = r.turn.Model, r.turn.Usage; e.o.Used != nil && on.Tokens != (llm.Usage{}) {
		if err := e.o.Used(context.WithoutCancel(ctx), on); err != nil {
			e.o.Log.Error("usage not counted", "error", err)
		}
	}
	if err != nil {
		return "", "", err
	}
	return answer.Text(), r.turn.Served, nil
}
