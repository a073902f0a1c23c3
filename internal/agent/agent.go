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

// Store is all that an Engine keeps.
type Store interface {
	Memory
	Summaries
	// SaveFeedback keeps what somebody thinks of an answer.
	SaveFeedback(ctx context.Context, f store.Feedback) error
	// CountUsage adds what a model used outside of turns.
	CountUsage(ctx context.Context, u store.Usage) error
	// DeleteConversation returns store.ErrNotFound where nothing is remembered.
	DeleteConversation(ctx context.Context, a chat.Address) error
}

// Roster says who answers a message, and with what.
type Roster interface {
	Route(m chat.Message) Profile
	// Model returns a model by its configured name; false: it is not switched on.
	Model(name string) (Model, bool)
	// DiscoveryThreshold returns the number of tools above which Discovery is used.
	DiscoveryThreshold() int
}

// Toolbox lists the tools that there are now.
type Toolbox interface {
	List() []tool.Named
}

// Servers are the sources of tools that come and go.
type Servers interface {
	// Lease keeps the tools that there are now until release is called.
	Lease() (release func())
	// WaitAll returns when every source that is being connected is there or has failed
	// once, or ctx ends.
	WaitAll(ctx context.Context)
}

// Files reads the files of messages.
type Files interface {
	// Fetch returns a file of a message of a platform; more than limit bytes are an error.
	Fetch(ctx context.Context, platform string, f chat.File, limit int64) ([]byte, error)
}

// Budget keeps what is spent on models within limits.
type Budget interface {
	// Reserve lets a request be made in the name of a channel and a user, and returns what
	// counts its usage when it has ended. An error keeps the request from being made.
	Reserve(ctx context.Context, on store.Usage, q llm.Request) (count func(llm.Usage), err error)
}

// Approvals tells what became of calls that waited for a person.
type Approvals interface {
	// Fresh reports that a call of a turn waited for somebody's approval and was not made.
	Fresh(turn, call string) bool
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

// Options are what an Engine needs. All may be called concurrently; those that say so may be
// nil.
type Options struct {
	Roster    Roster
	Store     Store
	Tools     Toolbox
	Servers   Servers   // nil: tools stay as they are
	Discovery Discovery // used where a profile has more tools than the threshold; nil: never
	Calls     Calls
	Approvals Approvals // nil: no call ever waits for an approval
	Files     Files
	Budget    Budget // nil: every request is made
	Window    conversation.Window
	Log       *slog.Logger
	Now       func() time.Time
	Jitter    func() float64 // in [0,1)
}

// Engine answers messages. It is safe for concurrent use by different
// conversations; one conversation's messages must come one at a time.
type Engine struct {
	o       Options
	history *historyCache
	full    chan chat.Address // conversations to be compacted

	summaryMu sync.Mutex   // held while a summary is written
	removals  atomic.Int64 // counts what was removed, so that no summary brings it back
}

// New returns an engine.
func New(o Options) *Engine {
	return &Engine{o: o, history: newHistoryCache(o), full: make(chan chat.Address, maxFull)}
}

// Forget drops what the engine remembers of a conversation that was deleted.
func (e *Engine) Forget(a chat.Address) {
	e.removals.Add(1)
	e.history.forget(a)
}

// Answer works on a message, or on several at once. The turn is nil where nothing
// is to be remembered. When what was asked is revised both are nil and what was
// found out so far is kept for the next call.
func (e *Engine) Answer(ctx context.Context, q chat.Asked, show func(chat.Progress)) (*conversation.Turn, *chat.Draft) {
	m := q.Last()
	if e.o.Servers != nil {
		defer e.o.Servers.Lease()()
	}
	r, err := e.beginRun(ctx, q, show)
	if err != nil {
		return nil, e.failureDraft(ctx, m, err)
	}
	if r == nil && m.Kind() == chat.EventPress {
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
		return r.stopTurn(m)
	case ctx.Err() != nil:
		return nil, nil
	}
	d := &chat.Draft{Text: text, Footer: r.footer(), Tools: r.runs, Files: r.files}
	r.turn.State = conversation.Answered
	if err != nil {
		d = e.failureDraft(ctx, m, err)
		d.Tools, d.Footer = r.runs, strings.Join(r.resultsToShow(), " · ")
		r.turn.State = conversation.Failed
		if isKind(err, llm.Blocked) {
			r.turn.Messages = nil // a refused prompt would be refused again with every later one
		}
	}
	e.addToHistory(m.Conversation, r.turn)
	return r.turn, d
}

// stopTurn ends a turn at the word of a user. What was done until then stays known.
func (r *run) stopTurn(m chat.Message) (*conversation.Turn, *chat.Draft) {
	said := llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Text: "(Stopped by a user before there was an answer.)"}}}
	r.turn.Messages = append(r.turn.Messages, said)
	r.turn.State = conversation.Answered
	r.engine.addToHistory(m.Conversation, r.turn)
	return r.turn, &chat.Draft{Text: "Stopped.", Tools: r.runs, Footer: strings.Join(r.resultsToShow(), " · ")}
}

// addToHistory adds a turn to the history, and has it compacted when it is full.
func (e *Engine) addToHistory(a chat.Address, t *conversation.Turn) {
	if e.history.add(a, t) {
		e.compactLater(a)
	}
}

// failureDraft makes the one sentence that the user sees and logs the chain of causes
// under the same reference.
func (e *Engine) failureDraft(_ context.Context, m chat.Message, err error) *chat.Draft {
	ref := newReference()
	e.o.Log.Error("message not answered", "reference", ref, "message", m.Key(),
		"conversation", m.Conversation.String(), "error", err)
	return &chat.Draft{Failed: true, Text: errorText(err, ref)}
}

// newReference is short enough to be read out and long enough to be found in a log.
func newReference() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Complete asks the models of a chain one question without tools or history, and
// gives the answer and the name of the model that gave it. What it used counts for
// the channel and the user of on.
func (e *Engine) Complete(ctx context.Context, on store.Usage, models []string, system, prompt string) (text, served string, err error) {
	r := &run{engine: e, show: func(chat.Progress) {}, turn: &conversation.Turn{}, profile: Profile{Models: models}, usage: on}
	request := llm.Request{System: system, Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: prompt}}}}}
	answer, err := r.askModels(ctx, func(string) llm.Request { return request })
	if on.Model, on.Tokens = r.turn.Model, r.turn.Usage; on.Tokens != (llm.Usage{}) {
		if err := e.o.Store.CountUsage(context.WithoutCancel(ctx), on); err != nil {
			e.o.Log.Error("usage not counted", "error", err)
		}
	}
	if err != nil {
		return "", "", err
	}
	return answer.Text(), r.turn.Served, nil
}
