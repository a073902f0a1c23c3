package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/turn/schema"
)

// as is a context of a call in somebody's name.
func as(t *testing.T, user string) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	t.Cleanup(cancel)
	return tool.WithCaller(ctx, tool.Caller{User: chat.User{ID: user}})
}

func callAs(t *testing.T, user string, tl tool.Tool, args string) tool.Result {
	t.Helper()
	res, err := tl.Call(as(t, user), json.RawMessage(args))
	if err != nil {
		t.Errorf("call %s: %v", tl.Spec().Name, err)
	}
	return res
}

// asking is the argument by which a fake asks the client something.
func asking(id, method, params string) string {
	return fmt.Sprintf(`{"id":%q,"method":%q,"params":%s}`, id, method, params)
}

const (
	elicitation = "elicitation/create"
	form        = `{"message":"How many?\u202e","requestedSchema":{"type":"object","properties":{"n":{"type":"integer",` +
		`"default":3},"why":{"type":"string","default":"because"}},"required":["n"]}}`
	visit = `{"mode":"url","elicitationId":"e1","message":"Sign in","url":"https://sign.in/x?y=z"}`
)

func TestQuestionsOfServers(t *testing.T) {
	tests := []struct {
		name, method, params string
		answer               Answer
		err                  error
		want                 string
	}{
		{"form", elicitation, form, Answer{Action: Accept, Content: json.RawMessage(`{"n":5,"why":"so"}`)}, nil, `{"action":"accept","content":{"n":5,"why":"so"}}`},
		{"mended", elicitation, form, Answer{Action: Accept, Content: json.RawMessage(`{"n":"5","why":"so"}`)}, nil, `{"action":"accept","content":{"n":5,"why":"so"}}`},
		{"defaults for missing fields", elicitation, form, Answer{Action: Accept}, nil, `{"action":"accept","content":{"n":3,"why":"because"}}`},
		{"an answer that does not fit", elicitation, form, Answer{Action: Accept, Content: json.RawMessage(`{"n":"many"}`)}, nil, `{"action":"cancel"}`},
		{"no", elicitation, form, Answer{Action: Decline, Content: json.RawMessage(`{"n":1}`)}, nil, `{"action":"decline"}`},
		{"nobody answers", elicitation, form, Answer{}, errors.New("not there"), `{"action":"cancel"}`},
		{"url", elicitation, visit, Answer{Action: Accept}, nil, `{"action":"accept"}`},
		{"no form", elicitation, `{"message":"x"}`, Answer{}, nil, `{"code":-32602,"message":"requestedSchema must be an object of modest size"}`},
		{"no address", elicitation, `{"mode":"url","elicitationId":"x","url":"javascript:alert(1)"}`, Answer{}, nil, `{"code":-32602,"message":"url must be a web address"}`},
		{"roots", "roots/list", `{}`, Answer{}, nil, `{"roots":[{"uri":"file:///srv","name":"srv"}]}`},
		{"sampling", "sampling/createMessage", `{"messages":[{"role":"user","content":{"type":"text","text":"hello"}}],` +
			`"maxTokens":7}`, Answer{}, nil,
			`{"content":{"text":"you said hello","type":"text"},"model":"m","role":"assistant","stopReason":"endTurn"}`},
		{"unknown", "tasks/list", `{}`, Answer{}, nil, `{"code":-32601,"message":"this client does not answer tasks/list"}`},
	}
	var now struct {
		answer Answer
		err    error
	}
	asked := make(chan Question, len(tests))
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain")}, Roots: []Root{{URI: "file:///srv", Name: "srv"}},
		Schemas: schema.New(),
		Ask: func(ctx context.Context, q Question) (Answer, error) {
			if who := tool.CallerFrom(ctx).User.ID; who != "ann" {
				t.Errorf("the question is for %q", who)
			}
			asked <- q
			return now.answer, now.err
		},
		Sample: func(ctx context.Context, s SamplingRequest) (SamplingResult, error) {
			if s.MaxTokens != 7 || s.Tool != "ask" || tool.CallerFrom(ctx).User.ID != "ann" {
				t.Errorf("sampling of %+v", s)
			}
			return SamplingResult{Text: "you said " + s.Messages[0].Text, Model: "m"}, nil
		}})
	settled(t, h, "a")
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now.answer, now.err = tt.answer, tt.err
			wantText(t, callAs(t, "ann", find1(t, h, "a", "ask"), asking(fmt.Sprint("q", i), tt.method, tt.params)), tt.want)
		})
	}
	q := <-asked
	if q.Message != "How many?" || q.Server != "a" || q.Tool != "ask" || q.ID == "" || q.URL != "" ||
		!json.Valid(q.Schema) {
		t.Errorf("question %+v", q)
	}
}

