package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature/approval"
	"ravenbot/internal/mcp"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/budget"
	"ravenbot/internal/turn/platform"
)

const token = "correct horse battery staple"

// bot stands in for everything that the API tells of.
type bot struct {
	givenUp []string
	mu      sync.Mutex
	now     time.Time
	slack   chat.Health
	problem string // of the store
	clock   string // what is wrong with it
	removed []chat.Address
	threads int // conversations beside that of the room general
	ran     []string
	paused  map[string]bool
	stopped map[string]bool // mailboxes that want no mails
	did     []string
	counted counted
	ask     func(ctx context.Context, room string, user chat.User, text string) iter.Seq2[Event, error]
}

func (b *bot) Problem() string { return b.problem }

func (b *bot) Clock() string { return b.clock }

func (b *bot) time() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bot) later(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

func (b *bot) Servers() []mcp.Status {
	return []mcp.Status{
		{Name: "files", State: "connected", Source: "config.json", Since: b.time(), Tools: []mcp.ToolInfo{
			{Name: "files_read", Description: "Read a file.", Schema: json.RawMessage(`{"type":"object"}`)}}},
		{Name: "gone", State: "error", Error: "the command npx was not found", Source: "config.json"},
	}
}

func (b *bot) List() []mcp.Status { return b.Servers() }

func (b *bot) Logs(name string) ([]mcp.LogLine, error) {
	if _, err := b.Get(name); err != nil {
		return nil, err
	}
	return []mcp.LogLine{{Time: b.time(), Text: name + " says hello"}}, nil
}

func (b *bot) Get(name string) (mcp.Status, error) {
	for _, v := range b.Servers() {
		if v.Name == name {
			return v, nil
		}
	}
	return mcp.Status{}, mcp.ErrNotFound
}

func (b *bot) Tools(name string) ([]mcp.ToolInfo, error) {
	v, err := b.Get(name)
	return v.Tools, err
}

func (b *bot) Pending(name string) []mcp.Change {
	if name == "files" {
		return []mcp.Change{{Tool: "files_read", Kind: "changed", Diff: "-a\n+b"}}
	}
	return nil
}

func (b *bot) Add(_ context.Context, name string, entry json.RawMessage) (mcp.Status, error) {
	switch {
	case name == "files":
		return mcp.Status{}, mcp.ErrExists
	case !strings.Contains(string(entry), "command"):
		return mcp.Status{}, badInput{}
	}
	b.did = append(b.did, "add "+name)
	return mcp.Status{Name: name, State: "connecting", Source: "api"}, nil
}

func (b *bot) Replace(_ context.Context, name string, _ json.RawMessage) (mcp.Status, error) {
	b.did = append(b.did, "replace "+name)
	return b.Get(name)
}

func (b *bot) Remove(_ context.Context, name string) error {
	if _, err := b.Get(name); err != nil {
		return err
	}
	return mcp.ErrConfigured
}

func (b *bot) Control(name, verb string) (mcp.Status, error) {
	b.did = append(b.did, verb+" "+name)
	return b.Get(name)
}

func (b *bot) Approve(_ context.Context, name, seen string) ([]mcp.Change, error) {
	if seen != "" && seen != mcp.Fingerprint(b.Pending(name)) {
		return nil, mcp.ErrChanged
	}
	return b.Pending(name), nil
}

func (b *bot) Call(_ context.Context, server, name string, args json.RawMessage) (tool.Result, error) {
	_, err := b.Get(server)
	return tool.Result{Text: name + string(args)}, err
}

func (b *bot) Name() string { return "web" }

func (b *bot) Ask(ctx context.Context, room string, u chat.User, text string) iter.Seq2[Event, error] {
	return b.ask(ctx, room, u, text)
}

func (b *bot) Health() []platform.Health {
	return []platform.Health{{Name: "web", Health: chat.Health{Connected: true}}, {Name: "slack", Health: b.slack}}
}

func (b *bot) Forget(chat.Address) {}

func (b *bot) Status() Status { return Status{Version: "1", PostsGivenUp: b.givenUp} }

func (b *bot) Days(context.Context) ([]budget.Day, error) { return nil, nil }

func (b *bot) ToolsEnabled() bool { return true }

func (b *bot) DeleteRoom(context.Context, string) error { return nil }

func (b *bot) ChangeRoom(context.Context, string, *string, *bool) error { return nil }

func (b *bot) ForgetRoom(context.Context, string) error { return nil }

func (b *bot) Undelivered(context.Context) ([]store.Post, error) { return nil, nil }

func (b *bot) Feedback(context.Context) ([]store.Feedback, error) { return nil, nil }

// calls are one call that was made, and one that waits.
type calls struct{ s string }

func (c calls) ToolCalls(
	_ context.Context, before uint64, n int, match func(store.ToolCall) bool) ([]store.ToolCall, error) {
	call := store.ToolCall{Seq: 7, ID: "c1", Turn: "web/1", Server: "s", Tool: c.s, Args: json.RawMessage(`{"x":1}`),
		Result: c.s, Note: c.s, User: c.s, Origin: origin.Foreign(c.s)}
	if before == 7 || match != nil && !match(call) {
		return nil, nil
	}
	return []store.ToolCall{call}, nil
}

func (c calls) ToolResult(_ context.Context, id string) (store.ToolResult, error) {
	if id != "r1" {
		return store.ToolResult{}, store.ErrNotFound
	}
	return store.ToolResult{ID: id, Text: "all"}, nil
}

func (c calls) All() []store.Approval {
	return []store.Approval{{ID: "a1", Tool: c.s, Reason: c.s, Args: json.RawMessage(`{}`)},
		{ID: "a0", Tool: c.s, Decision: store.Denied}}
}

func (c calls) Decide(_ context.Context, id string, scope approval.Scope, _ chat.User, _ chat.Address) (store.Approval,
	error) {
	a := c.All()[0]
	switch {
	case id == "a0":
		return c.All()[1], approval.ErrDecided
	case id != "a1":
		return store.Approval{}, approval.ErrUnknown
	case scope == approval.Denied:
		a.Decision = store.Denied
	case scope != approval.Once:
		return store.Approval{}, approval.ErrScope
	default:
		a.Decision = store.Approved
	}
	return a, nil
}

// grants is one standing approval.
type grants struct{}

func (grants) List() []approval.Grant {
	return []approval.Grant{{ID: "g1", Tool: "s_do", Scope: approval.Always}}
}

func (grants) Revoke(_ context.Context, id string) error {
	if id != "g1" {
		return store.ErrNotFound
	}
	return nil
}

type digests struct{ *bot }

func (d digests) List(context.Context) ([]digest.Info, error) {
	return []digest.Info{{Name: "morning", Schedule: "30 8 * * *", Timezone: "UTC", Feeds: []string{"bundled:news"}}}, nil
}

func (d digests) Page(ctx context.Context, _ string, _ int) ([]digest.Info, bool, error) {
	list, err := d.List(ctx)
	return list, false, err
}

func (d digests) Get(_ context.Context, name string) (digest.Info, error) {
	if name != "morning" && name != "made" {
		return digest.Info{}, fmt.Errorf("look at %s: %w", name, digest.ErrUnknown)
	}
	i := digest.Info{Name: name, Paused: d.paused[name]}
	if name == "made" {
		i.Plan = &digest.Plan{Name: name, Schedule: "every day at 6", MaxItems: 7, Style: "topics", Feeds: []digest.Feed{{URL: "https://example.org/a"}}}
	}
	return i, nil
}

func (d digests) LastVerdicts(_ context.Context, name string) (digest.RunVerdicts, bool, error) {
	if name == "made" {
		return digest.RunVerdicts{}, false, nil
	}
	_, err := d.Get(context.Background(), name)
	return digest.RunVerdicts{Due: d.now, Items: []digest.Verdict{{Title: "a", Verdict: "too old"}}, More: 2}, true, err
}

func (d digests) TryFeed(_ context.Context, name string) (int, error) {
	if name != "https://example.org/feed" {
		return 0, digest.ErrUnknown
	}
	return 3, nil
}

func (d digests) KnownFeeds(context.Context) ([]digest.FeedInfo, error) {
	return []digest.FeedInfo{{Name: "https://example.org/feed", UsedBy: []string{"morning"}}}, nil
}

func (d digests) Add(_ context.Context, name string, entry json.RawMessage) (digest.Info, error) {
	switch {
	case name == "morning":
		return digest.Info{}, digest.ErrExists
	case !strings.Contains(string(entry), "schedule"):
		return digest.Info{}, badInput{}
	}
	return digest.Info{Name: name, Source: digest.FromAPI}, nil
}

func (d digests) Replace(_ context.Context, name string, _ json.RawMessage) (digest.Info, error) {
	return d.changed(name)
}

func (d digests) AddFeeds(_ context.Context, name string, addresses []string) (digest.Info, int, error) {
	i, err := d.changed(name)
	return i, len(addresses), err
}

func (d digests) Change(_ context.Context, name string, change func(*digest.Plan) error) (digest.Info, error) {
	p := digest.Plan{Name: name, Language: "no", Feeds: []digest.Feed{{URL: "https://example.org/a", Weight: 3}}}
	if err := change(&p); err != nil {
		return digest.Info{}, digest.BadPlan{Err: err}
	}
	d.did = append(d.did, fmt.Sprintf("%s: %s %d %s %+v", name, p.Style, p.MaxItems, p.Language, p.Feeds))
	return d.changed(name)
}

func (d digests) Try(ctx context.Context, name string, change func(*digest.Plan) error) (digest.Preview, error) {
	i, err := d.Change(ctx, name, change)
	return digest.Preview{Digest: i.Name, Draft: chat.Draft{Text: "**a try**"}}, err
}

func (d digests) Remove(_ context.Context, name string) error {
	_, err := d.changed(name)
	return err
}

func (d digests) changed(name string) (digest.Info, error) {
	if name == "morning" {
		return digest.Info{}, digest.ErrConfigured
	}
	return d.Get(context.Background(), name)
}

func (d digests) Pause(_ context.Context, name string, on bool) error {
	_, err := d.Get(context.Background(), name)
	if err == nil {
		d.paused = map[string]bool{name: on}
	}
	return err
}

// Mailing knows the token known alone.
func (d digests) Mailing(_ context.Context, token string) (digest.Mailing, bool, error) {
	if token == "broken" {
		return digest.Mailing{}, false, errors.New("dial tcp 10.0.0.1: secret detail")
	}
	return digest.Mailing{Digest: "morning", Title: "morning", Mailbox: "anna@example.org",
		Stopped: d.stopped["anna@example.org"]}, token == "known", nil
}

func (d digests) StopMail(_ context.Context, _, mailbox string) error {
	d.stopped = map[string]bool{mailbox: true}
	return nil
}

func (d digests) ResumeMail(_ context.Context, _, mailbox string) error {
	if !d.stopped[mailbox] {
		return digest.ErrUnknown
	}
	d.stopped = nil
	return nil
}

func (d digests) Preview(_ context.Context, name string) (digest.Preview, error) {
	if name != "morning" {
		return digest.Preview{}, fmt.Errorf("preview %s: %w", name, digest.ErrUnknown)
	}
	return digest.Preview{Digest: name, Draft: chat.Draft{Text: "**news**"},
		Items: []digest.Verdict{{Title: "a", Verdict: "posted"}}}, nil
}

func (d digests) Run(_ context.Context, name string, due time.Time, manual bool) (store.Run, error) {
	switch name {
	case "morning":
		d.ran = append(d.ran, name)
		return store.Run{Digest: name, Due: due, OK: true, Posted: 3, Manual: manual}, nil
	case "broken":
		return store.Run{}, errors.New("dial tcp 10.0.0.1: secret detail")
	}
	return store.Run{}, fmt.Errorf("run %s: %w", name, digest.ErrUnknown)
}

func (b *bot) Conversations(_ context.Context, cursor string, n int) ([]store.ConversationInfo, string, error) {
	list := []store.ConversationInfo{{Address: chat.Address{Platform: "web", Channel: "general"}, Turns: 1,
		Last: b.time()}}
	for i := range b.threads {
		list = append(list, store.ConversationInfo{Address: chat.Address{Platform: "slack", Channel: "C1",
			Thread: fmt.Sprint(i)}})
	}
	from, err := strconv.Atoi("0" + cursor)
	if err != nil {
		return nil, "", store.CursorError{Cursor: cursor}
	}
	list = list[min(from, len(list)):]
	if len(list) > n {
		return list[:n], strconv.Itoa(from + n), nil
	}
	return list, "", nil
}

func (b *bot) HasConversation(_ context.Context, a chat.Address) (bool, error) {
	return a.Channel == "general", nil
}

func (b *bot) Turns(_ context.Context, a chat.Address, _ store.Range) ([]conversation.Turn, error) {
	if a.Channel != "general" {
		return nil, nil
	}
	return []conversation.Turn{{ID: "web/room/1", State: conversation.Answered, Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: "hello"}}},
		{Role: llm.Assistant, Parts: []llm.Part{{Text: "hmm", Thought: true}, {Text: "hi", Raw: json.RawMessage(`{"signature":"x"}`)}}}}}}, nil
}

