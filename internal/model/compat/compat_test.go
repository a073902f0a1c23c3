package compat_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/compat"
	"ravenbot/internal/testing/llmtest"
)

// answer is an answer as a reader puts it together.
type answer struct {
	Text, Thoughts string
	Calls          []string
	Finish         llm.Finish
	Notes          []string
}

// ask collects an answer.
func ask(ctx context.Context, m llm.Model, r llm.Request) (a answer, err error) {
	for c, err := range m.Generate(ctx, r) {
		if err != nil {
			return a, err
		}
		if c.WasThought {
			a.Thoughts, a.Text = a.Thoughts+a.Text, ""
		}
		for _, p := range c.Parts {
			switch {
			case p.Call != nil:
				a.Calls = append(a.Calls, p.Call.Name+string(p.Call.Args))
			case p.Thought:
				a.Thoughts += p.Text
			default:
				a.Text += p.Text
			}
		}
		if c.Note != "" {
			a.Notes = append(a.Notes, c.Note)
		}
		a.Finish = c.Finish
	}
	return a, nil
}

// says returns a model that answers with pieces of text, and the log of it.
func says(pieces ...string) llm.Model {
	chunks := make([]llm.Chunk, 0, len(pieces)+1)
	for _, p := range pieces {
		chunks = append(chunks, llm.Chunk{Parts: []llm.Part{{Text: p}}})
	}
	chunks = append(chunks, llm.Chunk{Finish: llm.FinishStop})
	inner := &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) { return chunks, nil }}
	return compat.New(inner, compat.Options{Name: "m", Tools: true, Log: slog.New(slog.DiscardHandler)})
}

var question = llm.Request{Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "hi"}}}},
	Tools: []llm.ToolSpec{{Name: "look"}, {Name: "look_up"}}}

func TestGenerate_ReasoningInTheText_IsThought(t *testing.T) {
	for name, c := range map[string]struct{ in, text, thoughts string }{
		"think":                     {"<think>I wonder.</think>\n\nYes.", "Yes.", "I wonder."},
		"thinking":                  {"\n<thinking>\nhm\n</thinking>Yes.", "Yes.", "\nhm\n"},
		"reasoning":                 {"<reasoning>hm</reasoning> Yes.", "Yes.", "hm"},
		"Magistral's":               {"[THINK]hm[/THINK]Yes.", "Yes.", "hm"},
		"only the last tag":         {"I wonder.\n</think>\n\nYes.", "Yes.", "I wonder.\n"},
		"another tag within":        {"<think>a <b> </thinking> c</think>Yes.", "Yes.", "a <b> </thinking> c"},
		"nothing thought":           {"<think>\n\n</think>\n\nYes.", "Yes.", "\n\n"},
		"never ended":               {"<think>I wonder", "", "I wonder"},
		"a later tag":               {"<think>a</think>Use <think>b</think> here.", "Use <think>b</think> here.", "a"},
		"a first tag in the middle": {"The tag <think> begins it.", "The tag <think> begins it.", ""},
		"two blocks":                {"<think>a</think>\n<think>b</think>\nYes.", "Yes.", "ab"},
		"capital letters":           {"<Think>hm</THINK>Yes.", "Yes.", "hm"},
		"Kimi's":                    {"◁think▷hm◁/think▷Yes.", "Yes.", "hm"},
		"a pair in the middle":      {"The tag <think>x</think> hides.", "The tag <think>x</think> hides.", ""},
		"a lone backtick":           {"I typed a ` here.\n</think>\nYes.", "Yes.", "I typed a ` here.\n"},
		"tags in code":              {"Write `</think>` at the end.", "Write `</think>` at the end.", ""},
		"tags in a block of code":   {"So:\n```\n<think>a</think>\n```\n", "So:\n```\n<think>a</think>\n```\n", ""},
		"a tag of HTML":             {"<thead> is a tag", "<thead> is a tag", ""},
		"the beginning of a tag":    {"<thi", "<thi", ""},
		"an end that begins a tag":  {"a </thin", "a </thin", ""},
		"spaces":                    {"  \n", "  \n", ""},
	} {
		pieces := [][]string{{c.in}, strings.Split(c.in, ""), strings.SplitAfter(c.in, ">"), {c.in[:len(c.in)/2], c.in[len(c.in)/2:]}}
		for _, p := range pieces {
			got, err := ask(t.Context(), says(p...), question)
			want := answer{Text: c.text, Thoughts: c.thoughts, Finish: llm.FinishStop}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s, in %d pieces: %v (-want +got):\n%s", name, len(p), err, diff)
			}
		}
	}
}

