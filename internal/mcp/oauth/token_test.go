package oauth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestATokenIsRenewedOnce(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url()})
	b.consent(c, p.url())
	b.welcome(c, p.url(), "{}")
	for round := 1; round <= 3; round++ { // each refresh token works once
		b.pass(time.Hour - renewBefore + time.Second)
		p.revoke()
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if text, err := send(c, p.url(), "{}"); text != "welcome" {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := p.named.count("refresh_token"); n != round {
			t.Fatalf("%d renewals in round %d", n, round)
		}
	}
	if f := p.named.forms[1]; f.Get("resource") != p.url() || f.Get("refresh_token") == "" {
		t.Errorf("the renewal was asked for with %v", f)
	}
	if len(b.told()) != 1 {
		t.Error("somebody was bothered")
	}
}

func TestARefusedTokenIsRenewed(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url()})
	b.consent(c, p.url())
	p.revoke()
	b.welcome(c, p.url(), "the same body")
	if diff := cmp.Diff([]string{"the same body"}, p.calls); diff != "" {
		t.Error(diff)
	}
	p.revoke()
	p.with(func() { clear(p.named.refreshes) }) // the person has withdrawn consent
	b.needed(c, p.url())
	if strings.Contains(b.keep.all(), "token/") {
		t.Error("a token that is worth nothing is kept")
	}
}

// Refusals of the same token are answered by one renewal, however many there are.
func TestManyRefusalsOfOneToken(t *testing.T) {
	const many = 16
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url()})
	b.consent(c, p.url())
	b.welcome(c, p.url(), "{}")
	p.revoke()
	var refused sync.WaitGroup
	refused.Add(many)
	c.Transport.(*tokenTransport).next = tripper(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err == nil && resp.StatusCode == http.StatusUnauthorized {
			refused.Done()
			refused.Wait()
		}
		return resp, err
	})
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() {
			if text, err := send(c, p.url(), "{}"); text != "welcome" {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := p.named.count("refresh_token"); n != 1 {
		t.Errorf("%d renewals", n)
	}
}

// sharedMemory is a memory that several brokers use.
type sharedMemory struct {
	*memory
	claimed map[string]bool
}

func (k sharedMemory) Claim(key string, _ time.Time) (release func(), ok bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.claimed[key] {
		return nil, false, nil
	}
	k.claimed[key] = true
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.claimed, key)
	}, true, nil
}

// Two processes share a store, and a server takes each refresh token once.
func TestATokenIsRenewedOnceByTwoProcesses(t *testing.T) {
	kept := sharedMemory{&memory{m: map[string][]byte{}}, map[string]bool{}}
	share := func(o *Options) { o.Store = kept }
	p, a, b := newPeer(t), newBot(t, share), newBot(t, share)
	e := Entry{Name: "a", URL: p.url()}
	here, there := a.client(e), b.client(e)
	a.consent(here, p.url())
	a.welcome(here, p.url(), "{}")
	b.welcome(there, p.url(), "{}") // with what the other one has stored
	renewals := 0
	both := func(what string) {
		t.Helper()
		var wg sync.WaitGroup
		for range 8 {
			for _, c := range []*http.Client{here, there} {
				wg.Go(func() {
					if text, err := send(c, p.url(), "{}"); text != "welcome" {
						t.Errorf("%s: %v", what, err)
					}
				})
			}
		}
		wg.Wait()
		renewals++
		if n := p.named.count("refresh_token"); n != renewals {
			t.Fatalf("%s: %d renewals, want %d", what, n, renewals)
		}
	}
	for range 3 {
		a.pass(time.Hour - renewBefore + time.Second)
		b.pass(time.Hour - renewBefore + time.Second)
		p.revoke()
		both("the token expires")
	}
	p.revoke()
	both("the token is refused")
	if len(a.told()) != 1 || len(b.told()) != 0 {
		t.Error("somebody was bothered")
	}
	// One of them is not asked for a while, and does not know the newest token.
	p.revoke()
	a.welcome(here, p.url(), "{}")
	p.revoke()
	a.welcome(here, p.url(), "{}")
	b.welcome(there, p.url(), "{}")
	if n := p.named.count("refresh_token"); n != renewals+2 {
		t.Errorf("%d renewals, want %d", n, renewals+2)
	}
}

