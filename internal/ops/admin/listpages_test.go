package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/feature/jobs"
	"ravenbot/internal/mcp/mcpserve"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/budget"
)

// listed stands in for everything that the pages of tables show; s is every text in it.
type listed struct {
	*bot
	s       string
	removed []string
}

type listedJobs struct{ *listed }

func (l listedJobs) List(context.Context) ([]jobs.Info, error) {
	at := l.time().Add(time.Hour)
	return []jobs.Info{{ID: "j1", At: &at, Next: &at, Text: l.s, By: l.s, Post: []string{l.s}},
		{ID: "j2", Schedule: "every bad day", Error: l.s, Watch: &jobs.Watch{URL: l.s, For: "price"}, Source: "api"}}, nil
}

func (l listedJobs) AddRequest(context.Context, jobs.Request) (jobs.Info, error) {
	return jobs.Info{}, badInput{}
}

func (l listedJobs) Webhooks() []jobs.Webhook {
	return []jobs.Webhook{{Name: "ci", Webhook: config.Webhook{Secret: "hush", Prompt: l.s, Agent: "default", Post: []string{"web:/general"}}},
		{Name: "open", Webhook: config.Webhook{Digest: "news"}}}
}

func (l listedJobs) Remove(_ context.Context, id string) error {
	if id != "j1" {
		return jobs.ErrUnknown
	}
	l.removed = append(l.removed, id)
	return nil
}

type listedNotes struct {
	Memories
	*listed
}

func (l listedNotes) Scopes(context.Context) ([]string, error) {
	return []string{"user:slack/U1", "channel:web:/general"}, nil
}

func (l listedNotes) List(_ context.Context, scope, _ string) ([]store.Memory, error) {
	return []store.Memory{{Scope: scope, N: 3, Text: l.s, By: "Anna", At: l.time(), Origin: origin.Foreign("page " + l.s)}}, nil
}

func (l listedNotes) Remove(_ context.Context, scope string, n uint64) error {
	if scope != "channel:web:/general" || n != 3 {
		return store.ErrNotFound
	}
	l.removed = append(l.removed, scope)
	return nil
}

type listedTokens struct {
	Tokens
	*listed
}

func (l listedTokens) List(string) []mcpserve.Token {
	return []mcpserve.Token{{Name: l.s, Tools: []string{l.s}, Created: l.time()}}
}

func (l listedTokens) Create(_ context.Context, _, name string, tools []string, life time.Duration, _ bool) (mcpserve.Token, string, error) {
	if name == "" || life != 90*24*time.Hour || len(tools) != 2 {
		return mcpserve.Token{}, "", mcpserve.ErrTokenName
	}
	return mcpserve.Token{Name: name}, "rt_secret", nil
}

func (l listedTokens) Revoke(_ context.Context, _, name string) error {
	l.removed = append(l.removed, name)
	return nil
}

func (l *listed) Usage(context.Context) ([]budget.Usage, error) {
	day := l.time().Format(time.DateOnly)
	used := func(a chat.Address, user string, usd float64) budget.Usage {
		return budget.Usage{Usage: store.Usage{Day: day, Model: l.s, Channel: a, User: user, Turns: 2, Tokens: llm.Usage{Input: 1200}}, USD: usd}
	}
	return []budget.Usage{used(chat.Address{Platform: "web", Channel: "general"}, "web/"+l.s, 1.5),
		used(chat.Address{Platform: chat.TaskPlatform, Channel: "morning"}, "", 0.25)}, nil
}

func (l *listed) Caps() budget.Caps { return budget.Caps{User: 1, Channel: 5} }

func (l *listed) Page(context.Context, string, int) ([]budget.Usage, string, error) {
	return nil, "", nil
}

type listedBackups struct{ *listed }

func (l listedBackups) List() []store.BackupStatus {
	return []store.BackupStatus{{File: l.s, Time: l.time().Add(-26 * time.Hour), Bytes: 3 << 20}}
}

func (l listedBackups) Status() store.BackupStatus {
	return store.BackupStatus{Folder: "data/" + l.s, Error: "the disk is full"}
}

func (l listedBackups) Make(context.Context) error {
	l.removed = append(l.removed, "made")
	return nil
}

// withLists gives a server everything that these pages show.
func withLists(s string, l **listed) func(*Options) {
	return func(o *Options) {
		*l = &listed{bot: o.Rooms.(*bot), s: s}
		o.Jobs, o.Memories, o.Tokens = listedJobs{*l}, listedNotes{listed: *l}, listedTokens{listed: *l}
		o.Spending, o.Backups, o.Conversations = *l, listedBackups{*l}, nastyConversations{o.Rooms.(*bot), s}
	}
}