// After the first answer whose reasoning only ended in a tag, nothing of the next one is shown as its answer.
func TestGenerate_OnlyTheLastTagAgain_ShowsNoReasoning(t *testing.T) {
	m := says("I ", "wonder.", "\n</think>\n", "Yes.")
	for i := range 2 {
		var shown []string
		for c, err := range m.Generate(t.Context(), question) {
			if err != nil {
				t.Fatal(err)
			}
			if c.WasThought && i == 1 {
				t.Error("something must be removed again")
			}
			for _, p := range c.Parts {
				if !p.Thought {
					shown = append(shown, p.Text)
				}
			}
		}
		if want := []string{"Yes."}; i == 1 && !slices.Equal(shown, want) {
			t.Errorf("shown %q, want %q", shown, want)
		}
	}
	// A model that does not think this time is understood as well.
	answers := []string{"hm</think>Yes.", "Yes."}
	inner := &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) { return llmtest.Says(answers[n-1]), nil }}
	m = compat.New(inner, compat.Options{Tools: true, Log: slog.New(slog.DiscardHandler)})
	for range answers {
		if got, err := ask(t.Context(), m, question); got.Text != "Yes." || err != nil {
			t.Errorf("answered %+v, %v", got, err)
		}
	}
}

func TestGenerate_CallsInTheText_AreCalls(t *testing.T) {
	const call = "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"at\": {\"x\": 1}}}\n</tool_call>"
	for name, c := range map[string]struct {
		in   string
		want answer
	}{
		"one":               {call, answer{Calls: []string{`look{"at": {"x": 1}}`}, Finish: llm.FinishStop}},
		"two behind words":  {"One moment.\n" + call + "\n" + call, answer{Text: "One moment.\n", Calls: []string{`look{"at": {"x": 1}}`, `look{"at": {"x": 1}}`}, Finish: llm.FinishStop}},
		"behind thoughts":   {"<think>hm</think>" + call, answer{Thoughts: "hm", Calls: []string{`look{"at": {"x": 1}}`}, Finish: llm.FinishStop}},
		"without its end":   {strings.TrimSuffix(call, "</tool_call>"), answer{Calls: []string{`look{"at": {"x": 1}}`}, Finish: llm.FinishStop}},
		"no arguments":      {`<tool_call>{"name":"look"}</tool_call>`, answer{Calls: []string{`look{}`}, Finish: llm.FinishStop}},
		"broken":            {`<tool_call>{"name":</tool_call>`, answer{Finish: llm.FinishMalformed}},
		"a quotation":       {"You wrote: " + call + " Right?", answer{Text: "You wrote: " + call + " Right?", Finish: llm.FinishStop}},
		"within code":       {"Write `" + call + "`", answer{Text: "Write `" + call + "`", Finish: llm.FinishStop}},
		"another tag of it": {"<tool_calls> is a tag", answer{Text: "<tool_calls> is a tag", Finish: llm.FinishStop}},
	} {
		for _, pieces := range [][]string{{c.in}, strings.Split(c.in, "")} {
			got, err := ask(t.Context(), says(pieces...), question)
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
			}
		}
	}
	got, err := ask(t.Context(), says(call), llm.Request{Messages: question.Messages})
	if got.Text != call || err != nil {
		t.Errorf("without tools: %+v, %v", got, err)
	}
}

// refuses returns a model that answers only requests which a function accepts, the requests, and the log.
func refuses(tools bool, refuse func(llm.Request) string) (*compat.Model, *llmtest.Model, *bytes.Buffer) {
	inner := &llmtest.Model{Script: func(_ int, r llm.Request) ([]llm.Chunk, error) {
		if said := refuse(r); said != "" {
			return nil, &llm.Error{Kind: llm.BadRequest, Provider: "test", Err: errors.New(said)}
		}
		return llmtest.Says("hello"), nil
	}}
	log := new(bytes.Buffer)
	return compat.New(inner, compat.Options{Name: "small", Tools: tools, Log: slog.New(slog.NewTextHandler(log, nil))}), inner, log
}

// history is a request behind a call of a tool.
func history() llm.Request {
	r := question
	r.Messages = append(slices.Clone(r.Messages),
		llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Call: &llm.Call{ID: "1", Name: "look", Args: json.RawMessage(`{"at":"x"}`)}}}},
		llm.Message{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.Result{ID: "1", Name: "look", Content: "a tree"}}}})
	return r
}

