package oauth

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ravenbot/internal/ops/egress"
	"ravenbot/internal/store/seal"
)

// peer is a protected MCP server and its authorization servers, on real sockets.
// Its fields set its behaviour; mu guards all of them while requests run.
type peer struct {
	t      *testing.T
	server *httptest.Server // serves /mcp
	as     []*issuer        // the first is the one named at the beginning

	mu        sync.Mutex
	metadata  string   // path of the resource metadata; "": none
	inHeader  bool     // whether refusals name it
	resource  string   // in the metadata, instead of the URL
	supported []string // scopes in the metadata
	challenge string   // more of the WWW-Authenticate header
	needs     []string // scopes of a request
	named     *issuer  // in the metadata
	slash     string   // after the issuer's name in the metadata
	others    []string // issuers that the metadata name before it
	valid     map[string][]string
	calls     []string // bodies that were let in
	bearers   []string // tokens that came, good or not
}

// issuer is an authorization server.
type issuer struct {
	p       *peer
	server  *httptest.Server
	path    string                                                    // of the issuer
	slash   string                                                    // behind its own name
	where   string                                                    // path of its metadata; "": the well-known place
	more    map[string]any                                            // replaces parts of the metadata; nil leaves one out
	iss     *string                                                   // replaces the target of redirects, unless empty
	deny    string                                                    // an error instead of a code
	seconds int                                                       // that tokens are good for
	grants  func(form url.Values) (status int, answer map[string]any) // instead of a token
	grow    []string                                                  // scopes that are granted, or nil for the requested ones

	codes     map[string]url.Values
	refreshes map[string]string // token to scope
	registers []map[string]any
	asked     []url.Values // authorization requests
	forms     []url.Values // token requests, with the Authorization header as "header"
}

func newPeer(t *testing.T) *peer {
	p := &peer{t: t, metadata: "/.well-known/oauth-protected-resource/mcp", inHeader: true, valid: map[string][]string{}}
	p.server = serve(t, p)
	p.named = p.newIssuer("")
	return p
}

func (p *peer) newIssuer(path string) *issuer {
	a := &issuer{p: p, path: path, more: map[string]any{}, seconds: 3600, codes: map[string]url.Values{},
		refreshes: map[string]string{}}
	a.server = serve(p.t, a)
	p.as = append(p.as, a)
	return a
}

