package openai_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/llm"
	"ravenbot/internal/llm/openai"
)

// TestEndpointsThatDifferAreUnderstood plays what endpoints that call themselves
// compatible really send.
func TestEndpointsThatDifferAreUnderstood(t *testing.T) {
	call := func(fields string) string { return `{"choices":[{"delta":{"tool_calls":[` + fields + `]}}]}` }
	const ended = `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`
	cases := []struct {
		name   string
		events []string
		text   string
		calls  []string
	}{
		{"arguments as an object", []string{call(`{"id":"a","function":{"name":"look","arguments":{"x":1}}}`), ended}, "", []string{`a look {"x":1}`}},
		{"arguments missing", []string{call(`{"id":"a","function":{"name":"look","arguments":null}}`), ended}, "", []string{`a look {}`}},
		{"all with index 0", []string{call(`{"index":0,"id":"a","function":{"name":"look","arguments":"{}"}}`),
			call(`{"index":0,"id":"b","function":{"name":"look","arguments":"{}"}}`), ended},
			"", []string{`a look {}`, `b look {}`}},
		{"name and id in every piece", []string{call(`{"index":0,"id":"a","function":{"name":"look","arguments":"{\"x\""}}`),
			call(`{"index":0,"id":"a","function":{"name":"look","arguments":":1}"}}`), ended},
			"", []string{`a look {"x":1}`}},
		{"indexes from 1", []string{call(`{"index":1,"id":"a","function":{"name":"look","arguments":"{"}}`),
			call(`{"index":2,"id":"b","function":{"name":"rest","arguments":"{}"}}`),
			call(`{"index":1,"function":{"arguments":"}"}}`), ended}, "", []string{`a look {}`, `b rest {}`}},
		{"no index", []string{call(`{"id":"a","function":{"name":"look","arguments":"{}"}},{"id":"b","function":{"name":"rest","arguments":"{}"}}`), ended}, "", []string{`a look {}`, `b rest {}`}},
		{"no reason to end", []string{`{"choices":[{"delta":{"content":"hello"}}]}`, `[DONE]`}, "hello", nil},
		{"text in parts", []string{`{"choices":[{"delta":{"content":[{"type":"text","text":"hel"},{"type":"text","text":"lo"}]},"finish_reason":"stop"}]}`}, "hello", nil},
		{"one piece, of no type", []string{"\x00" + `{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}`}, "hello", nil},
		{"malformed arguments", []string{call(`{"id":"a","function":{"name":"look","arguments":"{\"x\":"}}`), ended}, "", []string{`a look "{\"x\":"`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for _, e := range c.events {
					if whole, ok := strings.CutPrefix(e, "\x00"); ok {
						w.Header()["Content-Type"] = nil
						_, _ = w.Write([]byte(whole))
						return
					}
					_, _ = w.Write([]byte("data: " + e + "\n\n"))
				}
			}))
			defer server.Close()
			m := openai.New(openai.Options{Name: "test", Model: "m", BaseURL: server.URL})
			var text string
			var calls []string
			for chunk, err := range m.Generate(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User,
				Parts: []llm.Part{{Text: "hi"}}}}}) {
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range chunk.Parts {
					text += p.Text
					if p.Call != nil {
						calls = append(calls, p.Call.ID+" "+p.Call.Name+" "+string(p.Call.Args))
						if !json.Valid(p.Call.Args) {
							t.Errorf("arguments %q cannot be kept", p.Call.Args)
						}
					}
				}
			}
			if text != c.text {
				t.Errorf("text %q, want %q", text, c.text)
			}
			if diff := cmp.Diff(c.calls, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}
