package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
)

// recorded returns a bench with three turns, the second of which called a tool; the tool may be called only once.
func recorded(t *testing.T) (*bench, *llmtest.Model) {
	t.Helper()
	calls := 0
	look := does(func(context.Context, json.RawMessage) (tool.Result, error) {
		if calls++; calls > 1 {
			t.Error("the tool was called again")
		}
		return tool.Text("the tower is red"), nil
	})
	model := &llmtest.Model{Name: "m"}
	model.Script = func(n int, q llm.Request) ([]llm.Chunk, error) {
		if n == 2 {
			return llmtest.Calls("look", `{"at":"tower"}`), nil
		}
		return llmtest.Says("answer " + []string{"", "one", "", "two", "three"}[min(n, 4)]), nil
	}
	b := engine(tools{"look": look}, model)
	b.ask(t, "first question")
	b.ask(t, "second question")
	b.ask(t, "third question")
	return b, model
}

func TestReplay_UsesRecordsAndChangesNothing(t *testing.T) {
	b, model := recorded(t)
	original := model.Requests()[1]
	before, err := json.Marshal(b.memory.turns[room])
	if err != nil {
		t.Fatal(err)
	}
	model.Script = func(n int, q llm.Request) ([]llm.Chunk, error) {
		if n == 5 {
			return llmtest.Calls("look", `{ "at": "tower" }`, "look", `{"at":"gate"}`), nil
		}
		var got []string
		for _, res := range lastResults(q) {
			got = append(got, res.Content)
		}
		return llmtest.Says("new: " + strings.Join(got, " / ")), nil
	}
	for _, name := range []string{"2", "web/second question"} {
		r, err := b.Replay(t.Context(), room, name, agent.ReplayOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(original, r.Request); diff != "" {
			t.Errorf("%s: the request is not the one of then (-then +now):\n%s", name, diff)
		}
		if len(r.Notes) != 1 {
			t.Errorf("%s: although nothing has changed the notes are %q", name, r.Notes)
		}
		if r.Question != "second question" || r.Old != "answer two" || r.New != "" {
			t.Errorf("%s: without a model it is %+v", name, r)
		}
	}
	if n := len(model.Requests()); n != 4 {
		t.Errorf("the model was asked %d times although nobody wanted that", n-4)
	}
	r, err := b.Replay(t.Context(), room, "2", agent.ReplayOptions{Ask: true})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(r.New, "new: the tower is red / There is no record of a call of look") || r.Old != "answer two" {
		t.Errorf("the answers are %q and before %q", r.New, r.Old)
	}
	if diff := cmp.Diff([]string{`look {"at":"gate"}`}, r.Missing); diff != "" {
		t.Errorf("calls without a record (-want +got):\n%s", diff)
	}
	after, err := json.Marshal(b.memory.turns[room])
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) {
		t.Error("what is stored has changed")
	}
	if d := b.ask(t, "fourth question"); !strings.HasPrefix(d.Text, "new:") || len(model.Requests()[6].Messages) < 7 {
		t.Errorf("after a replay the conversation goes on with %d messages and %q", len(model.Requests()[6].Messages), d.Text)
	}
}

func TestReplay_ToolThatIsGone_IsDeclaredByName(t *testing.T) {
	b, model := recorded(t)
	b.options.Tools = tools{}
	model.Script = func(n int, q llm.Request) ([]llm.Chunk, error) {
		if n == 5 {
			return llmtest.Calls("look", `{"at":"tower"}`), nil
		}
		return llmtest.Says(lastResults(q)[0].Content), nil
	}
	r, err := agent.New(b.options).Replay(t.Context(), room, "2", agent.ReplayOptions{Ask: true})
	if err != nil || r.New != "the tower is red" || !strings.Contains(strings.Join(r.Notes, " "), "by name alone: look.") {
		t.Errorf("without the tool: %+v, %v", r, err)
	}
}