func serve(t *testing.T, h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func (p *peer) url() string { return p.server.URL + "/mcp" }

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.URL.Path == p.metadata && p.metadata != "" {
		resource := p.resource
		if resource == "" {
			resource = p.url()
		}
		d := map[string]any{"resource": resource, "authorization_servers": append(p.others, p.named.server.URL+p.named.path+p.slash)}
		if p.supported != nil {
			d["scopes_supported"] = p.supported
		}
		reply(w, 200, d)
		return
	}
	if r.URL.Path != "/mcp" {
		if p.metadata == "" { // the authorization server is here, too
			p.named.at(w, r, p.server.URL)
			return
		}
		http.NotFound(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	p.bearers = append(p.bearers, token)
	says := "Bearer " + p.challenge
	if p.inHeader {
		says = `Basic realm="x", Bearer resource_metadata="` + p.server.URL + p.metadata + `"` + p.challenge
	}
	scopes, ok := p.valid[token]
	switch {
	case !ok:
		w.Header().Set("WWW-Authenticate", says)
		w.WriteHeader(http.StatusUnauthorized)
	case !covers(scopes, p.needs):
		w.Header().Set("WWW-Authenticate", says+fmt.Sprintf(`, error="insufficient_scope", scope="%s"`,
			strings.Join(p.needs, " ")))
		w.WriteHeader(http.StatusForbidden)
	default:
		p.calls = append(p.calls, string(body))
		fmt.Fprint(w, "welcome")
	}
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func (a *issuer) name() string { return a.server.URL + a.path + a.slash }

func (a *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	a.at(w, r, a.server.URL)
}

func (a *issuer) at(w http.ResponseWriter, r *http.Request, root string) {
	where := a.where
	if where == "" {
		where = "/.well-known/oauth-authorization-server" + a.path
	}
	switch r.URL.Path {
	case where:
		d := map[string]any{"issuer": root + a.path + a.slash, "authorization_endpoint": root + "/authorize?kept=1",
			"token_endpoint":        root + "/token",
			"registration_endpoint": root + "/register", "code_challenge_methods_supported": []string{"plain", "S256"},
			"token_endpoint_auth_methods_supported":          []string{"client_secret_basic", "none"},
			"authorization_response_iss_parameter_supported": true}
		maps.Copy(d, a.more)
		maps.DeleteFunc(d, func(_ string, v any) bool { return v == nil })
		reply(w, 200, d)
	case "/register":
		var about map[string]any
		json.NewDecoder(r.Body).Decode(&about)
		a.registers = append(a.registers, about)
		reply(w, 201, map[string]any{"client_id": fmt.Sprint("client-", len(a.registers)),
			"client_secret": "registered-secret"})
	case "/authorize":
		a.authorize(w, r, root)
	case "/token":
		a.token(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (a *issuer) authorize(w http.ResponseWriter, r *http.Request, root string) {
	q := r.URL.Query()
	a.asked = append(a.asked, q)
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil {
		return
	}
	code := rand.Text()
	a.codes[code] = q
	answer := url.Values{"state": {q.Get("state")}, "iss": {root + a.path + a.slash}, "code": {code}}
	if a.deny != "" {
		answer.Del("code")
		answer.Set("error", a.deny)
	}
	if a.iss != nil {
		answer.Set("iss", *a.iss)
		if *a.iss == "" {
			answer.Del("iss")
		}
	}
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (a *issuer) token(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	form := maps.Clone(r.PostForm)
	form["header"] = []string{r.Header.Get("Authorization")}
	a.forms = append(a.forms, form)
	if a.grants != nil {
		if status, answer := a.grants(form); status != 0 {
			reply(w, status, answer)
			return
		}
	}
	scope := form.Get("scope")
	switch form.Get("grant_type") {
	case "authorization_code":
		q, ok := a.codes[form.Get("code")]
		delete(a.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") ||
			form.Get("redirect_uri") != q.Get("redirect_uri") || form.Get("resource") != q.Get("resource") {
			reply(w, 400, map[string]any{"error": "invalid_grant"})
			return
		}
		scope = q.Get("scope")
	case "refresh_token":
		var ok bool
		if scope, ok = a.refreshes[form.Get("refresh_token")]; !ok {
			reply(w, 400, map[string]any{"error": "invalid_grant",
				"error_description": "no such token: " + form.Get("refresh_token")})
			return
		}
		delete(a.refreshes, form.Get("refresh_token")) // rotation: each works once
	}
	scopes := strings.Fields(scope)
	if a.grow != nil {
		scopes = a.grow
	}
	access, refresh := "access-"+rand.Text(), "refresh-"+rand.Text()
	a.p.valid[access], a.refreshes[refresh] = scopes, scope
	reply(w, 200, map[string]any{"access_token": access, "token_type": "bearer", "expires_in": a.seconds,
		"refresh_token": refresh, "scope": strings.Join(scopes, " ")})
}

// revoke makes all tokens worthless that were given so far.
func (p *peer) revoke() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.valid)
}

// with changes the behaviour of the peer.
func (p *peer) with(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// count tells how many token requests there were of a grant type.
func (a *issuer) count(grant string) int {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	n := 0
	for _, f := range a.forms {
		if f.Get("grant_type") == grant {
			n++
		}
	}
	return n
}

// memory is a Keep.
type memory struct {
	mu sync.Mutex
	m  map[string][]byte
}

func (k *memory) Load(key string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.m[key], nil
}

func (k *memory) Save(key string, data []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if data == nil {
		delete(k.m, key)
		return nil
	}
	k.m[key] = slices.Clone(data)
	return nil
}

func (k *memory) all() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var b strings.Builder
	for key, data := range k.m {
		b.WriteString(key)
		b.Write(data)
	}
	return b.String()
}

// bot is our side: a broker, the door that browsers come back to, and whoever
// gets links.
type bot struct {
	t      *testing.T
	broker *Broker
	keep   *memory
	door   string

	mu      sync.Mutex
	now     time.Time
	links   []Consent
	granted []string
	log     bytes.Buffer
}

// newBot makes our side; change may change the options.
func newBot(t *testing.T, change ...func(*Options)) *bot {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		goleak.VerifyNone(t, before)
	})
	b := &bot{t: t, keep: &memory{m: map[string][]byte{}}, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	var callback http.Handler
	b.door = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { callback.ServeHTTP(w, r) })).URL
	out, err := egress.New(egress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Egress: out, Store: b.keep, Box: newBox(b.t, 7), RedirectURL: b.door + "/oauth/callback",
		Now: b.time, Log: slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug})),
		NotifyConsent: func(_ context.Context, c Consent) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.links = append(b.links, c)
			return nil
		},
		OnGranted: func(server, user string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.granted = append(b.granted, server+"/"+user)
		}}
	for _, f := range change {
		f(&o)
	}
	if b.broker, err = New(o); err != nil {
		t.Fatal(err)
	}
	callback = b.broker.Callback()
	return b
}

