package mcpserve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/mcp/mcpserve"
	"ravenbot/internal/recall/toolsearch"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/policy"
)

// shelf keeps items.
type shelf struct {
	mu    sync.Mutex
	items map[string]json.RawMessage
}

func (s *shelf) SaveItem(_ context.Context, kind, name string, item json.RawMessage, _ bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[kind+"/"+name] = item
	return nil
}

func (s *shelf) SwapItem(
	ctx context.Context,
	kind, name string,
	was, now json.RawMessage,
	_ []store.Post,
) (bool, error) {
	items, err := s.Items(ctx, kind)
	if err != nil || !bytes.Equal(items[name], was) {
		return false, err
	}
	return true, s.SaveItem(ctx, kind, name, now, true)
}

func (s *shelf) Items(_ context.Context, kind string) (map[string]json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]json.RawMessage{}
	for k, v := range s.items {
		if name, ok := strings.CutPrefix(k, kind+"/"); ok {
			found[name] = v
		}
	}
	return found, nil
}

func (s *shelf) DeleteItem(_ context.Context, kind, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.items, kind+"/"+name)
	return nil
}

func (*shelf) Item(context.Context, string, string) (json.RawMessage, error) {
	return nil, errors.ErrUnsupported
}

func load(t *testing.T, s *shelf, now func() time.Time) *mcpserve.Tokens {
	t.Helper()
	tokens, err := mcpserve.LoadTokens(t.Context(), s, now)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func TestATokenLivesUntilItIsRevokedReplacedOrOver(t *testing.T) {
	ctx, now, s := t.Context(), time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC), &shelf{items: map[string]json.RawMessage{}}
	clock := func() time.Time { return now }
	tokens := load(t, s, clock)
	valid := func(secret string, want bool) {
		t.Helper()
		for _, tokens := range []*mcpserve.Tokens{tokens, load(t, s, clock)} { // as after a restart, too
			if _, ok := tokens.Check(ctx, secret); ok != want {
				t.Errorf("the token counts: %t, want %t", ok, want)
			}
		}
	}
	made := func(owner, name string, life time.Duration, overwrite bool) string {
		t.Helper()
		_, secret, err := tokens.Create(ctx, owner, name, nil, life, overwrite)
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	first := made("admin", "laptop", 0, false)
	valid(first, true)
	valid(first+"x", false)
	valid("", false)
	if _, _, err := tokens.Create(ctx, "admin", "laptop", nil, 0, false); !errors.Is(err, mcpserve.ErrTokenExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	other := made("bert", "laptop", 0, false) // names are an owner's
	second := made("admin", "laptop", 0, true)
	valid(first, false)
	valid(second, true)
	valid(other, true)
	for name, raw := range s.items {
		if bytes.Contains(raw, []byte(second)) {
			t.Errorf("%s holds the token itself", name)
		}
	}
	short := made("admin", "short", time.Hour, false)
	valid(short, true)
	now = now.Add(time.Hour)
	valid(short, false)
	made("admin", "short", 0, false) // free again
	if err := tokens.Revoke(ctx, "admin", "laptop"); err != nil {
		t.Error(err)
	}
	valid(second, false)
	if err := tokens.Revoke(ctx, "admin", "laptop"); !errors.Is(err, mcpserve.ErrNoToken) {
		t.Errorf("revoked twice: %v", err)
	}
	made("admin", "laptop", 0, false)
	if n, err := tokens.RevokeAll(ctx, "admin"); n != 2 || err != nil || len(tokens.List("admin")) != 0 {
		t.Errorf("revoked %d (%v), left %v", n, err, tokens.List("admin"))
	}
	valid(other, true)
	for _, name := range []string{"", " x", "a/b", strings.Repeat("x", 65), "a\nb", ".", "..", "-x"} {
		if _, _, err := tokens.Create(ctx, "admin", name, nil, 0, false); !errors.Is(err, mcpserve.ErrTokenName) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
	if _, _, err := tokens.Create(ctx, "admin", "x", []string{}, 0, false); !errors.Is(err, mcpserve.ErrTokenTools) {
		t.Errorf("no tools: %v", err)
	}
}

func TestOfManyWhoReplaceATokenOneHasIt(t *testing.T) {
	s := &shelf{items: map[string]json.RawMessage{}}
	tokens := load(t, s, time.Now)
	secrets := make([]string, 20)
	var wg sync.WaitGroup
	for i := range secrets {
		wg.Go(func() { _, secrets[i], _ = tokens.Create(context.Background(), "admin", "x", nil, 0, true) })
	}
	wg.Wait()
	live := 0
	for _, secret := range secrets {
		if _, ok := tokens.Check(t.Context(), secret); ok {
			live++
		}
	}
	if live != 1 || len(tokens.List("admin")) != 1 {
		t.Errorf("%d tokens live", live)
	}
}

// host is the endpoint with a few tools and one token.
type host struct {
	t       *testing.T
	server  *httptest.Server
	token   string
	streams *mcpserve.Server
	hold    chan struct{} // calls end when it is closed, if there is one
	result  tool.Result
	// progress is what every call reports.
	progress []string
	resultID string // of what was cut
	ran      []tool.Intent
	kept     []store.ToolCall
}

// Call records what it is asked, and waits while the host holds.
func (h *host) Call(ctx context.Context, in tool.Intent, _ int) (tool.Outcome, store.ToolCall) {
	h.ran = append(h.ran, in)
	for _, note := range h.progress {
		if in.Caller.Report != nil {
			in.Caller.Report(note)
		}
	}
	if h.hold != nil {
		select {
		case <-h.hold:
		case <-ctx.Done():
		}
	}
	out := tool.Outcome{Shown: "ran " + in.Tool.Name + string(in.Args)}
	out.Result = h.result
	if spec := in.Tool.Tool.Spec(); spec.Server == "discovery" {
		r, _ := in.Tool.Tool.Call(ctx, in.Args)
		out = tool.Outcome{Result: r, Shown: r.Text}
	}
	return out, store.ToolCall{Tool: in.Tool.Name, ResultID: h.resultID}
}

// away are servers of which one is not there.
type away struct{}

func (away) Lease() func() { return func() {} }

func (away) WhyMissing(name string) (server, why string) {
	if strings.HasPrefix(name, "printer_") {
		return "printer", "The printer is out of paper."
	}
	return "", ""
}

func (h *host) SaveCalls(_ context.Context, calls []store.ToolCall) error {
	h.kept = append(h.kept, calls...)
	return nil
}

func newHost(t *testing.T, patterns ...string) *host {
	t.Helper()
	h := &host{t: t}
	yes := true
	named := func(server, name string, native bool) tool.Named {
		return tool.Named{Name: server + "_" + name, Tool: tool.Func{Described: tool.Spec{Server: server,
			Name: name, Native: native,
			Description: "Does " + name + ".", Schema: json.RawMessage(`{"type":"object","properties":{"x":{"type":"integer"}}}`), Hints: tool.Hints{ReadOnly: &yes}}}}
	}
	all := []tool.Named{named("feeds", "fetch", true), named("web", "fetch", true), named("office", "book_room", false),
		named("office", "bake_cake", false)}
	s := mcpserve.New(mcpserve.Options{Tools: func() []tool.Named {
		return all
	}, Matches: policy.MatchesAny, Shown: func() int { return 5000 }, Version: "1",
		Discovery: toolsearch.NewFinder(toolsearch.New(), func(string) string {
			return ""
		}), Log: slog.New(slog.DiscardHandler),
		Calls: h, Servers: away{}})
	h.streams = s
	tokens := load(t, &shelf{items: map[string]json.RawMessage{}}, time.Now)
	_, secret, err := tokens.Create(t.Context(), "admin", "laptop", patterns, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	h.token = secret
	h.server = httptest.NewServer(s.Handler(tokens, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(h.server.Close)
	return h
}

// send makes one request with a body and returns the status and the answer.
func (h *host) send(token, body string) (int, string) {
	h.t.Helper()
	answer := ""
	status := h.readBody(token, body, func(line string) { answer += line })
	return status, answer
}

// ask makes one request with a token and gives the answer.
func (h *host) ask(token, method, params string) (int, string) {
	h.t.Helper()
	answer := ""
	status := h.read(token, method, params, func(line string) { answer += line })
	return status, answer
}

// read makes one request with a token and hands over each line of the answer as it comes.
func (h *host) read(token, method, params string, line func(string)) int {
	h.t.Helper()
	return h.readBody(token, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, line)
}

// readBody makes one request with a token and a body, and hands over each line of the answer as it comes.
func (h *host) readBody(token, body string, line func(string)) int {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.server.URL, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	for r := bufio.NewReader(res.Body); ; {
		text, err := r.ReadString('\n')
		if line(text); err == io.EOF {
			return res.StatusCode
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
}

// A batch is answered with how to send its messages; a single message may stand behind white space.
func TestHandler_Batch(t *testing.T) {
	h := newHost(t, "*")
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, batch := range []string{"[" + ping + "," + ping + "]", " \n[]", "[broken"} {
		status, answer := h.send(h.token, batch)
		want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this server takes one message a request: ` +
			`send the messages of the batch one by one"}}` + "\n"
		if status != http.StatusBadRequest || answer != want {
			t.Errorf("%s: %d %s", batch, status, answer)
		}
	}
	if status, answer := h.send(h.token, "\r\n "+ping); status != http.StatusOK || !strings.Contains(answer, `"result":{}`) {
		t.Errorf("a single message: %d %s", status, answer)
	}
	if status, _ := h.send("wrong", "["+ping+"]"); status != http.StatusUnauthorized {
		t.Errorf("without a token: status %d", status)
	}
}

func TestATokenSeesAndRunsWhatItWasMadeFor(t *testing.T) {
	h := newHost(t, "feeds.*", "office_book_room")
	if status, _ := h.ask("wrong", "tools/list", "{}"); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: status %d", status)
	}
	_, list := h.ask(h.token, "tools/list", "{}")
	for name, want := range map[string]bool{"discover_tools": true, "execute_tool": true, "feeds_fetch": true,
		"web_fetch": false, "office_book_room": false} {
		if got := strings.Contains(list, `"name":"`+name+`"`); got != want {
			t.Errorf("%s is listed: %t in %s", name, got, list)
		}
	}
	for params, want := range map[string]string{
		`{"name":"feeds_fetch","arguments":{"x":1}}`:                                                      `ran feeds_fetch{\"x\":1}`,
		`{"name":"execute_tool","arguments":{"name":"office_book_room","arguments":{"x":2}}}`:             `ran office_book_room{\"x\":2}`,
		`{"name":"execute_tool","arguments":{"name":"office_bake_cake","arguments":{}}}`:                  "There is no tool office_bake_cake that this token may use",
		`{"name":"execute_tool","arguments":{"name":"web_fetch","arguments":{}}}`:                         "There is no tool web_fetch",
		`{"name":"web_fetch","arguments":{}}`:                                                             "web_fetch",
		`{"name":"office_book_room","arguments":{"x":3}}`:                                                 `ran office_book_room{\"x\":3}`,
		`{"name":"office_bake_cake","arguments":{}}`:                                                      "There is no tool office_bake_cake",
		`{"name":"execute_tool","arguments":{"name":"printer_print","arguments":{}}}`:                     "There is no tool printer_print",
		`{"name":"discover_tools","arguments":{"query":"book a room for baking a cake from the office"}}`: "office_book_room",
	} {
		_, got := h.ask(h.token, "tools/call", params)
		if !strings.Contains(got, want) || strings.Contains(params, "discover") && strings.Contains(got, "bake_cake") {
			t.Errorf("%s gave %s, want %q", params, got, want)
		}
	}
	if slices.ContainsFunc(h.ran, func(in tool.Intent) bool {
		return in.Tool.Name == "web_fetch" || in.Tool.Name == "office_bake_cake"
	}) || len(h.kept) != len(h.ran) {
		t.Errorf("ran %d calls and recorded %d", len(h.ran), len(h.kept))
	}
	want := tool.Caller{Conversation: chat.Address{Platform: "mcp", Workspace: "admin", Channel: "laptop"},
		User: chat.User{ID: "admin/laptop", Name: "laptop"}}
	if got := h.ran[0].Caller; got.Conversation != want.Conversation || got.User.ID != want.User.ID ||
		got.User.Name != want.User.Name {
		t.Errorf("called by %+v", got)
	}
}

// ending tells when its end is read.
type ending struct {
	io.Reader
	ended func()
}

func (e ending) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err == io.EOF {
		e.ended()
	}
	return n, err
}

// A shell that pipes requests in ends its output before they are answered.
func TestRequestsAreAnsweredThoughTheInputEnds(t *testing.T) {
	h := newHost(t)
	h.hold = make(chan struct{})
	in := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":"two","method":"tools/call","params":{"name":"feeds_fetch","arguments":{"x":1}}}` // without a line's end
	var out bytes.Buffer
	err := h.streams.Serve(t.Context(), ending{strings.NewReader(in), sync.OnceFunc(func() {
		close(h.hold)
	})}, &out, "operator")
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"id":"two"`) || !strings.Contains(out.String(), `ran feeds_fetch`) {
		t.Errorf("the answers were %s", out.String())
	}
}

// What is cancelled is never answered, and keeps nobody waiting.
func TestACancelledRequestDoesNotHoldTheEnd(t *testing.T) {
	h := newHost(t)
	h.hold = make(chan struct{})
	defer close(h.hold)
	in := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"feeds_fetch","arguments":{}}}
{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
`
	began := time.Now()
	var out bytes.Buffer
	_ = h.streams.Serve(t.Context(), strings.NewReader(in),
		&out, "operator") // how the end of the input is told is the library's
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it ended after %v", took)
	}
}

func TestCall_ServerIsAway_SaysWhy(t *testing.T) {
	for pattern, want := range map[string]string{"printer_*": "The printer is out of paper.",
		"feeds.*": "There is no tool printer_print"} {
		h := newHost(t, pattern)
		_, got := h.ask(h.token, "tools/call", `{"name":"execute_tool","arguments":{"name":"printer_print","arguments":{}}}`)
		if !strings.Contains(got, want) {
			t.Errorf("a token for %s got %s, want %q", pattern, got, want)
		}
	}
}

func TestCall_StructuredResult_IsHandedOn(t *testing.T) {
	for name, c := range map[string]struct{ data, resultID, want string }{
		"an object":              {`{"n":12345678901234567890,"nodes":[{"name":"a\u200bb"}]}`, "", `"structuredContent":{"n":12345678901234567890,"nodes":[{"name":"ab"}]}`},
		"an object that is cut":  {`{"nodes":[]}`, "r1", ""},
		"a list, which MCP bars": {`[1]`, "", ""},
		"nothing":                {``, "", ""},
	} {
		h := newHost(t, "office_*")
		h.result.Structured, h.resultID = json.RawMessage(c.data), c.resultID
		_, got := h.ask(h.token, "tools/call", `{"name":"execute_tool","arguments":{"name":"office_book_room",`+
			`"arguments":{}}}`)
		if c.want == "" && strings.Contains(got, "structuredContent") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %q", name, got, c.want)
		}
	}
}

// Hosts that ask for progress are told of it while the call runs, others get the result alone.
func TestCall_Progress_IsTold(t *testing.T) {
	h := newHost(t, "office_*")
	h.progress = []string{"waits for an approval", "", "half done"}
	const call = `{"name":"execute_tool","arguments":{"name":"office_book_room","arguments":{}}`
	if _, got := h.ask(h.token, "tools/call", call+"}"); strings.Contains(got, "progress") {
		t.Errorf("progress that nobody asked for: %s", got)
	}
	// The call ends when its progress was read: what is told right before its end the library may drop.
	h.hold = make(chan struct{})
	got := ""
	h.read(h.token, "tools/call", call+`,"_meta":{"progressToken":"p7"}}`, func(line string) {
		if got += line; strings.Contains(line, "half done") {
			close(h.hold)
		}
	})
	for _, want := range []string{
		`"method":"notifications/progress","params":{"message":"waits for an approval","progress":1,"progressToken":"p7"}`,
		`"method":"notifications/progress","params":{"message":"half done","progress":2,"progressToken":"p7"}`,
		`ran office_book_room`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the answer is %s, want %s", got, want)
		}
	}
}
