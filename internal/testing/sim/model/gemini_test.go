package simmodel_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"

	simmodel "ravenbot/internal/testing/sim/model"
)

const gemini = "gemini-3.8-flash"

func open(t *testing.T, script simmodel.Script) *simmodel.Server {
	t.Helper()
	s, err := simmodel.New(simmodel.Options{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func client(t *testing.T, s *simmodel.Server) *genai.Client {
	t.Helper()
	c, err := genai.NewClient(within(t), &genai.ClientConfig{APIKey: "key", Backend: genai.BackendGeminiAPI,
		HTTPOptions: genai.HTTPOptions{BaseURL: s.GeminiURL()}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func withTool() *genai.GenerateContentConfig {
	no := false
	return &genai.GenerateContentConfig{Store: &no, SystemInstruction: genai.NewContentFromText("be brief",
		genai.RoleUser),
		Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "add", Description: "adds",
			Parameters: &genai.Schema{
				Type:       genai.TypeObject,
				Properties: map[string]*genai.Schema{"a": {Type: genai.TypeInteger}},
				Required:   []string{"a"},
			}}}}}}
}

func TestParallelCallsRoundTrip(t *testing.T) {
	s := open(t, simmodel.Sequence(
		simmodel.Reply{Thoughts: "hm", Calls: []simmodel.Call{{Name: "add", Args: json.RawMessage(`{"a":1}`)},
			{Name: "add", Args: json.RawMessage(`{"a":2}`)}}},
		simmodel.Reply{Text: []string{"done ", "now"}}))
	c := client(t, s)
	history := []*genai.Content{genai.NewContentFromText("add things", genai.RoleUser)}
	first, err := c.Models.GenerateContent(within(t), gemini, history, withTool())
	if err != nil {
		t.Fatal(err)
	}
	calls := first.FunctionCalls()
	if len(calls) != 2 || calls[0].ID == "" || calls[0].ID == calls[1].ID || calls[1].Args["a"] != 2.0 {
		t.Fatalf("calls %+v", calls)
	}
	answer := &genai.Content{Role: genai.RoleUser}
	for _, call := range calls {
		answer.Parts = append(answer.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: call.ID,
			Name: call.Name, Response: map[string]any{"output": 3}}})
	}
	history = append(history, first.Candidates[0].Content, answer)
	var text strings.Builder
	var last *genai.GenerateContentResponse
	for chunk, err := range c.Models.GenerateContentStream(within(t), gemini, history, withTool()) {
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range chunk.Candidates[0].Content.Parts {
			text.WriteString(p.Text)
		}
		last = chunk
	}
	if text.String() != "done now" || last.UsageMetadata == nil ||
		last.Candidates[0].FinishReason != genai.FinishReasonStop {
		t.Errorf("streamed %q, last %+v", text.String(), last)
	}
	asked := s.Asked()
	if r := asked[1]; r.System != "be brief" || r.Store == nil || *r.Store || !r.Stream ||
		len(r.Messages[2].Results) != 2 || r.Messages[2].Role != simmodel.RoleTool {
		t.Errorf("neutral view %+v", r)
	}
}

func TestSignatureRules(t *testing.T) {
	ask := genai.NewContentFromText("go", genai.RoleUser)
	reply := func(call *genai.FunctionCall) *genai.Content {
		return &genai.Content{
			Role: genai.RoleUser,
			Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{
				ID:       call.ID,
				Name:     call.Name,
				Response: map[string]any{"ok": true},
			}}},
		}
	}
	cases := []struct {
		name   string
		change func(p *genai.Part)
		after  []*genai.Content
		want   string
	}{
		{"kept", func(*genai.Part) {}, nil, ""},
		{"lost", func(p *genai.Part) { p.ThoughtSignature = nil }, nil, "missing a thought_signature"},
		{"invented", func(p *genai.Part) { p.ThoughtSignature = []byte("mine") }, nil, "Corrupted thought signature"},
		{"sentinel", func(p *genai.Part) { p.ThoughtSignature = []byte(simmodel.Sentinel) }, nil, ""},
		{"moved to another call", func(p *genai.Part) { p.FunctionCall.Name = "other" }, nil, "Corrupted thought signature"},
		{"lost in an earlier turn", func(p *genai.Part) { p.ThoughtSignature = nil }, []*genai.Content{genai.NewContentFromText("did it", genai.RoleModel), ask}, ""},
	}
	for _, c := range cases {
		s := open(t, simmodel.CallTool("add", `{"a":1}`))
		g := client(t, s)
		first, err := g.Models.GenerateContent(within(t), gemini, []*genai.Content{ask}, withTool())
		if err != nil {
			t.Fatal(err)
		}
		part := first.Candidates[0].Content.Parts[0]
		c.change(part)
		history := append([]*genai.Content{ask, first.Candidates[0].Content, reply(part.FunctionCall)}, c.after...)
		_, err = g.Models.GenerateContent(within(t), gemini, history, withTool())
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if got := len(s.Rejected()); (got > 0) != (c.want != "") {
			t.Errorf("%s: %d rejections", c.name, got)
		}
	}
}