// If the person behind a request is not clear, nobody is asked.
func TestAQuestionThatIsNobodys(t *testing.T) {
	var asked []string
	answers := make(chan struct{})
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain"), fakeServer("nobody asks", "plain")},
		Ask: func(ctx context.Context, q Question) (Answer, error) {
			asked = append(asked, tool.CallerFrom(ctx).User.ID)
			<-answers
			return Answer{Action: Accept}, nil
		}})
	settled(t, h, "a")
	var wg sync.WaitGroup
	// Ann's call waits for her answer, while another asks.
	wg.Go(func() {
		wantText(t, callAs(t, "ann", find1(t, h, "a", "ask"), asking("q1", elicitation, form)),
			`{"action":"accept","content":{"n":3,"why":"because"}}`)
	})
	untilFlying(t, h, "a", 1)
	wantText(t, callAs(t, "bob", find1(t, h, "a", "ask"), asking("q2", elicitation, form)), `{"action":"decline"}`)
	close(answers)
	wg.Wait()
	if diff := cmp.Diff([]string{"ann"}, asked); diff != "" {
		t.Errorf("asked were (-want +got):\n%s", diff)
	}
}

// untilFlying waits until so many calls to a server wait for a person.
func untilFlying(t *testing.T, h *Host, name string, n int) {
	t.Helper()
	s := must(h.server(name))
	deadline := time.After(soon)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		s.mu.Lock()
		conn := s.conn
		s.mu.Unlock()
		conn.mu.Lock()
		waiting := 0
		for _, f := range conn.calls {
			f.mu.Lock()
			waiting += min(f.paused, 1)
			f.mu.Unlock()
		}
		conn.mu.Unlock()
		if waiting == n {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d calls wait for a person, want %d", waiting, n)
		}
	}
}

func TestNobodyCanBeAsked(t *testing.T) {
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain")}})
	settled(t, h, "a")
	ask := find1(t, h, "a", "ask")
	wantText(t, callAs(t, "ann", ask, asking("q1", elicitation, form)), `{"action":"decline"}`)
	wantText(t, callAs(t, "ann", ask, asking("q2", "roots/list", `{}`)),
		`{"code":-32601,"message":"this client does not answer roots/list"}`)
	wantText(t, callAs(t, "ann", ask, asking("q3", "sampling/createMessage", `{}`)),
		`{"code":-32601,"message":"this client does not answer sampling/createMessage"}`)
}

func TestAServerTakesItsQuestionBack(t *testing.T) {
	asked, ended := make(chan struct{}), make(chan error, 1)
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain")},
		Ask: func(ctx context.Context, q Question) (Answer, error) {
			close(asked)
			<-ctx.Done()
			ended <- ctx.Err()
			return Answer{}, ctx.Err()
		}})
	settled(t, h, "a")
	ctx, leave := context.WithCancel(as(t, "ann"))
	left := make(chan error)
	go func() {
		_, err := find1(t, h, "a", "ask").Call(ctx, json.RawMessage(asking("q1", elicitation, form)))
		left <- err
	}()
	<-asked
	wantText(t, callAs(t, "ann", find1(t, h, "a", "take_back"), `{"id":"q1"}`), "taken back")
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the question ended with %v", err)
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	lines(t, h, "a", "stderr: cancelled ") // and the server got a cancel notification
}