func (b *bot) Entries(_ context.Context, room string, _ uint64, _ int) ([]store.Entry, error) {
	if room != "news" {
		return nil, nil
	}
	return []store.Entry{{ID: "post/1", Draft: &chat.Draft{Text: "the digest",
		Cards: []chat.Card{{Title: "A story", URL: "https://example.org/1"}}}},
		{ID: "room/2", User: &chat.User{Name: "Anna"}, Deleted: true}}, nil
}

func (b *bot) Rooms(context.Context) ([]string, error) { return []string{"general", "news"}, nil }

func (b *bot) NewestMessages(_ context.Context, a chat.Address, cursor string, n int) ([]store.Message, string, error) {
	switch {
	case cursor == "damaged":
		return nil, "", store.CursorError{Cursor: cursor}
	case a.Channel != "imported":
		return nil, "", nil
	case cursor == "older":
		return []store.Message{{Conversation: a, ID: "0", Text: fmt.Sprint("the older ", n)}}, "", nil
	case n < 3:
		return []store.Message{{Conversation: a, ID: "2", Text: "newest"}}, "older", nil
	}
	return []store.Message{{Conversation: a, ID: "1", Author: chat.User{ID: "U1", Name: "Anna"}, Text: "hello"}}, "", nil
}

func (b *bot) DeleteConversation(_ context.Context, a chat.Address) error {
	b.removed = append(b.removed, a)
	return nil
}

