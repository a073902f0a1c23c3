package agent_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
)

const editNote = "(This was edited after the calls below had been made.)"

// press answers the press of a button of a turn.
func (b *bench) press(t *testing.T, value string) *chat.Draft {
	t.Helper()
	m := asks("press/"+value, value)
	m.Command = chat.Pressed
	return b.answer(t, t.Context(), chat.Asked{Messages: []chat.Message{m}})
}

// The model is told that words were edited after its calls; not where there were none, or nothing was edited.
func TestReopen_EditIsNotedWhereCallsWereMade(t *testing.T) {
	for name, c := range map[string]struct {
		calls, edits bool
		want         bool
	}{
		"edit after calls":    {true, true, true},
		"edit without calls":  {false, true, false},
		"retry after calls":   {true, false, false},
		"retry without calls": {false, false, false},
	} {
		model := &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
			if n == 1 && c.calls {
				return llmtest.Calls("look", `{}`), nil
			}
			return llmtest.Says("done"), nil
		}}
		b := engine(tools{"look": reads("memory", true, "seen")}, model)
		b.answer(t, t.Context(), one(asks("1", "first")))
		if c.edits {
			b.answer(t, t.Context(), edit("1", "other"))
		} else {
			b.press(t, chat.PressRetry+"web/1")
		}
		text := wholeText(last(model.Requests()))
		if got := strings.Contains(text, editNote); got != c.want || !strings.Contains(text, map[bool]string{true: "other",
			false: "first"}[c.edits]) {
			t.Errorf("%s: noted %v in\n%s", name, got, text)
		}
		turn := b.memory.turns[room][0]
		if turn.State != conversation.Answered || last(turn.Messages).Text() != "done" || len(b.memory.turns[room]) != 1 {
			t.Errorf("%s: the turn is %+v", name, turn)
		}
	}
}

// A turn that a revision cut off goes on with the messages that there are then: those that were taken away are gone
// from it, and each of the others finds it.
func TestReopen_MessagesHaveComeAndGone(t *testing.T) {
	for name, c := range map[string]struct {
		then  []string // words of the messages by id
		of    []string
		noted bool
	}{
		"one more":          {[]string{"1:one", "2:two", "3:three"}, []string{"web/1", "web/2", "web/3"}, true},
		"one less":          {[]string{"2:two"}, []string{"web/2"}, true},
		"one edited":        {[]string{"1:won", "2:two"}, []string{"web/1", "web/2"}, true},
		"none":              {[]string{"1:one", "2:two"}, []string{"web/1", "web/2"}, false},
		"another in return": {[]string{"1:one", "3:three"}, []string{"web/1", "web/3"}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			model := &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
				if n == 1 {
					return llmtest.Calls("look", `{}`), nil
				}
				return llmtest.Says("done"), nil
			}}
			revised, revise := context.WithCancel(t.Context())
			b := engine(tools{"look": does(func(context.Context, json.RawMessage) (tool.Result, error) {
				revise()
				return tool.Text("seen"), nil
			})}, model)
			ask := func(words ...string) chat.Asked {
				q := chat.Asked{Turn: "web/1"}
				for _, w := range words {
					id, text, _ := strings.Cut(w, ":")
					q.Messages = append(q.Messages, asks(id, text))
				}
				return q
			}
			q := ask("1:one", "2:two")
			q.Revised = revised
			if turn, d := b.Answer(t.Context(), q, func(chat.Progress) {}); turn != nil || d != nil {
				t.Fatalf("%s: answered %+v before it was revised", name, d)
			}
			if d := b.answer(t, t.Context(), ask(c.then...)); d == nil || d.Text != "done" {
				t.Fatalf("%s: answered %+v", name, d)
			}
			turn := b.memory.turns[room][0]
			var words []string
			for _, m := range turn.UserMessages() {
				words = append(words, m.Parts[0].Text)
			}
			var want []string
			for _, w := range c.then {
				_, text, _ := strings.Cut(w, ":")
				want = append(want, text)
			}
			if diff := cmp.Diff(want, words); diff != "" || !slices.Equal(turn.Of, c.of) {
				t.Errorf("%s: the turn is of %q (-want +got):\n%s", name, turn.Of, diff)
			}
			if got := strings.Contains(wholeText(last(model.Requests())), editNote); got != c.noted {
				t.Errorf("%s: noted as edited: %v", name, got)
			}
		})
	}
}

