package admin

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

const formType = "application/x-www-form-urlencoded"

// enter logs a client in by a one-time link.
func enter(t *testing.T, s *Server, c *http.Client, base string) {
	t.Helper()
	r := do(t, c, "GET", s.LoginLink(base), nil)
	if r.status != http.StatusSeeOther || r.header.Get("Location") != "/" {
		t.Fatalf("login: %d %s", r.status, r.body)
	}
}

func inside(t *testing.T, c *http.Client, base string) bool {
	t.Helper()
	return do(t, c, "GET", base+"/chat/general", nil).status == 200
}

func TestALinkOpensOnce(t *testing.T) {
	b, s, server, client := start(t, nil)
	link := s.LoginLink(server.URL + "/")
	if !strings.HasPrefix(link, server.URL+"/login?token=") {
		t.Fatalf("link %s", link)
	}
	if r := do(t, client, "HEAD", link, nil); r.status != 200 {
		t.Errorf("a look ahead: %d", r.status)
	}
	first := do(t, client, "GET", link, nil)
	cookie := first.header.Get("Set-Cookie")
	if first.status != http.StatusSeeOther || !strings.Contains(cookie, "HttpOnly") ||
		!strings.Contains(cookie, "SameSite=Lax") || strings.Contains(cookie, "Secure") {
		t.Errorf("first use: %d, cookie %s", first.status, cookie)
	}
	if !inside(t, client, server.URL) {
		t.Error("the link did not let in")
	}
	if r := do(t, client, "GET", link, nil); r.status != 401 || r.header.Get("Set-Cookie") != "" {
		t.Errorf("second use: %d", r.status)
	}
	late := s.LoginLink(server.URL)
	b.later(linkLifetime)
	if r := do(t, client, "GET", late, nil); r.status != 401 {
		t.Errorf("use after 15 minutes: %d", r.status)
	}
}

func TestTheTokenLogsIn(t *testing.T) {
	_, _, server, client := start(t, nil)
	if r := do(t, client, "GET", server.URL+"/login", nil); r.status != 200 || !strings.Contains(r.body, `name="token"`) {
		t.Errorf("form: %d", r.status)
	}
	for _, wrong := range []string{"", "wrong", token + "x", token[:5]} {
		if r := do(t, client, "POST", server.URL+"/login", form("token", wrong), "Content-Type", formType); r.status != 401 ||
			r.header.Get("Set-Cookie") != "" {
			t.Errorf("token %q: %d", wrong, r.status)
		}
	}
	if r := do(t, client, "POST", server.URL+"/login", form("token", token),
		"Content-Type", formType); r.status != http.StatusSeeOther {
		t.Errorf("right token: %d", r.status)
	}
	if !inside(t, client, server.URL) {
		t.Error("the token did not let in")
	}
}

func TestAnEmptyTokenLetsNobodyIn(t *testing.T) {
	_, s, server, client := start(t, func(o *Options) { o.Token = "" })
	if r := do(t, client, "POST", server.URL+"/login", form("token", ""), "Content-Type", formType); r.status != 401 {
		t.Errorf("login with nothing: %d", r.status)
	}
	if r := do(t, client, "GET", server.URL+"/api/v1/status", nil, "Authorization", "Bearer "); r.status != 401 {
		t.Errorf("bearer of nothing: %d", r.status)
	}
	enter(t, s, client, server.URL)
}