func TestAddressesToVisitFirst(t *testing.T) {
	asked := make(chan Question, 2)
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain"), fakeServer("no", "plain")},
		Ask: func(_ context.Context, q Question) (Answer, error) {
			asked <- q
			if q.Server == "no" {
				return Answer{Action: Decline}, nil
			}
			return Answer{Action: Accept}, nil
		}})
	settled(t, h, "a")
	settled(t, h, "no")
	wantFailure(t, callAs(t, "ann", find1(t, h, "no", "visit"), `{}`), "URL elicitation required")
	<-asked
	no := h.servers["no"]
	no.mu.Lock()
	conn := no.conn
	no.mu.Unlock()
	conn.mu.Lock()
	if n := len(conn.urlElicitations); n != 0 {
		t.Errorf("%d addresses that were declined are still awaited", n)
	}
	conn.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { wantText(t, callAs(t, "ann", find1(t, h, "a", "visit"), `{}`), "visited") })
	if q := <-asked; q.ID != "v1" || q.URL != "https://sign.in/x" || q.Schema != nil {
		t.Errorf("question %+v", q)
	}
	wantText(t, callAs(t, "ann", find1(t, h, "a", "notify"),
		`{"method":"notifications/elicitation/complete","params":{"elicitationId":"v1"}}`), "notified")
	wg.Wait()
}

// Servers of the newest protocol ask in their answer, and are called again.
func TestInputThatACallNeeds(t *testing.T) {
	waitBesideOthers(t)
	h := running(t, Options{Servers: []Config{fakeServer("a", "modern")}, Roots: []Root{{URI: "file:///srv"}},
		Ask: func(ctx context.Context, q Question) (Answer, error) {
			return Answer{Action: Accept, Content: json.RawMessage(`{"n":4,"why":"` + tool.CallerFrom(ctx).User.ID + `"}`)}, nil
		}})
	if st := settled(t, h, "a"); st.Protocol != "2026-07-28" {
		t.Fatalf("%+v", st)
	}
	input := find1(t, h, "a", "input")
	wantText(t, callAs(t, "ann", input, `{"state":"s1","requests":{"one":{"method":"elicitation/create","params":`+form+
		`},"two":{"method":"roots/list"}}}`),
		`{"one":{"action":"accept","content":{"n":4,"why":"ann"}},"two":{"roots":[{"uri":"file:///srv"}]}}s1`)
	wantText(t, callAs(t, "ann", input, `{"requests":{}}`), `{}`) // asked to come back later
	wantFailure(t, callAs(t, "ann", input, `{"requests":{"x":{"method":"sampling/createMessage","params":{}}}}`),
		"the server asks for something unsupported: this client does not answer sampling/createMessage")
}

// streaming is a Streamable HTTP server of the older kind whose call asks on its own
// stream, and answers with the response.
type streaming struct {
	mu        sync.Mutex
	waits     map[string]chan string // answers, by the id of the question
	cancelled chan string
}

func (s *streaming) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	o := jsonObject(body)
	switch {
	case jsonString(o["method"]) == "notifications/cancelled":
		s.cancelled <- string(jsonObject(o["params"])["requestId"])
		w.WriteHeader(http.StatusAccepted)
	case jsonString(o["method"]) == "" && r.Method == http.MethodPost:
		s.mu.Lock()
		answer := s.waits[jsonString(o["id"])]
		s.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
		if r.Header.Get("Mcp-Session-Id") == "s1" && r.Header.Get("Mcp-Protocol-Version") == "2025-06-18" {
			answer <- string(o["result"])
		}
	case jsonString(o["method"]) == "tools/call":
		s.call(w, r, o)
	default:
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		scripted(nil).ServeHTTP(w, r)
	}
}

func (s *streaming) call(w http.ResponseWriter, r *http.Request, o map[string]json.RawMessage) {
	id := "ask " + string(o["id"])
	answer := make(chan string, 1)
	s.mu.Lock()
	s.waits[id] = answer
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%q,\"method\":\"elicitation/create\",\"params\":%s}\n\n", id, form)
	w.(http.Flusher).Flush()
	select {
	case said := <-answer:
		quoted, _ := json.Marshal(said)
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":%s}]}}\n\n",
			o["id"], quoted)
	case <-r.Context().Done():
	}
}

