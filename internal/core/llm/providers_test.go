package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/anthropic"
	"ravenbot/internal/model/gemini"
	"ravenbot/internal/model/openai"
	simmodel "ravenbot/internal/testing/sim/model"
)

// world is a simulated provider and clients of it.
func world(t *testing.T) (*simmodel.Server, map[string]llm.Model) {
	t.Helper()
	sim, err := simmodel.New(simmodel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	models := map[string]llm.Model{}
	for name, base := range map[string]string{
		"gemini": sim.GeminiURL(), "openai": sim.OpenAIURL(), "anthropic": sim.AnthropicURL(),
		"google-openai": sim.GoogleOpenAIURL(),
	} {
		models[name] = newModel(t, name, base)
	}
	return sim, models
}

// newModel returns a client of a provider's API at base.
func newModel(t *testing.T, name, base string) llm.Model {
	t.Helper()
	switch name {
	case "gemini":
		m, err := gemini.New(gemini.Options{APIKey: "key", Model: "gemini-3.8-flash", BaseURL: base})
		if err != nil {
			t.Fatal(err)
		}
		return m
	case "anthropic":
		return anthropic.New(anthropic.Options{APIKey: "key", Model: "claude-sim", BaseURL: base})
	case "google-openai":
		return openai.New(openai.Options{Name: "google", APIKey: "key", Model: "gemini-3.8-flash", BaseURL: base})
	}
	return openai.New(openai.Options{Name: name, APIKey: "key", Model: "gpt-sim", BaseURL: base})
}

// collect asks and joins the parts of the answer.
func collect(ctx context.Context, m llm.Model, r llm.Request) (llm.Message, llm.Chunk, error) {
	out := llm.Message{Role: llm.Assistant, Origin: m.ID()}
	var last llm.Chunk
	for c, err := range m.Generate(ctx, r) {
		if err != nil {
			return out, last, err
		}
		out.Parts = append(out.Parts, c.Parts...)
		if c.Usage != nil {
			last.Usage = c.Usage
		}
		if c.Finish != "" {
			last.Finish = c.Finish
		}
		if c.ServedBy != "" {
			last.ServedBy = c.ServedBy
		}
	}
	return out, last, nil
}

func user(text string) llm.Message {
	return llm.Message{Role: llm.User, Parts: []llm.Part{{Text: text}}}
}

func TestAnAnswerStreams(t *testing.T) {
	sim, models := world(t)
	sim.SetScript(func(simmodel.Request) simmodel.Reply {
		return simmodel.Reply{Thoughts: "hm", Text: []string{"Hello ", "wörld"},
			Usage: &simmodel.Usage{Prompt: 7, Output: 3, Thoughts: 2, Cached: 1}}
	})
	for name, m := range models {
		t.Run(name, func(t *testing.T) {
			got, last, err := collect(t.Context(), m, llm.Request{System: "be brief", Messages: []llm.Message{user("hi")}})
			if err != nil {
				t.Fatal(err)
			}
			if got.Text() != "Hello wörld" || last.Finish != llm.FinishStop || last.ServedBy == "" {
				t.Errorf("answered %q, %+v", got.Text(), last)
			}
			if last.Usage == nil || last.Usage.Input != 7 || last.Usage.Output < 3 || last.Usage.Cached != 1 {
				t.Errorf("usage %+v", last.Usage)
			}
		})
	}
	for _, r := range sim.Asked() {
		if r.API == simmodel.Gemini && (r.Store == nil || *r.Store) {
			t.Error("a request did not opt out of being stored")
		}
		if r.System != "be brief" {
			t.Errorf("%s received %q", r.API, r.System)
		}
	}
}

// through stores and loads a message, as a restart does.
func through(t *testing.T, m llm.Message) llm.Message {
	t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var out llm.Message
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

var toolbox = []llm.ToolSpec{{Name: "look", Description: "Looks.", Schema: json.RawMessage(`{
	"$schema":"http://json-schema.org/draft-07/schema#","type":"object","additionalProperties":false,"required":["at"],
	"properties":{"at":{"type":["string","null"],"pattern":"^x","default":"x"},"mode":{"const":"fast"},
		"deep":{"allOf":[{"$ref":"#/definitions/node"}]}},
	"definitions":{"node":{"type":"object","properties":{"next":{"$ref":"#/definitions/node"}}}}}`)}, {Name: "rest"}}

func answers(m llm.Message) llm.Message {
	out := llm.Message{Role: llm.ToolRole}
	for _, c := range m.Calls() {
		out.Parts = append(out.Parts, llm.Part{Result: &llm.Result{ID: c.ID, Name: c.Name,
			Content: "result of " + string(c.Args)}})
	}
	return out
}

// TestCallsGoOnThroughTheStore plays a turn of two tool steps, the first with
// parallel calls, storing and loading everything between the steps.
func TestCallsGoOnThroughTheStore(t *testing.T) {
	sim, models := world(t)
	for name, m := range models {
		t.Run(name, func(t *testing.T) {
			sim.SetScript(simmodel.Sequence(
				simmodel.Reply{Thoughts: "two at once", Calls: []simmodel.Call{{Name: "look", Args: json.RawMessage(`{"at":"a"}`)},
					{Name: "look", Args: json.RawMessage(`{"at":"b"}`)}}},
				simmodel.Reply{Calls: []simmodel.Call{{Name: "rest", Args: json.RawMessage(`{}`)}}},
				simmodel.Say("done")))
			turn := conversation.Turn{State: conversation.Open, Messages: []llm.Message{user("go")}}
			for step := range 3 {
				r := llm.Request{Messages: conversation.Build(conversation.Summary{}, []conversation.Turn{turn},
					m.ID()), Tools: toolbox}
				got, _, err := collect(t.Context(), m, r)
				if err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				turn.Messages = append(turn.Messages, through(t, got))
				if len(got.Calls()) > 0 {
					turn.Messages = append(turn.Messages, through(t, answers(got)))
				}
			}
			if got := turn.Messages[len(turn.Messages)-1].Text(); got != "done" {
				t.Errorf("the turn ended with %q", got)
			}
			var args []string
			for _, c := range turn.Messages[1].Calls() {
				args = append(args, string(c.Args))
			}
			if diff := cmp.Diff([]string{`{"at":"a"}`, `{"at":"b"}`}, args); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, r := range sim.Rejected() {
		t.Errorf("%s rejected a request: %s", r.API, r.Problem)
	}
}

// TestAnotherModelTakesOverInMidTurn hands a turn from each model to each other.
func TestAnotherModelTakesOverInMidTurn(t *testing.T) {
	sim, models := world(t)
	for from, first := range models {
		for to, second := range models {
			t.Run(from+" to "+to, func(t *testing.T) {
				sim.SetScript(simmodel.Sequence(simmodel.Reply{Calls: []simmodel.Call{{Name: "look",
					Args: json.RawMessage(`{"at":"a"}`)}}}, simmodel.Say("done")))
				got, _, err := collect(t.Context(), first, llm.Request{Messages: []llm.Message{user("go")}, Tools: toolbox})
				if err != nil {
					t.Fatal(err)
				}
				turn := conversation.Turn{Messages: []llm.Message{user("go"), through(t, got), answers(got)}}
				r := llm.Request{Messages: conversation.Build(conversation.Summary{}, []conversation.Turn{turn},
					second.ID()), Tools: toolbox}
				if got, _, err = collect(t.Context(), second, r); err != nil || got.Text() != "done" {
					t.Errorf("answered %q, %v", got.Text(), err)
				}
			})
		}
	}
}

func TestFaultsAreTold(t *testing.T) {
	sim, models := world(t)
	cases := []struct {
		name  string
		reply simmodel.Reply
		want  llm.Kind
		after time.Duration
	}{
		{"rate limit", simmodel.Reply{Status: 429, Message: "slow down", RetryAfter: 20 * time.Second}, llm.RateLimited, 20 * time.Second},
		{"overload", simmodel.Reply{Status: 503, Message: "overloaded"}, llm.Unavailable, 0},
		{"internal", simmodel.Reply{Status: 500, Body: "<html>oops</html>"}, llm.Unavailable, 0},
		{"bad request", simmodel.Reply{Status: 400, Message: "no"}, llm.BadRequest, 0},
		{"denied", simmodel.Reply{Status: 403, Message: "no"}, llm.Denied, 0},
		{"malformed", simmodel.Reply{Malformed: true}, llm.Unavailable, 0},
	}
	for name, m := range models {
		for _, c := range cases {
			t.Run(name+" "+c.name, func(t *testing.T) {
				sim.SetScript(simmodel.Sequence(c.reply))
				_, _, err := collect(t.Context(), m, llm.Request{Messages: []llm.Message{user("hi")}})
				var fault *llm.Error
				if !errors.As(err, &fault) || fault.Kind != c.want || fault.RetryAfter != c.after {
					t.Errorf("got %v, want %s after %v", err, c.want, c.after)
				}
			})
		}
	}
}

func TestGenerate_RequestTooLong_IsNamedByEachProvidersOwnWords(t *testing.T) {
	gemini := []string{
		"The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
		"The input context is too long (1200293 tokens).",
	}
	openai := []string{
		"This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. " +
			"context_length_exceeded",
		"This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens.",
		"request (131168 tokens) exceeds the available context size (131072 tokens), try increasing it",
		"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
		"Prompt exceeds max length",
		"This model's maximum prompt length is 131072 but the request contains 136973 tokens.",
		"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 204800]",
		"The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model " +
			"with a larger context length, or provide a shorter input",
		"Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context " +
			"length of only 7866 tokens, which is not enough.",
	}
	anthropic := []string{
		"prompt is too long: 207791 tokens > 200000 maximum",
		"input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or `max_tokens`",
	}
	sim, models := world(t)
	for name, texts := range map[string][]string{"gemini": gemini, "openai": openai, "anthropic": anthropic,
		"google-openai": gemini[:1]} {
		for _, text := range texts {
			sim.SetScript(simmodel.Sequence(simmodel.Reply{Status: 400, Message: text}))
			_, _, err := collect(t.Context(), models[name], llm.Request{Messages: []llm.Message{user("hi")}})
			if fault, ok := errors.AsType[*llm.Error](err); !ok || fault.Kind != llm.ContextTooLong || fault.IsRetryable() {
				t.Errorf("%s: %q became %v", name, text, err)
			}
		}
	}
	// llama.cpp answers 200 with the error in the place of an answer, and did so with 500.
	for _, status := range []int{200, 500} {
		body := `{"error":{"code":400,"message":"the request exceeds the available context size",` +
			`"type":"exceed_context_size_error"}}`
		sim.SetScript(simmodel.Sequence(simmodel.Reply{Status: status, Body: body}))
		_, _, err := collect(t.Context(), models["openai"], llm.Request{Messages: []llm.Message{user("hi")}})
		if fault, ok := errors.AsType[*llm.Error](err); !ok || fault.Kind != llm.ContextTooLong {
			t.Errorf("status %d became %v", status, err)
		}
	}
}

// A body without end is read up to a limit, and not asked for again.
func TestGenerate_BodyWithoutEnd_IsNotRetryable(t *testing.T) {
	sim, models := world(t)
	sim.SetScript(simmodel.Sequence(simmodel.Reply{Text: []string{strings.Repeat("x", 1<<20)}, Endless: true}))
	for _, name := range []string{"gemini", "openai"} {
		m := models[name]
		got := 0
		var err error
		for c, failed := range m.Generate(t.Context(), llm.Request{Messages: []llm.Message{user("hi")}}) {
			if err = failed; err != nil {
				break
			}
			for _, p := range c.Parts {
				got += len(p.Text)
			}
		}
		fault, ok := errors.AsType[*llm.Error](err)
		if !ok || fault.Kind != llm.OutputLimit || fault.IsRetryable() || got > 32<<20 {
			t.Errorf("%s: after %d bytes of text: %v", name, got, err)
		}
	}
}

func TestABlockedPromptIsExplained(t *testing.T) {
	sim, models := world(t)
	for _, reason := range []string{"SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "OTHER", "JAILBREAK", "MODEL_ARMOR"} {
		sim.SetScript(simmodel.Sequence(simmodel.Reply{Block: reason}))
		_, _, err := collect(t.Context(), models["gemini"], llm.Request{Messages: []llm.Message{user("hi")}})
		var fault *llm.Error
		if !errors.As(err, &fault) || fault.Kind != llm.Blocked || fault.Reason == "" || strings.Contains(fault.Reason, "_") {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

func TestEveryFinishReasonHasAnOutcome(t *testing.T) {
	sim, models := world(t)
	for reason, want := range map[string]llm.Finish{"MAX_TOKENS": llm.FinishLength, "OTHER": llm.FinishOther,
		"MALFORMED_FUNCTION_CALL": llm.FinishMalformed, "SOMETHING_NEW": llm.FinishOther} {
		sim.SetScript(simmodel.Sequence(simmodel.Reply{Text: []string{"x"}, Finish: reason}))
		_, last, err := collect(t.Context(), models["gemini"], llm.Request{Messages: []llm.Message{user("hi")}})
		if err != nil || last.Finish != want {
			t.Errorf("%s: %q, %v; want %q", reason, last.Finish, err, want)
		}
	}
}

// TestACutStreamIsNeverTakenForAWholeAnswer cuts an answer after every so many
// bytes: there is an error, or no finish, or all of the text.
func TestACutStreamIsNeverTakenForAWholeAnswer(t *testing.T) {
	sim, models := world(t)
	text := strings.Repeat("word ", 20)
	for name, m := range models {
		t.Run(name, func(t *testing.T) {
			for at := 1; at < 1500; at += 37 {
				sim.SetScript(simmodel.Sequence(simmodel.Reply{Text: strings.SplitAfter(text, "word "), CutAfter: at}))
				got, last, err := collect(t.Context(), m, llm.Request{Messages: []llm.Message{user("hi")}})
				if err == nil && last.Finish != "" && got.Text() != text {
					t.Fatalf("cut after %d bytes: %q passed as whole", at, got.Text())
				}
			}
		})
	}
}

// TestACallOfACutStreamIsNeverReturnedAsWhole ends the body of an answer with a call cleanly after every line of it, as
// a proxy does that loses the connection to its upstream.
func TestACallOfACutStreamIsNeverReturnedAsWhole(t *testing.T) {
	sim, _ := world(t)
	look := llm.ToolSpec{
		Name:   "look",
		Schema: json.RawMessage(`{"type":"object","properties":{"x":{"type":"integer"}}}`),
	}
	sim.SetScript(func(simmodel.Request) simmodel.Reply {
		return simmodel.Reply{Calls: []simmodel.Call{{Name: "look", Args: json.RawMessage(`{"x":1234567}`)}}}
	})
	for name, base := range map[string]string{
		"gemini": sim.GeminiURL(), "openai": sim.OpenAIURL(), "anthropic": sim.AnthropicURL(),
		"google-openai": sim.GoogleOpenAIURL(),
	} {
		t.Run(name, func(t *testing.T) {
			target, err := url.Parse(base)
			if err != nil {
				t.Fatal(err)
			}
			var kept, sent int
			proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: target.Scheme, Host: target.Host})
			proxy.ModifyResponse = func(res *http.Response) error {
				whole, err := io.ReadAll(res.Body)
				lines := strings.SplitAfter(string(whole), "\n")
				sent = len(lines)
				res.Body = io.NopCloser(strings.NewReader(strings.Join(lines[:min(kept, sent)], "")))
				res.ContentLength = -1
				res.Header.Del("Content-Length")
				return err
			}
			server := httptest.NewServer(proxy)
			defer server.Close()
			m := newModel(t, name, server.URL+target.Path)
			for kept, sent = 0, 1; kept <= sent; kept++ {
				got, last, err := collect(t.Context(), m, llm.Request{
					Messages: []llm.Message{user("hi")},
					Tools:    []llm.ToolSpec{look},
				})
				isWhole := len(got.Calls()) == 1 && string(got.Calls()[0].Args) == `{"x":1234567}`
				switch fault, _ := errors.AsType[*llm.Error](err); {
				case err != nil && (fault == nil || !fault.IsRetryable()):
					t.Errorf("cut after %d of %d lines: %v, want an error that is retried", kept, sent, err)
				case err == nil && last.Finish != "" && !isWhole:
					t.Errorf("cut after %d of %d lines: %+v passed as whole", kept, sent, got.Calls())
				case kept == sent && (err != nil || last.Finish == "" || !isWhole):
					t.Errorf("the whole answer: %+v, %q, %v", got.Calls(), last.Finish, err)
				}
			}
		})
	}
}

func TestAHangingModelEndsWithTheContext(t *testing.T) {
	sim, models := world(t)
	sim.SetScript(simmodel.Sequence(simmodel.Reply{Hang: true}))
	for name, m := range models {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, _, err := collect(ctx, m, llm.Request{Messages: []llm.Message{user("hi")}}); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// TestGeminisOwnPartsGoBackAsTheyCame looks at the bytes of a second request: the
// part that ends a stream and carries a signature alone, a thought, and a call of
// an older model without any signature.
func TestGeminisOwnPartsGoBackAsTheyCame(t *testing.T) {
	sim, models := world(t)
	sim.SetScript(simmodel.Sequence(simmodel.Reply{Thoughts: "hm", Text: []string{"Hello"}}, simmodel.Say("done")))
	first, _, err := collect(t.Context(), models["gemini"], llm.Request{Messages: []llm.Message{user("hi")}})
	if err != nil {
		t.Fatal(err)
	}
	turn := conversation.Turn{Messages: []llm.Message{user("hi"), through(t, first), user("more")}}
	if _, _, err := collect(t.Context(), models["gemini"], llm.Request{
		Messages: conversation.Build(conversation.Summary{}, []conversation.Turn{turn}, models["gemini"].ID())}); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Contents []struct{ Parts []map[string]any }
	}
	asked := sim.Asked()
	if err := json.Unmarshal(asked[len(asked)-1].Raw, &sent); err != nil {
		t.Fatal(err)
	}
	signed := 0
	for _, part := range sent.Contents[1].Parts {
		text, has := part["text"]
		if !has {
			t.Errorf("part %v goes back without its text", part)
		}
		if part["thoughtSignature"] != nil {
			signed++
		}
		if text == "hm" && part["thought"] != true {
			t.Error("a thought goes back as an answer")
		}
	}
	if signed == 0 {
		t.Errorf("no signature goes back in %v", sent.Contents[1].Parts)
	}

	old := llm.Message{Role: llm.Assistant, Origin: models["gemini"].ID(),
		Parts: []llm.Part{{Raw: json.RawMessage(`{"functionCall":{"name":"look","args":{}}}`),
			Call: &llm.Call{ID: "call-1", Name: "look", Args: json.RawMessage(`{}`)}}}}
	sim.SetScript(simmodel.Sequence(simmodel.Say("never reached, for this model wants signatures")))
	_, _, _ = collect(t.Context(), models["gemini"], llm.Request{Messages: []llm.Message{user("hi"), old, answers(old)}})
	rejected := sim.Rejected()
	if len(rejected) == 0 || strings.Contains(string(rejected[len(rejected)-1].Raw), "thoughtSignature") {
		t.Error("a signature was invented for a call of Gemini's own")
	}
}

// TestParametersOfAnyNameReachTheTool has Gemini call with the names that it was
// told.
func TestParametersOfAnyNameReachTheTool(t *testing.T) {
	sim, models := world(t)
	sim.SetScript(func(r simmodel.Request) simmodel.Reply {
		var schema struct {
			Properties map[string]struct{ Properties map[string]any }
		}
		if err := json.Unmarshal(r.Tools[0].Schema, &schema); err != nil {
			t.Error(err)
		}
		args := map[string]any{}
		for name, inner := range schema.Properties {
			args[name] = "value"
			for deep := range inner.Properties {
				args[name] = []any{map[string]any{deep: 1}}
			}
		}
		raw, err := json.Marshal(args)
		if err != nil {
			t.Error(err)
		}
		return simmodel.Reply{Calls: []simmodel.Call{{Name: r.Tools[0].Name, Args: raw}}}
	})
	tools := []llm.ToolSpec{{Name: "odd", Schema: json.RawMessage(`{"type":"object","properties":{"user-id":{"type":"string"},"größe in m²":{"type":"string"},
		"2nd":{"type":"object","properties":{"a b":{"type":"integer"}}}},"required":["user-id"]}`)}}
	for name, m := range models {
		got, _, err := collect(t.Context(), m, llm.Request{Messages: []llm.Message{user("hi")}, Tools: tools})
		if err != nil {
			t.Fatal(name, err)
		}
		want := `{"2nd":[{"a b":1}],"größe in m²":"value","user-id":"value"}`
		if args := string(got.Calls()[0].Args); args != want {
			t.Errorf("%s: the tool is called with %s, want %s", name, args, want)
		}
	}
}

// Another request declares other tools while an answer still streams: its calls keep the names of their own tools.
func TestParametersKeepTheirNamesWhileOtherToolsAreDeclared(t *testing.T) {
	sim, models := world(t)
	sim.SetScript(func(r simmodel.Request) simmodel.Reply {
		if len(r.Tools) == 0 || r.Tools[0].Name != "odd" {
			return simmodel.Say("nothing to call")
		}
		var schema struct{ Properties map[string]any }
		if err := json.Unmarshal(r.Tools[0].Schema, &schema); err != nil {
			t.Error(err)
		}
		args := map[string]any{}
		for name := range schema.Properties {
			args[name] = "value"
		}
		raw, err := json.Marshal(args)
		if err != nil {
			t.Error(err)
		}
		return simmodel.Reply{Text: []string{"Looking."}, Calls: []simmodel.Call{{Name: "odd", Args: raw}}}
	})
	odd := llm.ToolSpec{
		Name:   "odd",
		Schema: json.RawMessage(`{"type":"object","properties":{"user-id":{"type":"string"}},"required":["user-id"]}`),
	}
	other := llm.ToolSpec{Name: "other", Schema: json.RawMessage(`{"type":"object","properties":{}}`)}
	ask := func(tool llm.ToolSpec) llm.Request {
		return llm.Request{Messages: []llm.Message{user("hi")}, Tools: []llm.ToolSpec{tool}}
	}
	var calls []llm.Call
	declared := false
	for c, err := range models["gemini"].Generate(t.Context(), ask(odd)) {
		if err != nil {
			t.Fatal(err)
		}
		if !declared {
			declared = true
			if _, _, err := collect(t.Context(), models["gemini"], ask(other)); err != nil {
				t.Fatal(err)
			}
		}
		calls = append(calls, llm.Message{Parts: c.Parts}.Calls()...)
	}
	if len(calls) != 1 || string(calls[0].Args) != `{"user-id":"value"}` {
		t.Errorf("the tool is called with %s, want user-id", calls)
	}
}

// The schema of an answer goes out in each provider's own form; a request without one asks for free text.
func TestGenerate_Schema_IsSent(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],` +
		`"additionalProperties":false}`)
	for name, want := range map[string]string{
		"gemini": "generationConfig responseJsonSchema", "openai": "response_format json_schema schema",
		"google-openai": "response_format json_schema schema", "anthropic": "output_config format schema",
	} {
		sim, models := world(t)
		for _, given := range []json.RawMessage{nil, schema} {
			request := llm.Request{Schema: given, Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "go"}}}}}
			if _, _, err := collect(t.Context(), models[name], request); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			asked := sim.Asked()
			var at any
			if err := json.Unmarshal(asked[len(asked)-1].Raw, &at); err != nil {
				t.Fatal(err)
			}
			for _, key := range strings.Fields(want) {
				object, _ := at.(map[string]any)
				at = object[key]
			}
			got, _ := json.Marshal(at)
			var sent, expected any = at, nil
			if given != nil {
				_ = json.Unmarshal(given, &expected)
			}
			if !reflect.DeepEqual(sent, expected) {
				t.Errorf("%s: %s is %s, want %s", name, want, got, given)
			}
		}
	}
}

// The limits of a request go out in each provider's own form, in addition to the configured ones.
func TestGenerate_LimitsOfARequest_AreSent(t *testing.T) {
	for name, want := range map[string][3]string{
		"gemini":        {"generationConfig maxOutputTokens", "generationConfig temperature", "generationConfig stopSequences"},
		"openai":        {"max_tokens", "temperature", "stop"},
		"google-openai": {"max_tokens", "temperature", "stop"},
		"anthropic":     {"max_tokens", "temperature", "stop_sequences"},
	} {
		sim, models := world(t)
		warm := 0.5
		request := llm.Request{MaxOutput: 7, Temperature: &warm, Stop: []string{"END"}, Messages: []llm.Message{user("go")}}
		if _, _, err := collect(t.Context(), models[name], request); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, expected := range []any{7.0, 0.5, []any{"END"}} {
			var at any
			if err := json.Unmarshal(sim.Asked()[0].Raw, &at); err != nil {
				t.Fatal(err)
			}
			for _, key := range strings.Fields(want[i]) {
				object, _ := at.(map[string]any)
				at = object[key]
			}
			if !reflect.DeepEqual(at, expected) {
				t.Errorf("%s: %s is %v, want %v", name, want[i], at, expected)
			}
		}
	}
}

func TestOutputLimit_TheLowerOneHolds(t *testing.T) {
	for _, c := range []struct{ asked, configured, want int }{{0, 0, 0}, {0, 9, 9}, {7, 0, 7}, {7, 9, 7}, {9, 7, 7}} {
		if got := (llm.Request{MaxOutput: c.asked}).OutputLimit(c.configured); got != c.want {
			t.Errorf("asked for %d where %d is configured: %d, want %d", c.asked, c.configured, got, c.want)
		}
	}
}

// A key is for the host that it was set for alone.
func TestModels_EndpointRedirects_IsNotFollowed(t *testing.T) {
	var followed []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		followed = append(followed, r.URL.Path)
	}))
	defer other.Close()
	for _, code := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		redirects := httptest.NewServer(http.RedirectHandler(other.URL+"/elsewhere", code))
		for _, name := range []string{"gemini", "openai", "anthropic"} {
			m := newModel(t, name, redirects.URL)
			_, _, err := collect(t.Context(), m, llm.Request{Messages: []llm.Message{user("hi")}})
			if err == nil || !strings.Contains(err.Error(), "redirects to "+other.URL) {
				t.Errorf("%s, status %d: %v", name, code, err)
			}
		}
		redirects.Close()
	}
	if len(followed) > 0 {
		t.Errorf("it was followed: %v", followed)
	}
}
