package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/mcp/mcpserve"
	"ravenbot/internal/store"
)

// tokenItems keeps items by name.
type tokenItems map[string]json.RawMessage

func (s tokenItems) SaveItem(_ context.Context, _, name string, item json.RawMessage, _ bool) error {
	s[name] = item
	return nil
}

func (s tokenItems) Items(context.Context, string) (map[string]json.RawMessage, error) {
	return maps.Clone(s), nil
}

func (s tokenItems) SwapItem(
	_ context.Context,
	_, name string,
	was, now json.RawMessage,
	_ []store.Post,
) (bool, error) {
	if !bytes.Equal(s[name], was) {
		return false, nil
	}
	s[name] = now
	return true, nil
}

func (s tokenItems) DeleteItem(_ context.Context, _, name string) error {
	delete(s, name)
	return nil
}

func (tokenItems) Item(context.Context, string, string) (json.RawMessage, error) {
	return nil, errors.ErrUnsupported
}

// signInWorld is a server that signs other MCP hosts in, and one of them.
type signInWorld struct {
	t      *testing.T
	bot    *bot
	server *Server
	base   string
	client *http.Client
	tokens *mcpserve.Tokens
	id     string // of the registered client
}

const (
	callback = "https://host.example/callback"
	verifier = "a-verifier-of-forty-three-characters-at-least-x"
)

func newSignInWorld(t *testing.T) *signInWorld {
	t.Helper()
	w := &signInWorld{t: t}
	b, s, server, client := start(t, func(o *Options) {
		var err error
		if w.tokens, err = mcpserve.LoadTokens(t.Context(), tokenItems{}, o.Now); err != nil {
			t.Fatal(err)
		}
		o.HostAccess = mcpserve.NewAuthorization(w.tokens, Owner, o.Now)
		o.MCP = func(refuse http.HandlerFunc) http.Handler {
			return http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
				secret, _ := bearer(r)
				if _, ok := w.tokens.Check(r.Context(), secret); !ok {
					refuse(answer, r)
				}
			})
		}
	})
	w.bot, w.server, w.base, w.client = b, s, server.URL, client
	var registered struct {
		ID string `json:"client_id"`
	}
	r := do(t, client, "POST", w.base+"/mcp/register",
		strings.NewReader(`{"client_name":"-Claude.ai <b>","redirect_uris":["`+callback+`","http://127.0.0.1/done"]}`))
	if err := json.Unmarshal([]byte(r.body), &registered); err != nil || r.status != http.StatusCreated {
		t.Fatalf("registration: %d %s", r.status, r.body)
	}
	w.id = registered.ID
	return w
}

// query returns the parameters of a request for access; changes are names and values.
func (w *signInWorld) query(changes ...string) string {
	sum := sha256.Sum256([]byte(verifier))
	q := url.Values{
		"response_type": {"code"}, "client_id": {w.id}, "redirect_uri": {callback}, "state": {"st"},
		"code_challenge_method": {"S256"}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])},
	}
	for i := 0; i < len(changes); i += 2 {
		q.Set(changes[i], changes[i+1])
	}
	return q.Encode()
}

// decide answers the page and returns where the browser is sent.
func (w *signInWorld) decide(query string, fields ...string) *url.URL {
	w.t.Helper()
	r := do(w.t, w.client, "POST", w.base+"/mcp/authorize", form(append(fields, "query", query)...),
		"Content-Type", formType, "Origin", w.base)
	if r.status != http.StatusSeeOther {
		w.t.Fatalf("decision: %d %s", r.status, r.body)
	}
	return mustParse(w.t, r.header.Get("Location"))
}

func (w *signInWorld) exchange(code string, changes ...string) reply {
	w.t.Helper()
	fields := append([]string{"grant_type", "authorization_code", "code", code, "client_id", w.id,
		"redirect_uri", callback,
		"code_verifier", verifier}, changes...)
	return do(w.t, w.client, "POST", w.base+"/mcp/token", form(fields...), "Content-Type", formType)
}