func TestListPages_ShowWhatThereIs(t *testing.T) {
	var l *listed
	_, s, server, client := start(t, withLists("a text", &l))
	get := func(path string) string {
		t.Helper()
		r := do(t, client, http.MethodGet, server.URL+path, nil, "Authorization", bearerHeader)
		if r.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
		return r.body
	}
	for path, wants := range map[string][]string{
		"/jobs":     {"a text", "Watch a text price", "<th scope=\"col\">Next</th>", "/jobs/j1/remove"},
		"/notes":    {"user:slack/U1", "text from outside: page a text", "/notes/channel:web:%2Fgeneral/3/remove"},
		"/posts":    {"place not notified yet", "<code>web:/general</code>"},
		"/usage":    {"$1.7500", "$1.00, used up", "$5.00", "morning"},
		"/tokens":   {"<code>a text</code>", "Create a token"},
		"/webhooks": {"/hooks/ci", "task of the agent default: a text", "no secret, refuses everything", "collected for the digest news"},
		"/backups":  {"26 hours", "3.0 MiB", "The last backup failed: the disk is full", "/api/v1/backup"},
		"/audit":    {"The chain of 0 entries is intact."},
	} {
		body := get(path)
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s lacks %q:\n%s", path, want, body)
			}
		}
		if strings.Contains(body, "hush") {
			t.Errorf("%s shows a secret", path)
		}
	}
	for path, shown := range map[string]bool{"/jobs?q=text&state=once": true, "/jobs?state=repeated": false, "/notes?q=anna+text": true,
		"/notes?q=nobody": false} {
		if strings.Contains(get(path), "<td data-label=\"Posted to\"><code>a text</code>") != shown && strings.HasPrefix(path, "/jobs") ||
			strings.HasPrefix(path, "/notes") && strings.Contains(get(path), "user:slack/U1") != shown {
			t.Errorf("%s shows its row: %v", path, !shown)
		}
	}
	for range pageSize + 1 {
		s.record(httptest.NewRequest("POST", "/agents", nil), "agent changed", "helper")
	}
	if body := get("/audit?q=helper"); !strings.Contains(body, "Older entries") || strings.Count(body, ">helper<") != pageSize {
		t.Errorf("a long audit shows %d entries", strings.Count(body, ">helper<"))
	}
	if body := get("/audit?since=2000-01-02&until=2000-01-03"); !strings.Contains(body, "No entries.") {
		t.Errorf("other days show %s", body)
	}
}

func TestAudit_DatesAreWrong_SaysSo(t *testing.T) {
	for _, c := range []struct{ since, until, want string }{
		{"abc", "", `"abc" is no date. Write it as year-month-day, such as 2026-03-04.`},
		{"", "2026-02-30", `"2026-02-30" is no date. Write it as year-month-day, such as 2026-03-04.`},
		{"2026-03-05", "2026-03-04", "The date in From is after the date in To."},
		{"2026-03-04", "2026-03-04", ""}, {"2026-03-04", "", ""}, {"", "", ""},
	} {
		if got := explainDates(c.since, c.until); got != c.want {
			t.Errorf("from %q to %q: %q, want %q", c.since, c.until, got, c.want)
		}
	}
	var l *listed
	_, _, server, client := start(t, withLists("a text", &l))
	for _, query := range []string{"since=abc", "until=abc"} {
		r := do(t, client, http.MethodGet, server.URL+"/audit?"+query, nil, "Authorization", bearerHeader)
		if !strings.Contains(r.body, "is no date") || strings.Contains(r.body, "No entries.") {
			t.Errorf("%s: %s", query, r.body)
		}
	}
}

func TestListPages_ChangeThings(t *testing.T) {
	var l *listed
	_, _, server, client := start(t, withLists("a text", &l))
	for _, c := range []struct {
		path   string
		form   url.Values
		status int
		says   string
	}{
		{"/jobs/j1/remove", nil, 200, "The job is removed."},
		{"/jobs/j9/remove", nil, 422, "Not done"},
		{"/notes/channel:web:%2Fgeneral/3/remove", nil, 200, "The note is deleted."},
		{"/notes/channel:web:%2Fgeneral/x/remove", nil, 422, "Not done: &#34;x&#34; is not the number of a note."},
		{"/notes/channel:web:%2Fgeneral/9/remove", nil, 404, ">This note no longer exists.<"},
		{"/tokens/revoke?name=..", nil, 200, "The token is revoked."},
		{"/tokens", url.Values{"name": {"laptop"}, "tools": {"a, b"}, "life": {"90 days"}}, 200, "rt_secret"},
		{"/tokens", url.Values{"name": {""}, "tools": {"a"}}, 422, "the name must be"},
		{"/backups", nil, 200, "The backup is made."},
	} {
		r := do(t, client, http.MethodPost, server.URL+c.path, strings.NewReader(c.form.Encode()), "Authorization", bearerHeader,
			"Content-Type", "application/x-www-form-urlencoded")
		if r.status != c.status || !strings.Contains(r.body, c.says) || (r.header.Get("HX-Trigger") == "changed") != (c.status != 422) {
			t.Errorf("POST %s: %d %s", c.path, r.status, r.body)
		}
	}
	if got := strings.Join(l.removed, " "); got != "j1 channel:web:/general .. made" {
		t.Errorf("what was done: %s", got)
	}
}

func TestAgeText(t *testing.T) {
	for age, want := range map[time.Duration]string{0: "less than a minute", 61 * time.Second: "1 minute", 59 * time.Minute: "59 minutes",
		time.Hour: "1 hour", 47 * time.Hour: "47 hours", 49 * time.Hour: "2 days"} {
		if got := ageText(age); got != want {
			t.Errorf("the age %v is %q, want %q", age, got, want)
		}
	}
}

func TestOverview_OnePostGivenUp_CountsOne(t *testing.T) {
	b, _, server, client := start(t, nil)
	b.givenUp = []string{"web:/general"}
	r := do(t, client, http.MethodGet, server.URL+"/overview", nil, "Authorization", bearerHeader, "HX-Request", "true")
	if !strings.Contains(r.body, "1 post of the last week could not be delivered.") {
		t.Errorf("the overview says\n%s", r.body)
	}
}