// A question that changes while the model is asked is not answered, nor called a failure.
func TestRevision_WhileTheModelIsAsked_EndsTheRun(t *testing.T) {
	for name, model := range map[string]llm.Model{
		"it hangs": hanging{},
		"it asks for a pause": &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) {
			return nil, &llm.Error{Kind: llm.RateLimited, RetryAfter: 20 * time.Second}
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := engine(nil, model)
			revised, revise := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, revise)
			q := one(asks("1", "first"))
			q.Revised = revised
			began := time.Now()
			if turn, d := b.Answer(t.Context(), q, func(chat.Progress) {}); turn != nil || d != nil {
				t.Errorf("%s: answered %+v", name, d)
			}
			if took := time.Since(began); took != time.Second {
				t.Errorf("%s: the run ended after %v", name, took)
			}
			if strings.Contains(b.log.String(), "failed to answer a message") {
				t.Errorf("%s: it is logged as a failure:\n%s", name, b.log)
			}
		})
	}
}

// A press whose turn is gone is told so, and an edit of a message that is not known is nobody's question.
func TestReopen_TurnThatIsGone(t *testing.T) {
	b := engine(nil, recorder())
	if d := b.press(t, chat.PressRetry+"web/9"); d == nil || !d.Ephemeral || !strings.Contains(d.Text,
		"I no longer know") {
		t.Errorf("the press is answered %+v", d)
	}
	if d := b.answer(t, t.Context(), edit("9", "words")); d != nil {
		t.Errorf("the edit is answered %+v", d)
	}
}

// A turn that is answered again is asked with what was said before it alone, and counts for whoever asked it.
func TestReopen_SeesWhatWasSaidBefore(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	for _, id := range []string{"1", "2", "3"} {
		b.answer(t, t.Context(), one(asks(id, "question "+id)))
	}
	p := &fakeBudget{}
	b.options.Budget = p
	b.Engine = agent.New(b.options)
	m := asks("press", chat.PressRetry+"web/2")
	m.Command, m.Author = chat.Pressed, chat.User{ID: "U9", Admin: true}
	b.answer(t, t.Context(), chat.Asked{Messages: []chat.Message{m}})
	text := wholeText(last(model.Requests()))
	if !strings.Contains(text, "question 1") || !strings.Contains(text, "question 2") || strings.Contains(text,
		"question 3") {
		t.Errorf("the request is\n%s", text)
	}
	if len(p.reserved) != 1 || p.reserved[0].User != "web/U1" {
		t.Errorf("it counts for %+v", p.reserved)
	}
}

// A record may have lost some of the messages that its turn answers.
func TestReopen_MessageIsMissingInTheRecord(t *testing.T) {
	damaged := func(b *bench, state conversation.State) {
		turn := conversation.Turn{ID: "web/1", Of: []string{"web/1", "web/2"}, State: state,
			Messages: []llm.Message{says(llm.User, "one")}}
		if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
			t.Fatal(err)
		}
	}
	b := engine(nil, recorder())
	damaged(b, conversation.Answered)
	if d := b.answer(t, t.Context(), edit("2", "two")); d != nil {
		t.Errorf("the edit of what is not there is answered %+v", d)
	}
	b = engine(nil, recorder())
	damaged(b, conversation.Open)
	d := b.answer(t, t.Context(), chat.Asked{Turn: "web/1", Messages: []chat.Message{asks("1", "one"), asks("2", "two")}})
	if d == nil || d.Text != "ok" || len(b.memory.turns[room][0].UserMessages()) != 2 {
		t.Errorf("answered %+v, kept %+v", d, b.memory.turns[room][0])
	}
}

// A call without a result is a call, too: the model must not take it for an answer to the edited words.
func TestReopen_EditedAfterACallWithoutResult_IsNoted(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	call := llm.Part{Call: &llm.Call{ID: "c", Name: "look", Args: json.RawMessage(`{}`)}}
	turn := conversation.Turn{ID: "web/1", State: conversation.Open, Messages: []llm.Message{
		says(llm.User, "one"), {Role: llm.Assistant, Parts: []llm.Part{call}}}}
	if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
		t.Fatal(err)
	}
	b.answer(t, t.Context(), one(asks("1", "other")))
	if text := wholeText(model.Requests()[0]); !strings.Contains(text, editNote) {
		t.Errorf("the request is\n%s", text)
	}
}

// A turn that is answered again is open until it is: after a crash it is to be answered, not taken for answered.
func TestReopen_WhileItIsAnsweredAgain_IsOpen(t *testing.T) {
	var during []conversation.State
	var b *bench
	look := does(func(context.Context, json.RawMessage) (tool.Result, error) {
		during = append(during, b.memory.turns[room][0].State)
		return tool.Text("seen"), nil
	})
	b = engine(tools{"look": look}, &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
		if n == 2 {
			return llmtest.Calls("look", `{}`), nil
		}
		return llmtest.Says("done"), nil
	}})
	b.answer(t, t.Context(), one(asks("1", "look")))
	b.press(t, chat.PressRetry+"web/1")
	if !slices.Equal(during, []conversation.State{conversation.Open}) {
		t.Errorf("while the call runs the turn is %q", during)
	}
}