// A process that renews without waiting, such as one whose claim has ended, costs no consent.
func TestARefreshTokenThatAnotherProcessHasUsed(t *testing.T) {
	kept := sharedMemory{&memory{m: map[string][]byte{}}, map[string]bool{}}
	share := func(o *Options) { o.Store = kept }
	p, a, b := newPeer(t), newBot(t, share), newBot(t, share)
	e := Entry{Name: "a", URL: p.url()}
	here, there := a.client(e), b.client(e)
	a.consent(here, p.url())
	b.welcome(there, p.url(), "{}")
	s := there.Transport.(*tokenTransport).s
	p.revoke()
	used := false
	p.with(func() {
		p.named.grants = func(url.Values) (int, map[string]any) {
			if used {
				return 0, nil
			}
			// While this request is on its way, the other process is answered and stores its token.
			used = true
			r, ok := s.storedRecord()
			if !ok {
				t.Error("nothing is stored")
			}
			r.Access, r.Refresh = "access-other", "refresh-other"
			p.valid["access-other"] = nil
			if err := a.broker.save(s.key, r); err != nil {
				t.Error(err)
			}
			return 400, map[string]any{"error": "invalid_grant"}
		}
	})
	b.welcome(there, p.url(), "{}")
	if !used || len(b.told()) != 0 {
		t.Errorf("asked for a token: %v, consents: %d", used, len(b.told()))
	}
}

// A consent that one process has got is not asked for by another one any more.
func TestTakeGranted(t *testing.T) {
	kept := sharedMemory{&memory{m: map[string][]byte{}}, map[string]bool{}}
	share := func(o *Options) { o.Store = kept }
	p, a, b := newPeer(t), newBot(t, share), newBot(t, share)
	e := Entry{Name: "a", URL: p.url()}
	here, there := a.client(e), b.client(e)
	b.needed(there, p.url())
	if err := b.broker.TakeGranted(t.Context()); err != nil || len(b.granted) != 0 {
		t.Fatalf("nobody has consented: %v, %v", b.granted, err)
	}
	a.consent(here, p.url())
	if err := b.broker.TakeGranted(t.Context()); err != nil || len(b.granted) != 1 {
		t.Errorf("granted %v, %v", b.granted, err)
	}
	if _, waits := b.broker.Waiting("a", ""); waits {
		t.Error("it is still asked for")
	}
	b.welcome(there, p.url(), "{}")
}

func TestHasConsent(t *testing.T) {
	p, a, b := newPeer(t), newBot(t), newBot(t)
	link := a.needed(a.client(Entry{Name: "a", URL: p.url()}), p.url()).URL
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	back := url.Values{"state": {a.leads(link).Query().Get("state")}}
	for what, q := range map[string]url.Values{"link": u.Query(), "return": back} {
		if !a.broker.HasConsent(q) || b.broker.HasConsent(q) {
			t.Errorf("the %s: %v in the process that asks, %v in another", what, a.broker.HasConsent(q), b.broker.HasConsent(q))
		}
	}
	a.pass(consentLifetime)
	if a.broker.HasConsent(u.Query()) || a.broker.HasConsent(back) {
		t.Error("an expired one")
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAFaultWhileRenewingPasses(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url()})
	b.consent(c, p.url())
	p.with(func() {
		p.named.grants = func(url.Values) (int, map[string]any) {
			return 503, map[string]any{"error": "temporarily_unavailable"}
		}
	})
	b.pass(time.Hour - renewBefore + time.Second)
	b.welcome(c, p.url(), "still good for half a minute")
	b.pass(time.Minute)
	b.fails(c, p.url(), "HTTP 503")
	p.with(func() { p.named.grants = nil })
	b.welcome(c, p.url(), "{}")
	if len(b.told()) != 1 {
		t.Error("somebody was bothered")
	}
}

