// Package agent answers messages with a language model and tools. It promises that every message gets an answer or one
// plain sentence about the failure, that a tool runs at most once unless it declares that repeating is harmless, that
// a turn interrupted by a crash continues at its last step, and that no model or tool can keep it busy without end.
// Long conversations are summarized in the background (Run). A Profile defines the permissions, and package delivery
// decides when and where the answer is posted.
//
// A message becomes an answer in one run (run.go):
//   - beginRun routes it to a profile, loads the history (history_cache.go) and writes the question with its context
//     (question.go), or reopens the turn of an edit, a retry or a crash (reopen_turn.go).
//   - loop asks the models of the chain in turn (model_request.go), reads the stream of an answer (answer_reader.go),
//     and makes the calls in it (tool_calls.go). It ends with an answer without calls, a limit or an error.
//   - Attached files are read as text (attachments.go), or sent to the model as images and sounds (media.go).
//   - Calls are saved with the turn before they are made, and each result before the model sees it, so that a restart
//     knows which calls may have had an effect.
//   - The turn records the origins of its texts (taint.go), and the policy judges later calls by them.
//
// Only failure_text.go makes the text of a failure. Summaries (summary.go), titles (title.go) and replays (replay.go)
// use the same requests without a run's queue or posts.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/resident"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/ops/measure"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/prompt"
)

// Memory stores conversations.
type Memory interface {
	// Turns returns the turns of a range, oldest first.
	Turns(ctx context.Context, a chat.Address, r store.Range) ([]conversation.Turn, error)
	// TurnOf returns the turn that holds a message. It returns store.ErrNotFound where
	// none does; the address is still set if the message was known once.
	TurnOf(ctx context.Context, subject string) (chat.Address, conversation.Turn, error)
	// SaveTurn stores a turn, and the calls that have ended since it was saved last.
	SaveTurn(ctx context.Context, a chat.Address, turn *conversation.Turn, calls ...store.ToolCall) error
	// DeleteTurn deletes a turn and its index entries. The turn may be missing.
	DeleteTurn(ctx context.Context, a chat.Address, seq uint64) error
	// TurnsQuoting returns the locations of the turns that quoted a message.
	TurnsQuoting(ctx context.Context, subject string) ([]store.TurnRef, error)
}

// Summaries stores the summaries that replace older turns of conversations in requests.
type Summaries interface {
	// Summary returns the summary of the older turns. Its Upto is 0 if there is none.
	Summary(ctx context.Context, a chat.Address) (conversation.Summary, error)
	SaveSummary(ctx context.Context, a chat.Address, s conversation.Summary) error
}

// Store is everything that an Engine stores.
type Store interface {
	Memory
	Summaries
	// ShownTurn returns the data of a message of the bot, by the message's ID and channel.
	ShownTurn(ctx context.Context, in chat.Address, id string) (store.ShownTurn, bool, error)
	// SaveFeedback stores a user's feedback on an answer.
	SaveFeedback(ctx context.Context, f store.Feedback) error
	// CountUsage adds usage of a model outside of turns.
	CountUsage(ctx context.Context, u store.Usage) error
	// DeleteConversation returns store.ErrNotFound if there is no data.
	DeleteConversation(ctx context.Context, a chat.Address) error
}

// Roster says who answers a message, and with what.
type Roster interface {
	// Route returns the profile for a message. Every message has one. A message without an author gets the profile of
	// its place.
	Route(m chat.Message) Profile
	// Model returns a model by its configured name, or false if it is disabled.
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
	// WaitAll returns when every source that is being connected is ready or has failed
	// once, or ctx ends.
	WaitAll(ctx context.Context)
	// WhyMissing returns the source of an unavailable tool, and an explanation for the model and the user. Both are
	// empty if there is nothing to explain.
	WhyMissing(name string) (server, why string)
}

// Files reads the files of messages.
type Files interface {
	// Fetch returns a file of a message of a platform; more than limit bytes are an error.
	Fetch(ctx context.Context, platform string, f chat.File, limit int64) ([]byte, error)
}

// Places reads the context of messages.
type Places interface {
	// Context returns the context of a message, as far as it could be read before the end of ctx.
	Context(ctx context.Context, m chat.Message, q chat.ContextQuery) chat.Context
	// Formatting returns the rules for Markdown on a platform, or nothing.
	Formatting(platform string) string
	// Link returns the address of a message by its ID, or "".
	Link(at chat.Address, id string) string
}

