package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/recall/toolsearch"
	"ravenbot/internal/testing/llmtest"
)

// workshop is many tools, one of which books rooms.
func workshop(ran *[]string) tools {
	box := tools{}
	add := func(server, name, description, schema string) {
		box[server+"_"+name] = tool.Func{
			Described: tool.Spec{Server: server, Name: name, Description: description, Schema: json.RawMessage(schema)},
			Do: func(_ context.Context, args json.RawMessage) (tool.Result, error) {
				*ran = append(*ran, server+"_"+name+string(args))
				return tool.Text("booked"), nil
			}}
	}
	for n := range 60 {
		add("stock", fmt.Sprint("count", n), fmt.Sprintf("Counts the parts on shelf %d.", n), `{"type":"object"}`)
	}
	add("office", "book_room", "Books a meeting room for a time.",
		`{"type":"object","properties":{"room":{"type":"string"}},"required":["room"]}`)
	return box
}

func finder() *toolsearch.Finder {
	return toolsearch.NewFinder(toolsearch.New(), func(string) string { return "" })
}

func names(specs []llm.ToolSpec) string {
	var all []string
	for _, s := range specs {
		all = append(all, s.Name)
	}
	return strings.Join(all, " ")
}

// Find me a tool for X: discover, schema, execute, answer.
func TestAToolIsFoundAmongMany(t *testing.T) {
	var ran []string
	const five = "browse_tool_domain discover_tools execute_tool get_tool_schema list_tool_domains"
	b := engine(workshop(&ran), &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		if n == 1 && (names(r.Tools) != five || !strings.Contains(r.System, "discover_tools finds them")) {
			t.Errorf("declared %q with the system prompt %q", names(r.Tools), r.System)
		}
		switch n {
		case 1:
			return llmtest.Calls("discover_tools", `{"query":"reserve a meeting room"}`), nil
		case 2:
			if found := lastResults(r)[0].Content; !strings.Contains(found, "office_book_room") {
				t.Errorf("found %q", found)
			}
			return llmtest.Calls("get_tool_schema", `{"name":"office_book_room"}`), nil
		case 3:
			if schema := lastResults(r)[0].Content; !strings.Contains(schema, `"room"`) {
				t.Errorf("the schema is %q", schema)
			}
			return llmtest.Calls("execute_tool", `{"name":"office_book_room","arguments":{"room":"blue"}}`, "execute_tool",
				`{"name":"nonesuch"}`, "execute_tool", `{}`), nil
		case 4:
			results := lastResults(r)
			for i, want := range []string{"booked", `There is no tool "nonesuch"`, "execute_tool wants"} {
				if results[i].Name != "execute_tool" || !strings.Contains(results[i].Content, want) {
					t.Errorf("result %d is %+v, want %q", i, results[i], want)
				}
			}
		}
		return llmtest.Says("done with " + names(r.Tools)), nil
	}})
	b.options.Discovery = finder()
	b.options.Roster.(*roster).threshold = 40
	b.options.Calls = b.calls(func(_ tool.Caller, n tool.Named) (tool.Decision, string) {
		if n.Tool.Spec().Server == "discovery" {
			return tool.Deny, "a rule for everything"
		}
		return tool.Allow, ""
	})
	b.Engine = b.over()
	d := b.answer(t, t.Context(), one(asks("1", "book me a room")))
	if d.Failed || fmt.Sprint(ran) != `[office_book_room{"room":"blue"}]` {
		t.Errorf("answered %q after running %v", d.Text, ran)
	}
	if !slices.ContainsFunc(d.Tools, func(r chat.ToolRun) bool { return r.Name == "office_book_room" }) {
		t.Errorf("shown as %+v, want the tool inside", d.Tools)
	}
	// The tools stay the same, so that providers can go on using what they have cached.
	if d := b.answer(t, t.Context(), one(asks("2", "and again"))); d.Text != "done with "+five {
		t.Errorf("the next question came with %q", d.Text)
	}
}