// A host finds the sign-in by the answer of /mcp, the operator logs in on the way, and the token works.
func TestHostAccess_FromTheFirstRefusalToTheToken(t *testing.T) {
	w := newSignInWorld(t)
	refused := do(t, w.client, "POST", w.base+"/mcp", strings.NewReader("{}"))
	_, at, _ := strings.Cut(refused.header.Get("WWW-Authenticate"), `resource_metadata="`)
	at, _, _ = strings.Cut(at, `"`)
	var resource struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	if r := do(t, w.client, "GET", at, nil); json.Unmarshal([]byte(r.body), &resource) != nil ||
		resource.Resource != w.base+"/mcp" {
		t.Fatalf("metadata at %q: %d %s", at, r.status, r.body)
	}
	r := do(t, w.client, "GET", resource.Servers[0]+"/.well-known/oauth-authorization-server", nil)
	if !strings.Contains(r.body, `"code_challenge_methods_supported":["S256"]`) {
		t.Errorf("metadata of the authorization server: %s", r.body)
	}

	page := w.base + "/mcp/authorize?" + w.query()
	toLogin := do(t, w.client, "GET", page, nil, "Accept", "text/html", "Sec-Fetch-Site", "cross-site")
	if toLogin.status != http.StatusSeeOther || !strings.HasPrefix(toLogin.header.Get("Location"), "/login?next=") {
		t.Fatalf("without a login: %d to %s", toLogin.status, toLogin.header.Get("Location"))
	}
	login := do(t, w.client, "GET", w.base+toLogin.header.Get("Location"), nil)
	if !strings.Contains(login.body, `name="next"`) {
		t.Error("the login page forgets where to go on")
	}
	next := strings.TrimPrefix(page, w.base)
	back := do(t, w.client, "POST", w.base+"/login", form("token", token, "next", next), "Content-Type", formType)
	if got := back.header.Get("Location"); got != next {
		t.Fatalf("after the login: %s, want %s", got, next)
	}

	shown := do(t, w.client, "GET", page, nil)
	if shown.status != 200 || !strings.Contains(shown.body, "Claude.ai b") || !strings.Contains(shown.body, "host.example") {
		t.Fatalf("the page: %d %s", shown.status, shown.body)
	}
	if policy := shown.header.Get("Content-Security-Policy"); !strings.Contains(policy,
		"form-action 'self' https://host.example;") {
		t.Errorf("browsers would not follow the answer: %s", policy)
	}
	answer := w.decide(w.query(), "decision", "allow", "tools", "feeds.*, web_fetch", "life", "30 days")
	got := answer.Query()
	if !strings.HasPrefix(answer.String(), callback+"?") || got.Get("state") != "st" || got.Get("iss") != w.base ||
		got.Get("code") == "" {
		t.Fatalf("the answer goes to %s", answer)
	}
	var issued struct {
		Token   string `json:"access_token"`
		Expires int    `json:"expires_in"`
	}
	if r := w.exchange(got.Get("code")); json.Unmarshal([]byte(r.body), &issued) != nil || r.status != 200 {
		t.Fatalf("exchange: %d %s", r.status, r.body)
	}
	if r := do(t, w.client, "POST", w.base+"/mcp", strings.NewReader("{}"), "Authorization",
		"Bearer "+issued.Token); r.status != 200 {
		t.Errorf("with the token: %d", r.status)
	}
	list := w.tokens.List(Owner)
	if len(list) != 1 || list[0].Name != "Claude.ai b 2026-03-04 12.00" ||
		strings.Join(list[0].Tools, " ") != "feeds.* web_fetch" {
		t.Errorf("the tokens are %+v", list)
	}
	if month := 30 * 24 * time.Hour; issued.Expires != int(month.Seconds()) ||
		!list[0].Expires.Equal(w.bot.time().Add(month)) {
		t.Errorf("the token ends in %d s, at %v", issued.Expires, list[0].Expires)
	}
	if again := w.exchange(got.Get("code")); again.status != 400 {
		t.Errorf("the same code again: %d", again.status)
	}
}