// Access says who may use the bot.
type Access interface {
	// UsersAt returns what reports whether a user of a platform, by ID, may use the bot in a conversation.
	UsersAt(at chat.Address) func(userID string) bool
}

// Notes finds people's notes.
type Notes interface {
	// Recall returns the few notes about the author and the place of a message that fit the question, as lines, and
	// their sources. It is empty if there are none.
	Recall(ctx context.Context, m chat.Message, question string) (string, origin.Origin)
}

// Budget limits the cost of models.
type Budget interface {
	// Reserve allows a request on behalf of a channel and a user, and returns a function
	// to be called with its usage when it has ended. On an error the request must not be
	// made.
	Reserve(ctx context.Context, on store.Usage, q llm.Request) (count func(llm.Usage), err error)
}

// Approvals knows the calls that need a person's approval.
type Approvals interface {
	// Fresh reports whether a call of a turn was submitted for approval and not started.
	Fresh(turn, call string) bool
}

// Discovery replaces many tools by a few that find and run them.
type Discovery interface {
	// Sync updates the index to all current tools. It is called at each turn, and cheap where
	// nothing changed.
	Sync(all []tool.Named)
	// Tools returns the few for one turn; they find only what usable returns.
	Tools(usable func() []tool.Named) []tool.Named
	// Unwrap returns the name and arguments of the tool that a call of a discovery tool runs, or the name and
	// arguments of the call itself. The error is for the model.
	Unwrap(name string, args json.RawMessage) (string, json.RawMessage, error)
	Prompt() string // explains them to a model
}

// Model is a language model. Timeout limits one request with all its retries.
type Model struct {
	llm.Model
	Timeout time.Duration
}

// Profile holds the rules for answering a message: a configured agent with the settings of its channel.
type Profile struct {
	Agent     string
	Models    []string               // configured names; each is the fallback for those before it
	Utility   []string               // the same for titles and summaries; none: Models
	System    string                 // instructions of the operator; the rest of the system prompt is made here
	MaxSteps  int                    // rounds of tool calls
	MaxResult int                    // bytes of a tool result shown to the model at once
	MaxTokens int                    // limit of a turn before it must answer; 0 for no limit
	Uses      func(tool.Named) bool  // whether a tool may be used at all
	Servers   func(name string) bool // MCP servers that it may use; nil: all
	ToolText  bool                   // System holds the operator's own text about tools
	// Recall returns the agent's knowledge from files about a question. earlier are the previous questions, newest
	// last. If it is nil, there is no knowledge.
	Recall func(ctx context.Context, question string, earlier []string) Knowledge
	Skills []prompt.Skill // that it may read
	// Window bounds what of the conversation is sent.
	Window conversation.Window
	// ContextMessages is how many recent messages of the place a question brings along.
	ContextMessages int
	Unattended      bool     // a scheduled task: nobody answers questions
	Granted         []string // tools that a scheduled task may use without an approval
}

// Knowledge is what an agent knows from its files.
type Knowledge struct {
	Standing string   // for the system prompt: the same for every question
	Passages []string // that fit the question, best first, each with its source
}

// Calls makes tool calls that are valid and allowed.
type Calls interface {
	// Call makes a call and returns its outcome and its record. shown is how many bytes of
	// a result the model is shown at once.
	Call(ctx context.Context, in tool.Intent, shown int) (tool.Outcome, store.ToolCall)
	// Refuse returns the same for a call that is not made; in.Tool may have only a name.
	Refuse(ctx context.Context, in tool.Intent, why string, shown int) (tool.Outcome, store.ToolCall)
}

// Options are what an Engine needs. All must be safe for concurrent use. Roster, Store, Tools,
// Calls, Files, Log, Now and Jitter must be set.
type Options struct {
	Roster    Roster
	Store     Store
	Tools     Toolbox
	Servers   Servers   // nil: the tools never change
	Discovery Discovery // used if a profile has more tools than the threshold; may be nil
	Calls     Calls
	Approvals Approvals // nil if no call ever waits for an approval
	Files     Files
	Documents Documents // nil: attached files are only named
	// FileMemory bounds what files take that are read or given to a model.
	FileMemory *resident.Pool
	// ResultMemory bounds what files of tools take until they are stored with the answer; nil: an eighth of the memory,
	// and 64 MiB at most.
	ResultMemory *resident.Pool
	Budget       Budget // nil: every request is made
	Places       Places // nil if only the words of a message are known
	Notes        Notes  // may be nil
	Access       Access // nil if everybody may use the bot
	// Flush waits until the last posts are stored. It returns false if they cannot be. It may be nil.
	Flush  func() bool
	Log    *slog.Logger
	Now    func() time.Time
	Jitter func() float64 // in [0,1)
}

