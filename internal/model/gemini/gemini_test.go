package gemini_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/gemini"
)

// endpoint answers every request with body, and returns a model of it and the last request that came.
func endpoint(t *testing.T, status int, body string) (*gemini.Model, func() (path string, sent []byte)) {
	t.Helper()
	var path string
	var sent []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.String()
		sent, _ = io.ReadAll(r.Body) // the reader sees the cut
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	m, err := gemini.New(gemini.Options{APIKey: "key", Model: "gemini-3.8-flash", BaseURL: server.URL + "/proxy/"})
	if err != nil {
		t.Fatal(err)
	}
	return m, func() (string, []byte) { return path, sent }
}

// generate returns what a model answers to a message.
func generate(t *testing.T, m *gemini.Model, messages ...llm.Message) (chunks []llm.Chunk, err error) {
	t.Helper()
	for c, err := range m.Generate(t.Context(), llm.Request{Messages: messages}) {
		if err != nil {
			return chunks, err
		}
		chunks = append(chunks, c)
	}
	return chunks, nil
}

var question = llm.Message{Role: llm.User, Parts: []llm.Part{{Text: "hi"}}}

func TestGenerate_AnswersInAnyFraming_AreRead(t *testing.T) {
	const hello, end = `{"candidates":[{"content":{"parts":[{"text":"Hello "}]}}]}`,
		`{"candidates":[{"content":{"parts":[{"text":"there"}]},"finishReason":"STOP"}]}`
	for name, body := range map[string]string{
		"events":                   "data: " + hello + "\r\n\r\ndata: " + end + "\r\n\r\n",
		"events of Unix lines":     "data: " + hello + "\n\ndata: " + end + "\n\n",
		"comments and event names": ": wait\n\nevent: message\ndata:" + hello + "\n\nid: 2\ndata: " + end + "\n\n",
		"an event of many lines":   "data: " + hello + "\n\ndata: " + strings.ReplaceAll(end, ",", ",\ndata: ") + "\n\n",
		"a last event without end": "data: " + hello + "\n\ndata: " + end,
		"wrong types of what does not matter": "data: " + strings.Replace(hello, `{"text"`, `{"thought":"true","text"`, 1) + "\n\n" +
			`data: {"promptFeedback":"none","candidates":[{"content":[]}],"usageMetadata":"x","modelVersion":7,"error":{}}` + "\n\n" +
			"data: " + end + "\n\n",
		"a JSON list":        "[" + hello + ",\r\n" + end + "]",
		"JSON behind blanks": "\r\n [" + hello + "," + end + "]",
		"one JSON object": `{"candidates":[{"content":{"parts":[{"text":"Hello "},{"text":"there"}]},` +
			`"finishReason":"STOP"}]}`,
	} {
		m, _ := endpoint(t, 200, body)
		chunks, err := generate(t, m, question)
		if err != nil || len(chunks) == 0 {
			t.Errorf("%s: %d pieces, %v", name, len(chunks), err)
			continue
		}
		var text strings.Builder
		for _, c := range chunks {
			text.WriteString(llm.Message{Parts: c.Parts}.Text())
		}
		if text.String() != "Hello there" || chunks[len(chunks)-1].Finish != llm.FinishStop {
			t.Errorf("%s: %q, %+v", name, text.String(), chunks)
		}
	}
}

func TestGenerate_AnswersThatAreNone_AreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   llm.Kind
	}{
		"an error in a stream": {200, `data: {"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}` + "\n\n",
			llm.Unavailable},
		"a bad request in a stream":    {200, `data: {"error":{"code":400,"message":"no"}}` + "\n\n", llm.BadRequest},
		"an error in JSON":             {200, `{"error":{"code":429,"message":"slow down"}}`, llm.RateLimited},
		"a list that is cut":           {200, `[{"candidates":[]}`, llm.Unavailable},
		"no JSON":                      {200, "data: <html>\n\n", llm.Unavailable},
		"a part that is not an object": {200, `{"candidates":[{"content":{"parts":["x"]}}]}`, llm.Unavailable},
		"the day's quota": {429, `{"error":{"code":429,"message":"quota","details":[{"violations":[{"quotaId":` +
			`"GenerateRequestsPerDayPerProject"}]}]}}`, llm.Exhausted},
		"the day's quota in a list": {429, `[{"error":{"code":429,"message":"quota","details":[{"violations":[{"quotaId":` +
			`"GenerateRequestsPerDayPerProject"}]}]}}]`, llm.Exhausted},
		"an error behind events": {200, `data: {"candidates":[{"content":{"parts":[{"text":"half"}]}}]}` + "\r\n\r\n" +
			"{\n  \"error\": {\n    \"code\": 429,\n    \"message\": \"slow down\"\n  }\n}\n", llm.RateLimited},
		"an error in a list behind events": {200, `data: {"candidates":[{"content":{"parts":[{"text":"half"}]}}]}` + "\n\n" +
			`[{"error":{"code":429,"message":"slow down"}}]`, llm.RateLimited},
		"an invalid key": {400, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key."}}`,
			llm.Denied},
		"a line without end": {200, "data: " + strings.Repeat("x", 33<<20), llm.OutputLimit},
		"a page of a proxy":  {413, "<html>too large</html>", llm.BadRequest},
	} {
		m, _ := endpoint(t, c.status, c.body)
		_, err := generate(t, m, question)
		if fault, ok := errors.AsType[*llm.Error](err); !ok || fault.Kind != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	m, _ := endpoint(t, 500, `{"error":{"code":500,"message":"`+strings.Repeat("long ", 1000)+`"}}`)
	if _, err := generate(t, m, question); err == nil || len(err.Error()) > 700 {
		t.Errorf("an error of %d bytes", len(fmt.Sprint(err)))
	}
}