type badInput struct{}

func (badInput) Error() string  { return "room: no such name" }
func (badInput) BadInput() bool { return true }

func answered(_ context.Context, room string, user chat.User, text string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if room == "Bad" {
			yield(Event{}, badInput{})
			return
		}
		for _, p := range []chat.Progress{
			{Note: "one moment"}, {Tool: &chat.ToolRun{ID: "1", Name: "web_fetch", State: chat.Running}}, {Text: "Hel"}, {Reset: true}, {Text: "Hi"}} {
			if !yield(Event{Progress: &p}, nil) {
				return
			}
		}
		yield(Event{Entry: &store.Entry{ID: "post/1", Draft: &chat.Draft{Text: "Hi " + user.ID + ": " + text,
			Failed: true}}}, nil)
	}
}

// start serves a bot. The client keeps cookies and follows no redirects.
func start(t *testing.T, change func(*Options)) (*bot, *Server, *httptest.Server, *http.Client) {
	t.Helper()
	b := &bot{now: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC), slack: chat.Health{Connected: true}, ask: answered}
	page := http.NewServeMux()
	page.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "chat page ", r.URL.Path) })
	page.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic("a secret") })
	teapot := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }
	o := Options{Token: token, Listen: "127.0.0.1:0", Chat: page,
		Render: func(d chat.Draft) template.HTML {
			return template.HTML("<p>" + template.HTMLEscapeString(d.Text) + "</p>")
		},
		Rooms: b, Store: b, Platforms: b, Totals: &b.counted, Agent: b, Instance: b, ServerCalls: b,
		Servers: b, Calls: calls{"s_do"}, Approvals: calls{"s_do"}, Grants: grants{}, Digests: digests{b}, Conversations: b,
		Mounts: map[string]http.Handler{"/slack/events": http.HandlerFunc(teapot)},
		Audit:  newAudit(t), Logouts: StoredLogouts{&items{}}, Log: slog.New(slog.DiscardHandler), Now: b.time}
	if change != nil {
		change(&o)
	}
	s := New(o)
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := server.Client()
	client.Jar = jar
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return b, s, server, client
}

