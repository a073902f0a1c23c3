package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
)

// ReplayOptions are the options of a replay.
type ReplayOptions struct {
	Model string // its configured name; empty for the agent's models
	// Ask has the model answer; else only the request is built.
	Ask bool
}

// Replay is what became of a turn that was played again.
type Replay struct {
	Question string      `json:"question"`
	Agent    string      `json:"agent"`
	Old      string      `json:"old"` // the stored answer; may be empty
	OldModel string      `json:"oldModel,omitempty"`
	New      string      `json:"new,omitempty"`
	NewModel string      `json:"newModel,omitempty"`
	Request  llm.Request `json:"-"` // the first one
	Usage    llm.Usage   `json:"usage,omitzero"`
	Missing  []string    `json:"missing,omitempty"` // calls that had no record, as name and arguments
	Notes    []string    `json:"notes,omitempty"`   // what differs from when the turn was answered
}

// Replay answers a stored turn again, with the messages before it, the current tools and instructions, and the
// recorded results of its tools. It calls no tool, and stores and counts nothing. The turn is named by its number in
// the conversation, by its ID, or as LastTurn. Replay returns store.ErrNotFound for an unknown turn.
func (e *Engine) Replay(ctx context.Context, a chat.Address, turn string, o ReplayOptions) (Replay, error) {
	t, err := e.storedTurn(ctx, a, turn)
	if err != nil {
		return Replay{}, err
	}
	// Calls that had no result are left out: what a model would make of them is not known.
	calls := NewRecordedCalls(e.recordsOf(t))
	r, notes, err := e.replayRun(ctx, a, t, o, calls)
	if err != nil {
		return Replay{}, err
	}
	out := Replay{
		Question: questionText(t),
		Agent:    r.profile.Agent,
		Old:      storedAnswer(t),
		OldModel: t.Served,
		Request:  r.request(""),
		Notes:    notes,
	}
	if !o.Ask {
		return out, nil
	}
	out.New, err = r.loop(ctx)
	out.NewModel, out.Usage, out.Missing = r.turn.Served, r.turn.Usage, calls.Missing()
	return out, err
}

// LastTurn names the newest turn of a conversation.
const LastTurn = "last"

// storedTurn returns the turn that a number, an ID or LastTurn names.
func (e *Engine) storedTurn(ctx context.Context, a chat.Address, name string) (conversation.Turn, error) {
	missing := fmt.Errorf("turn %q of %s: %w", name, a, store.ErrNotFound)
	in := store.Range{Newest: 1}
	if name != LastTurn {
		seq, err := strconv.ParseUint(name, 10, 64)
		if err != nil {
			at, t, err := e.o.Store.TurnOf(ctx, name)
			if err == nil && at != a {
				err = missing
			}
			return t, err
		}
		if seq == 0 {
			return conversation.Turn{}, missing
		}
		in.After, in.Upto = seq-1, seq
	}
	turns, err := e.o.Store.Turns(ctx, a, in)
	if err == nil && len(turns) == 0 {
		err = missing
	}
	if err != nil {
		return conversation.Turn{}, err
	}
	return turns[0], nil
}

// replayRun returns a run for a stored turn with only its question, and notes on the differences from the original.
func (e *Engine) replayRun(
	ctx context.Context,
	a chat.Address,
	t conversation.Turn,
	o ReplayOptions,
	calls *RecordedCalls,
) (*run, []string, error) {
	notes := []string{"Instructions, tools and notes are those of now; " +
		"the name and topic of the place are not known here."}
	_, user, _ := strings.Cut(t.User, "/")
	_, id, _ := strings.Cut(last(t.Subjects()), "/")
	m := chat.Message{ID: id, Conversation: a, Author: chat.User{ID: user}}
	profile := e.o.Roster.Route(m)
	if o.Model != "" {
		profile.Models = []string{o.Model}
	}
	past, covered, err := e.historyBefore(ctx, a, t.Seq, profile.Window)
	if err != nil {
		return nil, nil, err
	}
	if covered {
		notes = append(notes, "The summary of that time is gone: the newest turns before it are sent instead.")
	}
	// Nothing of it may last or be counted, wait for a server or a person, or be refused by a budget.
	options := e.o
	options.Store = discardingStore{e.o.Store}
	options.Calls = calls
	options.Servers, options.Approvals, options.Budget = nil, nil, nil
	r := &run{
		engine:     New(options),
		asked:      chat.Asked{Turn: t.ID, Messages: []chat.Message{m}},
		message:    m,
		profile:    profile,
		show:       func(chat.Progress) {},
		callCounts: map[string]int{},
		history:    past,
		media:      media{isLoaded: true, release: func() {}}, // none, because past messages have no files
		turn: &conversation.Turn{
			ID:       t.ID,
			Of:       t.Of,
			Seq:      t.Seq,
			Began:    t.Began,
			State:    conversation.Open,
			User:     t.User,
			Messages: slices.Clone(t.UserMessages()),
		},
	}
	if len(r.turn.Messages) == 0 {
		return nil, nil, errors.New("the turn has no question that could be asked again")
	}
	r.loadTools()
	if gone := r.declareRecorded(calls.list); len(gone) > 0 {
		notes = append(notes, "These tools are not there now and are declared by name alone: "+strings.Join(gone, ", ")+".")
	}
	// Not the passages, which the stored question has already.
	r.loadKnowledge(ctx, false)
	r.loadVolatile(ctx)
	return r, notes, nil
}

