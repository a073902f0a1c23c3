package eval

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/agent"
)

// defaultPlace is where cases are asked that name no place.
const defaultPlace = "web:/eval"

func (c Case) place() (chat.Address, error) { return chat.ParseAddress(cmp.Or(c.Place, defaultPlace)) }

// Limits of an answer. A scripted model needs no time.
const (
	scriptTimeout = 10 * time.Second
	maxSteps      = 10
	maxResult     = 5120
)

// scriptName is the configured name of the scripted model.
const scriptName = "script"

// scriptedModel answers with the steps of a case in their order, then with "Done.".
type scriptedModel struct {
	mu    sync.Mutex
	steps []Step
}

func (*scriptedModel) ID() string { return "eval/script" }

// Generate answers with the next step of the script, and with "Done." behind its end.
func (m *scriptedModel) Generate(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	m.mu.Lock()
	step := Step{Text: "Done."}
	if len(m.steps) > 0 {
		step, m.steps = m.steps[0], m.steps[1:]
	}
	m.mu.Unlock()
	var parts []llm.Part
	if step.Text != "" {
		parts = append(parts, llm.Part{Text: step.Text})
	}
	for _, c := range step.Calls {
		args := c.Args
		if len(args) == 0 {
			args = json.RawMessage(`{}`)
		}
		parts = append(parts, llm.Part{Call: &llm.Call{Name: c.Tool, Args: args}})
	}
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Parts: parts, Finish: llm.FinishStop}, nil)
	}
}

// recordingModel is a model that records the requests to it.
type recordingModel struct {
	llm.Model

	mu       sync.Mutex
	requests []llm.Request
}

// Generate notes what the model is sent, and asks it.
func (m *recordingModel) Generate(ctx context.Context, q llm.Request) iter.Seq2[llm.Chunk, error] {
	m.mu.Lock()
	m.requests = append(m.requests, q)
	m.mu.Unlock()
	return m.Model.Generate(ctx, q)
}

// roster has one profile for all messages.
type roster struct {
	profile agent.Profile
	models  map[string]agent.Model
}

func (r roster) Route(chat.Message) agent.Profile { return r.profile }

// DiscoveryThreshold returns a number that no case reaches: its tools are all declared.
func (roster) DiscoveryThreshold() int { return maxCases }

// Model returns a model of the case by its name.
func (r roster) Model(name string) (agent.Model, bool) {
	m, ok := r.models[name]
	return m, ok
}

// toolbox has the tools of a case, whose calls are answered by records.
type toolbox []Tool

// List returns the tools that a case declares; a call of one is answered by the case.
func (b toolbox) List() []tool.Named {
	var list []tool.Named
	for _, t := range b {
		schema := t.Parameters
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		spec := tool.Spec{Server: t.Server, Name: t.Name, Description: t.Description, Schema: schema}
		list = append(list, tool.Named{Name: t.Name, Tool: tool.Func{Described: spec}})
	}
	return list
}

// conversationBench is an agent with everything around it for one case.
type conversationBench struct {
	w      *workspace
	at     chat.Address
	author string
	engine *agent.Engine
	asked  *recordingModel
	count  int // questions so far
}

// newBench returns a bench whose conversation has the turns of the case. Where the runner has no model, a scripted one
// answers.
func (r *Runner) newBench(ctx context.Context, w *workspace, c Case, model string) (*conversationBench, error) {
	at, err := c.place()
	if err != nil {
		return nil, err
	}
	notes, _, err := w.saveNotes(ctx, c, at)
	if err != nil {
		return nil, err
	}
	b := &conversationBench{w: w, at: at, author: c.Author}
	models := map[string]agent.Model{}
	for name, m := range r.o.Models {
		models[name] = m
	}
	if model == scriptName {
		models[scriptName] = agent.Model{Model: &scriptedModel{steps: c.Script}, Timeout: scriptTimeout}
	}
	real := models[model]
	b.asked = &recordingModel{Model: real.Model}
	models[model] = agent.Model{Model: b.asked, Timeout: real.Timeout}
	profile := agent.Profile{
		Agent:     agentName,
		Models:    []string{model},
		System:    cmp.Or(c.System, r.o.System),
		MaxSteps:  maxSteps,
		MaxResult: maxResult,
		Uses:      func(tool.Named) bool { return true },
		Window:    conversation.DefaultWindow(),
	}
	if c.Window > 0 {
		profile.Window.MaxTurns = c.Window
	}
	if len(c.Files) > 0 {
		if profile.Recall, err = w.recall(c); err != nil {
			return nil, err
		}
	}
	var records []agent.RecordedCall
	for _, res := range c.Results {
		records = append(records, agent.RecordedCall{Tool: res.Tool, Args: res.Args, Text: res.Text, IsError: res.Error})
	}
	b.engine = agent.New(agent.Options{
		Roster: roster{profile, models},
		Store:  w.db,
		Tools:  toolbox(c.Tools),
		Calls:  agent.NewRecordedCalls(records),
		Notes:  notes,
		Log:    w.log,
		Now:    w.now,
		Jitter: func() float64 { return 0 },
	})
	return b, b.saveTurns(ctx, c.Turns)
}

