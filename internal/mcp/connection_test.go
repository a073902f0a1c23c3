package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"

	"ravenbot/internal/core/text"
)

// unconnected returns a connection without a server.
func unconnected(t *testing.T, o Options) *connection {
	t.Helper()
	o.Servers = []Config{{Name: "a", Command: "x"}}
	c := must(must(NewHost(o)).server("a")).newConnection(nil)
	t.Cleanup(c.cancel)
	return c
}

// accepting answers every question with yes, without any content.
func accepting(context.Context, Question) (Answer, error) { return Answer{Action: Accept}, nil }

func TestHandleRequest_AnswersWhatWasAnnounced(t *testing.T) {
	sample := func(context.Context, SamplingRequest) (SamplingResult, error) { return SamplingResult{}, nil }
	for _, tt := range []struct {
		what         string
		o            Options
		method, want string
	}{
		{"always", Options{}, "ping", `{}`},
		{"folders", Options{Roots: []Root{}}, "roots/list", `{"roots":[]}`},
		{"no folders", Options{}, "roots/list", "this client does not answer roots/list"},
		{"sampling", Options{Sample: sample}, "sampling/createMessage", "there are no messages"},
		{"no sampling", Options{}, "sampling/createMessage", "this client does not answer sampling/createMessage"},
	} {
		c := unconnected(t, tt.o)
		result, refused := c.handleRequest(t.Context(), tt.method, json.RawMessage(`{}`))
		got := string(result)
		if refused != nil {
			got = refused.message
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.what, got, tt.want)
		}
		capabilities := c.s.clientCapabilities()
		if (capabilities.Roots != nil) != (tt.o.Roots != nil) || (capabilities.Sampling != nil) != (tt.o.Sample != nil) ||
			capabilities.Elicitation != nil {
			t.Errorf("%s: announced is %+v", tt.what, capabilities)
		}
	}
	if c := unconnected(t, Options{Ask: accepting}); c.s.clientCapabilities().Elicitation == nil {
		t.Error("elicitation is not announced although people can be asked")
	}
}

// A person is not asked without end: 20 times in one call.
func TestElicit_TooManyQuestions_AreDeclined(t *testing.T) {
	c := unconnected(t, Options{Ask: accepting})
	f, end := c.beginCall(t.Context(), "x", time.Minute)
	defer end()
	for n := range 22 {
		want := `{"action":"accept","content":{"n":3,"why":"because"}}`
		if n >= 20 {
			want = `{"action":"decline"}`
		}
		if got, refused := c.elicit(f.ctx, jsonObject(json.RawMessage(form))); refused != nil || string(got) != want {
			t.Errorf("question %d: %s, %v; want %s", n+1, got, refused, want)
		}
	}
	if f.paused != 0 {
		t.Errorf("the time of the call is still stopped, %d times", f.paused)
	}
}

func TestParseQuestion(t *testing.T) {
	const object = `"requestedSchema":{"type":"object"}`
	large := func(size int) string {
		schema := `{"a":"` + strings.Repeat("x", size-8) + `"}`
		return `{"requestedSchema":` + schema + `}`
	}
	const noForm, noAddress = "requestedSchema must be an object of modest size", "url must be a web address"
	for _, tt := range []struct{ params, wrong string }{
		{`{` + object + `}`, ""},
		{`{"mode":"form",` + object + `}`, ""},
		{`{"mode":"phone",` + object + `}`, "this client knows the modes form and url"},
		{`{"requestedSchema":[]}`, noForm},
		{large(64 << 10), ""},
		{large(64<<10 + 1), noForm},
		{`{"mode":"url","url":"https://x.example/y"}`, ""},
		{`{"mode":"url","url":"http://x.example"}`, ""},
		{`{"mode":"url","url":"https://bank.example@evil.example"}`, noAddress},
		{`{"mode":"url","url":"ftp://x.example"}`, noAddress},
		{`{"mode":"url","url":"https:///y"}`, noAddress},
		{`{"mode":"url","url":"https://x y"}`, noAddress},
	} {
		q, wrong := unconnected(t, Options{}).parseQuestion(jsonObject(json.RawMessage(tt.params)))
		if wrong != tt.wrong {
			t.Errorf("%.80s: %q, want %q", tt.params, wrong, tt.wrong)
		}
		if wrong == "" && (q.URL == "") == (q.Schema == nil) {
			t.Errorf("%.80s: %+v is not a form or an address", tt.params, q)
		}
	}
	c := unconnected(t, Options{})
	message := jsonObject(json.RawMessage(`{"message":"` + strings.Repeat("x", 5000) + `",` + object + `}`))
	first, _ := c.parseQuestion(message)
	second, _ := c.parseQuestion(message)
	if len(first.Message) != 4<<10 || first.ID == second.ID {
		t.Errorf("questions %q and %q, with a text of %d bytes", first.ID, second.ID, len(first.Message))
	}
}