type reply struct {
	status int
	body   string
	header http.Header
}

func do(t *testing.T, c *http.Client, method, address string, body io.Reader, headers ...string) reply {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, address, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			q.Host = headers[i+1]
		}
		q.Header.Set(headers[i], headers[i+1])
	}
	r, err := c.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{r.StatusCode, string(b), r.Header}
}

const bearerHeader = "Bearer " + token

// everything lists every route but those that are open.
var everything = []string{
	"GET /", "GET /chat/general", "GET /chat/general/events", "POST /chat/general/messages", "POST /chat",
	"GET /static/app.css",
	"GET /agents", "POST /agents", "GET /agents/default", "POST /agents/default", "POST /agents/default/remove",
	"POST /agents/default/files", "POST /agent-rooms",
	"GET /api/v1/tools", "GET /api/v1/tools/web_fetch/why", "GET /api/v1/agents", "POST /api/v1/agents",
	"GET /api/v1/agents/default", "PUT /api/v1/agents/default", "DELETE /api/v1/agents/default",
	"GET /api/v1/agents/default/files", "POST /api/v1/agents/default/files", "GET /api/v1/agents/default/files/a.md",
	"DELETE /api/v1/agents/default/files/a.md",
	"GET /servers", "GET /calls", "GET /digests", "GET /posts", "GET /settings", "POST /settings",
	"GET /jobs", "POST /jobs/j1/remove", "GET /notes", "POST /notes/user:web%2Fadmin/1/remove", "GET /usage", "GET /tokens", "POST /tokens",
	"POST /tokens/revoke", "GET /webhooks", "GET /backups", "POST /backups", "GET /audit",
	"GET /digests/morning/edit", "POST /digests-try", "POST /digests/morning", "POST /digests/morning/run", "POST /digests/morning/preview", "POST /digests/morning/remove", "GET /feeds", "GET /api/v1/totals", "POST /logout", "GET /unknown",
	"POST /digests/morning/unsubscribed/a@example.org/remove", "POST /chat/general/delete", "PATCH /api/v1/conversations/web%3A%2Fgeneral", "DELETE /api/v1/digests/morning/unsubscribed/a@example.org",
	"GET /api/v1/status", "GET /api/v1/mcp/servers", "GET /api/v1/mcp/servers/files",
	"GET /api/v1/mcp/servers/files/tools",
	"GET /api/v1/mcp/servers/files/logs", "GET /api/v1/conversations", "GET /api/v1/conversations/web%3A%2Fgeneral",
	"DELETE /api/v1/conversations/web%3A%2Fgeneral", "POST /api/v1/conversations/web%3A%2Fgeneral/messages",
	"GET /api/v1/digests", "POST /api/v1/digests", "GET /api/v1/feeds",
	"GET /api/v1/digests/morning", "PUT /api/v1/digests/morning", "DELETE /api/v1/digests/morning",
	"POST /api/v1/digests/morning/pause", "POST /api/v1/digests/morning/resume", "GET /api/v1/digests/morning/explain",
	"POST /api/v1/digests/morning/feeds",
	"POST /api/v1/digests/morning/preview", "POST /api/v1/digests/morning/run", "POST /api/v1/backup",
	"GET /api/v1/unknown", "GET /api/v1/settings", "PUT /api/v1/settings", "GET /api/v1/usage",
	"GET /api/v1/openapi.json", "GET /api/v1/audit", "GET /metrics", "POST /mcp",
}