// Gemini charges for blocked answers.
func TestGenerate_Blocked_TellsTheUsage(t *testing.T) {
	const used = `,"usageMetadata":{"promptTokenCount":7,"thoughtsTokenCount":2}}`
	for name, body := range map[string]string{
		"a prompt":  `{"promptFeedback":{"blockReason":"SAFETY"}` + used,
		"an answer": `{"candidates":[{"content":{"parts":[{"text":"half"}]},"finishReason":"SAFETY"}]` + used,
	} {
		m, _ := endpoint(t, 200, "data: "+body+"\n\n")
		chunks, err := generate(t, m, question)
		if fault, ok := errors.AsType[*llm.Error](err); !ok || fault.Kind != llm.Blocked {
			t.Errorf("%s: %v", name, err)
		}
		if len(chunks) != 1 || len(chunks[0].Parts) > 0 || *chunks[0].Usage != (llm.Usage{Input: 7, Output: 2}) {
			t.Errorf("%s: %+v", name, chunks)
		}
	}
}

// What Gemini sends goes back as it came, also what this version of the bot does not know.
func TestGenerate_PartsWithACallOrSignature_GoBackUnchanged(t *testing.T) {
	const call = `{"functionCall":{"id":"1","name":"look","args":{"id":12345678901234567890},"new":[1]},` +
		`"thoughtSignature":"YQ==","later":{"b":1,"a":2}}`
	const signature = `{"text":"","thoughtSignature":"YWJj"}`
	m, sent := endpoint(t, 200,
		`data: {"candidates":[{"content":{"parts":[`+call+`,`+signature+`]},"finishReason":"STOP"}]}`)
	chunks, err := generate(t, m, question)
	if err != nil || len(chunks) != 1 || len(chunks[0].Parts) != 2 {
		t.Fatalf("%+v, %v", chunks, err)
	}
	if args := string(chunks[0].Parts[0].Call.Args); args != `{"id":12345678901234567890}` {
		t.Errorf("the tool is called with %s", args)
	}
	answer := llm.Message{Role: llm.Assistant, Parts: chunks[0].Parts}
	result := llm.Message{
		Role:  llm.ToolRole,
		Parts: []llm.Part{{Result: &llm.Result{ID: "1", Name: "look", Content: "x"}}},
	}
	if _, err := generate(t, m, question, answer, result); err != nil {
		t.Fatal(err)
	}
	path, body := sent()
	if want := "/proxy/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse"; path != want {
		t.Errorf("asked %s, want %s", path, want)
	}
	var got struct {
		Contents []struct{ Parts []json.RawMessage }
	}
	if err := json.Unmarshal(body, &got); err != nil || len(got.Contents) != 3 {
		t.Fatalf("%s, %v", body, err)
	}
	var parts []string
	for _, p := range got.Contents[1].Parts {
		parts = append(parts, string(p))
	}
	if diff := cmp.Diff([]string{call, signature}, parts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Parts that other models, or earlier versions of the bot, have stored are sent as the API takes them.
func TestGenerate_StoredPartsOfOthers_AreMadeValid(t *testing.T) {
	m, sent := endpoint(t, 200, "data: {}\n\n")
	_, err := generate(t, m, question, llm.Message{Role: llm.Assistant, Parts: []llm.Part{
		{Raw: json.RawMessage(`{"thoughtSignature":"YWJj"}`)},
		{Call: &llm.Call{ID: "1", Name: "look", Args: json.RawMessage(`"no object"`)}},
		{Call: &llm.Call{ID: "2", Name: "look", Args: json.RawMessage(` {"at":"x"}`)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, body := sent()
	var got struct{ Contents []struct{ Parts any } }
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	const noSignature = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
	want := []any{
		map[string]any{"text": "", "thoughtSignature": "YWJj"},
		map[string]any{"functionCall": map[string]any{"id": "1", "name": "look"}, "thoughtSignature": noSignature},
		map[string]any{"functionCall": map[string]any{"id": "2", "name": "look", "args": map[string]any{"at": "x"}}},
	}
	if diff := cmp.Diff(any(want), got.Contents[1].Parts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err = generate(t, m, llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Raw: json.RawMessage(`[]`)}}})
	if fault, ok := errors.AsType[*llm.Error](err); !ok || fault.Kind != llm.BadRequest {
		t.Errorf("a stored part that is not an object: %v", err)
	}
}