// Engine answers messages. It is safe for concurrent use by different
// conversations; one conversation's messages must come one at a time.
type Engine struct {
	o       Options
	history *historyCache
	full    chan chat.Address // conversations to be summarized

	summaryMu sync.Mutex   // held while a summary is replaced
	removals  atomic.Int64 // counts removed turns, so that no summary brings one back

	answers measure.Totals // what AnswerTotals returns
}

// New returns an engine, which starts nothing. Without Run conversations are answered and not
// summarized.
func New(o Options) *Engine {
	o.Store = waitingStore{o.Store, o.Log}
	if o.ResultMemory == nil {
		o.ResultMemory = resident.SharePool(8, 64<<20)
	}
	return &Engine{o: o, history: newHistoryCache(o), full: make(chan chat.Address, maxFull)}
}

// Forget drops a deleted conversation from the cache. A summary that is being written of it is
// thrown away.
func (e *Engine) Forget(a chat.Address) {
	e.removals.Add(1)
	e.history.forget(a)
}

// ForgetChannel makes the conversations of a channel be read again: another process that shares the store may have
// answered there.
func (e *Engine) ForgetChannel(channel chat.Address) {
	e.history.forgetWhere(func(a chat.Address) bool { return a.Base() == channel })
}

// SharedKinds returns the kind whose changes Reload takes up.
func (*Engine) SharedKinds() []string { return []string{store.ConversationChanges} }

// Reload makes all conversations be read again: another process has deleted some, or parts of them.
func (e *Engine) Reload(context.Context) error {
	e.history.forgetWhere(func(chat.Address) bool { return true })
	return nil
}

// Answer answers one or several messages. The turn is nil if there is nothing to store. Both results are nil if there
// is nothing to post, because ctx has ended or the question was revised during the work. The next call uses the work
// done so far.
func (e *Engine) Answer(ctx context.Context, q chat.Asked, show func(chat.Progress)) (*conversation.Turn, *chat.Draft) {
	m, began := q.Last(), e.o.Now()
	if e.o.Servers != nil {
		// This lasts for the whole turn: a reload must not end the servers of tools that the model has seen.
		defer e.o.Servers.Lease()()
	}
	r, err := e.beginRun(ctx, q, show)
	if err != nil {
		return nil, e.failureDraft(m, err)
	}
	if r == nil && m.Kind() == chat.EventPress {
		return nil, &chat.Draft{Ephemeral: true, Text: "I no longer know what this was about; please ask again."}
	}
	if r == nil {
		return nil, nil
	}
	defer r.release()
	answer := ""
	if err = q.AwaitStored(ctx); err == nil { // so far the work has only read
		answer, err = r.loop(ctx)
	}
	// A revision and a stop come before ctx and err: both follow from them.
	switch {
	case errors.Is(err, errRevised):
		return nil, nil
	case errors.Is(context.Cause(ctx), chat.ErrStopped):
		r.countAnswer(began, false)
		return r.stopTurn(m)
	case ctx.Err() != nil:
		return nil, nil
	}
	r.countAnswer(began, err != nil)
	d := &chat.Draft{Text: r.withSources(answer), Footer: r.footer(answer), Tools: r.runs, Files: r.files}
	r.turn.State = conversation.Answered
	if err != nil {
		d = e.failureDraft(m, err)
		if names := r.doneTools(); names != "" {
			d.Text += " Before that I ran " + names + ". " + askForResult
		}
		d.Tools, d.Footer = r.runs, strings.Join(r.resultsToShow(), " · ")
		r.turn.State = conversation.Failed
		if r.restoreAnswer() {
			d.Text += " " + keptNote
		} else if isKind(err, llm.Blocked) {
			r.turn.Messages = nil // in the history a blocked prompt would block every later request as well
		}
	}
	e.addToHistory(m.Conversation, r.turn, r.profile.Window)
	return r.turn, d
}