// The stream on which a question comes tells whose it is, however many there are.
func TestQuestionsOnStreams(t *testing.T) {
	s := &streaming{waits: map[string]chan string{}, cancelled: make(chan string, 1)}
	var all sync.WaitGroup
	all.Add(2)
	ended := make(chan struct{})
	h := running(t, Options{Servers: []Config{{Name: "a", URL: serve(t, s).URL}},
		Ask: func(ctx context.Context, q Question) (Answer, error) {
			who := tool.CallerFrom(ctx).User.ID
			if who == "eve" {
				<-ctx.Done()
				<-ended // an answer before that might still end the call with a result
				return Answer{}, ctx.Err()
			}
			all.Done()
			all.Wait() // both are asked at the same time
			return Answer{Action: Accept, Content: json.RawMessage(`{"n":1,"why":"` + who + `"}`)}, nil
		}})
	settled(t, h, "a")
	do := find1(t, h, "a", "do")
	var wg sync.WaitGroup
	for _, who := range []string{"ann", "bob"} {
		wg.Go(func() { wantText(t, callAs(t, who, do, `{}`), `{"action":"accept","content":{"n":1,"why":"`+who+`"}}`) })
	}
	wg.Wait()
	ctx, leave := context.WithCancel(as(t, "eve"))
	left := make(chan error)
	go func() {
		_, err := do.Call(ctx, nil)
		left <- err
	}()
	untilFlying(t, h, "a", 1)
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	close(ended)
	select {
	case <-s.cancelled:
	case <-time.After(soon):
		t.Error("the server was not told that nobody waits")
	}
}

// The library has no way for servers to ask over the older HTTP transport.
func TestQuestionsOverSSE(t *testing.T) {
	e := &asker{}
	e.events.do = func(e *events, id string) {
		e.say(`{"jsonrpc":"2.0","id":"q` + id + `","method":"elicitation/create","params":` + form + `}`)
	}
	h := running(t, Options{Servers: []Config{{
		Name:      "a",
		URL:       serve(t, e).URL,
		Transport: SSE,
	}}, Ask: func(ctx context.Context, q Question) (Answer, error) {
		return Answer{Action: Accept, Content: json.RawMessage(`{"n":1,"why":"` + tool.CallerFrom(ctx).User.ID + `"}`)}, nil
	}})
	settled(t, h, "a")
	wantText(t, callAs(t, "ann", find1(t, h, "a", "do"), `{}`), `{"action":"accept","content":{"n":1,"why":"ann"}}`)
}

// asker is a server of the older HTTP kind that answers its call with the answer to
// its own question.
type asker struct{ events }

func (a *asker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if id, ok := strings.CutPrefix(jsonString(jsonObject(body)["id"]), "q"); ok {
		w.WriteHeader(http.StatusAccepted)
		quoted, _ := json.Marshal(string(jsonObject(body)["result"]))
		a.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, id, quoted))
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	a.events.ServeHTTP(w, r)
}

func TestProgressIsReported(t *testing.T) {
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain")}})
	settled(t, h, "a")
	lines(t, h, "a", "stderr: level info") // the server was asked for its log
	notes := make(chan string, 4)
	ctx := tool.WithCaller(t.Context(), tool.Caller{Report: func(note string) { notes <- note }})
	res, err := find1(t, h, "a", "progress").Call(ctx, nil)
	if err != nil || res.Text != "done" {
		t.Errorf("%+v, %v", res, err)
	}
	if note := <-notes; note != "3 of 10: copying" {
		t.Errorf("note %q", note)
	}
	call(t, find1(t, h, "a", "notify"), `{"method":"notifications/message","params":{"level":"error","logger":"db",`+
		`"data":{"at":[1]}}}`)
	lines(t, h, "a", `message: error db: {"at":[1]}`)
}

func TestProgressNote(t *testing.T) {
	for want, fields := range map[string]map[string]any{
		"3 of 10: copying": {"progress": 3.0, "total": 10.0, "message": "copying"},
		"0.5 of 1":         {"progress": 0.5, "total": 1.0},
		"12: pages":        {"progress": 12.0, "message": "pages"},
		"7":                {"progress": 7.0, "total": 0.0},
		"well on":          {"progress": "x", "message": "well\x1b on"},
		"":                 {},
	} {
		if got := progressNote(fields); got != want {
			t.Errorf("progressNote(%v) = %q, want %q", fields, got, want)
		}
	}
}