func TestNothingAnswersWithoutALogin(t *testing.T) {
	b, _, server, client := start(t, nil)
	for _, headers := range [][]string{nil, {"Authorization", "Bearer wrong"}, {"Authorization", "Basic " + token},
		{"Cookie", "ravenbot=1"}} {
		for _, route := range everything {
			b.later(10 * time.Second) // so many wrong tokens at once would be refused
			method, path, _ := strings.Cut(route, " ")
			r := do(t, client, method, server.URL+path, nil, headers...)
			var e struct{ Error apiError }
			if err := json.Unmarshal([]byte(r.body), &e); err != nil || r.status != 401 || e.Error.Code != "unauthorized" ||
				e.Error.Hint == "" {
				t.Errorf("%s: %d %s, want 401 with an error", route, r.status, r.body)
			}
			if isAPI(path) {
				continue
			}
			r = do(t, client, method, server.URL+path, nil, append([]string{"Accept", "text/html,*/*"}, headers...)...)
			if r.status != http.StatusSeeOther || r.header.Get("Location") != "/login" {
				t.Errorf("%s in a browser: %d, want a redirect to /login", route, r.status)
			}
		}
		b.later(time.Minute)
	}
	if len(b.ran)+len(b.removed) > 0 {
		t.Error("something was done")
	}
}