// stopTurn ends a turn because a user said so. The shown part of the answer stays, in the post and in the history. If
// the answer was to replace another one, that one stays.
func (r *run) stopTurn(m chat.Message) (*conversation.Turn, *chat.Draft) {
	if r.restoreAnswer() {
		r.engine.addToHistory(m.Conversation, r.turn, r.profile.Window)
		// Failed: a post of its own, with a button to try again.
		return r.turn, &chat.Draft{Text: "Stopped. " + keptNote, Tools: r.runs, Failed: true}
	}
	shown := strings.TrimSpace(r.partial.String())
	answer, note := "Stopped.", "(Stopped by a user before there was an answer.)"
	if shown != "" {
		answer, note = shown+"\n\n*(stopped)*", shown+"\n\n(Stopped by a user here.)"
	}
	// The next request needs an assistant message here: two of users in a row are invalid.
	said := llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Text: note}}}
	r.turn.Messages = append(r.turn.Messages, said)
	r.turn.State = conversation.Answered
	r.engine.addToHistory(m.Conversation, r.turn, r.profile.Window)
	return r.turn, &chat.Draft{Text: answer, Tools: r.runs, Footer: strings.Join(r.resultsToShow(), " · ")}
}

// addToHistory adds a turn to the cached history, and schedules a summary if the window is
// full.
func (e *Engine) addToHistory(a chat.Address, t *conversation.Turn, w conversation.Window) {
	if e.history.add(a, t, w) {
		e.compactLater(a)
	}
}

// failureDraft returns the sentence that the user sees, and logs the error under the same
// reference.
func (e *Engine) failureDraft(m chat.Message, err error) *chat.Draft {
	ref := text.RandomID(referenceBytes)
	e.o.Log.Error("failed to answer a message", "reference", ref, "message", m.Key(),
		"conversation", m.Conversation.String(), "error", err)
	return &chat.Draft{Failed: true, Text: errorText(err, ref)}
}

// referenceBytes makes a reference short enough to be read out and long enough to be found
// in a log.
const referenceBytes = 4

// Completion is a model's answer to a request outside of conversations.
type Completion struct {
	Text   string
	Model  string // its configured name
	Served string // the name of the model that really answered
	Usage  llm.Usage
	Finish llm.Finish // FinishLength if the answer was cut
}

// Complete asks a model one question without tools or history, and returns the answer and
// the name of the model that gave it. Each of models is the fallback for those before it.
// The usage counts for the channel and the user of on.
func (e *Engine) Complete(
	ctx context.Context,
	on store.Usage,
	models []string,
	system, prompt string,
) (text, served string, err error) {
	return e.CompleteJSON(ctx, on, models, system, prompt, nil)
}

// CompleteJSON is Complete for an answer that is JSON of a schema, as far as the model's endpoint takes schemas: the
// caller checks the answer. schema is as in llm.Request.
func (e *Engine) CompleteJSON(
	ctx context.Context,
	on store.Usage,
	models []string,
	system, prompt string,
	schema json.RawMessage,
) (text, served string, err error) {
	request := llm.Request{System: system, Schema: schema, Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: prompt}}}}}
	answer, err := e.CompleteRequest(ctx, on, models, request)
	// Endpoints that know no schemas refuse the request; the words of it are enough for most models.
	if fault, ok := errors.AsType[*llm.Error](err); ok && fault.Kind == llm.BadRequest && schema != nil {
		request.Schema = nil
		answer, err = e.CompleteRequest(ctx, on, models, request)
	}
	return answer.Text, answer.Served, err
}

// CompleteRequest is Complete for a request of the caller. After an error the usage so far is returned with it. It
// uses the chain of models, retries, timeouts and budget of answers.
func (e *Engine) CompleteRequest(
	ctx context.Context,
	on store.Usage,
	models []string,
	q llm.Request,
) (Completion, error) {
	// A run without a message: the chain of models, the retries and the budget are those of answers.
	r := &run{
		engine:  e,
		show:    func(chat.Progress) {},
		turn:    &conversation.Turn{},
		profile: Profile{Models: models},
		usage:   on,
	}
	answer, err := r.askModels(ctx, func(string) llm.Request { return q })
	r.countUsage(ctx)
	c := Completion{Model: r.turn.Model, Usage: r.turn.Usage}
	if err != nil {
		return c, err
	}
	c.Text, c.Served, c.Finish = answer.Text(), r.turn.Served, r.finish
	return c, nil
}
