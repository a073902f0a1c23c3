package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
)

// run is the work on one message. One goroutine goes through it. The concurrent calls of a step access only data that
// r.mu guards, the store of the turn (see callAll) and data that does not change during the step.
type run struct {
	engine        *Engine
	asked         chat.Asked
	message       chat.Message // the last message, which the answer refers to
	profile       Profile
	history       history               // before the turn
	turn          *conversation.Turn    // the stored turn; grows with each step
	tools         map[string]tool.Named // by name: all callable tools
	declared      []llm.ToolSpec        // tools declared to the model
	usesDiscovery bool                  // the model has to find most tools first

	usage           store.Usage     // channel and user that requests count for
	modelIndex      int             // index in profile.Models of the model in use
	fallbackReason  string          // why an earlier model of the chain is not used
	callCounts      map[string]int  // by name and arguments
	stopReason      string          // why the model may call no more tools
	finish          llm.Finish      // of the answer that was read last
	cutReason       string          // why the end of the answer is missing
	cutCall         string          // ID of a call in the answer that was read last which may lack arguments
	isShortened     bool            // the whole conversation is too long for the model
	maybeIncomplete bool            // the answer came without a finish reason
	media           media           // images and sounds of the question
	toolImages      []llm.Part      // images of tools, each after a text that describes it
	imagesRefused   bool            // the model accepts no images or sounds
	partial         strings.Builder // text of the current answer that people have seen
	contexts        []chat.Context  // contexts of the question's messages, in their order
	place           chat.Place      // place of the conversation
	standing        string          // the agent's knowledge from files for every question
	provenance      provenance      // basis of the decisions on the calls of this step
	volatile        []llm.Part      // parts after the question that belong only to this turn
	unknownOutcome  []string        // tools that were interrupted and may have taken effect
	former          []llm.Message   // the answer that this one replaces; empty if there is none or the question changed
	usedBefore      int             // tokens that the turn had used when somebody had it answered again

	mu      sync.Mutex          // guards what follows
	sources []chat.Link         // that tools named, in the order of their numbers
	notes   []string            // remarks for the reader, such as which tools are not offered now
	show    func(chat.Progress) // called with mu held, for one thing at a time
	runs    []chat.ToolRun      // the calls as people see them
	files   []chat.File         // of tools, for the answer
	held    []heldFile          // the memory of what files and toolImages have
}

// release gives back the memory of all media and files.
func (r *run) release() {
	r.media.free(false)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releaseFiles(func([]byte) bool { return true })
}

// maxDeclaredTools is how many tools are declared to a model: requests with several
// hundred were refused (sbroenne/mcp-server-excel#672).
const maxDeclaredTools = 128

// beginRun prepares a run of a new turn, of a turn that a crash or a revision interrupted, or of an answered turn
// whose question was edited. It returns nil if there is nothing to answer: an edit that changed no word, or an edit of
// an unknown message.
func (e *Engine) beginRun(ctx context.Context, q chat.Asked, show func(chat.Progress)) (*run, error) {
	m := q.Last()
	// Call Route once: a reload of the configuration must not change agent or limits within a turn.
	profile := e.o.Roster.Route(m)
	past, err := e.history.load(ctx, m.Conversation, profile.Window)
	if err != nil {
		return nil, err
	}
	subject := q.Turn
	// A press names its turn; an edit names its message, by which the store finds the turn as well.
	if _, turn := m.Press(); turn != "" {
		subject = turn
	} else if subject == "" {
		subject = m.Subject()
	}
	r := &run{engine: e, asked: q, message: m, profile: profile, show: show, callCounts: map[string]int{}}
	isNew := false
	_, t, err := e.o.Store.TurnOf(ctx, subject)
	switch {
	case err == nil: // the turn exists: from before a crash, a revision, an edit or a retry
		// Before reopen, which compares the words with the names that are looked up here.
		r.loadContexts(ctx, past, false)
		if !r.reopen(&t) {
			return nil, nil
		}
		if err := e.rebuildSummaryWith(ctx, m.Conversation, &t, past.summary); err != nil {
			return nil, err
		}
		r.turn, r.runs = &t, toolRuns(t)
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	case q.Turn == "": // an edit or a press about a turn that is gone
		return nil, nil
	default:
		isNew = true
		r.turn = &conversation.Turn{ID: q.Turn, Began: e.o.Now(), State: conversation.Open, User: r.userID()}
		for _, m := range q.Messages {
			r.turn.Of = append(r.turn.Of, m.Subject())
		}
	}
	// Use the user of the turn, not of this message: a retry by an administrator counts for the asker.
	r.usage = store.Usage{Channel: m.Conversation, User: r.turn.User}
	// A turn that is answered again sees only the earlier messages.
	if i := slices.IndexFunc(past.turns, func(o conversation.Turn) bool { return o.ID == r.turn.ID }); i >= 0 {
		past.turns = past.turns[:i:i]
	} else if r.turn.Seq != 0 && r.turn.Seq <= past.summary.Upto {
		// A summary covers the turn, so that all turns outside of it were said later.
		past.turns = nil
	}
	// Before the question is written, which leaves out what the history has.
	r.history = past
	if isNew {
		r.loadContexts(ctx, past, true)
		r.writeQuestion(ctx)
	}
	r.place = e.history.keepPlace(m.Conversation, last(r.contexts).Place)
	r.loadTools()
	r.loadKnowledge(ctx, isNew)
	r.loadVolatile(ctx)
	r.noteOrigin()
	return r, nil
}

