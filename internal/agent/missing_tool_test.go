package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"ravenbot/internal/agent"
	"ravenbot/internal/chat"
	"ravenbot/internal/llm"
	"ravenbot/internal/llm/llmtest"
	"ravenbot/internal/tool"
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
			b := engine(tools{"ok": does(func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Text("fine"), nil })}, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
				if n < 3 {
					return llmtest.Calls(c.tool, `{"n":`+string(rune('0'+n))+`}`), nil
				}
				return llmtest.Says("saw: " + lastResults(r)[0].Content), nil
			}})
			b.options.Servers = away{}
			profile := b.options.Roster.Route(chat.Message{})
			profile.Servers = func(string) bool { return c.uses }
			b.options.Roster = &roster{profile: func(chat.Message) agent.Profile { return profile }, models: b.options.Roster.(*roster).models}
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