func TestGenerate_ModelTakesNoTools_IsAskedWithoutThem(t *testing.T) {
	for _, said := range []string{
		`status 400: registry.ollama.ai/library/gemma:7b does not support tools`,
		`status 404: No endpoints found that support tool use. To learn more about provider routing, visit: …`,
		"status 400: \"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
		`status 500: tools param requires --jinja flag`,
		"status 400: Function calling is not enabled for models/gemma-3-27b-it",
	} {
		m, inner, log := refuses(true, func(r llm.Request) string {
			if len(r.Tools) > 0 {
				return said
			}
			return ""
		})
		var notes []string
		for range 2 {
			got, err := ask(t.Context(), m, history())
			if got.Text != "hello" || err != nil {
				t.Fatalf("%s: %+v, %v", said, got, err)
			}
			notes = append(notes, got.Notes...)
		}
		if len(inner.Requests()) != 3 || len(notes) != 1 || !strings.Contains(log.String(), "models.small.tools") {
			t.Errorf("%s: %d requests, notes %q, log %s", said, len(inner.Requests()), notes, log)
		}
		last := inner.Requests()[2].Messages
		if fault := llmtest.Malformed(last); fault != "" || last[1].Calls() != nil || !strings.Contains(last[2].Text(), "a tree") {
			t.Errorf("%s in %+v", fault, last)
		}
	}
}

func TestGenerate_ToolsAreSwitchedOff_AreNotSent(t *testing.T) {
	m, inner, _ := refuses(false, func(llm.Request) string { return "" })
	if got, err := ask(t.Context(), m, history()); err != nil || len(got.Notes) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if r := inner.Requests()[0]; len(r.Tools) > 0 || len(r.Messages[1].Calls()) > 0 {
		t.Errorf("sent %+v", r)
	}
}

// The words are those of OpenAI, Anthropic, Google, and of endpoints that name the tool alone.
func TestGenerate_ToolIsRefused_IsLeftOut(t *testing.T) {
	for _, words := range []string{
		"status 400: Invalid schema for function 'look_up': 'any' is not valid under any of the given schemas. tools[%d].function.parameters",
		"status 400: tools.%d.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
		"status 400: * GenerateContentRequest.tools[0].function_declarations[%d].parameters.required[0]: property is not defined",
		"status 400: Invalid schema for function 'look_up': no%.0d",
		"status 400: tool look_up has a bad schema%.0d",
	} {
		m, inner, _ := refuses(true, func(r llm.Request) string {
			i := slices.IndexFunc(r.Tools, func(t llm.ToolSpec) bool { return t.Name == "look_up" && t.Schema == nil })
			if i < 0 {
				return ""
			}
			return fmt.Sprintf(words, i)
		})
		for range 2 {
			if got, err := ask(t.Context(), m, question); got.Text != "hello" || err != nil {
				t.Fatalf("%s: %+v, %v", words, got, err)
			}
		}
		asked := inner.Requests()
		if len(asked) != 3 || len(asked[2].Tools) != 1 || asked[2].Tools[0].Name != "look" {
			t.Errorf("%s: %d requests, the last with %+v", words, len(asked), asked[len(asked)-1].Tools)
		}
		if r := m.Refusals(); len(r) != 1 || r[0].Tool != "look_up" || !strings.Contains(r[0].Reason, "status 400") {
			t.Errorf("refusals %+v", r)
		}
		// A tool that its server has fixed is declared again.
		mended := llm.Request{Messages: question.Messages, Tools: []llm.ToolSpec{{Name: "look_up", Schema: json.RawMessage(`{}`)}}}
		if _, err := ask(t.Context(), m, mended); err != nil || len(inner.Requests()[3].Tools) != 1 {
			t.Errorf("%s: %v, sent %+v", words, err, inner.Requests()[3].Tools)
		}
	}
}

func TestGenerate_RefusedForAnotherReason_IsAnError(t *testing.T) {
	m, inner, _ := refuses(true, func(llm.Request) string { return "status 400: please look again at your tool choice" })
	_, err := ask(t.Context(), m, question)
	if fault, ok := errors.AsType[*llm.Error](err); !ok || fault.Kind != llm.BadRequest || len(inner.Requests()) != 1 {
		t.Errorf("%v after %d requests", err, len(inner.Requests()))
	}
}
