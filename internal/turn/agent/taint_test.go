package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
)

// reads returns a tool of a server whose result is a text.
func reads(server string, native bool, text string) tool.Func {
	return tool.Func{
		Described: tool.Spec{Server: server, Native: native},
		Do:        func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Text(text), nil },
	}
}

// callThen calls tools with arguments in its first answer, and says a text in the second.
func callThen(text string, calls ...string) *llmtest.Model {
	return &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
		if n == 1 {
			return llmtest.Calls(calls...), nil
		}
		return llmtest.Says(text), nil
	}}
}

// What was read is noted with the turn, with the address that it came from; what the bot's own packs return is not
// foreign, and a tool that does not exist returned nothing.
func TestAnswer_ResultsOfToolsTaintTheTurn(t *testing.T) {
	box := tools{"page": reads("web", true, "news"), "notes": reads("memory", true, "a note"), "sheet": reads("office",
		false, "1")}
	long := "https://example.org/" + strings.Repeat("a", 200)
	for name, c := range map[string]struct {
		calls []string
		want  []string
	}{
		"a page": {[]string{"page", `{"url":"https://example.org/a"}`},
			[]string{"the result of page (https://example.org/a)"}},
		"a long address": {[]string{"page", `{"url":"` + long + `"}`}, []string{"the result of page (" + long[:99] +
			"…)"}},
		"no address":      {[]string{"page", `{}`}, []string{"the result of page"}},
		"twice the same":  {[]string{"sheet", `{"n":1}`, "sheet", `{"n":2}`}, []string{"the result of sheet"}},
		"the bot's own":   {[]string{"notes", `{}`}, nil},
		"no such tool":    {[]string{"nothing", `{}`}, nil},
		"refused by rule": {[]string{"page", `{`}, []string{"the result of page"}},
	} {
		b := engine(box, callThen("done", c.calls...))
		b.answer(t, t.Context(), one(asks("1", "go")))
		if diff := cmp.Diff(c.want, b.memory.turns[room][0].Taint); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Eight sources are noted: one is enough to be careful. A summary keeps those of the turns that it replaces.
func TestTaint_IsBoundedAndOutlivesItsTurn(t *testing.T) {
	var calls []string
	for n := range 10 {
		calls = append(calls, "page", fmt.Sprintf(`{"url":"https://example.org/%d"}`, n))
	}
	b := engine(tools{"page": reads("web", true, "news")}, callThen("done", calls...))
	b.answer(t, t.Context(), one(asks("1", "go")))
	if n := len(b.memory.turns[room][0].Taint); n != 8 {
		t.Errorf("%d sources are noted, want 8", n)
	}
	b.answer(t, t.Context(), one(asks("2", "and now?")))
	inProfile(b, func(p *agent.Profile) { p.Window = conversation.Window{MaxTurns: 1, MaxBytes: 1 << 20} })
	if err := b.Compact(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.memory.turns[room][0].Taint, b.memory.sums[room].Taint); diff != "" {
		t.Errorf("the taint of the summary (-want +got):\n%s", diff)
	}
}

// Calls are judged by what the turns before have read as well, and by descriptions of tools that nobody has approved.
func TestCaller_TellsWhatTheModelHasRead(t *testing.T) {
	added := reads("drive", false, "2")
	added.Described.Unapproved = true
	box := tools{"page": reads("web", true, "news"), "sheet": reads("office", false, "1"), "file": added}
	const described = "the description of file, which nobody has approved"
	b := engine(box, &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
		switch n {
		case 1:
			return llmtest.Calls("page", `{"n":1}`), nil
		case 3:
			return llmtest.Calls("sheet", `{}`), nil
		}
		return llmtest.Says("done"), nil
	}})
	var callers []tool.Caller
	b.options.Calls = b.calls(func(c tool.Caller, _ tool.Named) (tool.Decision, string) {
		callers = append(callers, c)
		return tool.Allow, ""
	})
	inProfile(b, func(p *agent.Profile) { p.Unattended, p.Granted = true, []string{"sheet"} })
	b.memory.sums[room] = conversation.Summary{Text: "before", Origin: origin.Foreign("an attached file")}
	b.answer(t, t.Context(), one(asks("1", "go")))
	b.answer(t, t.Context(), one(asks("2", "go on")))
	if len(callers) != 2 {
		t.Fatalf("%d calls were judged", len(callers))
	}
	want := [][]string{{"an attached file", described}, {"an attached file", "the result of page", described}}
	if diff := cmp.Diff(want, [][]string{callers[0].Taint, callers[1].Taint}); diff != "" {
		t.Errorf("judged by (-want +got):\n%s", diff)
	}
	c := callers[1]
	if c.Agent != "default" || c.Turn != "web/2" || c.Call == "" || c.User.ID != "U1" || !c.Unattended ||
		!cmp.Equal(c.Granted, []string{"sheet"}) {
		t.Errorf("the caller is %+v", c)
	}
}