// Whoever guesses is stopped, and cannot lock out who has the right token or link.
func TestLogin_ManyFailures_RightTokenPasses(t *testing.T) {
	b, s, server, client := start(t, nil)
	login := func(with string, headers ...string) reply {
		return do(t, client, "POST", server.URL+"/login", form("token", with), append(headers, "Content-Type", formType)...)
	}
	for range 10 {
		login("guess")
	}
	if r := login("guess"); r.status != 429 || r.header.Get("Retry-After") == "" {
		t.Errorf("eleventh failure: %d, want 429", r.status)
	}
	// Behind no trusted proxy the header is anybody's claim.
	if r := login("guess", "X-Forwarded-For", "192.0.2.7"); r.status != 429 {
		t.Errorf("failure with a made-up address: %d, want 429", r.status)
	}
	if r := login(token); r.status != http.StatusSeeOther {
		t.Errorf("the right token meanwhile: %d", r.status)
	}
	if r := do(t, client, "GET", s.LoginLink(server.URL), nil); r.status != http.StatusSeeOther {
		t.Errorf("a link meanwhile: %d", r.status)
	}
	b.later(time.Minute)
	if r := login("guess"); r.status != 401 {
		t.Errorf("a minute later: %d, want 401", r.status)
	}
	for n := range 101 {
		r := do(t, client, "GET", server.URL+"/api/v1/status", nil, "Authorization", "Bearer guess")
		if want := 401 + n/100*28; r.status != want { // the 101st is 429
			t.Fatalf("wrong bearer %d: %d, want %d", n+1, r.status, want)
		}
	}
	if r := do(t, client, "GET", server.URL+"/api/v1/status", nil, "Authorization", bearerHeader); r.status != 200 {
		t.Errorf("the right bearer after 100 wrong ones: %d", r.status)
	}
}

// Images of a foreign page that lead to /login are nobody's attempts.
func TestLogin_CrossSiteGets_CountForNothing(t *testing.T) {
	_, _, server, client := start(t, nil)
	for range 20 {
		r := do(t, client, "GET", server.URL+"/login?token=x", nil, "Sec-Fetch-Site", "cross-site")
		if r.status != 401 && r.status != 403 {
			t.Fatalf("a wrong link from another site: %d", r.status)
		}
	}
	if r := do(t, client, "GET", server.URL+"/login?token=x", nil); r.status != 401 {
		t.Errorf("the first attempt of this browser: %d, want 401", r.status)
	}
}

// Failures are counted for the client that the trusted proxies name, not for the proxy.
func TestClientAddress(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.1/32")}
	for _, c := range []struct {
		remote, want string
		forwarded    []string
	}{
		{"192.0.2.1:5", "192.0.2.1", nil},
		{"192.0.2.1:5", "192.0.2.1", []string{"198.51.100.1"}},
		{"127.0.0.1:5", "127.0.0.1", nil},
		{"127.0.0.1:5", "198.51.100.1", []string{"198.51.100.1"}},
		{"[::ffff:127.0.0.1]:5", "198.51.100.1", []string{"198.51.100.1"}},
		{"127.0.0.1:5", "198.51.100.1", []string{"203.0.113.9, 198.51.100.1, 10.1.1.1"}},
		{"127.0.0.1:5", "198.51.100.1", []string{"203.0.113.9", "198.51.100.1"}},
		{"127.0.0.1:5", "10.1.1.1", []string{"rubbish, 10.1.1.1"}},
		{"127.0.0.1:5", "2001:db8::1", []string{"2001:db8::1"}},
	} {
		r := &http.Request{RemoteAddr: c.remote, Header: http.Header{"X-Forwarded-For": c.forwarded}}
		if got := (&guard{proxies: proxies}).clientAddress(r); got != c.want {
			t.Errorf("%s with %q: got %s, want %s", c.remote, c.forwarded, got, c.want)
		}
	}
}

func TestASessionOutlivesARestartButNotALogout(t *testing.T) {
	b, s, server, client := start(t, nil)
	enter(t, s, client, server.URL)
	// Another process with the same token takes the cookie, one with another does not.
	s.sessions = newSessions(token, b.time)
	if !inside(t, client, server.URL) {
		t.Error("the session ended with the restart")
	}
	kept := client.Jar.Cookies(mustParse(t, server.URL))[0]
	s.sessions = newSessions("other", b.time)
	if do(t, client, "GET", server.URL+"/chat/general", nil, "Cookie", s.sessions.cookie+"="+kept.Value).status == 200 {
		t.Error("the session outlived the token")
	}
	s.sessions = newSessions(token, b.time)
	if r := do(t, client, "POST", server.URL+"/logout", nil, "Sec-Fetch-Site",
		"same-origin"); r.status != http.StatusSeeOther {
		t.Errorf("logout: %d", r.status)
	}
	if inside(t, client, server.URL) {
		t.Error("inside after the logout")
	}
	if do(t, client, "GET", server.URL+"/chat/general", nil, "Cookie", kept.Name+"="+kept.Value).status == 200 {
		t.Error("a kept cookie still works after the logout")
	}
}

