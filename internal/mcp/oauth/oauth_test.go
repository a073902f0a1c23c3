package oauth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/ops/egress"
)

func TestFromRefusalToToken(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "files", URL: p.url()})
	first := b.needed(c, p.url())
	if again := b.needed(c, p.url()); again.URL != first.URL || len(b.told()) != 1 {
		t.Errorf("the same refusal made another link, or %d notices", len(b.told()))
	}
	if w, ok := b.broker.Waiting("files", ""); !ok || w.URL != first.URL {
		t.Errorf("Waiting gives %+v", w)
	}
	status, text := browse(t, first.URL)
	if status != 200 || !strings.Contains(text, "files is connected") {
		t.Fatalf("page %d %s", status, text)
	}
	b.welcome(c, p.url(), `{"n":1}`)
	if diff := cmp.Diff([]string{`{"n":1}`}, p.calls); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"files/"}, b.granted); diff != "" {
		t.Error(diff)
	}
	a := p.named
	want := map[string]any{"client_name": "ravenbot", "redirect_uris": []any{b.door + "/oauth/callback"},
		"response_types": []any{"code"},
		"grant_types":    []any{"authorization_code", "refresh_token"}, "token_endpoint_auth_method": "client_secret_basic",
		"application_type": "native"}
	if diff := cmp.Diff([]map[string]any{want}, a.registers); diff != "" {
		t.Error(diff)
	}
	q := a.asked[0]
	if q.Get("resource") != p.url() || q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" ||
		q.Has("scope") || q.Get("kept") != "1" {
		t.Errorf("authorization request %v", q)
	}
	if _, ok := b.broker.Waiting("files", ""); ok {
		t.Error("still waiting")
	}
}

func TestDiscovery(t *testing.T) {
	tests := []struct {
		name   string
		change func(*peer)
	}{
		{"named in the header", func(p *peer) { p.metadata = "/custom/place.json" }},
		{"below the path", func(p *peer) { p.inHeader = false }},
		{"at the root", func(p *peer) { p.inHeader, p.metadata = false, "/.well-known/oauth-protected-resource" }},
		{"for the whole origin", func(p *peer) { p.resource = p.server.URL }},
		{"issuer with a path", func(p *peer) { p.named.path = "/tenant" }},
		{"OpenID", func(p *peer) { p.named.where = "/.well-known/openid-configuration" }},
		{"OpenID, path inserted", func(p *peer) {
			p.named.path, p.named.where = "/tenant", "/.well-known/openid-configuration/tenant"
		}},
		{"OpenID, path before", func(p *peer) {
			p.named.path, p.named.where = "/tenant", "/tenant/.well-known/openid-configuration"
		}},
		{"2025-03-26", func(p *peer) { p.inHeader, p.metadata = false, "" }},
		{"2025-03-26 without metadata", func(p *peer) {
			p.inHeader, p.metadata, p.named.where = false, "", "/nowhere"
			p.named.slash = "" // its origin stands in for its unknown name
		}},
	}
	for _, tt := range tests {
		for _, form := range []struct{ named, own string }{{"", ""}, {"/", ""}, {"", "/"}, {"/", "/"}} {
			t.Run(fmt.Sprintf("%s, issuer named x%s, calls itself x%s", tt.name, form.named, form.own), func(t *testing.T) {
				p, b := newPeer(t), newBot(t)
				p.slash, p.named.slash = form.named, form.own
				tt.change(p)
				if p.named.path != "" { // with one the forms are two issuers
					p.slash, p.named.slash = "", ""
				}
				c := b.client(Entry{Name: "a", URL: p.url()})
				b.consent(c, p.url())
				b.welcome(c, p.url(), "{}")
				want := p.resource
				if want == "" {
					want = p.url()
				}
				if got := p.named.asked[0].Get("resource"); got != want {
					t.Errorf("the resource is %q and not as published, %q", got, want)
				}
			})
		}
	}
}