// A server's request to a model is refused if nobody could be charged for it, and answered in the server's terms.
func TestSample(t *testing.T) {
	const ask = `{"messages":[{"role":"user","content":{"type":"text","text":"hello"}}]}`
	var fault error
	answer := SamplingResult{Text: "hi", Model: "m"}
	c := unconnected(t, Options{Sample: func(context.Context, SamplingRequest) (SamplingResult, error) {
		return answer, fault
	}})
	sample := func(ctx context.Context, params string) string {
		got, refused := c.sample(ctx, jsonObject(json.RawMessage(params)))
		if refused != nil {
			return fmt.Sprint(refused.code, " ", refused)
		}
		return string(got)
	}
	const tooMuch = "-1 sampling is refused: it belongs to no call, or there was too much of it"
	f, end := c.beginCall(t.Context(), "x", time.Minute)
	defer end()
	for n := range 23 {
		want := `{"content":{"text":"hi","type":"text"},"model":"m","role":"assistant","stopReason":"endTurn"}`
		switch fault = nil; {
		case n == 7:
			fault, want = errors.New("no budget"), "-1 sampling is refused"
		case n == 8:
			answer.Reason, want = "maxTokens", strings.Replace(want, "endTurn", "maxTokens", 1)
		case n == 9:
			answer.Reason = ""
		case n >= 20:
			want = tooMuch
		}
		if got := sample(f.ctx, ask); got != want {
			t.Errorf("request %d: %s, want %s", n+1, got, want)
		}
	}
	if got := sample(f.ctx, `{"messages":[]}`); got != "-32602 there are no messages" {
		t.Errorf("without messages: %s", got)
	}
	end()
	if got := sample(t.Context(), ask); got != tooMuch {
		t.Errorf("outside of a call: %s", got)
	}
}

// When a server takes its request to a model back, the time of its call goes on, even if the model does not stop.
func TestSample_TakenBack_EndsThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan struct{})
		c := unconnected(t, Options{Sample: func(context.Context, SamplingRequest) (SamplingResult, error) {
			<-answered
			return SamplingResult{}, nil
		}})
		f, end := c.beginCall(t.Context(), "x", time.Minute)
		defer end()
		ctx, takeBack := context.WithCancel(f.ctx)
		ended := make(chan struct{})
		go func() {
			c.sample(ctx, jsonObject(json.RawMessage(`{"messages":[{"role":"user"}]}`)))
			close(ended)
		}()
		if synctest.Wait(); f.paused != 1 {
			t.Errorf("while the model works: paused %d times, want 1", f.paused)
		}
		takeBack()
		if synctest.Wait(); f.paused != 0 {
			t.Errorf("when it was taken back: paused %d times, want 0", f.paused)
		}
		close(answered)
		<-ended
	})
}

// inputRequired is a result that asks for input, with a state that is sent back.
const inputRequired = `{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}},` +
	`"requestState":"s7"}`

