package anthropic_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/anthropic"
	simmodel "ravenbot/internal/testing/sim/model"
)

func newModel(t *testing.T, script simmodel.Script) (*simmodel.Server, *anthropic.Model) {
	t.Helper()
	sim, err := simmodel.New(simmodel.Options{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	return sim, anthropic.New(anthropic.Options{APIKey: "key", Model: "claude-sim", BaseURL: sim.AnthropicURL()})
}

// ask collects one answer.
func ask(t *testing.T, m llm.Model, r llm.Request) (answer llm.Message, last llm.Chunk, err error) {
	t.Helper()
	answer = llm.Message{Role: llm.Assistant, Origin: m.ID()}
	for c, err := range m.Generate(t.Context(), r) {
		if err != nil {
			return answer, last, err
		}
		answer.Parts = append(answer.Parts, c.Parts...)
		if c.Usage != nil {
			last.Usage = c.Usage
		}
		if c.Finish != "" {
			last.Finish = c.Finish
		}
	}
	return answer, last, nil
}

func say(role llm.Role, parts ...llm.Part) llm.Message { return llm.Message{Role: role, Parts: parts} }

var look = llm.ToolSpec{Name: "look", Description: "Looks.",
	Schema: json.RawMessage(`{"type":"object","properties":{"at":{"type":"string"}}}`)}

// Two calls at once are answered in one message, and the thinking before them goes back with its signature: the
// simulated API refuses a thinking block that it did not issue.
func TestGenerate_ParallelCallsAfterThinking_GoBackAsTheyCame(t *testing.T) {
	sim, m := newModel(t, func(r simmodel.Request) simmodel.Reply {
		if len(r.Last().Results) > 0 {
			return simmodel.Echo(r)
		}
		return simmodel.Reply{
			Thoughts: "I must look twice.",
			Text:     []string{"One ", "moment."},
			Calls: []simmodel.Call{
				{Name: "look", Args: json.RawMessage(`{"at":"a"}`)},
				{Name: "look", Args: json.RawMessage(`{"at":"b"}`)},
			},
		}
	})
	question := say(llm.User, llm.Part{Text: "What is there?"})
	first, last, err := ask(t, m, llm.Request{System: "Be brief.", Messages: []llm.Message{question},
		Tools: []llm.ToolSpec{look}})
	if err != nil {
		t.Fatal(err)
	}
	calls := first.Calls()
	if first.Text() != "One moment." || len(calls) != 2 || string(calls[1].Args) != `{"at":"b"}` ||
		last.Finish != llm.FinishStop {
		t.Fatalf("answered %+v, %+v", first, last)
	}
	if p := first.Parts[0]; !p.Thought || p.Text != "I must look twice." || !strings.Contains(string(p.Raw), "signature") {
		t.Errorf("the first part is %+v, want the thinking with its raw form", p)
	}
	results := say(llm.ToolRole,
		llm.Part{Result: &llm.Result{ID: calls[0].ID, Name: "look", Content: "a tree"}},
		llm.Part{Result: &llm.Result{ID: calls[1].ID, Name: "look", Content: "no such place", IsError: true}})
	raw, err := json.Marshal(first) // as it is stored between the steps
	if err != nil {
		t.Fatal(err)
	}
	var stored llm.Message
	if err := json.Unmarshal(raw, &stored); err != nil {
		t.Fatal(err)
	}
	second, _, err := ask(t, m, llm.Request{Messages: []llm.Message{question, stored, results},
		Tools: []llm.ToolSpec{look}})
	if err != nil || second.Text() != "result: a treeresult: no such place" {
		t.Errorf("after the results: %q, %v", second.Text(), err)
	}
	if rejected := sim.Rejected(); len(rejected) > 0 {
		t.Errorf("rejected: %s", rejected[0].Problem)
	}
}

// The end of the system prompt and of the last message are marked, and nothing else.
func TestGenerate_Request_IsMarkedForTheCache(t *testing.T) {
	sim, m := newModel(t, nil)
	history := []llm.Message{
		say(llm.User, llm.Part{Text: "one"}), say(llm.Assistant, llm.Part{Text: "two"}),
		say(llm.User, llm.Part{Text: "three"}, llm.Part{Text: "four"}),
	}
	if _, _, err := ask(t, m, llm.Request{
		System:   "Be brief.",
		Messages: history,
		Tools:    []llm.ToolSpec{look},
	}); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		System   []map[string]any
		Messages []struct{ Content []map[string]any }
	}
	if err := json.Unmarshal(sim.Asked()[0].Raw, &sent); err != nil {
		t.Fatal(err)
	}
	var marked []string
	for _, b := range sent.System {
		if b["cache_control"] != nil {
			marked = append(marked, "system")
		}
	}
	for _, message := range sent.Messages {
		for _, b := range message.Content {
			if b["cache_control"] != nil {
				marked = append(marked, b["text"].(string))
			}
		}
	}
	if diff := cmp.Diff([]string{"system", "four"}, marked); diff != "" {
		t.Errorf("marked (-want +got):\n%s", diff)
	}
}

// A turn that may call no more tools still holds calls, of this model and of another one with other ids.
func TestGenerate_NoToolsAfterCalls_StillAccepted(t *testing.T) {
	sim, m := newModel(t, func(simmodel.Request) simmodel.Reply { return simmodel.Say("done") })
	messages := []llm.Message{
		say(llm.User, llm.Part{Text: "Look."}),
		say(llm.Assistant, llm.Part{Call: &llm.Call{ID: "other/1:x", Name: "look", Args: json.RawMessage(`"{broken"`)}}),
		say(llm.ToolRole, llm.Part{Result: &llm.Result{ID: "other/1:x", Name: "look", Content: " "}}),
		say(llm.User, llm.Part{Text: "Well?"}),
	}
	answer, _, err := ask(t, m, llm.Request{Messages: messages})
	if err != nil || answer.Text() != "done" {
		t.Fatalf("%q, %v, rejected %+v", answer.Text(), err, sim.Rejected())
	}
	if mode := sim.Asked()[0].ToolMode; mode != "NONE" {
		t.Errorf("tool choice %q, want NONE", mode)
	}
}

func TestGenerate_Schemas_AreMadeAcceptable(t *testing.T) {
	sim, m := newModel(t, nil)
	tools := []llm.ToolSpec{
		{Name: "bare"},
		{Name: "odd", Schema: json.RawMessage(`7`)},
		{Name: "choice", Schema: json.RawMessage(`{"anyOf":[{"required":["a"]}],"properties":{"a":{"type":"string"}}}`)},
	}
	if _, _, err := ask(t, m, llm.Request{
		Messages: []llm.Message{say(llm.User, llm.Part{Text: "hi"})},
		Tools:    tools,
	}); err != nil {
		t.Fatal(err, sim.Rejected())
	}
}

func TestGenerate_CachedInput_IsPartOfInput(t *testing.T) {
	_, m := newModel(t, func(simmodel.Request) simmodel.Reply {
		return simmodel.Reply{Text: []string{"hi"}, Usage: &simmodel.Usage{Prompt: 1000, Cached: 900, Output: 5}}
	})
	_, last, err := ask(t, m, llm.Request{Messages: []llm.Message{say(llm.User, llm.Part{Text: "hi"})}})
	if err != nil || last.Usage == nil || *last.Usage != (llm.Usage{Input: 1000, Cached: 900, Output: 5}) {
		t.Errorf("usage %+v, %v", last.Usage, err)
	}
}

func TestGenerate_Errors_AreClassified(t *testing.T) {
	event := func(kind, data string) string { return "event: " + kind + "\ndata: " + data + "\n\n" }
	const start = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant",` +
		`"model":"claude-sim","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   llm.Kind
	}{
		{"overloaded", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, llm.Unavailable},
		{"rate limit", 429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`, llm.RateLimited},
		{"wrong key", 401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, llm.Denied},
		{"no credit", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`, llm.Exhausted},
		{"own limit", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits."}}`, llm.Exhausted},
		{"too large", 413, `{"type":"error","error":{"type":"request_too_large","message":"too large"}}`, llm.BadRequest},
		{"not JSON", 502, `<html>`, llm.Unavailable},
		{"overloaded in the stream", 200, event("message_start", start) + event("error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), llm.Unavailable},
		{"rate limit in the stream", 200, event("error", `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`), llm.RateLimited},
		{"cut off", 200, event("message_start", start), llm.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if c.status == 200 {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer server.Close()
			m := anthropic.New(anthropic.Options{APIKey: "key", Model: "claude-sim", BaseURL: server.URL})
			_, _, err := ask(t, m, llm.Request{Messages: []llm.Message{say(llm.User, llm.Part{Text: "hi"})}})
			var fault *llm.Error
			if !errors.As(err, &fault) || fault.Kind != c.want {
				t.Fatalf("%v, want kind %s", err, c.want)
			}
			if c.status == 429 && fault.RetryAfter.Seconds() != 7 {
				t.Errorf("retry after %s, want 7s", fault.RetryAfter)
			}
		})
	}
}
