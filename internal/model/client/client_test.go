package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/llm"
)

// readAll returns the events of a body, and the error that ended it.
func readAll(body io.Reader) (events []string, err error) {
	for data, err := range Events(body) {
		if err != nil {
			return events, err
		}
		events = append(events, string(data))
	}
	return events, nil
}

func TestEvents_AnyFraming_IsRead(t *testing.T) {
	two := []string{`{"a":1}`, `{"b":2}`}
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"events":                        {"data: {\"a\":1}\n\ndata: {\"b\":2}\n\n", two},
		"events that end in CR LF":      {"data: {\"a\":1}\r\n\r\ndata: {\"b\":2}\r\n\r\n", two},
		"events that end in CR":         {"data: {\"a\":1}\r\rdata: {\"b\":2}\r\r", two},
		"a byte order mark":             {"\ufeffdata: {\"a\":1}\n\ndata: {\"b\":2}\n\n", two},
		"a byte order mark before JSON": {"\ufeff{\"a\":1}", two[:1]},
		"no empty line between them":    {"data: {\"a\":1}\ndata: {\"b\":2}\ndata: [DONE]\n", append(two[:2:2], Done)},
		"an event of several lines":     {"data: {\ndata: \"a\":1}\n\ndata: {\"b\":2}", two},
		"several lines that end in CR":  {"data: {\r\ndata: \"a\":1}\r\n\r\ndata: {\"b\":2}\r\n", two},
		"a broken event":                {"data: {\"a\n\ndata: {\"b\":2}\n\n", []string{`{"a`, two[1]}},
		"a broken event in CR LF":       {"data: {\"a\r\n\r\ndata: {\"b\":2}\r\n\r\n", []string{`{"a`, two[1]}},
		"several lines in CR":           {"data: {\rdata: \"a\":1}\r\rdata: {\"b\":2}\r", two},
		"comments and names":            {": wait\nevent: x\ndata: {\"a\":1}\nid: 7\n\nretry: 3\n\ndata:{\"b\":2}\n\n", two},
		"one JSON object":               {"\n\r\n {\"a\":1}\n", two[:1]},
		"JSON in lines":                 {"{\"a\":1}\n{\"b\":2}\n", two},
		"a JSON list":                   {"[{\"a\":1},\n{\"b\":2}]", two},
		"JSON behind events":            {"data: {\"a\":1}\n\n{\"b\":2}\n", two},
		"nothing":                       {"", nil},
		"a page":                        {"<html>\n<p>no</p>\n</html>", nil},
		"events without data":           {"event: ping\n\n", nil},
	} {
		for _, read := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.DataErrReader} {
			got, err := readAll(read(strings.NewReader(c.body)))
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
			}
		}
	}
}

func TestEvents_BodyIsCut_IsAnError(t *testing.T) {
	for name, body := range map[string]string{
		"an event":                  `data: {"a":`,
		"an event of several lines": "data: {\ndata: \"a\"",
		"an object":                 `{"a":`,
		"a list":                    `[{"a":1}`,
	} {
		if _, err := readAll(strings.NewReader(body)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := readAll(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("data: {}\n\n")))); !errors.Is(err,
		iotest.ErrTimeout) {
		t.Errorf("reading fails: %v", err)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("data: {\"a\":1}\r\n\r\n[1,{]", 3)
	f.Fuzz(func(t *testing.T, body string, size int) {
		want, wantErr := readAll(strings.NewReader(body))
		got, err := readAll(iotest.OneByteReader(strings.NewReader(body)))
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (wantErr == nil) {
			t.Errorf("read byte by byte: %v, %v (-want +got):\n%s", wantErr, err, diff)
		}
	})
}

func TestLenientTypes_AcceptWhatEndpointsSend(t *testing.T) {
	type answer struct {
		N Count
		W Word
		M Maybe[struct{ N Count }]
	}
	for in, want := range map[string]answer{
		`{"n":10,"w":"a","m":{"n":1}}`:         {10, "a", Maybe[struct{ N Count }]{struct{ N Count }{1}, true}},
		`{"n":10.0,"w":12345,"m":null}`:        {10, "12345", Maybe[struct{ N Count }]{}},
		`{"n":"10","w":false,"m":"none"}`:      {10, "", Maybe[struct{ N Count }]{}},
		`{"n":"x","w":{},"m":[1]}`:             {0, "", Maybe[struct{ N Count }]{}},
		`{"n":1e300,"w":null,"m":{"n":"7"}}`:   {0, "", Maybe[struct{ N Count }]{struct{ N Count }{7}, true}},
		`{"n":null,"w":["a"],"m":{"n":false}}`: {0, "", Maybe[struct{ N Count }]{struct{ N Count }{0}, true}},
	} {
		var got answer
		err := json.Unmarshal([]byte(in), &got)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", in, err, diff)
		}
	}
}

