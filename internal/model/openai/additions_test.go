package openai_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/openai"
)

// endpoint answers with events, or with the refusal that a function returns for a request, and keeps the requests.
func endpoint(t *testing.T, refuse func(messages []map[string]any) string, events ...string) (*openai.Model, *[][]map[string]any) {
	t.Helper()
	sent := new([][]map[string]any)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Messages []map[string]any }
		body := json.NewDecoder(r.Body)
		body.UseNumber()
		_ = body.Decode(&q) // a test looks at what came
		*sent = append(*sent, q.Messages)
		if said := refuse(q.Messages); said != "" {
			w.WriteHeader(http.StatusBadRequest)
			said, _ := json.Marshal(map[string]any{"error": map[string]any{"message": said}})
			_, _ = w.Write(said)
			return
		}
		for _, e := range events {
			_, _ = w.Write([]byte("data: " + e + "\n\n"))
		}
	}))
	t.Cleanup(server.Close)
	return openai.New(openai.Options{Name: "test", Model: "m", BaseURL: server.URL}), sent
}

func accept([]map[string]any) string { return "" }

// converse asks a model twice, with the result of its call between, as it is stored.
func converse(t *testing.T, m *openai.Model) {
	t.Helper()
	turn := conversation.Turn{Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "hi"}}}}}
	for range 2 {
		said := llm.Message{Role: llm.Assistant, Origin: llm.Origin(m)}
		request := llm.Request{Messages: conversation.Build(conversation.Summary{}, []conversation.Turn{turn}, llm.Origin(m))}
		for c, err := range m.Generate(t.Context(), request) {
			if err != nil {
				t.Fatal(err)
			}
			said.Parts = append(said.Parts, c.Parts...)
		}
		stored, err := json.Marshal(said)
		if err != nil {
			t.Fatal(err)
		}
		said = llm.Message{}
		if err := json.Unmarshal(stored, &said); err != nil {
			t.Fatal(err)
		}
		turn.Messages = append(turn.Messages, said)
		for _, c := range said.Calls() {
			turn.Messages = append(turn.Messages, llm.Message{Role: llm.ToolRole,
				Parts: []llm.Part{{Result: &llm.Result{ID: c.ID, Name: c.Name, Content: "x"}}}})
		}
	}
}

const callPiece = `"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"look","arguments":"{}"}}]`

func TestGenerate_AdditionsToAMessage_GoBackWhole(t *testing.T) {
	for name, c := range map[string]struct {
		events []string
		want   map[string]any
	}{
		"reasoning_content": {[]string{`{"reasoning_content":"I "}`, `{"reasoning_content":"wonder"}`, `{` + callPiece + `}`},
			map[string]any{"reasoning_content": "I wonder"}},
		"reasoning, and fields of later versions": {
			[]string{`{"reasoning":"hm","later":{"id":12345678901234567890,"a":[1]}}`, `{"later":{"a":[2],"b":"x"},` + callPiece + `}`},
			map[string]any{"reasoning": "hm", "later": map[string]any{"id": json.Number("12345678901234567890"), "a": []any{json.Number("1"), json.Number("2")}, "b": "x"}}},
		"reasoning_details": {[]string{
			`{"reasoning":"I","reasoning_details":[{"type":"reasoning.text","text":"I","format":"anthropic-claude-v1","index":0}]}`,
			`{"reasoning":" see","reasoning_details":[{"type":"reasoning.text","text":" see","format":"anthropic-claude-v1","index":0}]}`,
			`{"reasoning":null,"reasoning_details":[{"type":"reasoning.text","signature":"c2ln","format":"anthropic-claude-v1","index":0}]}`,
			`{"reasoning_details":[{"type":"reasoning.encrypted","data":"ZGF0YQ==","id":"a","format":"google-gemini-v1","index":1}],` + callPiece + `}`},
			map[string]any{"reasoning": "I see", "reasoning_details": []any{
				map[string]any{"type": "reasoning.text", "text": "I see", "signature": "c2ln", "format": "anthropic-claude-v1", "index": json.Number("0")},
				map[string]any{"type": "reasoning.encrypted", "data": "ZGF0YQ==", "id": "a", "format": "google-gemini-v1", "index": json.Number("1")}}}},
		"empty or only for output": {[]string{`{"annotations":[{"a":1}],"audio":null,"x":null,"y":"","z":[],` + callPiece + `}`}, map[string]any{}},
		"thinking in the content": {[]string{`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"I "}]}]}`,
			`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"see"}]}]}`, `{"content":"One moment.",` + callPiece + `}`},
			map[string]any{"content": []any{
				map[string]any{"type": "thinking", "thinking": []any{map[string]any{"type": "text", "text": "I see"}}},
				map[string]any{"type": "text", "text": "One moment."}}}},
	} {
		var events []string
		for _, delta := range c.events {
			events = append(events, `{"choices":[{"index":0,"delta":`+delta+`}]}`)
		}
		m, sent := endpoint(t, accept, append(events, `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`)...)
		converse(t, m)
		got := (*sent)[1][1]
		want := map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": "a", "type": "function",
			"function": map[string]any{"name": "look", "arguments": "{}"}}}}
		for k, v := range c.want {
			want[k] = v
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// foreign is a turn in which another model has called a tool.
func foreign(m *openai.Model) llm.Request {
	turn := conversation.Turn{Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: "hi"}}},
		{Role: llm.Assistant, Origin: "gemini/x", Parts: []llm.Part{
			{Text: "secret thoughts", Thought: true, Raw: json.RawMessage(`{"thought":"reasoning_content"}`)},
			{Call: &llm.Call{ID: "call_0", Name: "look", Args: json.RawMessage(`{}`)}, Raw: json.RawMessage(`{"extra_content":{}}`)}}},
		{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.Result{ID: "call_0", Name: "look", Content: "x"}}}},
	}}
	return llm.Request{Messages: conversation.Build(conversation.Summary{}, []conversation.Turn{turn}, llm.Origin(m))}
}