// A new refresh token that nobody reads is a consent lost.
func TestARenewalOutlivesWhoAskedForIt(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url()})
	b.consent(c, p.url())
	b.pass(2 * time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	p.with(func() {
		p.named.grants = func(url.Values) (int, map[string]any) { cancel(); return 0, nil }
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url(), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := c.Do(r); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v %v", resp, err)
	}
	b.welcome(c, p.url(), "{}")
	if n := p.named.count("refresh_token"); n != 1 || len(b.told()) != 1 {
		t.Errorf("%d renewals, %d notices", n, len(b.told()))
	}
}

func TestScopes(t *testing.T) {
	tests := []struct {
		name   string
		change func(*peer)
		entry  Entry
		want   string
	}{
		{"none", func(*peer) {}, Entry{}, ""},
		{"of the refusal", func(p *peer) { p.challenge, p.supported = `, scope="a b"`, []string{"c"} }, Entry{}, "a b"},
		{"of the server", func(p *peer) { p.supported = []string{"c", "d"} }, Entry{}, "c d"},
		{"configured", func(p *peer) { p.challenge = `, scope="a"` }, Entry{Scopes: []string{"z"}}, "z"},
		{"offline", func(p *peer) {
			p.supported = []string{"c"}
			p.named.more["scopes_supported"] = []string{"c", "x", "offline_access"}
		}, Entry{}, "c offline_access"},
		{"offline alone", func(p *peer) { p.named.more["scopes_supported"] = []string{"offline_access"} }, Entry{}, ""},
		{"odd", func(p *peer) { p.supported = []string{"c", "d e", `"`, "c"} }, Entry{}, "c d e"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, b := newPeer(t), newBot(t)
			tt.change(p)
			tt.entry.Name, tt.entry.URL = "a", p.url()
			c := b.client(tt.entry)
			b.consent(c, p.url())
			b.welcome(c, p.url(), "{}")
			q := p.named.asked[0]
			if q.Get("scope") != tt.want || q.Has("scope") != (tt.want != "") {
				t.Errorf("asked for %q, want %q", q.Get("scope"), tt.want)
			}
			if (q.Get("prompt") == "consent") != strings.Contains(tt.want, offlineAccess) {
				t.Errorf("prompt %q", q.Get("prompt"))
			}
		})
	}
}

func TestStepUp(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	p.supported = []string{"read"}
	c := b.client(Entry{Name: "a", URL: p.url()})
	b.consent(c, p.url())
	p.needs = []string{"write"}
	b.consent(c, p.url())
	b.welcome(c, p.url(), "{}")
	if got := p.named.asked[1].Get("scope"); got != "read write" {
		t.Errorf("asked for %q", got)
	}
	if len(b.told()) != 2 {
		t.Errorf("%d notices", len(b.told()))
	}
	p.with(func() { p.needs = []string{"read"} })
	b.welcome(c, p.url(), "{}")
}

func TestStepUpEnds(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	p.supported = []string{"read"}
	c := b.client(Entry{Name: "a", URL: p.url()})
	b.consent(c, p.url())
	p.needs, p.named.grow = []string{"admin"}, []string{"read"} // asked for, and never granted
	b.consent(c, p.url())
	b.fails(c, p.url(), "although it has the permissions")
	for i := range maxWidenings - 1 { // ever more
		p.needs = []string{fmt.Sprint("more-", i)}
		b.consent(c, p.url())
	}
	p.needs = []string{"yet-more"}
	b.fails(c, p.url(), "stopped for an hour")
	b.pass(widenWindow)
	b.needed(c, p.url())

	fixed := b.client(Entry{Name: "fixed", URL: p.url(), Scopes: []string{"read"}})
	b.consent(fixed, p.url())
	b.fails(fixed, p.url(), "than are configured")
}

func TestAnother403IsNoQuestionOfScopes(t *testing.T) {
	b := newBot(t)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_request"`)
		w.WriteHeader(http.StatusForbidden)
	}))
	b.fails(b.client(Entry{Name: "a", URL: s.URL}), s.URL, "HTTP 403")
}