func TestReplay_SummaryOfLater_IsNotTold(t *testing.T) {
	for _, upto := range []uint64{2, 3} {
		b, _ := recorded(t)
		b.memory.sums[room] = conversation.Summary{Upto: upto, Text: "it was answered with two"}
		r, err := agent.New(b.options).Replay(t.Context(), room, "2", agent.ReplayOptions{})
		told, _ := json.Marshal(r.Request)
		if err != nil || strings.Contains(string(told), "answered with two") || !strings.Contains(string(told), "answer one") {
			t.Errorf("with a summary up to turn %d the request is %s, %v", upto, told, err)
		}
		if notes := strings.Join(r.Notes, " "); !strings.Contains(notes, "The summary of that time is gone") {
			t.Errorf("with a summary up to turn %d the notes are %s", upto, notes)
		}
	}
}

func TestReplay_NoSuchTurn_IsNotFound(t *testing.T) {
	b, _ := recorded(t)
	for _, name := range []string{"0", "4", "web/never"} {
		if _, err := b.Replay(t.Context(), room, name, agent.ReplayOptions{}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("turn %s: the error is %v", name, err)
		}
	}
	if r, err := b.Replay(t.Context(), room, agent.LastTurn, agent.ReplayOptions{}); err != nil ||
		r.Old != "answer three" {
		t.Errorf("the last turn is %+v, %v", r, err)
	}
	// A message names its turn in its own conversation alone: others may not be read.
	if r, err := b.Replay(t.Context(), room, "web/first question", agent.ReplayOptions{}); err != nil ||
		r.Old != "answer one" {
		t.Errorf("the turn of the first message is %+v, %v", r, err)
	}
	elsewhere := chat.Address{Platform: "web", Channel: "elsewhere"}
	if _, err := b.Replay(t.Context(), elsewhere, "web/first question",
		agent.ReplayOptions{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("from another conversation: the error is %v", err)
	}
}

// TestReplay_ToolThatWasFound_IsFoundAgainAndAnsweredByItsRecord replays a call through a discovery tool.
func TestReplay_ToolThatWasFound_IsFoundAgainAndAnsweredByItsRecord(t *testing.T) {
	var ran []string
	model := &llmtest.Model{Name: "m", Script: func(n int, q llm.Request) ([]llm.Chunk, error) {
		switch n % 3 {
		case 1:
			return llmtest.Calls("discover_tools", `{"query":"reserve a meeting room"}`), nil
		case 2:
			return llmtest.Calls("execute_tool", `{"name":"office_book_room","arguments":{"room":"blue"}}`), nil
		}
		return llmtest.Says(lastResults(q)[0].Content), nil
	}}
	b := engine(workshop(&ran), model)
	b.options.Discovery = finder()
	b.options.Roster.(*roster).threshold = 40
	b.Engine = agent.New(b.options)
	b.ask(t, "book the blue room")
	r, err := b.Replay(t.Context(), room, agent.LastTurn, agent.ReplayOptions{Ask: true})
	if err != nil || r.New != "booked" || len(r.Missing) > 0 {
		t.Errorf("the new answer is %q without records of %q, %v", r.New, r.Missing, err)
	}
	if found := lastResults(model.Requests()[4])[0].Content; !strings.Contains(found, "office_book_room") {
		t.Errorf("the search of the replay found %q", found)
	}
	if len(ran) != 1 {
		t.Errorf("tools ran: %q, want once", ran)
	}
}

// A replayed turn is asked with what stood behind its question, too: the notes about whoever asked, as they are now.
func TestReplay_TellsTheNotesOfWhoeverAsked(t *testing.T) {
	model := &llmtest.Model{Script: sayHere}
	b := engine(nil, model)
	b.options.Notes = notes{"U1": "- likes teal", "": "- of nobody"}
	b.Engine = agent.New(b.options)
	b.answer(t, t.Context(), one(asks("1", "which colour?")))
	original := model.Requests()[0]
	if !strings.Contains(wholeText(original), "likes teal") {
		t.Fatalf("the question was asked without the note: %s", wholeText(original))
	}
	r, err := b.Replay(t.Context(), room, agent.LastTurn, agent.ReplayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := wholeText(r.Request); !strings.Contains(got, "- likes teal") || strings.Contains(got, "of nobody") {
		t.Errorf("the replayed request is %s", got)
	}
}

func says(role llm.Role, text string) llm.Message {
	return llm.Message{Role: role, Parts: []llm.Part{{Text: text}}}
}

// A turn that failed has no answer to compare with, whatever was said before it failed.
func TestReplay_TurnThatFailed_HasNoOldAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		state conversation.State
		last  llm.Message
		old   string
	}{
		"answered": {conversation.Answered, says(llm.Assistant, " red "), "red"},
		"failed":   {conversation.Failed, says(llm.Assistant, "half"), ""},
		"no word":  {conversation.Answered, says(llm.User, "and?"), ""},
	} {
		b := engine(nil, recorder())
		turn := conversation.Turn{ID: "web/1", Of: []string{"web/1"}, State: c.state, Messages: []llm.Message{
			{Role: llm.User, Parts: []llm.Part{{Text: "which colour?"}}}, c.last,
		}}
		if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
			t.Fatal(err)
		}
		r, err := b.Replay(t.Context(), room, "1", agent.ReplayOptions{})
		if err != nil || r.Old != c.old {
			t.Errorf("%s: the old answer is %q, %v, want %q", name, r.Old, err, c.old)
		}
	}
	// What has no question cannot be asked again.
	b := engine(nil, recorder())
	turn := conversation.Turn{ID: "web/1", Of: []string{"web/1"}, State: conversation.Answered}
	if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Replay(t.Context(), room, "1", agent.ReplayOptions{}); err == nil ||
		!strings.Contains(err.Error(), "no question") {
		t.Errorf("without a question: %v", err)
	}
}