// An issuer without a path is the same with and without its slash, wherever it is named: in the configuration, in the
// metadata, in the stored token and in the stored registration.
func TestIssuer_SlashOfTheRoot_MakesNoDifference(t *testing.T) {
	slashes := []string{"", "/"}
	for _, configured := range slashes {
		for _, before := range slashes {
			for _, after := range slashes {
				t.Run(fmt.Sprintf("configured x%s, before x%s, after x%s", configured, before, after), func(t *testing.T) {
					p, b := newPeer(t), newBot(t)
					p.slash, p.named.slash = after, before
					entry := Entry{Name: "a", URL: p.url(), Issuer: p.named.server.URL + configured}
					b.consent(b.client(entry), p.url())
					p.revoke()
					p.with(func() { p.slash, p.named.slash = before, after })
					again := newBot(t, func(o *Options) { o.Store, o.RedirectURL = b.keep, b.door+"/oauth/callback" })
					c := again.client(entry)
					again.welcome(c, p.url(), "{}") // renewed: the stored token is this issuer's
					p.revoke()
					p.with(func() { clear(p.named.refreshes) })
					again.needed(c, p.url())
					if n := len(p.named.registers); n != 1 || p.named.count("refresh_token") != 2 {
						t.Errorf("%d registrations, %d renewals", n, p.named.count("refresh_token"))
					}
				})
			}
		}
	}
}

// If the first authorization server does not answer, the next one is tried, except for servers that a
// token or a secret does not belong to.
func TestDiscovery_DeadAuthorizationServer(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, dead := range map[string]func(t *testing.T) string{
		"refuses connections": func(*testing.T) string { return gone.URL },
		"has no metadata": func(t *testing.T) string {
			return serve(t, http.NotFoundHandler()).URL
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, b := newPeer(t), newBot(t)
			p.others = []string{dead(t)}
			c := b.client(Entry{Name: "a", URL: p.url()})
			b.consent(c, p.url())
			b.welcome(c, p.url(), "{}")
			for _, e := range []Entry{
				{Name: "b", URL: p.url(), ClientID: "me", ClientSecret: "secret"},
				{Name: "c", URL: p.url(), Issuer: p.others[0]},
			} {
				b.fails(b.client(e), p.url(), "sign in at MCP server")
			}
			// The token's own server is dead now; the other one must not end its token.
			next := p.newIssuer("")
			p.with(func() {
				clear(p.valid)
				p.others, p.named = []string{p.named.name()}, next
				p.as[0].where, p.as[0].grants = "/nowhere", func(url.Values) (int, map[string]any) { return 503, nil }
			})
			b.fails(c, p.url(), "does not describe itself")
		})
	}
}

func TestATokenWithoutAType_IsABearerToken(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	p.named.grants = func(url.Values) (int, map[string]any) {
		p.valid["plain"] = nil
		return 200, map[string]any{"access_token": "plain"}
	}
	c := b.client(Entry{Name: "a", URL: p.url()})
	b.consent(c, p.url())
	b.welcome(c, p.url(), "{}")
}

// Nothing may be begun with a server whose metadata do not fit together.
func TestWhatDoesNotFitIsRefused(t *testing.T) {
	tests := []struct {
		name   string
		change func(*peer)
		entry  Entry
		want   string
	}{
		{"resource of another", func(p *peer) { p.resource = "https://evil.example/mcp" }, Entry{}, "not its url"},
		{"resource beside it", func(p *peer) { p.resource = p.server.URL + "/mc" }, Entry{}, "not its url"},
		{"resource below it", func(p *peer) { p.resource = p.url() + "/more" }, Entry{}, "not its url"},
		{"no resource", func(p *peer) { p.resource = "x" }, Entry{}, "not its url"},
		{"issuer of another", func(p *peer) { p.named.more["issuer"] = "https://evil.example" }, Entry{}, "another issuer"},
		{"issuer with a path, but for a slash", func(p *peer) { p.named.path, p.slash = "/tenant", "/" }, Entry{}, "another issuer"},
		{"issuer with a path, named without its slash", func(p *peer) { p.named.path, p.named.slash = "/tenant", "/" }, Entry{}, "another issuer"},
		{"issuer with two slashes", func(p *peer) { p.named.slash = "//" }, Entry{}, "another issuer"},
		{"issuer with a query", func(p *peer) { p.named.slash = "?/" }, Entry{}, "another issuer"},
		{"no PKCE", func(p *peer) { p.named.more["code_challenge_methods_supported"] = nil }, Entry{}, "PKCE"},
		{"plain PKCE", func(p *peer) { p.named.more["code_challenge_methods_supported"] = []string{"plain"} }, Entry{}, "PKCE"},
		{"no registration", func(p *peer) { p.named.more["registration_endpoint"] = nil }, Entry{}, "configure its client id"},
		{"an endpoint that is not an address", func(p *peer) { p.named.more["token_endpoint"] = "javascript:alert(1)" }, Entry{}, "not an address"},
		{"an endpoint in a file", func(p *peer) { p.named.more["authorization_endpoint"] = "file://x/etc/passwd" }, Entry{}, "not https"},
		{"no token endpoint", func(p *peer) { p.named.more["token_endpoint"] = nil }, Entry{}, "no token endpoint"},
		{"not the issuer configured", func(*peer) {}, Entry{Issuer: "https://ours.example"}, "not the configured one"},
		{"no metadata", func(p *peer) { p.named.where = "/nowhere" }, Entry{}, "does not describe itself"},
		{"2025-03-26, not the issuer configured", func(p *peer) { p.inHeader, p.metadata = false, "" }, Entry{Issuer: "https://ours.example"}, "does not name the authorization server"},
		{"endless metadata", func(p *peer) { p.named.more["x"] = strings.Repeat("x", maxDocument) }, Entry{}, "too large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, b := newPeer(t), newBot(t)
			tt.change(p)
			tt.entry.Name, tt.entry.URL = "a", p.url()
			b.fails(b.client(tt.entry), p.url(), tt.want)
			if len(b.told()) > 0 || len(p.named.registers) > 0 || len(p.named.asked) > 0 {
				t.Error("a sign-in was begun all the same")
			}
		})
	}
}