// rebuildSummaryWith saves an edited turn, and rebuilds the summary if it covers the turn, so
// that the old words are gone from it.
func (e *Engine) rebuildSummaryWith(
	ctx context.Context,
	a chat.Address,
	t *conversation.Turn,
	s conversation.Summary,
) error {
	if t.Seq > s.Upto {
		return nil
	}
	e.summaryMu.Lock()
	defer e.summaryMu.Unlock()
	e.removals.Add(1) // a summary that is being written now may hold the old words
	if err := e.o.Store.SaveTurn(ctx, a, t); err != nil {
		return err
	}
	return e.rebuildSummary(ctx, a, t.Seq)
}

// loadTools lists the tools that the run can use now, and chooses the tools to declare to the model.
func (r *run) loadTools() {
	// Listed once a turn: providers cache a request from its tools on, and one more of them would end that.
	all := r.engine.o.Tools.List()
	usable := make([]tool.Named, 0, len(all))
	for _, n := range all {
		if r.profile.Uses(n) {
			usable = append(usable, n)
		}
	}
	r.tools = make(map[string]tool.Named, len(usable))
	for _, n := range usable {
		r.tools[n.Name] = n
	}
	declared := usable
	r.usesDiscovery = r.engine.o.Discovery != nil && len(usable) > r.engine.o.Roster.DiscoveryThreshold()
	if r.usesDiscovery {
		r.engine.o.Discovery.Sync(all) // all of them: the index is shared by all agents
		declared = r.declareDiscovery(usable)
	}
	// The others may be called as well, but the model does not know them.
	shown := declared[:min(len(declared), maxDeclaredTools)]
	r.declared = make([]llm.ToolSpec, 0, len(shown))
	for _, n := range shown {
		spec := n.Tool.Spec()
		r.declared = append(r.declared, llm.ToolSpec{Name: n.Name, Description: spec.Description, Schema: spec.Schema})
	}
	if len(declared) > maxDeclaredTools {
		r.engine.o.Log.Warn("too many tools for the model; some are not declared",
			"agent", r.profile.Agent, "tools", len(declared), "declared", maxDeclaredTools)
	}
}

// corePacks are the native packs for every conversation. Their tools are declared even if the others must be
// discovered, except memory_update, which is rarely needed.
var corePacks = map[string]bool{
	"files": true, "history": true, "knowledge": true, "memory": true, "result": true, "skill": true,
}

// declareDiscovery returns the discovery tools and the tools of the core packs. The list does not depend on earlier
// calls, because providers cache requests from the tools on, and one more tool would invalidate the cache.
func (r *run) declareDiscovery(usable []tool.Named) []tool.Named {
	declared := r.engine.o.Discovery.Tools(func() []tool.Named { return usable })
	for _, n := range declared {
		r.tools[n.Name] = n
	}
	for _, n := range usable {
		if s := n.Tool.Spec(); s.Native && corePacks[s.Server] && n.Name != "memory_update" {
			declared = append(declared, n)
		}
	}
	return declared
}

// maxToolWait is how long a turn that a crash interrupted waits for the servers of its
// tools, which are starting with the bot.
const maxToolWait = 10 * time.Second

// waitForTools waits until the tools of calls are there, or maxToolWait has passed.
func (r *run) waitForTools(ctx context.Context, calls []llm.Call) {
	missing := func(c llm.Call) bool {
		inner, err := r.unwrap(c)
		_, ok := r.tools[inner.Name]
		return err == nil && !ok
	}
	// Most turns resume at once: only tools that are missing are waited for.
	if r.engine.o.Servers == nil || !slices.ContainsFunc(calls, missing) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxToolWait)
	defer cancel()
	r.engine.o.Servers.WaitAll(ctx)
	r.loadTools()
}