// A name that can be looked up now, and could not before, is no edit; nor is one that could be looked up both times.
func TestReopen_NameBecomesKnown_IsNoEdit(t *testing.T) {
	for name, before := range map[string]map[string]string{"now": nil, "both times": {"U3": "Berit"}} {
		b := engine(nil, recorder())
		names := before
		b.options.Places = &places{about: func(context.Context, chat.Message) chat.Context {
			return chat.Context{Names: names}
		}}
		b.Engine = b.over()
		b.answer(t, t.Context(), one(asks("1", "ask @U3")))
		names = map[string]string{"U3": "Berit"}
		if d := b.answer(t, t.Context(), edit("1", "ask @U3")); d != nil {
			t.Errorf("known %s: an edit of nothing is answered %+v", name, d)
		}
		if d := b.answer(t, t.Context(), edit("1", "ask @U4")); d == nil {
			t.Errorf("known %s: an edit is not answered", name)
		}
	}
}

// An edit of a turn that a summary covers changes the summary as well; where the turn cannot be stored nothing is
// answered, and the next attempt succeeds.
func TestReopen_SummaryCoversTheTurn_IsMadeAgain(t *testing.T) {
	b := engine(nil, recorder())
	b.store(t, [2]string{"The key is 4711.", "noted"}, [2]string{"The lock is 12.", "noted"})
	b.memory.sums[room] = conversation.Summary{Upto: 2, From: 1, Text: "4711 and 12"}
	b.memory.crashAfter(0, func(error) {})
	if d := b.answer(t, t.Context(), edit("The key is 4711.", "The key is 99.")); d == nil || !d.Failed {
		t.Errorf("with a store that fails: answered %+v", d)
	}
	b.memory.crashAfter(-1, nil)
	if d := b.answer(t, t.Context(), edit("The key is 4711.", "The key is 99.")); d == nil || d.Text != "ok" {
		t.Errorf("answered %+v", d)
	}
	if s := b.memory.sums[room]; strings.Contains(s.Text, "4711") || !strings.Contains(s.Text, "99") {
		t.Errorf("the summary is %+v", s)
	}
}

// A retry brings no knowledge along that the question has already.
func TestReopen_KnowledgeIsInTheQuestion_IsNotAddedAgain(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	inProfile(b, func(p *agent.Profile) {
		p.Recall = func(context.Context, string, []string) agent.Knowledge {
			return agent.Knowledge{Standing: "Doors close at six.", Passages: []string{"The tower is red."}}
		}
	})
	b.answer(t, t.Context(), one(asks("1", "which colour?")))
	b.press(t, chat.PressRetry+"web/1")
	for n, r := range model.Requests() {
		if !strings.Contains(r.System, "Doors close at six.") || strings.Count(wholeText(r), "The tower is red.") != 1 {
			t.Errorf("request %d is\n%s", n, wholeText(r))
		}
	}
	if r, err := b.Replay(t.Context(), room, "1", agent.ReplayOptions{}); err != nil ||
		!strings.Contains(r.Request.System, "Doors close at six.") {
		t.Errorf("a replay is asked with %q, %v", r.Request.System, err)
	}
}

// What a model refused can be put differently by an edit, as the person is told.
func TestReopen_RefusedWordsAreEdited_AreAnswered(t *testing.T) {
	model := &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
		if n == 1 {
			return nil, &llm.Error{Kind: llm.Blocked}
		}
		return llmtest.Says("ok"), nil
	}}
	b := engine(nil, model)
	if d := b.answer(t, t.Context(), one(asks("1", "rude"))); d == nil || !strings.Contains(d.Text, "put it differently") {
		t.Fatalf("answered %+v", d)
	}
	if d := b.press(t, chat.PressRetry+"web/1"); d == nil || d.Text == "ok" {
		t.Errorf("the same words are answered %+v", d)
	}
	if d := b.answer(t, t.Context(), edit("1", "polite")); d == nil || d.Text != "ok" {
		t.Errorf("the edit is answered %+v", d)
	}
	if text := wholeText(last(model.Requests())); strings.Contains(text, "rude") || !strings.Contains(text, "polite") {
		t.Errorf("the request is\n%s", text)
	}
	if turn := b.memory.turns[room][0]; turn.State != conversation.Answered || len(turn.Messages) != 2 {
		t.Errorf("the turn is %+v", turn)
	}
}