func TestAServerThatWantsNoBearerToken(t *testing.T) {
	b := newBot(t)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mcp" {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	b.fails(b.client(Entry{Name: "a", URL: s.URL + "/mcp"}), s.URL+"/mcp", "set them in headers")
}

func TestOnlyTheAnswerOfTheOneAskedCounts(t *testing.T) {
	text := func(s string) *string { return &s }
	tests := []struct {
		name   string
		change func(*peer)
		want   string
	}{
		{"mix-up", func(p *peer) { p.named.iss = text("https://evil.example") }, "does not come from"},
		{"iss but for a slash", func(p *peer) { p.named.iss = text(p.named.name() + "/") }, "does not come from"},
		{"iss as the resource names it, and not the issuer itself", func(p *peer) {
			p.slash = "/"
			p.named.iss = text(p.named.name() + "/")
		}, "does not come from"},
		{"iss missing", func(p *peer) { p.named.iss = text("") }, "does not come from"},
		{"iss wrong though not announced", func(p *peer) {
			p.named.more["authorization_response_iss_parameter_supported"] = nil
			p.named.iss = text("https://evil.example")
		}, "does not come from"},
		{"denied", func(p *peer) { p.named.deny = "access_denied" }, "access_denied"},
		{"no bearer token", func(p *peer) {
			p.named.grants = func(url.Values) (int, map[string]any) {
				return 200, map[string]any{"access_token": "x", "token_type": "DPoP"}
			}
		}, "of the type &#34;DPoP&#34;"},
		{"a token with a line break", func(p *peer) {
			p.named.grants = func(url.Values) (int, map[string]any) {
				return 200, map[string]any{"access_token": "x\r\nX-Evil: 1", "token_type": "Bearer"}
			}
		}, "no token that can be sent"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, b := newPeer(t), newBot(t)
			tt.change(p)
			c := b.client(Entry{Name: "a", URL: p.url()})
			link := b.needed(c, p.url()).URL
			status, page := browse(t, link)
			if status != 400 || !strings.Contains(page, tt.want) {
				t.Errorf("page %d %s, want %q", status, page, tt.want)
			}
			if p.named.iss != nil && p.named.count(AuthorizationCode) > 0 {
				t.Error("the code was sent to the token endpoint")
			}
			if again := b.needed(c, p.url()); again.URL == link { // nothing else was gained
				t.Error("the link that was used is given again")
			}
		})
	}
}

func TestAnIssThatIsNotAnnouncedMayBeMissing(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	p.named.more["authorization_response_iss_parameter_supported"] = nil
	p.named.iss = new(string)
	c := b.client(Entry{Name: "a", URL: p.url()})
	b.consent(c, p.url())
	b.welcome(c, p.url(), "{}")
}