func TestTheAPI(t *testing.T) {
	b, _, server, client := start(t, nil)
	for _, c := range []struct {
		route, body string
		status      int
		want        string // part of the answer
	}{
		{"GET /api/v1/status", "", 200, `{"version":"1",`},
		{"HEAD /api/v1/status", "", 200, ""},
		{"PUT /api/v1/status", "", 405, `"code":"method_not_allowed"`},
		{"GET /api/v1/nothing", "", 404, `"code":"not_found"`},
		{"GET /api/v1/mcp/servers", "", 200, `"items":[{"name":"files","state":"connected","error":"","tools":[{"name":"files_read","description":"Read a file."}],"source":"config.json"`},
		{"GET /api/v1/mcp/servers/gone", "", 200, `"error":"the command npx was not found","tools":[]`},
		{"GET /api/v1/mcp/servers/none", "", 404, `there is no MCP server`},
		{"GET /api/v1/mcp/servers/files/tools", "", 200, `"inputSchema":{"type":"object"}}],"next":""}`},
		{"GET /api/v1/mcp/servers/gone/tools", "", 200, `{"items":[],"next":""}`},
		{"GET /api/v1/mcp/servers/files/logs", "", 200, `"text":"files says hello"`},
		{"GET /api/v1/mcp/servers/none/logs", "", 404, `"hint":"GET /api/v1/mcp/servers`},
		{"GET /api/v1/conversations", "", 200, `{"items":[{"address":"web:/general","turns":1,"last":"2026-03-04T12:00:00Z"},{"address":"web:/news","turns":0}],"next":""}`},
		{"GET /api/v1/conversations/web%3A%2Fgeneral", "", 200, `{"role":"assistant","text":"hi"}`},
		{"GET /api/v1/conversations/slack%3AT1%2Fimported", "", 200, `"messages":[{"conversation":"slack:T1/imported","id":"1",` +
			`"author":{"id":"U1","name":"Anna"},"bot":false,"at":"0001-01-01T00:00:00Z","text":"hello"}],"next":""`},
		{"GET /api/v1/conversations/slack%3AT1%2Fimported?limit=2", "", 200, `"text":"newest"}],"next":"older"`},
		{"GET /api/v1/conversations/slack%3AT1%2Fimported?limit=5&cursor=older", "", 200, `"text":"the older 5"}],"next":"","turns":[]`},
		{"GET /api/v1/conversations/slack%3AT1%2Fimported?cursor=damaged", "", 400, `the next of the page before`},
		{"GET /api/v1/conversations/slack%3AT1%2Fimported?limit=none", "", 400, `limit has to be a whole number`},
		{"GET /api/v1/conversations/web%3A%2Fnews", "", 200, `{"id":"room/2","at":"0001-01-01T00:00:00Z","user":"Anna","deleted":true,"text":""}`},
		{"GET /api/v1/conversations/web%3A%2Fother", "", 404, `no conversation is stored for web:/other`},
		{"GET /api/v1/conversations/nonsense", "", 400, `percent-encode`},
		{"DELETE /api/v1/conversations/slack%3AT1%2FC1%2F17.1", "", 404, `slack:T1/C1/17.1`},
		{"DELETE /api/v1/conversations/web%3A%2Fgeneral", "", 204, ""},
		{"PUT /api/v1/conversations/web%3A%2Fgeneral", "", 405, `use DELETE or GET or PATCH`},
		{"PATCH /api/v1/conversations/web%3A%2Fgeneral", `{"title":"Birds"}`, 204, ""},
		{"PATCH /api/v1/conversations/web%3A%2Fgeneral", `[]`, 400, `bad_json`},
		{"PATCH /api/v1/conversations/slack%3AT1%2FC1", `{"title":"Birds"}`, 409, `no_room`},
		{"POST /api/v1/conversations/discord%3A%40me%2F1/messages", `{"text":"x"}`, 400, `use an address such as web:/general`},
		{"POST /api/v1/conversations/web%3A%2Fgeneral/messages", `{"text":" "}`, 400, `"code":"bad_request"`},
		{"POST /api/v1/conversations/web%3A%2Fgeneral/messages", `nonsense`, 400, `"code":"bad_request"`},
		{"POST /api/v1/conversations/web%3A%2FBad/messages", `{"text":"x"}`, 400, `room: no such name`},
		{"GET /api/v1/digests", "", 200, `{"items":[{"name":"morning"`},
		{"POST /api/v1/digests/morning/preview", "", 200, `"digest":"morning"`},
		{"POST /api/v1/digests/none/preview", "", 404, `there is no digest`},
		{"POST /api/v1/digests/morning/run", "", 200, `"posted":3,"manual":true`},
		{"POST /api/v1/digests/none/run", "", 404, `"code":"not_found"`},
		{"POST /api/v1/digests/broken/run", "", 500, `(reference `},
		{"POST /api/v1/digests", `{"name":"made","schedule":"hourly"}`, 201, `"source":"api"`},
		{"POST /api/v1/digests", `{"name":"made"}`, 400, `"code":"bad_request"`},
		{"POST /api/v1/digests", `{"name":"morning","schedule":"hourly"}`, 409, `"code":"exists"`},
		{"GET /api/v1/digests/made", "", 200, `"name":"made"`},
		{"GET /api/v1/digests/none", "", 404, `there is no digest`},
		{"PUT /api/v1/digests/made", `{"schedule":"hourly"}`, 200, `"name":"made"`},
		{"PUT /api/v1/digests/made", `{"name":"other","schedule":"hourly"}`, 400, `keeps its name`},
		{"PUT /api/v1/digests/morning", `{"schedule":"hourly"}`, 409, `"code":"configured"`},
		{"DELETE /api/v1/digests/made", "", 204, ``},
		{"DELETE /api/v1/digests/morning", "", 409, `"code":"configured"`},
		{"POST /api/v1/digests/made/feeds", `{"feeds":["https://a.example","https://b.example"]}`, 200, `"added":2`},
		{"POST /api/v1/digests/made/feeds", `{}`, 400, `names no feeds`},
		{"POST /api/v1/digests/morning/pause", "", 200, `"paused":true`},
		{"POST /api/v1/digests/morning/resume", "", 200, `{"name":"morning"`},
		{"POST /api/v1/digests/none/pause", "", 404, `there is no digest`},
		{"GET /api/v1/digests/morning/explain", "", 200, `"verdict":"too old"`},
		{"GET /api/v1/digests/made/explain", "", 404, `no run of this digest`},
		{"GET /api/v1/feeds", "", 200, `{"items":[{"name":"https://example.org/feed"`},
	} {
		method, path, _ := strings.Cut(c.route, " ")
		r := do(t, client, method, server.URL+path, strings.NewReader(c.body), "Authorization", bearerHeader)
		if r.status != c.status || !strings.Contains(r.body, c.want) {
			t.Errorf("%s: %d %s\nwant %d with %s", c.route, r.status, r.body, c.status, c.want)
		}
		if strings.Contains(r.body, "secret") || strings.Contains(r.body, "signature") || strings.Contains(r.body, "hmm") {
			t.Errorf("%s tells too much: %s", c.route, r.body)
		}
	}
	if diff := cmp.Diff([]chat.Address{{Platform: "web", Channel: "general"}}, b.removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
}

func TestAMessageIsAnsweredAsAStream(t *testing.T) {
	_, _, server, client := start(t, nil)
	r := do(t, client, "POST", server.URL+"/api/v1/conversations/web%3A%2Fgeneral/messages",
		strings.NewReader(`{"text":"/digest list"}`), "Authorization", bearerHeader)
	want := `event: note
data: {"text":"one moment"}

event: tool
data: {"id":"1","name":"web_fetch","state":"running"}

event: text
data: {"text":"Hel"}

event: reset
data: {}

event: text
data: {"text":"Hi"}

event: answer
data: {"id":"post/1","text":"Hi admin: /digest list","failed":true}

`
	if diff := cmp.Diff(want, r.body); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
	if got := r.header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type %q", got)
	}
}

