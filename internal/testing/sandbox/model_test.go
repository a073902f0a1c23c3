package sandbox

import (
	"encoding/json"
	"strings"
	"testing"

	simmodel "ravenbot/internal/testing/sim/model"
)

func TestWhatTheModelDoes(t *testing.T) {
	tools := []simmodel.Tool{
		{Name: "feeds_fetch", Schema: json.RawMessage(`{"required":["url"],"properties":{"url":{"type":"STRING"},"limit":{"type":"integer"}}}`)},
		{Name: "count", Schema: json.RawMessage(`{"required":["n"],"properties":{"n":{"type":"integer"}}}`)},
	}
	for name, c := range map[string]struct{ system, asked, mode, text, tool, args string }{
		"an echo":               {asked: "anna says:\nhello there", text: "(simulated model) You said: hello there"},
		"a tool with a text":    {asked: "please feeds_fetch https://a.example/feed", tool: "feeds_fetch", args: `{"url":"https://a.example/feed"}`},
		"a tool with an object": {asked: `feeds_fetch: {"x":1}`, tool: "feeds_fetch", args: `{"x":1}`},
		"an object alone":       {asked: `feeds_fetch {"url":"u","limit":2}`, tool: "feeds_fetch", args: `{"url":"u","limit":2}`},
		"no text wanted":        {asked: "count.", tool: "count", args: `{}`},
		"a tool not allowed":    {asked: "feeds_fetch u", mode: "NONE", text: "(simulated model) You said: feeds_fetch u"},
		"a part of a name":      {asked: "feeds_fetching u", text: "(simulated model) You said: feeds_fetching u"},
		"a digest": {system: "You edit a news digest.", asked: "[1] One (two) (A (b))\ntext\n\n[2] Three (C)\n",
			text: `{"opening":["(simulated model) One [1].","(simulated model) Three [2]."],"items":[` +
				`{"n":1,"relevance":5,"text":"(simulated model) One [1]."},{"n":2,"relevance":5,"text":"(simulated model) Three [2]."}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := script(simmodel.Request{System: c.system, ToolMode: c.mode, Tools: tools,
				Messages: []simmodel.Message{{Role: simmodel.RoleUser, Text: c.asked}}})
			var call simmodel.Call
			if len(got.Calls) > 0 {
				call = got.Calls[0]
			}
			if strings.Join(got.Text, "") != c.text || call.Name != c.tool || string(call.Args) != c.args {
				t.Errorf("said %q, called %s with %s", got.Text, call.Name, call.Args)
			}
		})
	}
}

func TestWhatAToolAnswered(t *testing.T) {
	got := script(simmodel.Request{Messages: []simmodel.Message{{Role: simmodel.RoleTool,
		Results: []simmodel.Result{{Name: "long", Content: strings.Repeat("ø", 5000)}}}}})
	if text := strings.Join(got.Text, ""); !strings.HasPrefix(text, "(simulated model) The tool long answered:\n\nøø") ||
		strings.Count(text, "ø") != maxResultRunes || !strings.HasSuffix(text, "…") {
		t.Errorf("said %q", got.Text)
	}
}

func TestCommandsAsDiscordSendsThem(t *testing.T) {
	for line, want := range map[string]string{
		"":                                      `help null`,
		"ask what is new?":                      `ask {"text":"what is new?"}`,
		"usage":                                 `usage {}`,
		"digest list":                           `digest {"action":"list"}`,
		"digest run morning":                    `digest {"action":"run","name":"morning"}`,
		"digest edit morning style titles":      `digest {"action":"edit","more":"style titles","name":"morning"}`,
		"digest create weekdays at 9 bundled:a": `digest {"action":"create","more":"weekdays at 9 bundled:a"}`,
	} {
		sub, options := splitCommand(line)
		text, err := json.Marshal(options)
		if err != nil || sub+" "+string(text) != want {
			t.Errorf("%q: %s %s, want %s", line, sub, text, want)
		}
	}
}