// Write takes log lines.
func (b *bot) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(p)
}

func (b *bot) time() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bot) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

func (b *bot) told() []Consent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.links)
}

// client makes requests for an entry.
func (b *bot) client(e Entry) *http.Client {
	return &http.Client{Transport: b.broker.Transport(e, http.DefaultTransport)}
}

// send sends a body to the peer, and gives the answer's text or the error.
func send(c *http.Client, at, body string) (string, error) {
	resp, err := c.Post(at, "application/json", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != 200 {
		err = fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	return string(text), err
}

// welcome wants a request to be let in.
func (b *bot) welcome(c *http.Client, at, body string) {
	b.t.Helper()
	if text, err := send(c, at, body); err != nil || text != "welcome" {
		b.t.Fatalf("the request was not let in: %q, %v", text, err)
	}
}

// needed wants a request to fail for want of consent.
func (b *bot) needed(c *http.Client, at string) *ConsentNeededError {
	b.t.Helper()
	_, err := send(c, at, "{}")
	var needed *ConsentNeededError
	if !errors.As(err, &needed) {
		b.t.Fatalf("the error is %v, and does not ask for consent", err)
	}
	return needed
}

// fails wants a request to fail for another reason.
func (b *bot) fails(c *http.Client, at, reason string) {
	b.t.Helper()
	text, err := send(c, at, "{}")
	var needed *ConsentNeededError
	if err == nil || errors.As(err, &needed) || !strings.Contains(err.Error(), reason) {
		b.t.Fatalf("got %q, %v; want an error with %q", text, err, reason)
	}
}

// browse opens a link as a person who agrees, and gives the page at the end.
func browse(t *testing.T, link string) (int, string) {
	t.Helper()
	status, text := visit(t, nil, link)
	if status != 200 {
		return status, text
	}
	if !strings.Contains(text, "<form method=post>") {
		t.Fatalf("the link shows %s", text)
	}
	return press(t, newBrowser(t), link)
}

func newBrowser(t *testing.T) *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar}
}

// visit opens an address, in a browser or a new one, and follows where it leads.
func visit(t *testing.T, c *http.Client, at string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	return fetch(t, c, r)
}

// press clicks on Continue.
func press(t *testing.T, c *http.Client, link string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, link, nil)
	if err != nil {
		t.Fatal(err)
	}
	return fetch(t, c, r)
}

func fetch(t *testing.T, c *http.Client, r *http.Request) (int, string) {
	t.Helper()
	if c == nil {
		c = newBrowser(t)
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// leads tells where a link that was given leads.
func (b *bot) leads(link string) *url.URL {
	b.t.Helper()
	_, ticket, _ := strings.Cut(link, "?open=")
	p := b.broker.findTicket(ticket)
	if p == nil {
		b.t.Fatal("the link leads nowhere")
	}
	u, err := url.Parse(p.consentURL)
	if err != nil {
		b.t.Fatal(err)
	}
	return u
}

// consent lets a person agree to what a request needs.
func (b *bot) consent(c *http.Client, at string) {
	b.t.Helper()
	if status, text := browse(b.t, b.needed(c, at).URL); status != 200 {
		b.t.Fatalf("the consent failed: %s", text)
	}
}

func newBox(t *testing.T, fill byte) *seal.Box {
	t.Helper()
	b, err := seal.NewBox(bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