// Each call without a record is named, and what is asked for may be looked at as often as one likes.
func TestRecordedCalls_NamesAllThatAreMissing(t *testing.T) {
	calls := agent.NewRecordedCalls(nil)
	look := tool.Named{Name: "look", Tool: tool.Func{}}
	for n := range 2 {
		args := json.RawMessage(fmt.Sprintf(`{ "b": %d, "a": 1 }`, n))
		out, _ := calls.Call(t.Context(), tool.Intent{Tool: look, Args: args}, 100)
		if !out.Result.IsError || !strings.Contains(out.Shown, "nothing was run") {
			t.Errorf("the call returned %+v", out)
		}
	}
	for range 2 {
		if diff := cmp.Diff([]string{`look {"a":1,"b":0}`, `look {"a":1,"b":1}`}, calls.Missing()); diff != "" {
			t.Errorf("missing (-want +got):\n%s", diff)
		}
	}
	if out, _ := calls.Refuse(t.Context(), tool.Intent{}, "why not", 100); !out.Result.IsError || out.Shown != "why not" {
		t.Errorf("a refusal is %+v", out)
	}
}

// Arguments are the same whatever their order and white space, and not where a long number differs in its last digit.
func TestRecordedCalls_ArgumentsAreComparedToTheDigit(t *testing.T) {
	calls := agent.NewRecordedCalls([]agent.RecordedCall{
		{Tool: "look", Args: json.RawMessage(`{"id":9007199254740993,"at":"tower"}`), Text: "red"},
		{Tool: "any", Text: "always", IsError: true},
		{Tool: "odd", Args: json.RawMessage(`{`), Text: "not JSON"},
	})
	for _, c := range []struct{ tool, args, want string }{
		{"look", `{ "at": "tower", "id": 9007199254740993 }`, "red"},
		{"look", `{"at":"tower","id":9007199254740992}`, "There is no record of a call of look"},
		{"any", `{"n":1}`, "always"},
		{"odd", `{`, "not JSON"},
		{"odd", `{}`, "There is no record"},
	} {
		in := tool.Intent{Tool: tool.Named{Name: c.tool, Tool: tool.Func{}}, Args: json.RawMessage(c.args)}
		out, _ := calls.Call(t.Context(), in, 100)
		if !strings.HasPrefix(out.Shown, c.want) || out.Result.IsError != (c.want != "red" && c.want != "not JSON") {
			t.Errorf("%s %s: %+v, want %q", c.tool, c.args, out, c.want)
		}
	}
}