func TestTheAuthorizationServerMoves(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url()})
	b.consent(c, p.url())
	old := p.named
	p.with(func() {
		old.registers = []map[string]any{{}, {}} // so that ids differ
		clear(p.valid)
	})
	next := p.newIssuer("")
	p.with(func() { p.named = next })
	b.consent(c, p.url())
	b.welcome(c, p.url(), "{}")
	if len(next.registers) != 1 || old.count("refresh_token") != 0 {
		t.Errorf("%d registrations, %d renewals", len(next.registers), old.count("refresh_token"))
	}
	for _, f := range next.forms {
		if f.Get("refresh_token") != "" {
			t.Error("the new server got the old one's token")
		}
	}
}

func TestWhoTheClientIs(t *testing.T) {
	secret := func(method string) func(*peer) {
		return func(p *peer) { p.named.more["token_endpoint_auth_methods_supported"] = []string{method} }
	}
	const document = "https://bot.example/oauth/client.json"
	tests := []struct {
		name     string
		change   func(*peer)
		entry    Entry
		document string
		id       string
		want     string // what the token request shows
	}{
		{"registered", func(*peer) {}, Entry{}, "", "client-1", "basic"},
		{"registered, post", secret(post), Entry{}, "", "client-1", "post"},
		{"registered, public", secret(none), Entry{}, "", "client-1", "none"},
		{"document", func(p *peer) { p.named.more["client_id_metadata_document_supported"] = true }, Entry{}, document, document, "none"},
		{"document nobody wants", func(*peer) {}, Entry{}, document, "client-1", "basic"},
		{"document we have not", func(p *peer) { p.named.more["client_id_metadata_document_supported"] = true }, Entry{}, "", "client-1", "basic"},
		{"configured first", func(p *peer) { p.named.more["client_id_metadata_document_supported"] = true }, Entry{ClientID: "me", ClientSecret: "s:e/c"}, document, "me", "basic"},
		{"configured, post", secret(post), Entry{ClientID: "me", ClientSecret: "s:e/c"}, "", "me", "post"},
		{"configured, public", func(*peer) {}, Entry{ClientID: "me"}, "", "me", "none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, b := newPeer(t), newBot(t, func(o *Options) { o.MetadataURL = tt.document })
			tt.change(p)
			tt.entry.Name, tt.entry.URL = "a", p.url()
			c := b.client(tt.entry)
			b.consent(c, p.url())
			p.revoke()
			b.welcome(c, p.url(), "{}")
			for _, f := range p.named.forms { // the token, and its renewal
				id, how := shown(t, f)
				if id != tt.id || how != tt.want {
					t.Errorf("%s: client %q by %s, want %q by %s", f.Get("grant_type"), id, how, tt.id, tt.want)
				}
			}
			if registered := len(p.named.registers) > 0; registered != strings.HasPrefix(tt.id, "client-") {
				t.Errorf("registered: %t", registered)
			}
		})
	}
}

// shown tells which client a token request is of, and how it shows that.
func shown(t *testing.T, f url.Values) (id, how string) {
	t.Helper()
	if pair, ok := strings.CutPrefix(f.Get("header"), "Basic "); ok {
		data, err := base64.StdEncoding.DecodeString(pair)
		if err != nil || f.Has("client_secret") {
			t.Fatalf("credentials %q, %v", pair, err)
		}
		user, password, _ := strings.Cut(string(data), ":")
		if id, err = url.QueryUnescape(user); err != nil {
			t.Fatal(err)
		}
		if password == "s%3Ae%2Fc" || password == "registered-secret" {
			return id, "basic"
		}
		return id, "the wrong secret"
	}
	switch f.Get("client_secret") {
	case "s:e/c", "registered-secret":
		return f.Get("client_id"), "post"
	case "":
		return f.Get("client_id"), "none"
	}
	return "", "the wrong secret"
}

func TestARegistrationIsMadeAnewWhenItIsForgotten(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url()})
	b.consent(c, p.url())
	p.revoke()
	p.with(func() {
		p.named.grants = func(f url.Values) (int, map[string]any) {
			if id, _ := shown(t, f); id == "client-1" {
				return 401, map[string]any{"error": "invalid_client"}
			}
			return 0, nil
		}
	})
	b.consent(c, p.url())
	b.welcome(c, p.url(), "{}")
	if n := len(p.named.registers); n != 2 {
		t.Errorf("%d registrations", n)
	}
}