// A call is sent again with what the server wants, and not for ever.
func TestSendWithInput(t *testing.T) {
	c := unconnected(t, Options{Roots: []Root{{URI: "file:///srv"}}})
	f, end := c.beginCall(t.Context(), "x", time.Minute)
	defer end()
	first := transport.JSONRPCRequest{ID: sdk.NewRequestId("q"), Params: map[string]any{"name": "x"}}
	ask := func(ctx context.Context, rounds int) (ids, params []string, err error) {
		_, err = c.sendWithInput(ctx, first, func(_ context.Context, r transport.JSONRPCRequest) (
			*transport.JSONRPCResponse, error) {
			ids, params = append(ids, r.ID.String()), append(params, string(encodeJSON(r.Params)))
			if len(ids) > rounds {
				return &transport.JSONRPCResponse{Result: json.RawMessage(`{}`)}, nil
			}
			return &transport.JSONRPCResponse{Result: json.RawMessage(inputRequired)}, nil
		})
		return ids, params, err
	}
	const again = `{"inputResponses":{"r":{"roots":[{"uri":"file:///srv"}]}},"name":"x","requestState":"s7"}`
	ids, params, err := ask(f.ctx, 2)
	if diff := cmp.Diff([]string{`{"name":"x"}`, again, again}, params); err != nil || diff != "" {
		t.Errorf("asked twice: %v, sent (-want +got):\n%s", err, diff)
	}
	if len(ids) != 3 || ids[0] == ids[1] || ids[1] == ids[2] {
		t.Errorf("sent under the ids %q: each request needs its own", ids)
	}
	if ids, _, err := ask(f.ctx, 9); err != nil || len(ids) != 10 {
		t.Errorf("asked 9 times: %v after %d requests", err, len(ids))
	}
	if ids, _, err := ask(f.ctx, 100); err == nil || len(ids) != 10 {
		t.Errorf("asked for ever: %v after %d requests, want 10", err, len(ids))
	}
	if ids, _, err := ask(t.Context(), 100); err != nil || len(ids) != 1 {
		t.Errorf("outside of a call: %v after %d requests, want 1", err, len(ids))
	}
}