func TestASessionEndsWhenItIsNotUsed(t *testing.T) {
	b, s, server, client := start(t, nil)
	enter(t, s, client, server.URL)
	for range 3 {
		b.later(20 * 24 * time.Hour)
		if !inside(t, client, server.URL) {
			t.Fatal("a session in use ended")
		}
	}
	b.later(sessionLifetime)
	if inside(t, client, server.URL) {
		t.Error("a session unused for 30 days is alive")
	}
}

func TestAForgedCookieIsRefused(t *testing.T) {
	_, s, server, client := start(t, nil)
	enter(t, s, client, server.URL)
	c := client.Jar.Cookies(mustParse(t, server.URL))[0]
	client.Jar = nil
	for i := range len(c.Value) {
		changed := []byte(c.Value)
		changed[i] ^= 4
		if do(t, client, "GET", server.URL+"/chat/general", nil, "Cookie", c.Name+"="+string(changed)).status == 200 {
			t.Errorf("byte %d can be changed", i)
		}
	}
}

func TestHTTPSMakesTheCookieSecure(t *testing.T) {
	_, s, server, client := start(t, func(o *Options) { o.PublicURL = "https://bot.example" })
	r := do(t, client, "GET", s.LoginLink(server.URL), nil, "Host", "bot.example")
	if r.status != http.StatusSeeOther || !strings.Contains(r.header.Get("Set-Cookie"), "Secure") {
		t.Errorf("%d, cookie %s", r.status, r.header.Get("Set-Cookie"))
	}
}

func TestForeignPagesAndNamesAreRefused(t *testing.T) {
	_, s, server, client := start(t, nil)
	enter(t, s, client, server.URL)
	host := strings.TrimPrefix(server.URL, "http://")
	for _, c := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"own form", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"own form over plain http", []string{"Origin", "http://" + host}, 200},
		{"typed address", []string{"Sec-Fetch-Site", "none"}, 200},
		{"no origin at all", nil, 403},
		{"foreign form", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"sibling site", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"foreign origin", []string{"Origin", "http://evil.example"}, 403},
		{"hidden origin", []string{"Origin", "null"}, 403},
		{"foreign name", []string{"Sec-Fetch-Site", "same-origin", "Host", "evil.example"}, 403},
		{"foreign name that looks like ours", []string{"Sec-Fetch-Site", "same-origin", "Host", "127.0.0.1.evil.example:80"}, 403},
		{"foreign address", []string{"Sec-Fetch-Site", "same-origin", "Host", "203.0.113.9"}, 403},
		{"localhost", []string{"Sec-Fetch-Site", "same-origin", "Host", "localhost:1234"}, 200},
		{"the other loopback", []string{"Sec-Fetch-Site", "same-origin", "Host", "[::1]:80"}, 200},
		{"token and foreign name", []string{"Authorization", bearerHeader, "Host", "evil.example"}, 403},
		{"token without origin", []string{"Authorization", bearerHeader}, 200},
	} {
		cookie := client.Jar.Cookies(mustParse(t, server.URL))[0]
		headers := append(c.headers, "Cookie", cookie.Name+"="+cookie.Value)
		jar := client.Jar
		client.Jar = nil
		r := do(t, client, "POST", server.URL+"/digests/morning/run", nil, headers...)
		client.Jar = jar
		if r.status != c.status {
			t.Errorf("%s: %d, want %d", c.name, r.status, c.status)
		}
	}
	if r := do(t, client, "POST", server.URL+"/login", form("token", token), "Content-Type", formType, "Origin",
		"http://evil.example"); r.status != 403 {
		t.Errorf("login from a foreign page: %d", r.status)
	}
	if r := do(t, client, "GET", server.URL+"/", nil, "Host", "evil.example"); r.status != 403 {
		t.Errorf("reading under a foreign name: %d", r.status)
	}
}