func TestAConfiguredSecretThatIsWrongCostsNoConsent(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url(), ClientID: "me", ClientSecret: "s:e/c"})
	b.consent(c, p.url())
	p.revoke()
	p.with(func() {
		p.named.grants = func(url.Values) (int, map[string]any) { return 401, map[string]any{"error": "invalid_client"} }
	})
	b.fails(c, p.url(), "invalid_client")
	p.with(func() { p.named.grants = nil })
	b.welcome(c, p.url(), "{}")
}

func TestClientCredentials(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		entry Entry
		check func(p *peer, f url.Values)
	}{
		{"secret", Entry{ClientID: "me", ClientSecret: "s:e/c"}, func(_ *peer, f url.Values) {
			if id, how := shown(t, f); id != "me" || how != "basic" {
				t.Errorf("client %s by %s", id, how)
			}
		}},
		{"EC", Entry{ClientID: "me", PrivateKey: armoured(t, ec)}, func(p *peer, f url.Values) {
			digest, signature := assertedBy(t, p, f, "ES256")
			if !ecdsa.Verify(&ec.PublicKey, digest, new(big.Int).SetBytes(signature[:32]),
				new(big.Int).SetBytes(signature[32:])) {
				t.Error("the signature is wrong")
			}
		}},
		{"RSA", Entry{ClientID: "me", PrivateKey: armoured(t, rs)}, func(p *peer, f url.Values) {
			digest, signature := assertedBy(t, p, f, "RS256")
			if err := rsa.VerifyPKCS1v15(&rs.PublicKey, crypto.SHA256, digest, signature); err != nil {
				t.Error(err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, b := newPeer(t), newBot(t)
			p.named.more["authorization_endpoint"], p.named.more["code_challenge_methods_supported"] = nil, nil
			p.supported = []string{"read"}
			e := tt.entry
			e.Name, e.URL, e.Grant = "a", p.url(), ClientCredentials
			c := b.client(e)
			b.welcome(c, p.url(), "sent twice, whole")
			if diff := cmp.Diff([]string{"sent twice, whole"}, p.calls); diff != "" {
				t.Error(diff)
			}
			f := p.named.forms[0]
			if f.Get("grant_type") != ClientCredentials || f.Get("scope") != "read" || f.Get("resource") != p.url() {
				t.Errorf("asked with %v", f)
			}
			tt.check(p, f)
			if len(b.told()) > 0 {
				t.Error("somebody was bothered")
			}
		})
	}
	b := newBot(t)
	p := newPeer(t)
	b.fails(b.client(Entry{Name: "b", URL: p.url(), Grant: ClientCredentials}), p.url(), "needs a configured client")
	for _, key := range []string{"x", "-----BEGIN KEY-----\nAAAA\n-----END KEY-----\n"} {
		b.fails(b.client(Entry{Name: "b", URL: p.url(), Grant: ClientCredentials, ClientID: "me", PrivateKey: key}), p.url(),
			"the private key of the client")
	}
}

func armoured(t *testing.T, key any) string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "KEY", Bytes: der}))
}

func assertedBy(t *testing.T, p *peer, f url.Values, alg string) (digest, signature []byte) {
	t.Helper()
	parts := strings.Split(f.Get("client_assertion"), ".")
	if len(parts) != 3 || f.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
		t.Fatalf("asked with %v", f)
	}
	var head, claims map[string]any
	for i, into := range []*map[string]any{&head, &claims} {
		data, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(data, into) != nil {
			t.Fatalf("part %q", parts[i])
		}
	}
	if head["alg"] != alg || claims["iss"] != "me" || claims["sub"] != "me" || claims["aud"] != p.named.name() ||
		claims["jti"] == "" {
		t.Errorf("asserted %v %v", head, claims)
	}
	if life := claims["exp"].(float64) - claims["iat"].(float64); life <= 0 || life > 300 {
		t.Errorf("good for %v s", life)
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	return sum[:], signature
}