// An address is named by people, by what is quoted with the question, and by the results of pages, feeds and searches;
// not by other tools, other servers, files, or the model.
func TestIsNamed_ByPeoplePagesAndSearches(t *testing.T) {
	const u = "https://a.example/x(1)"
	box := tools{"page": reads("web", true, u), "feed": reads("feeds", true, u), "find": reads("websearch", true, u),
		"notes": reads("memory", true, u), "sheet": reads("web", false, u), "open": reads("web", true, "opened")}
	for name, c := range map[string]struct {
		words string
		call  string
		about chat.Context
		want  bool
	}{
		"the question":        {words: "see " + u, want: true},
		"in Markdown":         {words: "[it](" + u + ")", want: true},
		"with a full stop":    {words: "see " + u + ".", want: true},
		"in quotes":           {words: `see "` + u + `"!`, want: true},
		"another address":     {words: "see https://a.example/", want: false},
		"a longer address":    {words: "see " + u + "/y", want: false},
		"a page":              {call: "page", want: true},
		"a feed":              {call: "feed", want: true},
		"a search":            {call: "find", want: true},
		"a note":              {call: "notes", want: false},
		"a server's tool":     {call: "sheet", want: false},
		"a message before":    {about: chat.Context{Recent: []chat.Said{{ID: "9", ByID: "U1", Text: u}}}, want: true},
		"a stranger's":        {about: chat.Context{Recent: []chat.Said{{ID: "9", ByID: "U9", Text: u}}}, want: false},
		"nobody, before that": {want: false},
	} {
		first := "notes"
		if c.call != "" {
			first = c.call
		}
		b := engine(box, &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
			switch {
			case n == 1 && c.call != "":
				return llmtest.Calls(first, `{}`), nil
			case n <= 2 && (c.call != "" || n == 1):
				return llmtest.Calls("open", `{"url":"`+u+`"}`), nil
			}
			return llmtest.Says("done"), nil
		}})
		named := false
		b.options.Calls = b.calls(func(caller tool.Caller, n tool.Named) (tool.Decision, string) {
			if n.Name == "open" {
				named = caller.IsNamed(u)
			}
			return tool.Allow, ""
		})
		b.options.Places = &places{about: func(context.Context, chat.Message) chat.Context { return c.about }}
		b.options.Access = only{"U1"}
		b.Engine = b.over()
		b.answer(t, t.Context(), one(asks("1", "look "+c.words)))
		if named != c.want {
			t.Errorf("%s: named: %v, want %v", name, named, c.want)
		}
	}
}