// recall returns what the agent knows from the files of a case, as its profile needs it.
func (w *workspace) recall(c Case) (func(context.Context, string, []string) agent.Knowledge, error) {
	repository, named, err := w.knowledge(c)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, question string, earlier []string) (known agent.Knowledge) {
		known.Standing, known.Passages = repository.Recall(ctx, agentName, named, question, earlier)
		return known
	}, nil
}

// saveTurns stores turns a minute after each other, the last one a minute ago.
func (b *conversationBench) saveTurns(ctx context.Context, turns []Turn) error {
	began := b.w.now().Add(-time.Duration(len(turns)) * time.Minute)
	for i, t := range turns {
		m := chat.Message{ID: fmt.Sprint("earlier-", i+1), Conversation: b.at}
		turn := conversation.Turn{
			ID:    m.Key(),
			Began: began.Add(time.Duration(i) * time.Minute),
			State: conversation.Answered,
			User:  b.at.Platform + "/" + askerID,
			Messages: []llm.Message{
				{Role: llm.User, Parts: []llm.Part{{Text: t.User}}},
				{Role: llm.Assistant, Parts: []llm.Part{{Text: t.Answer}}},
			},
		}
		if err := b.w.db.SaveTurn(ctx, b.at, &turn); err != nil {
			return err
		}
	}
	return nil
}

// ask asks the agent and stores the turn.
func (b *conversationBench) ask(ctx context.Context, question string) (*chat.Draft, error) {
	b.count++
	m := chat.Message{
		ID:           fmt.Sprint("question-", b.count),
		Conversation: b.at,
		Author:       chat.User{ID: askerID, Name: b.author},
		Text:         question,
		Time:         b.w.now(),
	}
	turn, draft := b.engine.Answer(ctx, chat.Asked{Turn: m.Key(), Messages: []chat.Message{m}}, func(chat.Progress) {})
	if draft == nil {
		return nil, cmp.Or(ctx.Err(), fmt.Errorf("the agent gave no answer to %q", question))
	}
	if turn == nil {
		return draft, nil
	}
	return draft, b.w.db.SaveAnswer(ctx, b.at, []string{m.Key()}, turn, nil) // counts the tokens, too
}

// runAnswer asks the real model or, without one, a scripted model, whose requests can be checked.
func (r *Runner) runAnswer(ctx context.Context, w *workspace, c Case) (res Result, err error) {
	model := cmp.Or(r.o.Model, scriptName)
	if model == scriptName && len(c.Request) == 0 {
		res.Skipped = "it needs a model: name one with --model"
		return res, nil
	}
	b, err := r.newBench(ctx, w, c, model)
	if err != nil {
		return res, err
	}
	draft, err := b.ask(ctx, c.Question)
	if err != nil {
		return res, err
	}
	res.Answer = draft.Text
	told := ""
	for _, q := range b.asked.requests {
		told += requestText(q)
	}
	for _, want := range c.Request {
		res.check(fmt.Sprintf("the model is told %q", want), contains(told, want), "no request holds it")
	}
	if model == scriptName {
		if len(c.Expect)+len(c.Forbid)+len(c.Cite)+len(c.Use) > 0 || c.Baseline != "" {
			res.Skipped = "the answer needs a model: name one with --model"
		}
		return res, nil
	}
	if draft.Failed {
		res.Checks = nil // what the model was told is no merit of an answer that is not there
		res.check("the model answers", false, draft.Text)
		return res, r.count(ctx, w, &res)
	}
	for _, cite := range c.Cite {
		res.check(fmt.Sprintf("the answer cites %q", cite), contains(draft.Text, cite), "it does not")
	}
	for _, name := range c.Use {
		used := slices.ContainsFunc(draft.Tools, func(t chat.ToolRun) bool { return t.Name == name })
		res.check("the model uses "+name, used, "it does not")
	}
	if err := r.judge(ctx, b, c, &res); err != nil {
		return res, err
	}
	return res, r.count(ctx, w, &res)
}