// errRevised ends a run whose question has changed.
var errRevised = errors.New("the question has changed")

// withRevision returns a context for requests to the model, which ends when the question
// changes. Tools do not use it: the effect of an interrupted call would be unknown.
func (r *run) withRevision(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if r.asked.Revised == nil {
		return ctx, func() { cancel(nil) }
	}
	forget := context.AfterFunc(r.asked.Revised, func() { cancel(errRevised) })
	return ctx, func() { forget(); cancel(nil) }
}

// loop asks the model and makes its calls until there is an answer, which it returns. Each step is stored before the
// next: calls before they run, results before the model sees them. It returns errRevised if the question changes, the
// error of ctx or of the store, or the last error of the models. The stored steps of the turn stay, and its next run
// continues after them.
func (r *run) loop(ctx context.Context) (string, error) {
	if err := r.resume(ctx); err != nil {
		return "", err
	}
	// Not for resume above: the calls that it repeats must not be cut off by an edit.
	asking, release := r.withRevision(ctx)
	defer release()
	for step := 1; ; step++ {
		if r.asked.IsRevised() {
			return "", errRevised
		}
		// The last request declares no tools and gives the reason, so that the model answers with its present data.
		if step > r.profile.MaxSteps && r.stopReason == "" && len(r.declared) > 0 {
			r.stopReason = fmt.Sprintf("stopped after %d rounds of tool calls", r.profile.MaxSteps)
		}
		used := r.turn.Usage.Input + r.turn.Usage.Output - r.usedBefore
		if r.profile.MaxTokens > 0 && used >= r.profile.MaxTokens && r.stopReason == "" {
			r.stopReason = fmt.Sprintf("stopped after %d tokens", used)
		}
		r.loadMedia(asking)
		m, err := r.askModels(asking, r.request)
		// A cancelled request fails in many ways; the revision is the reason.
		if err != nil && r.asked.IsRevised() {
			err = errRevised
		}
		if note := r.describeDone(); errors.Is(err, errEmpty) && note != "" {
			m, err = llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Text: note}}}, nil
			r.fallbackReason = "" // the note says who answers
		}
		if err != nil {
			return "", err
		}
		// Some models call tools although none are declared.
		if r.stopReason != "" || len(r.declared) == 0 {
			m.Parts = withoutCalls(m.Parts)
		}
		r.turn.Messages = append(r.turn.Messages, m)
		calls := m.Calls()
		if len(calls) == 0 {
			return r.answerText(m)
		}
		r.partial.Reset() // text before calls is not the answer
		r.showProgress(chat.Progress{Reset: true})
		if err := r.media.whileIdle(func() error { return r.recordAndCall(ctx, calls) }); err != nil {
			return "", err
		}
	}
}

// resume handles the calls that a crash left without a result. It runs those again that
// were never started or may be repeated; of the others the model learns that their outcome
// is unknown.
func (r *run) resume(ctx context.Context) error {
	calls := openCalls(r.turn.Messages)
	if len(calls) == 0 {
		return nil
	}
	r.waitForTools(ctx, calls)
	var again []llm.Call
	for _, c := range calls {
		inner, err := r.unwrap(c)
		n, ok := r.tools[inner.Name]
		// A call that still waits for its approval has had no effect yet.
		fresh := r.engine.o.Approvals != nil && r.engine.o.Approvals.Fresh(r.turn.ID, c.ID)
		if err != nil || fresh || ok && n.Tool.Spec().Hints.Repeatable() {
			again = append(again, c)
			continue
		}
		r.addResult(llm.Part{Result: &llm.Result{ID: c.ID, Name: c.Name, Content: conversation.Interrupted, IsError: true}})
		r.unknownOutcome = append(r.unknownOutcome, inner.Name)
		r.showCall(chat.ToolRun{
			ID:     c.ID,
			Name:   inner.Name,
			State:  chat.Failed,
			Args:   inner.Args,
			Result: conversation.Interrupted,
		})
	}
	if len(again) == 0 {
		return r.save(ctx)
	}
	return r.callAll(ctx, again)
}

// recordAndCall stores the calls, then makes them: after a crash in between the turn knows
// what may have taken effect.
func (r *run) recordAndCall(ctx context.Context, calls []llm.Call) error {
	if err := r.save(ctx); err != nil {
		return err
	}
	return r.callAll(ctx, calls)
}