func TestWhatIsKeptIsEncryptedAndServesAgain(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	e := Entry{Name: "a", URL: p.url()}
	c := b.client(e)
	b.consent(c, p.url())
	b.welcome(c, p.url(), "{}")
	secrets := p.secrets()
	for _, s := range secrets {
		if strings.Contains(b.keep.all(), s) {
			t.Errorf("%q is kept as it is", s)
		}
	}
	again := newBot(t, func(o *Options) { o.Store = b.keep })
	again.welcome(again.client(e), p.url(), "{}")
	if len(again.told()) > 0 {
		t.Error("somebody was bothered after a restart")
	}
	stranger := newBot(t, func(o *Options) { o.Store, o.Box = b.keep, newBox(t, 9) })
	stranger.needed(stranger.client(e), p.url())
	elsewhere := newBot(t, func(o *Options) { o.Store = b.keep })
	p.with(func() { p.resource = p.server.URL })
	elsewhere.needed(elsewhere.client(Entry{Name: "a", URL: p.server.URL + "/mcp?other"}), p.url()) // not for another url

	sealed, err := b.keep.Load(tokenKey(e))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.keep.Save(tokenKey(Entry{Name: "a", User: "eve"}), sealed); err != nil { // nor in another's place
		t.Fatal(err)
	}
	eve := newBot(t, func(o *Options) { o.Store = b.keep })
	eve.needed(eve.client(Entry{Name: "a", URL: p.url(), User: "eve"}), p.url())
}

// secrets are all that must not be seen.
func (p *peer) secrets() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := []string{"registered-secret"}
	for token := range p.valid {
		list = append(list, token)
	}
	for token := range p.named.refreshes {
		list = append(list, token)
	}
	for _, f := range p.named.forms {
		for _, key := range []string{"code", "code_verifier", "refresh_token"} {
			if f.Get(key) != "" {
				list = append(list, f.Get(key))
			}
		}
	}
	return list
}

// A record of version 1 as the first release wrote it, sealed with the key of
// newBot, is still read.
func TestKeptRecordOfVersion1(t *testing.T) {
	const kept = `{"url":"https://mcp.example/mcp","issuer":"https://auth.example",` +
		`"endpoint":"https://auth.example/token",` +
		`"resource":"https://mcp.example/mcp","access":"at","refresh":"rt","expires":"2026-11-21T13:00:00Z",` +
		`"requested":["a"],"granted":["a"],` +
		`"client":{"id":"c","secret":"s","method":"client_secret_basic"}}`
	b := newBot(t)
	var raw json.RawMessage = []byte(kept)
	if err := b.broker.save("token/x/", raw); err != nil {
		t.Fatal(err)
	}
	var got record
	if !b.broker.load("token/x/", &got) {
		t.Fatal("it is not read")
	}
	want := record{URL: "https://mcp.example/mcp", Issuer: "https://auth.example", Endpoint: "https://auth.example/token",
		Resource: "https://mcp.example/mcp",
		Access:   "at", Refresh: "rt", Expires: time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC), Requested: []string{"a"},
		Granted: []string{"a"},
		Client:  client{ID: "c", Secret: "s", Method: basic}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range [][]byte{{9, 1, 2}, {1}, []byte("\x01garbage that is long enough to have a nonce and a tag")} {
		if err := b.keep.Save("token/x/", bad); err != nil {
			t.Fatal(err)
		}
		if b.broker.load("token/x/", &got) {
			t.Errorf("%q is taken", bad)
		}
	}
}