func TestHostsThatAreOurs(t *testing.T) {
	for _, c := range []struct {
		listen, public, host string
		want                 bool
	}{
		{"127.0.0.1:8080", "", "127.0.0.1:8080", true},
		{"127.0.0.1:8080", "", "127.1.2.3", true},
		{"127.0.0.1:8080", "", "192.168.1.5:8080", false},
		{"192.168.1.5:8080", "", "192.168.1.5:8080", true},
		{"raven.lan:8080", "", "RAVEN.lan:8080", true},
		{":8080", "", "192.168.1.5:8080", true},
		{"0.0.0.0:8080", "", "[2001:db8::1]:8080", true},
		{"[::]:8080", "", "raven.lan", false},
		{":8080", "https://bot.example/", "bot.example", true},
		{":8080", "https://bot.example/", "bot.example.evil", false},
		{":8080", "", "", false},
	} {
		g := newGuard(Options{Listen: c.listen, PublicURL: c.public, Log: slog.New(slog.DiscardHandler)})
		if got := g.isOurHost(c.host); got != c.want {
			t.Errorf("listening on %s as %q: host %q is ours: %v", c.listen, c.public, c.host, got)
		}
	}
}

func TestEveryAnswerForbidsInlineMarkup(t *testing.T) {
	var log bytes.Buffer
	_, s, server, client := start(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for _, path := range []string{"/login", "/healthz", "/api/v1/status", "/"} {
		check(t, path, do(t, client, "GET", server.URL+path, nil))
	}
	enter(t, s, client, server.URL)
	for _, path := range []string{"/servers", "/digests", "/chat/general", "/api/v1/status"} {
		check(t, path, do(t, client, "GET", server.URL+path, nil))
	}
	if strings.Contains(log.String(), token) {
		t.Error("the log holds the token")
	}
}

func check(t *testing.T, path string, r reply) {
	t.Helper()
	csp := r.header.Get("Content-Security-Policy")
	if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") ||
		strings.Contains(csp, "unsafe") {
		t.Errorf("%s: policy %q", path, csp)
	}
	if r.header.Get("X-Content-Type-Options") != "nosniff" || r.header.Get("Referrer-Policy") != "same-origin" {
		t.Errorf("%s: headers %v", path, r.header)
	}
	if strings.Contains(r.body, token) {
		t.Errorf("%s tells the token", path)
	}
}

func TestTheTokenOfMetrics_OpensNothingElse(t *testing.T) {
	const metricsToken = "prometheus"
	b, _, server, client := start(t, func(o *Options) {
		o.MetricsToken = metricsToken
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "up 1") })
	})
	for _, route := range everything {
		method, path, _ := strings.Cut(route, " ")
		want := http.StatusUnauthorized
		if path == "/metrics" {
			want = http.StatusOK
		}
		if r := do(t, client, method, server.URL+path, nil, "Authorization", "Bearer "+metricsToken); r.status != want {
			t.Errorf("%s: %d %s, want %d", route, r.status, r.body, want)
		}
		b.later(time.Minute)
	}
	for _, given := range []string{"", "prometheu", token[1:]} {
		if r := do(t, client, "GET", server.URL+"/metrics", nil, "Authorization", "Bearer "+given); r.status != 401 {
			t.Errorf("%q opens the metrics: %d", given, r.status)
		}
	}
	if r := do(t, client, "GET", server.URL+"/metrics", nil, "Authorization", bearerHeader); r.status != http.StatusOK {
		t.Errorf("the admin token does not open the metrics: %d", r.status)
	}
}