func TestAConsentCountsOnceAndForTenMinutes(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url()})
	link := b.needed(c, p.url())
	state := b.leads(link.URL).Query().Get("state")
	back := func(state string) string {
		return b.door + "/oauth/callback?" + url.Values{"state": {state}, "code": {"stolen"},
			"iss": {p.named.name()}}.Encode()
	}
	_, ticket, _ := strings.Cut(link.URL, "?open=")
	wrong := []string{link.URL + "x", b.door + "/oauth/callback?open=guessed"}
	for _, s := range []string{"", "guessed", state[1:], strings.ToLower(state), ticket} {
		wrong = append(wrong, back(s))
	}
	for _, at := range wrong {
		if status, page := visit(t, nil, at); status != 400 || !strings.Contains(page, "used before") {
			t.Errorf("%s: %d %s", at, status, page)
		}
	}
	person := newBrowser(t)
	b.pass(consentLifetime - time.Second)
	if status, _ := visit(t, person, link.URL); status != 200 {
		t.Error("the link does not work any more")
	}
	b.pass(time.Second)
	if status, page := press(t, person, link.URL); status != 400 || !strings.Contains(page, "too old") {
		t.Errorf("an old link: %d %s", status, page)
	}
	fresh := b.needed(c, p.url())
	if fresh.URL == link.URL {
		t.Fatal("the old link is given again")
	}
	if status, _ := press(t, person, fresh.URL); status != 200 {
		t.Fatal("the new link does not work")
	}
	if status, _ := press(t, person, fresh.URL); status != 400 {
		t.Error("a link works twice")
	}
	for _, at := range []string{back(state), fresh.URL} {
		r, err := http.NewRequest(http.MethodPut, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		if status, _ := fetch(t, person, r); status != http.StatusMethodNotAllowed {
			t.Errorf("a PUT is answered with %d", status)
		}
	}
}

// A proxy may serve the bot below a path that the bot does not see.
func TestTheCookieIsForThePathThatBrowsersSee(t *testing.T) {
	p, b := newPeer(t), newBot(t, func(o *Options) { o.RedirectURL = "https://bot.example/raven/oauth/callback" })
	link := b.needed(b.client(Entry{Name: "a", URL: p.url()}), p.url())
	w := httptest.NewRecorder()
	b.broker.Callback().ServeHTTP(w, httptest.NewRequest(http.MethodPost, strings.Replace(link.URL, "/raven", "", 1), nil))
	cookies := w.Result().Cookies()
	if len(cookies) != 1 || cookies[0].Path != "/raven/oauth/callback" || !cookies[0].Secure || !cookies[0].HttpOnly {
		t.Errorf("cookies %v", cookies)
	}
}

// Who gets a link may not have another person consent: neither with the address it
// leads to, nor with a page that presses the button.
func TestConsentIsGivenWhereTheLinkWasOpened(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url(), User: "eve"})
	link := b.needed(c, p.url())
	eve, victim := newBrowser(t), newBrowser(t)
	eve.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if status, _ := press(t, eve, link.URL); status != http.StatusSeeOther {
		t.Fatalf("eve's click is answered with %d", status)
	}
	if status, page := visit(t, victim, b.leads(link.URL).String()); status != 400 ||
		!strings.Contains(page, "not the browser") {
		t.Errorf("the victim gets %d %s", status, page)
	}
	if p.named.count(AuthorizationCode) > 0 {
		t.Error("the victim's code was used")
	}
	link = b.needed(c, p.url())
	r, err := http.NewRequest(http.MethodPost, link.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", "https://evil.example")
	if status, _ := fetch(t, victim, r); status != http.StatusForbidden {
		t.Errorf("a click from elsewhere is answered with %d", status)
	}
	_, page := visit(t, victim, link.URL)
	if !strings.Contains(page, "used for eve alone: go on only if that is you") {
		t.Errorf("the page says %s", page)
	}
}