// count adds the tokens of all requests to models, which the store has counted, and their cost.
func (r *Runner) count(ctx context.Context, w *workspace, res *Result) error {
	used, _, err := w.db.Usage(ctx, "", "", math.MaxInt)
	if err != nil {
		return err
	}
	for _, u := range used {
		res.Tokens += u.Tokens.Input + u.Tokens.Output
		if r.o.Price != nil {
			res.CostUSD += r.o.Price(u.Model).Cost(u.Tokens)
		}
	}
	return nil
}

// requestText returns a request as text, in the order in which providers cache it.
func requestText(q llm.Request) string {
	var b strings.Builder
	for _, t := range q.Tools {
		fmt.Fprintf(&b, "%s %s %s\n", t.Name, t.Description, t.Schema)
	}
	b.WriteString(q.System)
	for _, m := range q.Messages {
		fmt.Fprintf(&b, "\n%s: ", m.Role)
		for _, p := range m.Parts {
			b.WriteString(p.Text)
			if p.Call != nil {
				fmt.Fprintf(&b, "[call %s %s]", p.Call.Name, p.Call.Args)
			}
			if p.Result != nil {
				fmt.Fprintf(&b, "[result %s]", p.Result.Content)
			}
		}
	}
	return b.String()
}

// runPrompt asks questions in a row and measures the requests, which no model has to answer.
func (r *Runner) runPrompt(ctx context.Context, w *workspace, c Case) (res Result, err error) {
	b, err := r.newBench(ctx, w, c, scriptName)
	if err != nil {
		return res, err
	}
	for _, question := range c.Questions {
		if _, err := b.ask(ctx, question); err != nil {
			return res, err
		}
	}
	before := ""
	for i, q := range b.asked.requests {
		now := requestText(q)
		tokens := len(now) / conversation.BytesPerToken
		res.Tokens = max(res.Tokens, tokens)
		if c.MaxTokens > 0 {
			res.check(fmt.Sprintf("request %d has at most %d tokens", i+1, c.MaxTokens), tokens <= c.MaxTokens,
				fmt.Sprintf("it has about %d", tokens))
		}
		if i > 0 && c.MinPrefix > 0 {
			share := float64(commonPrefix(before, now)) / float64(len(before))
			res.check(fmt.Sprintf("request %d begins with %.0f %% of the one before", i+1, 100*c.MinPrefix),
				share >= c.MinPrefix, fmt.Sprintf("it begins with %.0f %%", 100*share))
		}
		before = now
	}
	return res, nil
}

// commonPrefix returns how many bytes two texts have in common from their beginning.
func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// runCompaction summarizes the turns of a case and looks for its facts in what is left of them in a request, or by a
// search of the history.
func (r *Runner) runCompaction(ctx context.Context, w *workspace, c Case) (res Result, err error) {
	model := cmp.Or(r.o.Model, scriptName)
	b, err := r.newBench(ctx, w, c, model)
	if err != nil {
		return res, err
	}
	if model == scriptName {
		// A scripted summary would say nothing: without a model the bot keeps sentences of the conversation.
		b.asked.Model = silentModel{}
	}
	if err := b.engine.Compact(ctx, b.at); err != nil {
		return res, err
	}
	summary, err := w.db.Summary(ctx, b.at)
	if err != nil {
		return res, err
	}
	turns, err := w.db.Turns(ctx, b.at, store.Range{After: summary.Upto, Newest: len(c.Turns)})
	if err != nil {
		return res, err
	}
	left := requestText(llm.Request{Messages: conversation.Build(summary, turns, "")})
	search := w.searchHistory(ctx, b.at, c.K)
	for _, f := range c.Facts {
		ok := contains(left, f.Text)
		why := "it is neither in the summary nor in the newest turns"
		if !ok && f.Query != "" {
			found, err := search(f.Query)
			if err != nil {
				return res, err
			}
			ok = slices.ContainsFunc(found, func(s string) bool { return contains(s, f.Text) })
			why += fmt.Sprintf(", and not among the first %d messages found by %q", c.K, f.Query)
		}
		res.check(fmt.Sprintf("%q is left", f.Text), ok, why)
	}
	return res, r.count(ctx, w, &res)
}

// silentModel never answers.
type silentModel struct{}

func (silentModel) ID() string { return "eval/none" }

// Generate fails as a provider without access does.
func (silentModel) Generate(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{}, &llm.Error{Kind: llm.Denied, Provider: "eval", Reason: "there is no model"})
	}
}