// addResult adds the result of a call to the message after the calls.
func (r *run) addResult(res llm.Part) {
	// Providers want all results of one message of calls in one message after it.
	last := &r.turn.Messages[len(r.turn.Messages)-1]
	if last.Role != llm.ToolRole {
		r.turn.Messages = append(r.turn.Messages, llm.Message{Role: llm.ToolRole})
		last = &r.turn.Messages[len(r.turn.Messages)-1]
	}
	last.Parts = append(last.Parts, res)
	r.turn.Origin = r.turn.Origin.With(originOf(res))
}

// save stores the turn as far as it has come, with the records of calls that have ended.
func (r *run) save(ctx context.Context, calls ...store.ToolCall) error {
	return r.engine.o.Store.SaveTurn(ctx, r.message.Conversation, r.turn, calls...)
}

// answerText returns the text of the model's last message, or an excuse if the run was
// stopped before there was any.
func (r *run) answerText(m llm.Message) (string, error) {
	text := strings.TrimSpace(m.Text())
	switch {
	case text != "":
		return text, nil
	case r.stopReason != "":
		return "I could not finish this: I " + r.stopReason + " without reaching an answer. " +
			"Ask again, perhaps for less at once.", nil
	}
	return "", &llm.Error{Kind: llm.Unavailable, Provider: r.turn.Served, Reason: "the answer was empty", Err: errEmpty}
}

// describeDone returns the answer for a turn whose model said nothing after its calls had run. It returns "" if no call
// has run. A person who reads only that the model failed would ask again, and everything would be done twice.
func (r *run) describeDone() string {
	names := r.doneTools()
	if names == "" {
		return ""
	}
	return "I ran " + names + ", but the language model then gave no answer. " + askForResult
}

// askForResult warns the reader not to repeat completed calls.
const askForResult = "Its effects stay: ask me about the result instead of asking for it again."

// doneTools returns the names of the tools whose calls have succeeded, separated by commas.
func (r *run) doneTools() string {
	var names []string
	for _, t := range r.runs {
		if t.State == chat.Done && !slices.Contains(names, t.Name) {
			names = append(names, t.Name)
		}
	}
	return strings.Join(names, ", ")
}

// resultsToShow returns the results that people have to see, whatever the model says.
func (r *run) resultsToShow() []string {
	var notes []string
	for _, t := range r.runs {
		inner, err := r.unwrap(llm.Call{Name: t.Name, Args: t.Args})
		n, ok := r.tools[inner.Name]
		if err == nil && ok && t.State == chat.Done && n.Tool.Spec().ShowResult {
			notes = append(notes, shortLine(t.Result, maxNoteChars))
		}
	}
	return notes
}

// maxNoteChars is how much of such a result is shown, in characters.
const maxNoteChars = 300

// footer returns what the reader should know about how the answer came about.
func (r *run) footer(answer string) string {
	notes := append(r.resultsToShow(), r.notes...)
	if note := r.unnamedLinks(answer); note != "" {
		notes = append(notes, note)
	}
	if len(r.unknownOutcome) > 0 {
		notes = append(notes, "I was interrupted: whether "+strings.Join(r.unknownOutcome, ", ")+" took effect is not known")
	}
	if r.imagesRefused {
		notes = append(notes, "the model takes no images or sounds")
	}
	if r.fallbackReason != "" {
		notes = append(notes, "answered by "+r.turn.Served+" because "+r.fallbackReason)
	}
	if r.stopReason != "" {
		notes = append(notes, r.stopReason)
	}
	if r.maybeIncomplete {
		notes = append(notes, "the end of the answer may be missing")
	}
	if r.isShortened {
		notes = append(notes, "the model takes only the newer part of this conversation, the rest was left out")
	}
	if r.cutReason != "" {
		notes = append(notes, r.cutReason)
	}
	return strings.Join(notes, " · ")
}

// showProgress passes progress to the reader. Calls run concurrently, and the reader gets one update at a time.
func (r *run) showProgress(p chat.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.show(p)
}

// showCall records the state of a call and shows it to the reader.
func (r *run) showCall(t chat.ToolRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// In place: people see the calls in the order in which they began, whatever ends first.
	for i := range r.runs {
		if r.runs[i].ID == t.ID {
			r.runs[i] = t
			r.show(chat.Progress{Tool: &t})
			return
		}
	}
	r.runs = append(r.runs, t)
	r.show(chat.Progress{Tool: &t})
}

// withoutCalls returns parts without tool calls.
func withoutCalls(parts []llm.Part) []llm.Part {
	var kept []llm.Part
	for _, p := range parts {
		if p.Call == nil {
			kept = append(kept, p)
		}
	}
	return kept
}