// A code can be exchanged once: the person who has given consent may close the window while other requests of the
// session are still under way.
func TestReturn_BrowserClosedWhileSessionIsBusy_ConsentCounts(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url()})
	link := b.needed(c, p.url())
	_, ticket, _ := strings.Cut(link.URL, "?open=")
	asked := b.broker.findTicket(ticket)
	person := newBrowser(t)
	var back *http.Request
	person.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if !r.URL.Query().Has("code") {
			return nil
		}
		back = r
		return http.ErrUseLastResponse
	}
	press(t, person, link.URL)
	if back == nil {
		t.Fatal("the authorization server gave no code")
	}
	closed, closeBrowser := context.WithCancel(t.Context())
	closeBrowser()
	r := httptest.NewRequest(http.MethodGet, back.URL.String(), nil).WithContext(closed)
	for _, cookie := range person.Jar.Cookies(back.URL) {
		r.AddCookie(cookie)
	}
	if err := asked.s.acquire(t.Context()); err != nil { // another request of the session
		t.Fatal(err)
	}
	handled := make(chan struct{})
	go func() {
		defer close(handled)
		b.broker.Callback().ServeHTTP(httptest.NewRecorder(), r)
	}()
	for b.broker.HasConsent(r.URL.Query()) { // until the return is being handled
		runtime.Gosched()
	}
	asked.s.release()
	<-handled
	b.welcome(c, p.url(), "{}")
}

func TestConsentIsOfOneUser(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	alice := b.client(Entry{Name: "a", URL: p.url(), User: "alice"})
	bob := b.client(Entry{Name: "a", URL: p.url(), User: "bob"})
	b.consent(alice, p.url())
	b.welcome(alice, p.url(), "{}")
	if n := b.needed(bob, p.url()); n.User != "bob" {
		t.Errorf("the consent is %s's", n.User)
	}
	b.consent(bob, p.url())
	b.welcome(bob, p.url(), "{}")
	if n := len(p.named.registers); n != 1 {
		t.Errorf("%d registrations for one server", n)
	}
	used := map[string]bool{}
	for _, token := range p.bearers {
		used[token] = token != ""
	}
	if len(used) != 3 { // "", and one each
		t.Errorf("tokens used: %v", used)
	}
	if err := b.broker.Forget(t.Context(), "a", "alice"); err != nil {
		t.Fatal(err)
	}
	b.needed(alice, p.url())
	b.welcome(bob, p.url(), "{}")
}

func TestPeopleAreNotPestered(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url()})
	for range 24 * 60 { // a day in which a supervisor tries every minute
		b.needed(c, p.url())
		b.pass(time.Minute)
	}
	if n := len(b.told()); n < 2 || n > 10 {
		t.Errorf("%d notices in a day", n)
	}
	mine := b.client(Entry{Name: "a", URL: p.url(), User: "alice"})
	before := len(b.told())
	for range 3 { // she asks, does not consent, and asks again
		b.needed(mine, p.url())
		b.pass(consentLifetime)
	}
	if n := len(b.told()) - before; n != 3 {
		t.Errorf("%d notices to who asked three times", n)
	}
}

// A link that did not reach its person is sent at the next occasion.
func TestALinkThatWasNotDelivered(t *testing.T) {
	tries := 0
	p, b := newPeer(t), newBot(t, func(o *Options) {
		o.NotifyConsent = func(context.Context, Consent) error {
			if tries++; tries == 1 {
				return errors.New("the chat is down")
			}
			return nil
		}
	})
	c := b.client(Entry{Name: "a", URL: p.url()})
	for range 3 {
		b.needed(c, p.url())
	}
	if tries != 2 {
		t.Errorf("it was sent %d times", tries)
	}
}

// Nobody is asked for consent to the end of a session.
func TestAFarewellIsSentOnce(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url()})
	r, err := http.NewRequest(http.MethodDelete, p.url(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := fetch(t, c, r); status != http.StatusUnauthorized || len(b.told()) > 0 {
		t.Errorf("HTTP %d, %d notices", status, len(b.told()))
	}
	b.consent(c, p.url())
	if status, text := fetch(t, c, r); status != 200 || text != "welcome" {
		t.Errorf("HTTP %d %s", status, text)
	}
}

func TestTokensGoToTheirServerAlone(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url()})
	b.consent(c, p.url())
	var leaked []string
	other := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		leaked = append(leaked, r.Header.Get("Authorization"))
	}))
	if _, err := send(c, other.URL+"/mcp", "{}"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(leaked, []string{""}) {
		t.Errorf("another origin got %q", leaked)
	}
}

func TestConfiguredCredentialsAreLeftAlone(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url()})
	r, err := http.NewRequest(http.MethodPost, p.url(), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer configured")
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 401 || !slices.Equal(p.bearers, []string{"configured"}) || len(b.told()) > 0 {
		t.Errorf("HTTP %d, tokens %q, %d notices", resp.StatusCode, p.bearers, len(b.told()))
	}
}