func TestFailuresGeminiClientSees(t *testing.T) {
	hello := genai.Text("hello")
	cases := []struct {
		name  string
		reply simmodel.Reply
		check func(*genai.GenerateContentResponse, error) bool
	}{
		{"overload", simmodel.Reply{
			Status:     429,
			RetryAfter: 12 * time.Second,
		}, func(_ *genai.GenerateContentResponse, err error) bool {
			var e genai.APIError
			return errors.As(err, &e) && e.Code == 429 && e.Status == "RESOURCE_EXHAUSTED" && e.Details[0]["retryDelay"] == "12s"
		}},
		{"html", simmodel.Reply{Status: 502, Body: "<html>"}, func(_ *genai.GenerateContentResponse, err error) bool { return err != nil }},
		{"blocked", simmodel.Reply{Block: "SAFETY"}, func(r *genai.GenerateContentResponse, err error) bool {
			return err == nil && len(r.Candidates) == 0 && r.PromptFeedback.BlockReason == genai.BlockedReasonSafety
		}},
		{"cut off", simmodel.Reply{
			Text:   []string{"half"},
			Finish: "MAX_TOKENS",
		}, func(r *genai.GenerateContentResponse, err error) bool {
			return err == nil && r.Candidates[0].FinishReason == genai.FinishReasonMaxTokens
		}},
		{"malformed", simmodel.Reply{Malformed: true}, func(_ *genai.GenerateContentResponse, err error) bool { return err != nil }},
		{"dropped", simmodel.Reply{Text: []string{strings.Repeat("x", 1000)}, CutAfter: 100}, func(_ *genai.GenerateContentResponse, err error) bool { return err != nil }},
		{"usage", simmodel.Reply{
			Usage:  &simmodel.Usage{Prompt: 3, Output: 4, Thoughts: 5},
			Served: "gemini-4",
		}, func(r *genai.GenerateContentResponse, err error) bool {
			return err == nil && r.UsageMetadata.TotalTokenCount == 12 && r.ModelVersion == "gemini-4"
		}},
	}
	for _, c := range cases {
		s := open(t, simmodel.Sequence(c.reply))
		if r, err := client(t, s).Models.GenerateContent(within(t), gemini, hello, nil); !c.check(r, err) {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
}

func TestHangEndsWithTheCaller(t *testing.T) {
	s := open(t, simmodel.Sequence(simmodel.Reply{Hang: true}))
	g := client(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := g.Models.GenerateContent(ctx, gemini, genai.Text("hello"), nil)
		done <- err
	}()
	if _, err := s.WaitAsked(within(t), 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("hanging call ended with %v", err)
	}
}

// send posts a raw body and returns status and body.
func send(t *testing.T, url, header, key, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(header, key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

func TestGeminiRules(t *testing.T) {
	user := `{"role":"user","parts":[{"text":"x"}]}`
	call := `{"role":"model","parts":[{"functionCall":{"id":"1","name":"f"},` +
		`"thoughtSignature":"skip_thought_signature_validator"}]}`
	response := `{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{}}}]}`
	tool := func(declaration string) string {
		return `{"contents":[` + user + `],"tools":[{"functionDeclarations":[` + declaration + `]}]}`
	}
	contents := func(list ...string) string { return `{"contents":[` + strings.Join(list, ",") + `]}` }
	params := func(schema string) string { return tool(`{"name":"f","parameters":` + schema + `}`) }
	jsonSchema := func(schema string) string { return tool(`{"name":"f","parametersJsonSchema":` + schema + `}`) }
	cases := []struct{ name, body, want string }{
		{"plain", contents(user), ""},
		{"call answered", contents(user, call, response), ""},
		{"nothing", `{"contents":[]}`, "contents is not specified"},
		{"unknown field", `{"contents":[` + user + `],"stores":true}`, "stores"},
		{"first is model", contents(call, response), "first turn"},
		{"call unanswered", contents(user, call), "last turn"},
		{"call overtaken", contents(user, call, user), "equal to the number"},
		{"response without call", contents(user, response), "immediately after a function call"},
		{"wrong id", contents(user, call, strings.Replace(response, `"1"`, `"2"`, 1)), "No function response matches"},
		{"two for one", contents(user, call, `{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{}}},{"functionResponse":{"id":"1","name":"f","response":{}}}]}`), "equal to the number"},
		{"empty part", contents(`{"role":"user","parts":[{}]}`), "required oneof"},
		{"bad role", contents(`{"role":"assistant","parts":[{"text":"x"}]}`), "valid role"},
		{"bad name", tool(`{"name":"1f"}`), "Invalid function name"},
		{"long name", tool(`{"name":"` + strings.Repeat("f", 65) + `"}`), "Invalid function name"},
		{"twice", tool(`{"name":"f"},{"name":"f"}`), "Duplicate"},
		{"both schemas", tool(`{"name":"f","parameters":{"type":"OBJECT"},"parametersJsonSchema":{"type":"object"}}`), "only one of"},
		{"nested fine", params(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","enum":["x"]}}},"required":["a"]}`), ""},
		{"additionalProperties", params(`{"type":"object","properties":{"a":{"type":"object","additionalProperties":false}}}`), "additionalProperties"},
		{"property called so", params(`{"type":"object","properties":{"const":{"type":"string"}}}`), ""},
		{"list type", params(`{"type":["string","null"]}`), "type"},
		{"number enum", params(`{"type":"integer","enum":[1]}`), "enum"},
		{"array without items", params(`{"type":"array"}`), "missing field"},
		{"required unknown", params(`{"type":"object","required":["z"]}`), "not defined"},
		{"json schema fine", jsonSchema(`{"type":"object","$defs":{"d":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/d"}},"additionalProperties":false}`), ""},
		{"$schema", jsonSchema(`{"$schema":"x","type":"object"}`), "$schema"},
		{"const", jsonSchema(`{"properties":{"a":{"const":1}}}`), "const"},
		{"beside ref", jsonSchema(`{"$ref":"#","title":"x"}`), "$ref"},
	}
	s := open(t, nil)
	url := s.URL() + "/v1beta/models/" + gemini + ":generateContent"
	for _, c := range cases {
		status, body := send(t, url, "x-goog-api-key", "key", c.body)
		if (c.want == "") != (status == 200) || c.want != "" &&
			(status != 400 || !strings.Contains(body, c.want) || !strings.Contains(body, "INVALID_ARGUMENT")) {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
	}
	if status, _ := send(t, url, "x-goog-api-key", "wrong", contents(user)); status != 400 {
		t.Errorf("wrong key: %d", status)
	}
	if status, _ := send(t, url+"?key=key", "X-None", "", contents(user)); status != 403 {
		t.Errorf("key in the URL: %d", status)
	}
	if status, _ := send(t, strings.Replace(url, gemini, "gemini-0", 1), "x-goog-api-key", "key",
		contents(user)); status != 404 {
		t.Errorf("unknown model: %d", status)
	}
}

func TestModelList(t *testing.T) {
	page, err := client(t, open(t, nil)).Models.List(within(t), nil)
	if err != nil || len(page.Items) != 3 || page.Items[0].Name != "models/"+gemini {
		t.Errorf("%+v %v", page.Items, err)
	}
}