// Which of many links of a page is opened can tell its author something: three of a host may be followed in a turn. Those
// that a person wrote are not counted.
func TestIsNamed_LinksOfAPage_AreFollowedThreeTimesAHost(t *testing.T) {
	text := ""
	for n := range 5 {
		text += fmt.Sprintf("https://a.example/%d https://b.example/%d ", n, n)
	}
	open := func(host string, n int) []string {
		return []string{"open", fmt.Sprintf(`{"url":"https://%s/%d"}`, host, n)}
	}
	steps := [][]string{
		{"page", `{}`},
		slices.Concat(open("a.example", 0), open("a.example", 1), open("a.example", 0)),
		slices.Concat(open("a.example", 2), open("a.example", 3), open("b.example", 3)),
		slices.Concat(open("a.example", 0), open("a.example", 4), open("said.example", 1), open("said.example", 2),
			open("said.example", 3), open("said.example", 4)),
	}
	b := engine(tools{"page": reads("web", true, text), "open": reads("web", true, "opened")},
		&llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
			if n <= len(steps) {
				return llmtest.Calls(steps[n-1]...), nil
			}
			return llmtest.Says("done"), nil
		}})
	var mu sync.Mutex
	named := map[string]bool{}
	b.options.Calls = b.calls(func(c tool.Caller, n tool.Named) (tool.Decision, string) {
		mu.Lock()
		defer mu.Unlock()
		for _, host := range []string{"a.example", "b.example", "said.example"} {
			for n := range 9 {
				u := fmt.Sprintf("https://%s/%d", host, n)
				named[u] = c.IsNamed(u)
			}
		}
		return tool.Allow, ""
	})
	b.Engine = b.over()
	b.answer(t, t.Context(), one(asks("1", "see https://said.example/1 https://said.example/2 https://said.example/3 https://said.example/4")))
	for u, want := range map[string]bool{
		"https://a.example/0": true, "https://a.example/1": true, "https://a.example/2": true, "https://a.example/3": false,
		"https://a.example/4": false, "https://b.example/3": true, "https://b.example/4": true, "https://b.example/5": false,
		"https://said.example/1": true, "https://said.example/4": true, "https://said.example/5": false,
	} {
		if named[u] != want {
			t.Errorf("%s: %v, want %v", u, named[u], want)
		}
	}
}

// After foreign text, links of an answer that nobody gave are pointed out by their hosts.
func TestAnswer_LinksThatNobodyGave_ArePointedOut(t *testing.T) {
	page := reads("web", true, "more at https://given.example/page")
	const given, made = "[more](https://given.example/page)", "[more](https://made.example/?q=secret)"
	many := ""
	for n := range 7 {
		many += fmt.Sprintf("[%d](https://h%d.example/x) ", n, n)
	}
	for name, c := range map[string]struct {
		asked, answer, want string
		reads               bool
	}{
		"given by the page": {"go", given, "", true},
		"given by a person": {"go https://made.example/?q=secret", made, "", true},
		"made": {"go", made + " and " + made + "#2",
			"links that nobody gave lead to made.example: look before you open one", true},
		"shown as it is":   {"go", "https://made.example/?q=secret", "", true},
		"no address":       {"go", "[more](page.html)", "", true},
		"nothing was read": {"go", made, "", false},
		"more than five": {"go", many,
			"links that nobody gave lead to h0.example, h1.example, h2.example, h3.example, h4.example: look before you " +
				"open one", true},
		"made, given before": {"go", made + given, "links that nobody gave lead to made.example: look before you open one",
			true},
	} {
		calls := []string{"page", `{}`}
		if !c.reads {
			calls = []string{"notes", `{}`}
		}
		b := engine(tools{"page": page, "notes": reads("memory", true, "none")}, callThen(c.answer, calls...))
		if d := b.answer(t, t.Context(), one(asks("1", c.asked))); d.Footer != c.want {
			t.Errorf("%s: the footer is %q, want %q", name, d.Footer, c.want)
		}
	}
}

// Whatever a question brings along from files is foreign text, wherever it stands in the request.
func TestAnswer_WordsOfFilesTaintTheTurn(t *testing.T) {
	const known = "files that the agent knows"
	for name, c := range map[string]struct {
		knowledge agent.Knowledge
		files     []chat.File
		want      []string
	}{
		"nothing":         {agent.Knowledge{}, nil, nil},
		"an attached one": {agent.Knowledge{}, []chat.File{{Name: "plan.zip"}}, []string{"an attached file"}},
		"always known":    {agent.Knowledge{Standing: "Doors close at six."}, nil, []string{known}},
		"known of this":   {agent.Knowledge{Passages: []string{"The tower is red."}}, nil, []string{known}},
	} {
		b := engine(nil, recorder())
		inProfile(b, func(p *agent.Profile) {
			p.Recall = func(context.Context, string, []string) agent.Knowledge { return c.knowledge }
		})
		m := asks("1", "which colour?")
		m.Files = c.files
		b.answer(t, t.Context(), one(m))
		if got := b.memory.turns[room][0].Taint; !slices.Equal(got, c.want) {
			t.Errorf("%s: the turn is tainted by %q, want %q", name, got, c.want)
		}
	}
}
