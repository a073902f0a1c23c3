package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
)

// freshCalls are the calls that wait for their approval.
type freshCalls []string

func (f freshCalls) Fresh(_, call string) bool { return slices.Contains(f, call) }

// interrupted stores a turn that a crash cut off in a call of pay.
func interrupted(t *testing.T, b *bench) {
	t.Helper()
	turn := conversation.Turn{ID: "web/1", State: conversation.Open, Messages: []llm.Message{
		says(llm.User, "pay"),
		{Role: llm.Assistant, Parts: []llm.Part{{Call: &llm.Call{ID: "c", Name: "pay", Args: json.RawMessage(`{}`)}}}},
	}}
	if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
		t.Fatal(err)
	}
}

// A call that still waited for its approval when the bot crashed has had no effect yet, and is made.
func TestResume_CallWaitsForItsApproval_IsMade(t *testing.T) {
	for name, c := range map[string]struct {
		fresh freshCalls
		paid  int
	}{"it waits": {freshCalls{"c"}, 1}, "another waits": {freshCalls{"d"}, 0}} {
		paid := 0
		b := engine(tools{"pay": does(func(context.Context, json.RawMessage) (tool.Result, error) {
			paid++
			return tool.Text("paid"), nil
		})}, recorder())
		b.options.Approvals = c.fresh
		b.Engine = b.over()
		interrupted(t, b)
		if b.answer(t, t.Context(), one(asks("1", "pay"))); paid != c.paid {
			t.Errorf("%s: paid %d times, want %d", name, paid, c.paid)
		}
	}
}

// What the model does not know of a call that was cut off must be stored before it is asked.
func TestResume_StoreFails_IsAFailure(t *testing.T) {
	model := recorder()
	b := engine(tools{"pay": does(nil)}, model)
	interrupted(t, b)
	b.memory.crashAfter(0, func(error) {})
	turn, d := b.Answer(t.Context(), one(asks("1", "pay")), func(chat.Progress) {})
	if d == nil || !d.Failed || turn == nil || turn.State != conversation.Failed || len(model.Requests()) != 0 {
		t.Errorf("answered %+v, %+v after %d requests", turn, d, len(model.Requests()))
	}
}

// Text before calls is not the answer: it goes when the calls begin.
func TestAnswer_TextBeforeCalls_IsTakenBack(t *testing.T) {
	b := engine(tools{"look": reads("memory", true, "seen")}, &llmtest.Model{Script: func(n int, _ llm.Request) (
		[]llm.Chunk, error) {
		if n == 1 {
			return append([]llm.Chunk{{Parts: []llm.Part{{Text: "Let me look."}}}}, llmtest.Calls("look", `{}`)...), nil
		}
		return llmtest.Says("done"), nil
	}})
	b.ask(t, "look")
	var shown []string
	for _, p := range b.shown {
		switch {
		case p.Reset:
			shown = append(shown, "reset")
		case p.Text != "":
			shown = append(shown, p.Text)
		}
	}
	if got := strings.Join(shown, "|"); got != "Let me look.|reset|done" {
		t.Errorf("shown %q", got)
	}
}

// What people have to see of a call is what it did; a failure stands with the calls.
func TestAnswer_ResultToShow_OnlyOfCallsThatSucceeded(t *testing.T) {
	show := func(err error) tool.Func {
		return tool.Func{Described: tool.Spec{ShowResult: true},
			Do: func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Text("paid 5 kroner"), err }}
	}
	b := engine(tools{"pay": show(nil), "fails": show(errors.New("no")), "look": reads("memory", true, "seen")},
		&llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
			if n == 1 {
				return llmtest.Calls("pay", `{}`, "fails", `{}`, "look", `{}`, "nonesuch", `{}`), nil
			}
			return llmtest.Says("done"), nil
		}})
	if d := b.ask(t, "pay"); d.Footer != "paid 5 kroner" {
		t.Errorf("the footer is %q", d.Footer)
	}
}

// As many tools as the threshold says are all declared; one more, and they have to be found.
func TestDiscovery_AtTheThreshold_DeclaresAll(t *testing.T) {
	for threshold, found := range map[int]bool{60: true, 61: false} {
		var ran []string
		model := recorder()
		b := engine(workshop(&ran), model)
		b.options.Discovery = finder()
		b.options.Roster.(*roster).threshold = threshold
		b.Engine = agent.New(b.options)
		b.ask(t, "go")
		if got := strings.Contains(names(model.Requests()[0].Tools), "discover_tools"); got != found {
			t.Errorf("61 tools with a threshold of %d have to be found: %v, want %v", threshold, got, found)
		}
	}
}