const yes = `{"choices":[{"delta":{"content":"yes"},"finish_reason":"stop"}]}`

// Mistral's rule holds for the ids of other models' calls, and nothing that another endpoint has added is sent to it.
func TestGenerate_CallsOfAnotherModel_GetIDsThatEveryEndpointTakes(t *testing.T) {
	m, sent := endpoint(t, accept, yes)
	for _, err := range m.Generate(t.Context(), foreign(m)) {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := (*sent)[0]
	call := got[1]["tool_calls"].([]any)[0].(map[string]any)
	id, _ := call["id"].(string)
	if len(id) != 9 || strings.Trim(id, "0123456789abcdef") != "" || got[2]["tool_call_id"] != id {
		t.Errorf("the call has the id %q, its result %q", id, got[2]["tool_call_id"])
	}
	if len(call) != 3 || len(got[1]) != 3 {
		t.Errorf("sent %v", got[1])
	}
}

// Turns that an earlier version has stored may have ids that the endpoint never gave.
func TestGenerate_IDsOfOwnCallsAreRefused_AreReplaced(t *testing.T) {
	m, sent := endpoint(t, func(messages []map[string]any) string {
		for _, message := range messages {
			if id, ok := message["tool_call_id"].(string); ok && len(id) != 9 {
				return "Tool call id was call-1 but must be a-z, A-Z, 0-9, with a length of 9."
			}
		}
		return ""
	}, `{"choices":[{"delta":{`+callPiece+`},"finish_reason":"tool_calls"}]}`)
	converse(t, m)
	if len(*sent) != 3 {
		t.Errorf("%d requests, want 3", len(*sent))
	}
}

// DeepSeek and Kimi want the reasoning of every call, which other models' calls lack; some take empty text for none.
func TestGenerate_ReasoningIsMissed_IsSentAsEmpty(t *testing.T) {
	for _, takesEmpty := range []bool{true, false} {
		m, sent := endpoint(t, func(messages []map[string]any) string {
			if s, ok := messages[1]["reasoning_content"].(string); !ok || s == "" && !takesEmpty {
				return "The `reasoning_content` in the thinking mode must be passed back to the API."
			}
			return ""
		}, yes)
		for range 2 {
			for _, err := range m.Generate(t.Context(), foreign(m)) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if want := map[bool]int{true: 3, false: 4}[takesEmpty]; len(*sent) != want {
			t.Errorf("%d requests, want %d", len(*sent), want)
		}
	}
}

// An endpoint may refuse its own additions.
func TestGenerate_AdditionIsRefused_IsNotSentAgain(t *testing.T) {
	m, sent := endpoint(t, func(messages []map[string]any) string {
		for _, message := range messages {
			if message["reasoning"] != nil {
				return "Additional properties are not allowed ('reasoning' was unexpected) - 'messages.1'"
			}
		}
		return ""
	}, `{"choices":[{"delta":{"reasoning":"hm",`+callPiece+`},"finish_reason":"tool_calls"}]}`)
	converse(t, m)
	converse(t, m)
	if len(*sent) != 5 {
		t.Errorf("%d requests, want 5", len(*sent))
	}
}

func TestOrigin_NamesTheEndpointAndNoPassword(t *testing.T) {
	m := openai.New(openai.Options{Name: "own", Model: "m", BaseURL: "https://user:password@example.org/v1/?key=x"})
	if got := llm.Origin(m); got != "own/m@example.org/v1" {
		t.Errorf("origin %s", got)
	}
}