// historyBefore returns the turns before a turn, and true if a summary covers the turn itself and can therefore not be
// used. It returns errors of the store.
func (e *Engine) historyBefore(
	ctx context.Context,
	a chat.Address,
	seq uint64,
	w conversation.Window,
) (past history, covered bool, err error) {
	if past.summary, err = e.o.Store.Summary(ctx, a); err != nil {
		return past, false, err
	}
	if covered = past.summary.Upto >= seq; covered {
		past.summary = conversation.Summary{}
	}
	// Upto 0 would mean no upper bound.
	if seq == 1 {
		return past, covered, nil
	}
	in := store.Range{After: past.summary.Upto, Upto: seq - 1, Newest: w.Limit().MaxTurns}
	turns, err := e.o.Store.Turns(ctx, a, in)
	past.turns = w.Limit().Trim(turns)
	return past, covered, err
}

// declareRecorded declares the tools of recorded calls that are not there now, and returns their names.
func (r *run) declareRecorded(records []RecordedCall) (gone []string) {
	for _, c := range records {
		if _, ok := r.tools[c.Tool]; ok {
			continue
		}
		spec := tool.Spec{Name: c.Tool, Schema: []byte(`{"type":"object"}`)}
		r.tools[c.Tool] = tool.Named{Name: c.Tool, Tool: tool.Func{Described: spec}}
		r.declared = append(r.declared, llm.ToolSpec{Name: c.Tool, Schema: spec.Schema})
		gone = append(gone, c.Tool)
	}
	return gone
}

// recordsOf returns the calls of a turn with the results that the model was shown.
func (e *Engine) recordsOf(t conversation.Turn) []RecordedCall {
	results := map[string]llm.Result{}
	for _, m := range t.Messages {
		for _, p := range m.Parts {
			if p.Result != nil {
				results[p.Result.ID] = *p.Result
			}
		}
	}
	var list []RecordedCall
	for _, m := range t.Messages {
		for _, c := range m.Calls() {
			res, ok := results[c.ID]
			if !ok {
				continue
			}
			name, args := c.Name, c.Args
			if e.o.Discovery != nil {
				// A call through a discovery tool is recorded under that tool's name.
				if inner, innerArgs, err := e.o.Discovery.Unwrap(name, args); err == nil {
					name, args = inner, innerArgs
				}
			}
			list = append(list, RecordedCall{Tool: name, Args: args, Text: res.Content, IsError: res.IsError})
		}
	}
	return list
}

// storedAnswer returns the answer of a turn, or "".
func storedAnswer(t conversation.Turn) string {
	if t.State != conversation.Answered || len(t.Messages) == 0 {
		return ""
	}
	if m := last(t.Messages); m.Role == llm.Assistant {
		return strings.TrimSpace(m.Text())
	}
	return ""
}

// discardingStore is a store that keeps nothing of a run.
type discardingStore struct{ Store }

// SaveTurn stores nothing.
func (discardingStore) SaveTurn(context.Context, chat.Address, *conversation.Turn, ...store.ToolCall) error {
	return nil
}

// SaveSummary stores nothing.
func (discardingStore) SaveSummary(context.Context, chat.Address, conversation.Summary) error {
	return nil
}

// CountUsage counts nothing.
func (discardingStore) CountUsage(context.Context, store.Usage) error { return nil }
