package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/openai"
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
		{"another id with the arguments", []string{call(`{"index":0,"id":"a","function":{"name":"look","arguments":""}}`),
			call(`{"index":0,"id":"b","function":{"name":null,"arguments":"{\"x\":1}"}}`), ended}, "", []string{`a look {"x":1}`}},
		{"indexes from 1", []string{call(`{"index":1,"id":"a","function":{"name":"look","arguments":"{"}}`),
			call(`{"index":2,"id":"b","function":{"name":"rest","arguments":"{}"}}`),
			call(`{"index":1,"function":{"arguments":"}"}}`), ended}, "", []string{`a look {}`, `b rest {}`}},
		{"index 0 and no id", []string{call(`{"index":0,"function":{"name":"look","arguments":"{}"}}`),
			call(`{"index":0,"function":{"name":"look","arguments":"{\"x\":1}"}}`), ended},
			"", []string{` look {}`, ` look {"x":1}`}},
		{"index 0 and one id for all", []string{call(`{"index":0,"id":"a","function":{"name":"look","arguments":"{}"}}`),
			call(`{"index":0,"id":"a","function":{"name":"rest","arguments":"{}"}}`), ended},
			"", []string{`a look {}`, `a rest {}`}},
		{"an event of several lines", []string{"{\ndata: \"choices\":[{\"delta\":{\"content\":\"hello\"},\ndata: \"finish_reason\":\"stop\"}]}"},
			"hello", nil},
		{"no empty line between events", []string{`{"choices":[{"delta":{"content":"hel"}}]}` + "\ndata: " +
			`{"choices":[{"delta":{"content":"lo"},"finish_reason":"stop"}]}`}, "hello", nil},
		{"a refusal", []string{`{"choices":[{"delta":{"content":null,"refusal":"I cannot"}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"stop"}]}`}, "I cannot", nil},
		{"one piece behind blanks", []string{"\x00\n\n " + `{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}`}, "hello", nil},
		{"no index", []string{call(`{"id":"a","function":{"name":"look","arguments":"{}"}},{"id":"b","function":{"name":"rest","arguments":"{}"}}`), ended}, "", []string{`a look {}`, `b rest {}`}},
		{"no reason to end", []string{`{"choices":[{"delta":{"content":"hello"}}]}`, `[DONE]`}, "hello", nil},
		{"text in parts", []string{`{"choices":[{"delta":{"content":[{"type":"text","text":"hel"},{"type":"text","text":"lo"}]},"finish_reason":"stop"}]}`}, "hello", nil},
		{"one piece, of no type", []string{"\x00" + `{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}`}, "hello", nil},
		{"wrong types of what does not matter", []string{
			`{"id":7,"created":"x","model":3,"error":"","usage":{"prompt_tokens":10.0},"choices":[{"index":"0","delta":` +
				`{"role":1,"content":"hello"},"finish_reason":false}]}`,
			`{"error":false,"choices":[{"delta":{"tool_calls":[{"index":"0","id":12345,"type":0,` +
				`"function":{"name":"look","arguments":"{\"x\""}}]}}]}`,
			`{"error":{},"choices":[{"delta":{"tool_calls":[{"index":"0","function":{"arguments":":1}"}}]},"finish_reason":null}]}`,
			`{"usage":"10","choices":[]}`, `{"usage":{"prompt_tokens":"10","prompt_tokens_details":0},"choices":[]}`, ended},
			"hello", []string{`12345 look {"x":1}`}},
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

// generate returns the text that a model answers to a message, and the error.
func generate(t *testing.T, o openai.Options, h http.HandlerFunc) (text string, err error) {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	o.Name, o.Model, o.BaseURL = "test", "m", server.URL
	m := openai.New(o)
	for chunk, err := range m.Generate(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User,
		Parts: []llm.Part{{Text: "hi"}}}}}) {
		if err != nil {
			return text, err
		}
		text += llm.Message{Parts: chunk.Parts}.Text()
	}
	return text, nil
}

func TestGenerate_Errors_AreClassified(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   llm.Kind
	}{
		"OpenRouter's moderation": {403, `{"error":{"code":403,"message":"Your chosen model requires moderation and your input ` +
			`was flagged","metadata":{"reasons":["violence"],"flagged_input":"hi"}}}`, llm.Blocked},
		"moderation in the stream": {200, `data: {"error":{"code":403,"message":"no","metadata":{"reasons":["violence"]}}}` +
			"\n\n", llm.Blocked},
		"a key without rights":  {403, `{"error":{"message":"not allowed","metadata":null}}`, llm.Denied},
		"a rate limit":          {429, `{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}`, llm.RateLimited},
		"no credit at OpenAI":   {400, `{"error":{"message":"Hard limit","code":"billing_hard_limit_reached"}}`, llm.Exhausted},
		"no credit at Moonshot": {429, `{"error":{"message":"suspended","type":"exceeded_current_quota_error"}}`, llm.Exhausted},
		"no credit at Z.ai":     {429, `{"error":{"code":"1113","message":"Insufficient balance. Please recharge."}}`, llm.Exhausted},
		"OpenRouter's own reason": {200, `data: {"choices":[{"delta":{"content":"half"},"finish_reason":"error"}]}` + "\n\n",
			llm.Unavailable},
		"a text as the error":  {200, `data: {"error":"model is loading"}` + "\n\n", llm.Unavailable},
		"an event that is cut": {200, "data: {\"choices\":\ndata: [{\"delta\"", llm.Unavailable},
	} {
		_, err := generate(t, openai.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		})
		if fault, ok := errors.AsType[*llm.Error](err); !ok || fault.Kind != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if name == "a text as the error" && !strings.Contains(err.Error(), "model is loading") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// OpenAI's models that reason take the limit of an answer under another name than most endpoints, which they say.
func TestGenerate_LimitUnderItsOldNameIsRefused_UsesTheNewOne(t *testing.T) {
	var asked []string
	text, err := generate(t, openai.Options{MaxOutputTokens: 4000}, func(w http.ResponseWriter, r *http.Request) {
		var q map[string]any
		_ = json.NewDecoder(r.Body).Decode(&q)
		asked = append(asked, fmt.Sprint(q["max_tokens"], q["max_completion_tokens"]))
		if q["max_tokens"] != nil {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. ` +
				`Use 'max_completion_tokens' instead.","param":"max_tokens","code":"unsupported_parameter"}}`))
			return
		}
		_, _ = w.Write([]byte(`data: {"choices":[{"delta":{"content":"hello"},"finish_reason":"stop"}]}` + "\n\n"))
	})
	if err != nil || text != "hello" {
		t.Errorf("answered %q, %v", text, err)
	}
	if diff := cmp.Diff([]string{"4000 <nil>", "<nil> 4000"}, asked); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}