func TestCollectInputs(t *testing.T) {
	c := unconnected(t, Options{})
	inputs := func(ctx context.Context, raw string, round int) (string, error) {
		more, err := c.collectInputs(ctx, jsonObject(json.RawMessage(raw)), round)
		return string(encodeJSON(more)), err
	}
	if got, err := inputs(t.Context(), `{"inputRequests":{"p":{"method":"ping"}}}`, 1); err != nil ||
		got != `{"inputResponses":{"p":{}}}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := inputs(t.Context(), `{"inputRequests":{"p":{"method":"roots/list"}}}`, 1); err == nil ||
		err.Error() != "the server asks for something unsupported: this client does not answer roots/list" {
		t.Errorf("an unannounced feature: %v", err)
	}
	synctest.Test(t, func(t *testing.T) { // without questions it asks for time, more in each round
		began := time.Now()
		if got, err := inputs(t.Context(), `{}`, 3); err != nil || got != `{"inputResponses":{}}` ||
			time.Since(began) != 3*time.Second {
			t.Errorf("%s, %v after %v", got, err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := inputs(ctx, `{}`, 3); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("when the call has ended: %v", err)
		}
	})
}

// A call goes on when a person is done at every address; it does not, where one is refused or makes no sense.
func TestAskToOpenURLs(t *testing.T) {
	one := func(id string) string {
		return `{"mode":"url","elicitationId":"` + id + `","url":"https://sign.in/` + id + `"}`
	}
	many := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, one(fmt.Sprint("e", i)))
		}
		return strings.Join(all, ",")
	}
	for _, tt := range []struct {
		what, list string
		decline    string // the id of the declined question
		want       bool
	}{
		{"none", "", "", false},
		{"one", many(1), "", true},
		{"20, as many as anybody is asked", many(20), "", true},
		{"21, more than anybody is asked", many(21), "", false},
		{"without an id", `{"mode":"url","url":"https://sign.in"}`, "", false},
		{"a form", `{"mode":"form","elicitationId":"e"}`, "", false},
		{"no address", `{"mode":"url","elicitationId":"e","url":"file:///x"}`, "", false},
		{"one is declined", many(3), "e1", false},
	} {
		var c *connection
		c = unconnected(t, Options{Ask: func(_ context.Context, q Question) (Answer, error) {
			if q.ID == tt.decline {
				return Answer{Action: Decline}, nil
			}
			c.finishURLElicitation(q.ID) // the server reports the end before the answer
			return Answer{Action: Accept}, nil
		}})
		f, end := c.beginCall(t.Context(), "x", time.Minute)
		e := &sdk.JSONRPCErrorDetails{Data: json.RawMessage(`{"elicitations":[` + tt.list + `]}`)}
		if got := c.askToOpenURLs(f.ctx, e); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, got, tt.want)
		}
		end()
		c.cancel()
		c.work.Wait()
		if len(c.urlElicitations) > 0 {
			t.Errorf("%s: %d addresses are waited for at the end", tt.what, len(c.urlElicitations))
		}
	}
	// The caller may leave while the person is at the address.
	c := unconnected(t, Options{Ask: accepting})
	ctx, cancel := context.WithCancel(t.Context())
	f, end := c.beginCall(ctx, "x", time.Minute)
	defer end()
	time.AfterFunc(time.Millisecond, cancel)
	if c.askToOpenURLs(f.ctx, &sdk.JSONRPCErrorDetails{Data: json.RawMessage(`{"elicitations":[` + many(1) + `]}`)}) {
		t.Error("the call goes on, although its caller has left")
	}
	c.work.Wait()
}

// A person who goes to an address has time for itwhile the call goes on.
func TestElicit_AddressAccepted_ExtendsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := unconnected(t, Options{Ask: accepting})
		f, end := c.beginCall(t.Context(), "x", time.Minute)
		defer end()
		if got, refused := c.elicit(f.ctx, jsonObject(json.RawMessage(visit))); refused != nil ||
			string(got) != `{"action":"accept"}` {
			t.Errorf("%s, %v", got, refused)
		}
		began := time.Now()
		<-f.ctx.Done()
		if took := time.Since(began); took != 16*time.Minute {
			t.Errorf("the call ended after %v", took)
		}
	})
}

// Background work is bounded, and none begins on a connection that ends.
func TestRunInBackground(t *testing.T) {
	c := unconnected(t, Options{})
	proceed := make(chan struct{})
	for n := range 16 {
		if !c.runInBackground(func(context.Context) { <-proceed }) {
			t.Errorf("work %d was refused", n+1)
		}
	}
	if c.runInBackground(func(context.Context) {}) {
		t.Error("the 17th work has begun")
	}
	close(proceed)
	c.work.Wait()
	ran := make(chan struct{})
	if !c.runInBackground(func(context.Context) { close(ran) }) {
		t.Error("after the others no work begins")
	}
	c.work.Wait()
	if !isClosed(ran) {
		t.Error("the work was not done")
	}
	c.cancel()
	if c.runInBackground(func(context.Context) {}) {
		t.Error("work has begun on a connection that ends")
	}
}

// Log lines of a server name its level and its part.
func TestHandleLog(t *testing.T) {
	c := unconnected(t, Options{})
	c.handleLog(map[string]any{"level": "info", "data": "plain"})
	c.handleLog(map[string]any{"level": "error", "logger": "db", "data": []any{1.5}})
	var got []string
	for _, l := range c.s.logs.lines(text.OneLine) {
		got = append(got, l.Stream+" "+l.Text)
	}
	if diff := cmp.Diff([]string{"message info: plain", "message error db: [1.5]"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