// A hostile authorization server that says back all it gets does not bring it into
// a log, an error or a page.
func TestSecretsAreNotShown(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url(), ClientID: "me", ClientSecret: "configured-secret"})
	first := b.needed(c, p.url())
	state := b.leads(first.URL).Query().Get("state")
	p.with(func() {
		p.named.grants = func(f url.Values) (int, map[string]any) {
			return 400, map[string]any{"error": "server_error",
				"error_description": "you said " + f.Encode() + " configured-secret " + f.Get("code") + " " +
					f.Get("refresh_token")}
		}
	})
	_, page := browse(t, first.URL)
	p.with(func() { p.named.grants = nil })
	b.consent(c, p.url())
	b.welcome(c, p.url(), "{}")
	secrets := append(p.secrets(), "configured-secret")
	p.with(func() {
		clear(p.valid)
		p.named.grants = func(f url.Values) (int, map[string]any) {
			return 500, map[string]any{"error": "x", "error_description": "configured-secret " + f.Get("refresh_token")}
		}
	})
	_, err := send(c, p.url(), "{}")
	if err == nil {
		t.Fatal("it was let in")
	}
	b.mu.Lock()
	shown := strings.Join([]string{page, err.Error(), fmt.Sprint(first), first.Error(), b.log.String()}, "\n")
	b.mu.Unlock()
	for _, s := range append(secrets, state, first.URL) {
		if strings.Contains(shown, s) {
			t.Errorf("%q is shown:\n%s", s, shown)
		}
	}
	if !strings.Contains(shown, "server_error") {
		t.Error("nothing of the reason is shown")
	}
}

func TestMetadataDocument(t *testing.T) {
	const at = "https://bot.example/oauth/client.json"
	b := newBot(t, func(o *Options) { o.MetadataURL, o.RedirectURL = at, "https://bot.example/oauth/callback" })
	w := httptest.NewRecorder()
	b.broker.ServeHTTP(w, httptest.NewRequest(http.MethodGet, at, nil))
	var got map[string]any
	if err := json.NewDecoder(w.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"client_id": at, "client_name": "ravenbot",
		"redirect_uris": []any{"https://bot.example/oauth/callback"}, "response_types": []any{"code"},
		"grant_types": []any{"authorization_code", "refresh_token"}, "token_endpoint_auth_method": "none",
		"application_type": "web"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	w = httptest.NewRecorder()
	newBot(t).broker.ServeHTTP(w, httptest.NewRequest(http.MethodGet, at, nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("without an address it is answered with %d", w.Code)
	}
}

// A body that cannot be had again is sent once, and the refusal passed on.
func TestABodyThatIsGone(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	c := b.client(Entry{Name: "a", URL: p.url(), ClientID: "me", ClientSecret: "s", Grant: ClientCredentials})
	resp, err := c.Post(p.url(), "text/plain", io.MultiReader(strings.NewReader("once")))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized || !slices.Equal(p.bearers, []string{""}) {
		t.Errorf("HTTP %d, tokens %q", resp.StatusCode, p.bearers)
	}
}

// A server that takes no token there is does not make the bot go round in circles.
func TestTriesEnd(t *testing.T) {
	p, b := newPeer(t), newBot(t)
	p.named.grants = func(url.Values) (int, map[string]any) {
		return 200, map[string]any{"access_token": rand.Text(), "token_type": "Bearer"}
	}
	c := b.client(Entry{Name: "a", URL: p.url(), ClientID: "me", ClientSecret: "s", Grant: ClientCredentials})
	b.fails(c, p.url(), "HTTP 401")
	if len(p.bearers) != maxTries {
		t.Errorf("%d tries", len(p.bearers))
	}
}

// otherClaim is a memory in which another process has the right to renew, and which says when it is asked for.
type otherClaim struct {
	*memory
	asked func()
}

func (k otherClaim) Claim(string, time.Time) (release func(), ok bool, err error) {
	k.asked()
	return nil, false, nil
}

// A refresh token that another process is using must not be sent a second time: servers that see that revoke the grant.
func TestRefresh_ContextEndsWhileAnotherProcessRenews_LeavesTheTokenAlone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, b := newPeer(t), newBot(t, func(o *Options) {
		o.Store = otherClaim{&memory{m: map[string][]byte{}}, cancel}
	})
	c := b.client(Entry{Name: "a", URL: p.url()})
	b.consent(c, p.url())
	b.pass(2 * time.Hour)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url(), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := c.Do(r); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v %v", resp, err)
	}
	// The next request gets the lock of the session only after the renewal.
	ended, end := context.WithCancel(t.Context())
	end()
	next, err := http.NewRequestWithContext(ended, http.MethodPost, p.url(), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := c.Do(next); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v %v", resp, err)
	}
	if n := p.named.count("refresh_token"); n != 0 {
		t.Errorf("the refresh token was sent %d times while another process used it", n)
	}
}
