package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/testing/llmtest"
)

func TestAnswer_CitedSources_AreNamedBelow(t *testing.T) {
	search := tool.Func{Described: tool.Spec{
		Server: "web",
		Name:   "search",
		Native: true,
	}, Do: func(ctx context.Context, _ json.RawMessage) (tool.Result, error) {
		links := []chat.Link{{Title: "Ravens [eat]", URL: "https://a.example/1"},
			{Title: "Crows", URL: "https://a.example/2"}}
		first := tool.CallerFrom(ctx).NumberSources(links)
		return tool.Result{Text: strings.Repeat("x", first), Sources: links}, nil
	}}
	const first, second, third = `\[1\] [Ravens (eat)](https://a.example/1)`, `\[2\] [Crows](https://a.example/2)`, `\[3\] [Ravens (eat)](https://a.example/1)`
	for answer, want := range map[string]string{
		"They eat nuts [1].":                      "\n\nSources: " + first,
		"Both [2][1], and later [3].":             "\n\nSources: " + first + " · " + second + " · " + third,
		"Both[1, 2].":                             "\n\nSources: " + first + " · " + second,
		"Nothing is cited.":                       "",
		"Out of range [9], and [0].":              "",
		"A link [1](https://b.example).":          "",
		"Code `a[1]` and\n```\nlist[2]\n```\nend": "",
	} {
		b := engine(tools{"web_search": search}, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
			if n < 3 { // numbers go on over the calls of a turn
				return llmtest.Calls("web_search", `{"n":`+string(rune('0'+n))+`}`), nil
			}
			return llmtest.Says(answer), nil
		}})
		if d := b.answer(t, t.Context(), one(asks("1", "what do they eat?"))); d.Text != answer+want {
			t.Errorf("answered %q, want %q", d.Text, answer+want)
		}
		if turns := b.memory.turns[room]; len(turns) > 0 &&
			strings.Contains(turns[0].Messages[len(turns[0].Messages)-1].Text(), "Sources:") {
			t.Error("the history holds the line")
		}
	}
}

// The only source of an answer is named like several, and a number that no source has names none.
func TestAnswer_OneSource_IsNamedBelow(t *testing.T) {
	for said, want := range map[string]string{
		"It is red [1].":         "It is red [1].\n\nSources: \\[1\\] [The tower](https://tower.example/)",
		"It is red [0], [2].":    "It is red [0], [2].",
		"It is red `list[1]`.":   "It is red `list[1]`.",
		"It is [1](https://x/).": "It is [1](https://x/).",
	} {
		box := tools{"look": does(func(ctx context.Context, _ json.RawMessage) (tool.Result, error) {
			n := tool.CallerFrom(ctx).NumberSources([]chat.Link{{Title: "The tower", URL: "https://tower.example/"}})
			return tool.Text(fmt.Sprint("source ", n)), nil
		})}
		d := engine(box, &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
			if n == 1 {
				return llmtest.Calls("look", `{}`), nil
			}
			return llmtest.Says(said), nil
		}}).ask(t, "which colour?")
		if d.Text != want {
			t.Errorf("answered %q, want %q", d.Text, want)
		}
	}
}

// Of very many sources that an answer cites the first ten are named.
func TestAnswer_ManySources_TenAreNamed(t *testing.T) {
	var links []chat.Link
	said := "All of it"
	for n := range 12 {
		links = append(links, chat.Link{Title: fmt.Sprint("Page ", n+1), URL: fmt.Sprint("https://a.example/", n+1)})
		said += fmt.Sprintf(" [%d]", 12-n)
	}
	box := tools{"look": does(func(ctx context.Context, _ json.RawMessage) (tool.Result, error) {
		tool.CallerFrom(ctx).NumberSources(links)
		return tool.Text("seen"), nil
	})}
	d := engine(box, callThen(said, "look", `{}`)).ask(t, "which?")
	_, named, _ := strings.Cut(d.Text, "Sources: ")
	if strings.Count(named, "](https://") != 10 || !strings.HasPrefix(named, `\[1\] [Page 1]`) ||
		strings.Contains(named, "Page 11") {
		t.Errorf("named are %s", named)
	}
}