// What is not right gets no token, and the code that was tried is gone.
func TestHostAccess_WrongExchange_IsRefused(t *testing.T) {
	for name, change := range map[string][]string{
		"another verifier": {"code_verifier", "another"},
		"another client":   {"client_id", "rvnclient_x"},
		"another address":  {"redirect_uri", "https://other.example/"},
		"another grant":    {"grant_type", "password"},
		"no such code":     {"code", "guess"},
	} {
		w := newSignInWorld(t)
		enter(t, w.server, w.client, w.base)
		code := w.decide(w.query(), "decision", "allow", "tools", "*").Query().Get("code")
		if r := w.exchange(code, change...); r.status != 400 || strings.Contains(r.body, "access_token") {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
		if len(w.tokens.List(Owner)) != 0 {
			t.Errorf("%s: a token was made", name)
		}
	}
	w := newSignInWorld(t)
	enter(t, w.server, w.client, w.base)
	code := w.decide(w.query(), "decision", "allow", "tools", "*").Query().Get("code")
	w.bot.later(6 * time.Minute)
	if r := w.exchange(code); r.status != 400 {
		t.Errorf("after six minutes: %d", r.status)
	}
}

// Nothing is sent to an address that the client did not register, and a refusal reaches the client.
func TestHostAccess_Requests(t *testing.T) {
	w := newSignInWorld(t)
	enter(t, w.server, w.client, w.base)
	for name, c := range map[string]struct {
		query  string
		status int
		want   string // in the page, or in where the browser is sent
	}{
		"another address":    {w.query("redirect_uri", "https://evil.example/"), 400, "The program has not registered"},
		"unknown client":     {w.query("client_id", "x"), 400, "not registered"},
		"no PKCE":            {w.query("code_challenge", ""), 303, "https://host.example/callback?error=invalid_request"},
		"plain PKCE":         {w.query("code_challenge_method", "plain"), 303, "https://host.example/callback?error=invalid_request"},
		"a token at once":    {w.query("response_type", "token"), 303, "error=unsupported_response_type"},
		"its own audience":   {w.query("resource", w.base+"/mcp"), 200, "host.example"},
		"another audience":   {w.query("resource", "https://other.example/mcp"), 303, "error=invalid_target"},
		"another local port": {w.query("redirect_uri", "http://127.0.0.1:4711/done"), 200, "127.0.0.1:4711"},
		"another local path": {w.query("redirect_uri", "http://127.0.0.1:4711/else"), 400, "The program has not registered"},
	} {
		r := do(t, w.client, "GET", w.base+"/mcp/authorize?"+c.query, nil)
		if r.status != c.status || !strings.Contains(r.body+r.header.Get("Location"), c.want) {
			t.Errorf("%s: %d %s %s", name, r.status, r.header.Get("Location"), r.body)
		}
	}
	if denied := w.decide(w.query(), "decision", "deny"); denied.Query().Get("error") != "access_denied" ||
		denied.Query().Get("code") != "" {
		t.Errorf("refused: %s", denied)
	}
	none := do(t, w.client, "POST", w.base+"/mcp/authorize", form("decision", "allow", "tools", " ", "query", w.query()),
		"Content-Type", formType, "Origin", w.base)
	if none.status != 422 || !strings.Contains(none.body, "at least one tool") {
		t.Errorf("no tools: %d", none.status)
	}
	foreign := do(t, w.client, "POST", w.base+"/mcp/authorize",
		form("decision", "allow", "tools", "*", "query", w.query()),
		"Content-Type", formType, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
	if foreign.status != 403 {
		t.Errorf("a form of another site: %d", foreign.status)
	}
}

func TestHostAccess_Registration(t *testing.T) {
	w := newSignInWorld(t)
	for body, want := range map[string]int{
		`{"redirect_uris":["https://a.example/x"]}`:                 201,
		`{"redirect_uris":["cursor://anysphere.cursor/callback"]}`:  201,
		`{"redirect_uris":["http://localhost:1234/x"]}`:             201,
		`{"redirect_uris":["http://a.example/x"]}`:                  400,
		`{"redirect_uris":["com.example.host:/callback"]}`:          201,
		`{"redirect_uris":["https://xn--n1aag8f.example/x"]}`:       201,
		`{"redirect_uris":["javascript:alert(1)"]}`:                 400,
		`{"redirect_uris":["ms-msdt:/id"]}`:                         400,
		`{"redirect_uris":["mailto:eve@evil.test"]}`:                400,
		`{"redirect_uris":["ws://evil.test/"]}`:                     400,
		`{"redirect_uris":["https://claude.аi/callback"]}`:          400, // with a Cyrillic а
		`{"redirect_uris":["https://evil.example;sandbox/"]}`:       400,
		`{"redirect_uris":["cursor://a;sandbox/"]}`:                 400,
		`{"redirect_uris":["https://user@a.example/x"]}`:            400,
		`{"redirect_uris":["https://a.example/#x"]}`:                400,
		`{"redirect_uris":[]}`:                                      400,
		`{"redirect_uris":["` + strings.Repeat("x", 17<<10) + `"]}`: 400,
		`not JSON`: 400,
	} {
		if r := do(t, w.client, "POST", w.base+"/mcp/register", strings.NewReader(body)); r.status != want {
			t.Errorf("%.80s: %d %s, want %d", body, r.status, r.body, want)
		}
	}
}

// Where there is nothing, clients must not believe that a login failed.
func TestWellKnown_UnknownPath_IsNotFound(t *testing.T) {
	_, _, server, client := start(t, nil)
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/openid-configuration"} {
		if r := do(t, client, "GET", server.URL+path, nil); r.status != 404 {
			t.Errorf("%s: %d, want 404", path, r.status)
		}
	}
}