// The time of a call excludes questions to people;
// progress gives it more, within limits.
func TestTheTimeOfACall(t *testing.T) {
	tests := []struct {
		name string
		do   func(f *pendingCall)
		want time.Duration
	}{
		{"nothing happens", func(*pendingCall) {}, 30 * time.Second},
		{"a person is asked", func(f *pendingCall) {
			time.Sleep(10 * time.Second)
			f.pause()
			time.Sleep(14 * time.Minute)
			f.resume()
		}, 14*time.Minute + 30*time.Second},
		{"two are asked", func(f *pendingCall) {
			f.pause()
			time.Sleep(time.Minute)
			f.pause()
			f.resume()
			time.Sleep(time.Minute)
			f.resume()
		}, 2*time.Minute + 30*time.Second},
		{"progress once", func(f *pendingCall) {
			time.Sleep(20 * time.Second)
			f.recordProgress("x")
		}, 50 * time.Second},
		{"progress for ever", func(f *pendingCall) {
			for {
				select {
				case <-time.After(time.Second):
					f.recordProgress("x")
				case <-f.ctx.Done():
					return
				}
			}
		}, 300 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := must(must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}}})).server("a")).newConnection(nil)
				notes := 0
				began := time.Now()
				f, end := c.beginCall(tool.WithCaller(t.Context(), tool.Caller{Report: func(string) {
					notes++
				}}), "x", 30*time.Second)
				tt.do(f)
				<-f.ctx.Done()
				var late callTimeoutError
				if took := time.Since(began); took != tt.want || !errors.As(context.Cause(f.ctx), &late) {
					t.Errorf("the call ended after %v with %v, want %v", took, context.Cause(f.ctx), tt.want)
				}
				if most := int(tt.want/minReportInterval) + 1; notes > most {
					t.Errorf("%d notes, at most %d are shown", notes, most)
				}
				end()
				c.cancel()
			})
		})
	}
}

func TestResultsAreHeldAgainstTheirSchema(t *testing.T) {
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain")}, Schemas: schema.New()})
	settled(t, h, "a")
	for result, want := range map[string]string{
		`{"content":[{"type":"text","text":"five"}],"structuredContent":{"n":5}}`: "five\n{\"n\":5}",
		`{"content":[{"type":"text","text":"five"}],"structuredContent":{"n":"5"}}`: "five\n{\"n\":\"5\"}\n[The " +
			"structured result does not match the output schema of the tool: n: must be integer, not string]",
		`{"content":[{"type":"text","text":"five"}]}`: "five\n[The tool returned no structured result, although it " +
			"declares an output schema.]",
	} {
		wantText(t, call(t, find1(t, h, "a", "return"), `{"result":`+result+`}`), want)
	}
	wantFailure(t, call(t, find1(t, h, "a", "return"),
		`{"result":{"content":[{"type":"text","text":"no"}],"isError":true}}`), "no")
}

// FuzzFulfil feeds what servers may ask for; whatever it is, the answer is JSON or a
// refusal.
func FuzzFulfil(f *testing.F) {
	f.Add("elicitation/create", []byte(form))
	f.Add("elicitation/create", []byte(visit))
	f.Add("sampling/createMessage", []byte(`{"messages":[{"role":5,"content":[{"type":"image","data":"AA=="},`+
		`{"type":"text","text":"x"}]}],"temperature":"hot","stopSequences":[1],"modelPreferences":{"hints":[{"name":"m"}]}}`))
	f.Add("roots/list", []byte(`null`))
	h := must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}}, Roots: []Root{}, Schemas: schema.New(),
		Ask:    func(context.Context, Question) (Answer, error) { return Answer{Action: Accept}, nil },
		Sample: func(context.Context, SamplingRequest) (SamplingResult, error) { return SamplingResult{Text: "x"}, nil }}))
	c := must(h.server("a")).newConnection(nil)
	f.Fuzz(func(t *testing.T, method string, params []byte) {
		call, end := c.beginCall(t.Context(), "x", time.Minute)
		defer end()
		result, refused := c.handleRequest(call.ctx, method, params)
		if refused == nil && !json.Valid(result) || refused != nil && refused.message == "" {
			t.Errorf("%s %s: %s, %v", method, params, result, refused)
		}
		fields := map[string]any{}
		if json.Unmarshal(params, &fields) == nil && fields != nil {
			fields["progressToken"] = call.token
			c.handleProgress(fields)
			c.cancelRequest(fields)
			c.handleLog(fields)
		}
	})
}
