package anthropic_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/anthropic"
)

// What endpoints that call themselves compatible really send.
func TestGenerate_EndpointsThatDiffer_AreUnderstood(t *testing.T) {
	const (
		start  = `{"type":"message_start","message":{"id":"m","model":"c","content":[],"usage":{"input_tokens":"1"}}}`
		tool   = `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"look","input":{}}}`
		args   = `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"x\":1}"}}`
		broken = `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"x\":"}}`
		stop   = `{"type":"content_block_stop","index":1}`
		end    = `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}`
		over   = `{"type":"message_stop"}`
	)
	look := []string{`a look {"x":1}`}
	for name, c := range map[string]struct {
		events []string
		text   string
		calls  []string
	}{
		"indexes from 1":                                 {[]string{start, tool, args, stop, end, over}, "", look},
		"a block that ends twice":                        {[]string{start, tool, args, stop, stop, end, over}, "", look},
		"a block without an end":                         {[]string{start, tool, args, end, over}, "", look},
		"an end of an unknown block":                     {[]string{start, `{"type":"content_block_stop","index":7}`, tool, args, stop, end}, "", look},
		"no reason to stop":                              {[]string{start, tool, args, stop, over}, "", look},
		"a stop reason of false":                         {[]string{start, tool, args, stop, `{"type":"message_delta","delta":{"stop_reason":false}}`, over}, "", look},
		"broken arguments":                               {[]string{start, tool, broken, stop, end}, "", []string{`a look "{\"x\":"`}},
		"one JSON object":                                {[]string{`{"type":"message","model":"c","content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"a","name":"look","input":{"x":1}}],"stop_reason":"tool_use"}`}, "hi", look},
		"a connection that stays open":                   {[]string{start, tool, args, stop, end, over, "wait"}, "", look},
		"a stream that stays open before the last event": {[]string{start, tool, args, stop, end, "wait"}, "", look},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for _, e := range c.events {
					switch {
					case e == "wait":
						w.(http.Flusher).Flush()
						select {
						case <-r.Context().Done():
						case <-done:
						}
					case len(c.events) == 1:
						_, _ = w.Write([]byte(e))
					default:
						_, _ = w.Write([]byte("data: " + e + "\n\n"))
					}
				}
			}))
			defer server.Close()
			defer close(done)
			m := anthropic.New(anthropic.Options{APIKey: "key", Model: "c", BaseURL: server.URL + "/v1/"})
			began := time.Now()
			got, last, err := ask(t, m, llm.Request{Messages: []llm.Message{say(llm.User, llm.Part{Text: "hi"})}, Tools: []llm.ToolSpec{look1}})
			var calls []string
			for _, call := range got.Calls() {
				calls = append(calls, call.ID+" "+call.Name+" "+string(call.Args))
			}
			if diff := cmp.Diff(c.calls, calls); diff != "" || err != nil || got.Text() != c.text || last.Finish != llm.FinishStop {
				t.Errorf("after %v: %q, %q, %v (-want +got):\n%s", time.Since(began), got.Text(), last.Finish, err, diff)
			}
		})
	}
}

var look1 = llm.ToolSpec{Name: "look"}

func TestGenerate_MarksForTheCacheAreRefused_AreLeftOut(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := new(strings.Builder)
		_ = r.Write(body) // a test looks at what came
		if asked++; strings.Contains(body.String(), "cache_control") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":{"message":"system.0.cache_control: Extra inputs are not permitted"}}`))
			return
		}
		_, _ = w.Write([]byte(`{"type":"message","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}`))
	}))
	defer server.Close()
	m := anthropic.New(anthropic.Options{APIKey: "key", Model: "c", BaseURL: server.URL})
	for range 2 {
		got, _, err := ask(t, m, llm.Request{System: "x", Messages: []llm.Message{say(llm.User, llm.Part{Text: "hi"})}})
		if err != nil || got.Text() != "hi" {
			t.Errorf("%q, %v", got.Text(), err)
		}
	}
	if asked != 3 {
		t.Errorf("%d requests, want 3", asked)
	}
}