// A replay without what was said before would be no replay: it fails where the store does.
func TestReplay_StoreFails_IsAnError(t *testing.T) {
	for _, what := range []string{"turn", "turns", "summary"} {
		b, _ := recorded(t)
		if _, err := b.fails(what).Replay(t.Context(), room, "web/second question", agent.ReplayOptions{}); !errors.Is(err,
			errUnreadable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A replay waits for nobody and costs nothing that counts: not for a server, nor for somebody's yes, nor a budget.
func TestReplay_AsksNoBudget(t *testing.T) {
	b, model := recorded(t)
	model.Script = sayHere
	p := &fakeBudget{refused: "test/m"}
	b.options.Budget, b.options.Servers = p, starting{}
	r, err := agent.New(b.options).Replay(t.Context(), room, "1", agent.ReplayOptions{Ask: true})
	if err != nil || r.New != "here" || len(p.reserved) != 0 {
		t.Errorf("answered %+v, %v, reserved %+v", r, err, p.reserved)
	}
}

// A replay may ask another model, and fails where that one does.
func TestReplay_OtherModel_IsAsked(t *testing.T) {
	b, _ := recorded(t)
	r := b.options.Roster.(*roster)
	r.models["spare"] = agent.Model{Model: &llmtest.Model{Name: "spare", Script: sayHere}, Timeout: time.Minute}
	r.models["down"] = agent.Model{Model: failing(), Timeout: time.Minute}
	got, err := b.Replay(t.Context(), room, "1", agent.ReplayOptions{Ask: true, Model: "spare"})
	if err != nil || got.New != "here" || got.NewModel != "test/spare" {
		t.Errorf("answered %+v, %v", got, err)
	}
	if got, err := b.Replay(t.Context(), room, "1", agent.ReplayOptions{Ask: true, Model: "down"}); err == nil {
		t.Errorf("a model that fails answered %+v", got)
	}
}

// The number of a turn is decimal.
func TestReplay_TenthTurn_IsFoundByItsNumber(t *testing.T) {
	b := engine(nil, recorder())
	for n := range 11 {
		b.store(t, [2]string{fmt.Sprint("question ", n+1), "ok"})
	}
	if r, err := b.Replay(t.Context(), room, "10", agent.ReplayOptions{}); err != nil || r.Question != "question 10" {
		t.Errorf("turn 10 is %+v, %v", r, err)
	}
}

// A call that a crash cut off has no result that a replay could use.
func TestReplay_CallWithoutResult_HasNoRecord(t *testing.T) {
	model := &llmtest.Model{Script: func(n int, q llm.Request) ([]llm.Chunk, error) {
		if n == 1 {
			return llmtest.Calls("look", `{}`), nil
		}
		return llmtest.Says(lastResults(q)[0].Content), nil
	}}
	b := engine(tools{"look": reads("memory", true, "seen")}, model)
	turn := conversation.Turn{ID: "web/1", State: conversation.Open, Messages: []llm.Message{
		says(llm.User, "look"),
		{Role: llm.Assistant, Parts: []llm.Part{{Call: &llm.Call{ID: "c", Name: "look", Args: json.RawMessage(`{}`)}}}},
	}}
	if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
		t.Fatal(err)
	}
	r, err := b.Replay(t.Context(), room, "1", agent.ReplayOptions{Ask: true})
	if err != nil || !strings.HasPrefix(r.New, "There is no record of a call of look") {
		t.Errorf("answered %+v, %v", r, err)
	}
}

// A search for tools that fails tells the model why.
func TestRecordedCalls_SearchFails_IsToldWhy(t *testing.T) {
	search := tool.Func{Described: tool.Spec{Server: "discovery", Native: true},
		Do: func(context.Context, json.RawMessage) (tool.Result, error) {
			return tool.Result{}, errors.New("the index is broken")
		}}
	in := tool.Intent{Tool: tool.Named{Name: "discover_tools", Tool: search}, Args: json.RawMessage(`{}`)}
	if out, _ := agent.NewRecordedCalls(nil).Call(t.Context(), in, 100); !out.Result.IsError ||
		!strings.Contains(out.Shown, "the index is broken") {
		t.Errorf("the call returned %+v", out)
	}
}