func TestAClientThatLeavesEndsTheWait(t *testing.T) {
	b, _, server, client := start(t, nil)
	left := make(chan struct{})
	b.ask = func(ctx context.Context, _ string, _ chat.User, _ string) iter.Seq2[Event, error] {
		return func(yield func(Event, error) bool) {
			yield(Event{Progress: &chat.Progress{Text: "so"}}, nil)
			<-ctx.Done()
			close(left)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	q, _ := http.NewRequestWithContext(ctx, "POST", server.URL+"/api/v1/conversations/web%3A%2Fgeneral/messages",
		strings.NewReader(`{"text":"x"}`))
	q.Header.Set("Authorization", bearerHeader)
	r, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	r.Body.Close()
	<-left
}

func TestAFaultWhileStreamingIsAnEvent(t *testing.T) {
	b, _, server, client := start(t, nil)
	b.ask = func(context.Context, string, chat.User, string) iter.Seq2[Event, error] {
		return func(yield func(Event, error) bool) {
			_ = yield(Event{Progress: &chat.Progress{Text: "so"}}, nil) && yield(Event{}, chat.ErrBusy)
		}
	}
	r := do(t, client, "POST", server.URL+"/api/v1/conversations/web%3A%2Fgeneral/messages",
		strings.NewReader(`{"text":"x"}`), "Authorization", bearerHeader)
	if !strings.Contains(r.body, "event: error\ndata: {\"error\":{\"code\":\"busy\"") {
		t.Errorf("stream %s", r.body)
	}
}

func TestARoomWithPostsAloneIsShown(t *testing.T) {
	_, _, server, client := start(t, nil)
	r := do(t, client, "GET", server.URL+"/api/v1/conversations/web%3A%2Fnews", nil, "Authorization", bearerHeader)
	if r.status != 200 || !strings.Contains(r.body, "the digest") || !strings.Contains(r.body, "https://example.org/1") {
		t.Errorf("%d %s, want the digest", r.status, r.body)
	}
	r = do(t, client, "GET", server.URL+"/api/v1/conversations", nil, "Authorization", bearerHeader)
	if !strings.Contains(r.body, `"web:/news"`) || strings.Count(r.body, `"web:/general"`) != 1 {
		t.Errorf("the list is %s, want each room once", r.body)
	}
}

func TestAMountChecksForItself(t *testing.T) {
	_, _, server, client := start(t, nil)
	if r := do(t, client, "POST", server.URL+"/slack/events", nil, "Host", "bot.example"); r.status != 418 {
		t.Errorf("status %d, want the mount's", r.status)
	}
	if r := do(t, client, "POST", server.URL+"/slack/events/more", nil); r.status != http.StatusUnauthorized {
		t.Errorf("status %d below the mount, want 401", r.status)
	}
}

func TestAPanicIsAnsweredWithAReference(t *testing.T) {
	var log bytes.Buffer
	_, _, server, client := start(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	r := do(t, client, "GET", server.URL+"/panic", nil, "Authorization", bearerHeader)
	_, after, _ := strings.Cut(r.body, "(reference ")
	ref, _, ok := strings.Cut(after, ")")
	if r.status != 500 || !ok || strings.Contains(r.body, "a secret") {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if !strings.Contains(log.String(), "reference="+ref) || !strings.Contains(log.String(), "a secret") {
		t.Errorf("the log lacks the reference or the cause: %s", log.String())
	}
}

func TestALargeBodyIsRefused(t *testing.T) {
	_, _, server, client := start(t, nil)
	body := `{"text":"` + strings.Repeat("a", maxBody) + `"}`
	r := do(t, client, "POST", server.URL+"/api/v1/conversations/web%3A%2Fgeneral/messages", strings.NewReader(body),
		"Authorization", bearerHeader)
	if r.status != 413 || !strings.Contains(r.body, "too_large") {
		t.Errorf("%d %s, want 413", r.status, r.body)
	}
}

func form(values ...string) io.Reader {
	v := url.Values{}
	for i := 0; i < len(values); i += 2 {
		v.Set(values[i], values[i+1])
	}
	return strings.NewReader(v.Encode())
}

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestWithoutAChatPageTheOtherPagesAreThere(t *testing.T) {
	_, _, server, client := start(t, func(o *Options) {
		o.Chat = nil
		o.Static = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "file ", r.URL.Path) })
	})
	for path, want := range map[string]reply{"/": {status: 303}, "/servers": {status: 200, body: "MCP servers"},
		"/static/app.css": {status: 200, body: "file /static/app.css"}, "/chat/general": {status: 404}} {
		r := do(t, client, "GET", server.URL+path, nil, "Authorization", bearerHeader)
		if r.status != want.status || !strings.Contains(r.body, want.body) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

func TestServersCallsAndApprovalsOverTheAPI(t *testing.T) {
	b, _, server, client := start(t, nil)
	for _, c := range []struct {
		route, body string
		status      int
		want        string
	}{
		{"POST /mcp/servers", `{"name":"new","command":"x"}`, 201, `"state":"connecting"`},
		{"POST /mcp/servers", `{"name":"files","command":"x"}`, 409, `"code":"exists"`},
		{"POST /mcp/servers", `{"name":"new"}`, 400, `"code":"bad_request"`},
		{"POST /mcp/servers", `[`, 400, `"code":"bad_json"`},
		{"PUT /mcp/servers/files", `{"name":"files","command":"y"}`, 200, `"name":"files"`},
		{"PUT /mcp/servers/files", `{"name":"other","command":"y"}`, 400, "keeps its name"},
		{"PUT /mcp/servers/none", `{"command":"y"}`, 404, "not_found"},
		{"DELETE /mcp/servers/files", "", 409, `"code":"configured"`},
		{"DELETE /mcp/servers/none", "", 404, "not_found"},
		{"POST /mcp/servers/files/restart", "", 200, `"name":"files"`},
		{"POST /mcp/servers/none/stop", "", 404, "not_found"},
		{"POST /mcp/servers/files/approve", "", 200, `"approved":[{"tool":"files_read"`},
		{"GET /mcp/servers/files/pending", "", 200, `"diff":"-a\n+b"`},
		{"GET /mcp/servers/none/logs", "", 404, "not_found"},
		{"POST /mcp/servers/files/call", `{"tool":"t","arguments":{"x":1}}`, 200, `{"text":"t{\"x\":1}","isError":false}`},
		{"POST /mcp/servers/none/call", `{"tool":"t"}`, 404, "not_found"},
		{"GET /tool-usage", "", 200, `"arguments":{"x":1}`},
		{"GET /tool-usage?limit=1", "", 200, `"next":"7"`},
		{"GET /tool-usage?limit=1&next=7", "", 200, `{"items":[],"next":""}`},
		{"GET /tool-usage?limit=1&after=7", "", 200, `{"items":[],"next":""}`},
		{"GET /tool-usage?tool=another", "", 200, `"items":[]`},
		{"GET /tool-usage?limit=x", "", 400, "whole number"},
		{"GET /tool-usage/results/r1", "", 200, `"text":"all"`},
		{"GET /tool-usage/results/r2", "", 404, "not_found"},
		{"GET /approvals", "", 200, `{"items":[{"id":"a1"`},
		{"GET /approvals?all=true", "", 200, `"id":"a0"`},
		{"POST /approvals/a1", `{"decision":"approve"}`, 200, `"decision":"approved"`},
		{"POST /approvals/a1", `{"decision":"maybe"}`, 400, "bad_request"},
		{"POST /approvals/a0", `{"decision":"deny"}`, 409, "decided"},
		{"POST /approvals/a9", `{"decision":"deny"}`, 404, "not_found"},
		{"GET /approvals/a9", "", 404, "not_found"},
	} {
		method, path, _ := strings.Cut(c.route, " ")
		r := do(t, client, method, server.URL+"/api/v1"+path, strings.NewReader(c.body), "Authorization", bearerHeader)
		if r.status != c.status || !strings.Contains(r.body, c.want) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.route, c.body, r.status, r.body, c.status, c.want)
		}
	}
	if got, want := strings.Join(b.did, ", "), "add new, replace files, replace none, restart files, stop none"; got != want {
		t.Errorf("did %s, want %s", got, want)
	}
}
