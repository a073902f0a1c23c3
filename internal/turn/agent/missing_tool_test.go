package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
)

// away is one server whose tools are not there now.
type away struct{}

func (away) Lease() func()           { return func() {} }
func (away) WaitAll(context.Context) {}

func (away) WhyMissing(name string) (server, why string) {
	if strings.HasPrefix(name, "office_") {
		return "office", "The MCP server office cannot be reached just now."
	}
	return "", ""
}

func TestAnswer_ToolOfAServerThatIsDown_SaysSoToModelAndUser(t *testing.T) {
	for name, c := range map[string]struct {
		tool string
		uses bool
		told bool
	}{
		"a server that is down":      {"office_mail", true, true},
		"one that is not the user's": {"office_mail", false, false},
		"no tool of a server":        {"nonesuch", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := engine(tools{"ok": does(func(context.Context, json.RawMessage) (tool.Result, error) {
				return tool.Text("fine"), nil
			})}, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
				if n < 3 {
					return llmtest.Calls(c.tool, `{"n":`+string(rune('0'+n))+`}`), nil
				}
				return llmtest.Says("saw: " + lastResults(r)[0].Content), nil
			}})
			b.options.Servers = away{}
			profile := b.options.Roster.Route(chat.Message{})
			profile.Servers = func(string) bool { return c.uses }
			b.options.Roster = &roster{
				profile: func(chat.Message) agent.Profile { return profile },
				models:  b.options.Roster.(*roster).models,
			}
			b.Engine = b.over()
			d := b.answer(t, t.Context(), one(asks("1", "send it")))
			const why = "The MCP server office cannot be reached just now."
			if got := strings.Contains(d.Text, why+" Nothing was run."); got != c.told || !got &&
				!strings.Contains(d.Text, "There is no tool") {
				t.Errorf("the model is told %q", d.Text)
			}
			if got := strings.Count(d.Footer, why) == 1; got != c.told {
				t.Errorf("the user is told %q", d.Footer)
			}
		})
	}
}

// starting is a server whose tool is there when it was waited for.
type starting struct {
	away
	box    tools
	waited *int
	comes  tool.Func
}

func (s starting) WaitAll(context.Context) {
	*s.waited++
	s.box["look"] = s.comes
}

// A turn that a crash interrupted waits for the server of its call, which is starting with the bot, and for no other.
func TestResume_WaitsForTheToolsOfItsCalls(t *testing.T) {
	for name, isThere := range map[string]bool{"the server is starting": false, "the server is there": true} {
		t.Run(name, func(t *testing.T) {
			ran, waited, box := 0, 0, tools{}
			look := does(func(context.Context, json.RawMessage) (tool.Result, error) {
				ran++
				return tool.Text("seen"), nil
			})
			look.Described.Hints.ReadOnly = new(true)
			if isThere {
				box["look"] = look
			}
			b := engine(box, &llmtest.Model{Script: func(_ int, r llm.Request) ([]llm.Chunk, error) {
				return llmtest.Says(lastResults(r)[0].Content), nil
			}})
			b.options.Servers = starting{box: box, waited: &waited, comes: look}
			b.Engine = agent.New(b.options)
			turn := conversation.Turn{ID: "web/1", Of: []string{"web/1"}, State: conversation.Open, Messages: []llm.Message{
				{Role: llm.User, Parts: []llm.Part{{Text: "look"}}},
				{Role: llm.Assistant, Parts: []llm.Part{{Call: &llm.Call{ID: "1", Name: "look", Args: []byte(`{}`)}}}},
			}}
			if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
				t.Fatal(err)
			}
			d := b.answer(t, t.Context(), one(asks("1", "look")))
			if d.Text != "seen" || ran != 1 || waited != map[bool]int{false: 1, true: 0}[isThere] {
				t.Errorf("answered %q after %d runs, waited %d times", d.Text, ran, waited)
			}
		})
	}
}

// hung is a server that never gets ready.
type hung struct{ away }

func (hung) WaitAll(ctx context.Context) { <-ctx.Done() }

// A turn that a crash interrupted waits ten seconds for the servers of its calls, and goes on without them.
func TestResume_ServerNeverComes_GoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := engine(tools{}, &llmtest.Model{Script: sayHere})
		b.options.Servers = hung{}
		b.Engine = agent.New(b.options)
		turn := conversation.Turn{ID: "web/1", Of: []string{"web/1"}, State: conversation.Open, Messages: []llm.Message{
			{Role: llm.User, Parts: []llm.Part{{Text: "look"}}},
			{Role: llm.Assistant, Parts: []llm.Part{{Call: &llm.Call{ID: "1", Name: "look", Args: []byte(`{}`)}}}},
		}}
		if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if d := b.answer(t, t.Context(), one(asks("1", "look"))); d.Text != "here" || time.Since(began) != 10*time.Second {
			t.Errorf("answered %q after %v", d.Text, time.Since(began))
		}
	})
}

// leases counts how often the tools are kept, and released.
type leases struct {
	away
	kept, released *int
}

func (l leases) Lease() func() {
	*l.kept++
	return func() { *l.released++ }
}

// A reload must not end the servers of tools that a model was told of.
func TestAnswer_KeepsTheServersUntilItIsThere(t *testing.T) {
	kept, released := 0, 0
	b := engine(nil, &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) {
		if kept != 1 || released != 0 {
			t.Errorf("while the model answers, the servers are kept %d times and released %d times", kept, released)
		}
		return llmtest.Says("done"), nil
	}})
	b.options.Servers = leases{kept: &kept, released: &released}
	b.Engine = b.over()
	b.answer(t, t.Context(), one(asks("1", "go")))
	if kept != 1 || released != 1 {
		t.Errorf("the servers are kept %d times and released %d times, want once", kept, released)
	}
}