// refusing is an endpoint that refuses requests with a field, in its own words.
func refusing(t *testing.T, isRefused func(map[string]any) (status int, body string)) (url string, sent *[]map[string]any) {
	t.Helper()
	sent = new([]map[string]any)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q map[string]any
		_ = json.NewDecoder(r.Body).Decode(&q) // a test looks at what came
		*sent = append(*sent, q)
		if status, body := isRefused(q); status != 0 {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, sent
}

// The words are those of OpenAI, Mistral, vLLM, Google, xAI and Z.ai.
func TestPost_OptionalFieldIsRefused_IsLeftOutForGood(t *testing.T) {
	for name, c := range map[string]struct {
		field  Field
		status int
		words  string
	}{
		"temperature at OpenAI": {Field{Path: "temperature"}, 400, `{"error":{"message":"Unsupported value: 'temperature' does not ` +
			`support 0.5 with this model. Only the default (1) value is supported.","param":"temperature"}}`},
		"temperature, in words": {Field{Path: "temperature"}, 400, `{"error":"temperature is not supported"}`},
		"options at Mistral": {Field{Path: "stream_options"}, 422, `{"object":"error","message":{"detail":[{"type":"extra_forbidden",` +
			`"loc":["body","stream_options","include_usage"],"msg":"Extra inputs are not permitted"}]}}`},
		"options at vLLM": {Field{Path: "stream_options"}, 422, `{"detail":[{"loc":["body","stream_options"],"msg":"extra fields not permitted"}]}`},
		"a limit under its old name": {Field{"max_tokens", "max_completion_tokens"}, 400, `{"error":{"message":"Unsupported parameter: ` +
			`'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}`},
		"a field within another": {Field{Path: "generationConfig.temperature"}, 400, `{"error":{"code":400,"message":"Invalid JSON payload ` +
			`received. Unknown name \"temperature\" at 'generation_config': Cannot find field."}}`},
		"a value at Google": {Field{Path: "generationConfig.temperature"}, 400, `{"error":{"message":"Unable to submit ` +
			`request because it has a temperature value of 0.5 but the supported range is from 1 to 1."}}`},
		"an argument at Azure": {Field{Path: "stream_options"}, 400, `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`},
		"several arguments":    {Field{Path: "stream_options"}, 400, `{"error":{"message":"Unrecognized request arguments supplied: x, stream_options"}}`},
		"a long error":         {Field{Path: "temperature"}, 400, `{"error":{"message":"` + strings.Repeat("x", 520) + ` 'temperature' is not supported"}}`},
		"options at xAI": {Field{Path: "stream_options"}, 400, `{"code":"Client specified an invalid argument",` +
			`"error":"Argument not supported: stream_options"}`},
		"temperature at xAI": {Field{Path: "temperature"}, 400, `{"code":"Client specified an invalid argument",` +
			`"error":"Argument not supported on this model: temperature"}`},
		"temperature at Z.ai": {Field{Path: "temperature"}, 400, `{"error":{"code":"1214","message":"temperature参数非法。"}}`},
	} {
		has := func(q map[string]any) bool {
			inner, isDeep := q["generationConfig"].(map[string]any)
			if isDeep {
				q = inner
			}
			return q[c.field.Path[strings.LastIndex(c.field.Path, ".")+1:]] != nil
		}
		url, sent := refusing(t, func(q map[string]any) (int, string) {
			if has(q) {
				return c.status, c.words
			}
			return 0, ""
		})
		client := New(Options{Provider: "test", BaseURL: url, Optional: []Field{c.field}})
		body := `{"model":"m","temperature":0.5,"stream_options":{},"max_tokens":9}`
		if strings.Contains(c.field.Path, ".") {
			body = `{"generationConfig":{"temperature":0.5,"topK":3}}`
		}
		for range 2 {
			answer, err := client.Post(t.Context(), "/x", Body([]byte(body), nil))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			answer.Close()
		}
		if len(*sent) != 3 || has((*sent)[2]) {
			t.Errorf("%s: sent %v, want the field once", name, *sent)
		}
		if c.field.Instead != "" && (*sent)[2][c.field.Instead] != 9.0 {
			t.Errorf("%s: %v has no %s", name, (*sent)[2], c.field.Instead)
		}
	}
}

// Requests in progress are also sent again when another request learns about the refusal.
func TestPost_OptionalFieldIsRefusedToManyAtOnce_AllAreAnswered(t *testing.T) {
	const many = 6
	var refused atomic.Int32
	all := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a body that is cut has no field
		if !strings.Contains(string(body), "temperature") {
			return
		}
		if refused.Add(1) == many {
			close(all)
		}
		<-all
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"temperature is not supported"}`)
	}))
	defer server.Close()
	client := New(Options{Provider: "test", BaseURL: server.URL, Optional: []Field{{Path: "temperature"}}})
	failures := make(chan error, many)
	for range many {
		go func() {
			answer, err := client.Post(t.Context(), "", Body([]byte(`{"temperature":1}`), nil))
			if err == nil {
				answer.Close()
			}
			failures <- err
		}()
	}
	for range many {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
}

func TestPost_KeyIsQuotedInAnError_IsMasked(t *testing.T) {
	url, _ := refusing(t, func(map[string]any) (int, string) {
		return 401, `{"error":{"message":"Incorrect API key provided: sk-secret-1"}}`
	})
	_, err := New(Options{Provider: "test", BaseURL: url, Secret: "sk-secret-1"}).Post(t.Context(), "", Body([]byte(`{}`), nil))
	if err == nil || strings.Contains(err.Error(), "sk-secret-1") || !strings.Contains(err.Error(), "***") {
		t.Error(err)
	}
}

func TestPost_RefusedForAnotherReason_IsAnError(t *testing.T) {
	url, sent := refusing(t, func(map[string]any) (int, string) {
		return 400, `{"error":{"message":"the words temperature and stop mean nothing"}}`
	})
	client := New(Options{Provider: "test", BaseURL: url, Optional: []Field{{Path: "temperature"}, {Path: "stop"}}})
	_, err := client.Post(t.Context(), "", Body([]byte(`{"temperature":1,"stop":["x"]}`), nil))
	if fault, ok := errors.AsType[*llm.Error](err); !ok || fault.Kind != llm.BadRequest || len(*sent) != 1 {
		t.Errorf("%v after %d requests", err, len(*sent))
	}
}

func TestPost_FieldsOfTheConfiguration_AreMerged(t *testing.T) {
	url, sent := refusing(t, func(map[string]any) (int, string) { return 0, "" })
	client := New(Options{Provider: "test", BaseURL: url + "/", Body: json.RawMessage(
		`{"thinking":{"type":"disabled"},"config":{"b":{"c":2}},"n":12345678901234567890,"model":"other"}`)})
	answer, err := client.Post(t.Context(), "/x", Body([]byte(`{"model":"m","config":{"a":1,"b":{"d":3}}}`), nil))
	if err != nil {
		t.Fatal(err)
	}
	answer.Close()
	want := map[string]any{"model": "other", "thinking": map[string]any{"type": "disabled"}, "n": 12345678901234567890.0,
		"config": map[string]any{"a": 1.0, "b": map[string]any{"c": 2.0, "d": 3.0}}}
	if diff := cmp.Diff(want, (*sent)[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The log names the cause, from any source.
func TestPost_Errors_NameTheReason(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"Gemini models require OpenRouter reasoning details to be preserved\"}}","provider_name":"Google"}}}`: "Gemini models require OpenRouter reasoning details",
		`{"error":{"message":"Provider returned error","metadata":{"raw":"upstream says no"}}}`:                                                                                                                     "upstream says no",
		`{"detail":"Unknown model"}`: "Unknown model",
		`{"detail":[{"loc":["body","messages",0,"x"],"msg":"Extra inputs are not permitted"}]}`: "body.messages.0.x: Extra inputs are not permitted",
		`{"error":"model \"x\" not found"}`:                                                     `model "x" not found`,
		`{"message":"no body"}`:                                                                 "no body",
		`[{"error":{"message":"in a list"}}]`:                                                   "in a list",
		"<html>\n<title>no</title>":                                                             `an HTML page titled "no"`,
		``:                                                                                      "Bad Request",
	} {
		url, _ := refusing(t, func(map[string]any) (int, string) { return 400, body })
		_, err := New(Options{Provider: "test", BaseURL: url}).Post(t.Context(), "", Body([]byte(`{}`), nil))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

func TestStreamError_EmptyOne_IsNone(t *testing.T) {
	c := New(Options{Provider: "test"})
	for _, raw := range []string{``, `null`, `""`, `false`, `{}`, ` { } `, `[]`, `0`} {
		if err := c.StreamError(json.RawMessage(raw)); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
	for raw, want := range map[string]llm.Kind{
		`"loading"`:                                      llm.Unavailable,
		`{"message":"slow down","code":429}`:             llm.RateLimited,
		`{"message":"slow down","code":"429"}`:           llm.RateLimited,
		`{"message":"x","type":"invalid_request_error"}`: llm.BadRequest,
		`{"message":"Failed to call a function. Please adjust your prompt.","code":"tool_use_failed"}`: llm.BadCall,
	} {
		fault, ok := errors.AsType[*llm.Error](c.StreamError(json.RawMessage(raw)))
		if !ok || fault.Kind != want {
			t.Errorf("%s: %v, want %s", raw, fault, want)
		}
	}
}