func TestPrivateAddressesInMetadataAreRefused(t *testing.T) {
	p := newPeer(t)
	at, err := url.Parse(p.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	named := "http://mcp.example:" + at.Port()
	out, err := egress.New(egress.Options{Resolver: resolver{}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBot(t, func(o *Options) { o.Egress = out })
	p.resource = named + "/mcp"
	public := &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, at.Host)
		}}
	request := func(e Entry) error {
		e.Name, e.URL = "a", named+"/mcp"
		_, err := send(&http.Client{Transport: b.broker.Transport(e, public)}, e.URL, "{}")
		return err
	}
	p.inHeader = false // the configured server is reachable, its other addresses are not
	if err := request(Entry{}); !errors.Is(err, egress.ErrBlocked) || len(p.named.asked)+len(p.named.registers) > 0 {
		t.Errorf("its authorization server: %v", err)
	}
	p.inHeader = true // names 127.0.0.1
	if err := request(Entry{}); !errors.Is(err, egress.ErrBlocked) {
		t.Errorf("its metadata: %v", err)
	}
	p.named.server.URL = strings.Replace(p.named.server.URL, "127.0.0.1", "auth.example", 1)
	if err := request(Entry{}); !errors.Is(err, egress.ErrBlocked) {
		t.Errorf("its authorization server by name: %v", err)
	}
	var needed *ConsentNeededError
	if err := request(Entry{Allow: []string{"auth.example"}}); !errors.As(err, &needed) {
		t.Errorf("what the operator allows: %v", err)
	}
}

// resolver finds every name on this machine.
type resolver struct{}

func (resolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

func TestMetadataAreNotFetchedElsewhere(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	lure := p.newIssuer("")
	moved := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, lure.server.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	lure.more["issuer"] = moved.URL
	p.named = &issuer{p: p, server: moved}
	b.fails(b.client(Entry{Name: "a", URL: p.url()}), p.url(), "HTTP 307")

	p.named = p.as[0]
	p.named.more["token_endpoint"] = moved.URL + "/token"
	c := b.client(Entry{Name: "b", URL: p.url()})
	if status, page := browse(t, b.needed(c, p.url()).URL); status != 400 || !strings.Contains(page, "HTTP 307") {
		t.Errorf("page %d %s", status, page)
	}
	if len(lure.forms) > 0 {
		t.Error("the code followed a redirect")
	}
}

func TestHTTPSIsNotLeft(t *testing.T) {
	b := newBot(t)
	tests := []struct {
		server, named string
		ok            bool
	}{
		{"https://a.example/mcp", "https://b.example/x", true},
		{"https://a.example/mcp", "http://b.example/x", false},
		{"http://a.example/mcp", "http://b.example/x", true},
		{"https://a.example/mcp", "https://u:p@b.example/x", false},
		{"https://a.example/mcp", "https://b.example/x#y", false},
		{"https://a.example/mcp", "//b.example/x", false},
		{"https://a.example/mcp", "", false},
	}
	for _, tt := range tests {
		s := b.broker.Transport(Entry{Name: tt.server, URL: tt.server}, http.DefaultTransport).(*tokenTransport).s
		if _, err := s.checkURL(tt.named); (err == nil) != tt.ok {
			t.Errorf("%s names %s: %v", tt.server, tt.named, err)
		}
	}
}

func TestNew(t *testing.T) {
	out, err := egress.New(egress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{
		{Egress: out, Box: newBox(t, 1), RedirectURL: "/cb"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	b := newBot(t)
	b.fails(b.client(Entry{Name: "a", URL: "%"}), "http://127.0.0.1/", "cannot be read")
	b.fails(b.client(Entry{Name: "a", URL: "http://x/", Allow: []string{"/"}}), "http://127.0.0.1/", "hosts allowed")
}

func TestManyAtOnce(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url()})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			var needed *ConsentNeededError
			if _, err := send(c, p.url(), "{}"); !errors.As(err, &needed) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(b.told()) != 1 || len(p.named.registers) != 1 {
		t.Errorf("%d notices, %d registrations", len(b.told()), len(p.named.registers))
	}
	b.consent(c, p.url())
	for i := range 16 {
		wg.Go(func() {
			if _, err := send(c, p.url(), fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(p.calls) != 16 {
		t.Errorf("%d of 16 calls arrived", len(p.calls))
	}
}
