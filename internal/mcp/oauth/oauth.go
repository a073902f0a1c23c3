// Package oauth signs the bot in to MCP servers with OAuth 2.1. It wraps the HTTP transport of a connection and adds
// the current token. If the server refuses, it discovers where tokens are issued, asks a person for consent, and stores
// the token.
//
// It promises that a token is sent only to the origin of the configured URL, and a client's secret only to its
// authorization server; that addresses from servers are fetched through package egress, with a deadline and a size
// limit, and without redirects to other origins; that a consent counts once, within ten minutes, for its server and
// user; that stored records are encrypted; and that errors and logs contain no secret. A request that needs consent
// fails at once with a *ConsentNeededError.
//
// It does not retry after a network failure. Options.NotifyConsent sends the link to the person, and Options.OnGranted
// reconnects after a consent.
package oauth

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"sync"
	"time"

	"ravenbot/internal/ops/egress"
	"ravenbot/internal/store/seal"
)

// How a token is obtained, as in Entry.Grant.
const (
	AuthorizationCode = "authorization_code" // a person consents
	ClientCredentials = "client_credentials" // the bot's own credentials are enough
)

const (
	consentLifetime = 10 * time.Minute // for a person to consent
	flowTimeout     = 30 * time.Second // for all requests after one refusal
	requestTimeout  = 10 * time.Second // for each of these requests
	maxDocument     = 256 << 10        // bytes of one answer
)

// Store keeps small encrypted records across restarts. It must be safe for concurrent use. Keys begin with token/ or
// client/.
type Store interface {
	Load(key string) ([]byte, error)
	// Save replaces the record; nil deletes it.
	Save(key string, data []byte) error
}

// Options configures a Broker.
type Options struct {
	Egress *egress.Client // fetches addresses that servers name
	Store  Store          // nil: tokens are lost at a restart
	Box    *seal.Box      // encrypts stored records

	// RedirectURL is the public address of Callback.
	RedirectURL string
	// MetadataURL is the public https address of the client metadata document, which the Broker serves. It may be
	// empty.
	MetadataURL string

	// NotifyConsent tells a person to open a link. It must return soon. It is called again, at growing intervals, while
	// the link is not used.
	NotifyConsent func(ctx context.Context, c Consent) error
	// OnGranted is called after a consent has led to a token. It must return soon.
	OnGranted func(server, user string)

	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // may be nil
}

// Entry is a server that may ask for a token, and its configuration. Only Name and URL are required.
type Entry struct {
	Name string // of the server
	URL  string // of its MCP endpoint
	User string // owner of the token; "": the bot

	ClientID     string   // of a client that was registered manually
	ClientSecret string   // its secret
	PrivateKey   string   // or its key (PKCS #8 in PEM: EC P-256 or RSA), for signed assertions
	Issuer       string   // the only authorization server to use
	Scopes       []string // in place of the scopes that the server names
	Grant        string   // AuthorizationCode if empty
	Allow        []string // private hosts that discovery may reach, as in package egress
}

// Consent is a request for a person's consent. URL must be shown only to that person.
type Consent struct {
	Server  string
	User    string // as in Entry
	URL     string
	Scopes  []string
	Expires time.Time
}

// ConsentNeededError is the error of a request that needs a person's consent. Requests with the same need get the same
// link.
type ConsentNeededError struct{ Consent }

// Error omits the link, which must not be in logs.
func (e *ConsentNeededError) Error() string {
	if e.User != "" {
		return fmt.Sprintf("the MCP server %q needs a sign-in: open the link that was sent privately, and try again", e.Server)
	}
	return fmt.Sprintf("the MCP server %q needs a sign-in by the operator, who finds the link on the page Servers", e.Server)
}

// Authorizing marks the error's text as complete.
func (e *ConsentNeededError) Authorizing() {}

// Link returns the link, the user who may open it, and the end of its validity.
func (e *ConsentNeededError) Link() (url, user string, until time.Time) {
	return e.URL, e.User, e.Expires
}

// Broker holds the tokens of all servers and users. It is safe for concurrent use. mu is held only for a moment, and
// taken after a session's lock.
type Broker struct {
	o    Options
	path string // of RedirectURL

	mu       sync.Mutex
	sessions map[string]*session // by key
	pending  map[string]*pending // by state
}

// New returns a Broker. It reads stored records at their first use. It fails if RedirectURL is not an http or https
// address.
func New(o Options) (*Broker, error) {
	back, err := url.Parse(o.RedirectURL)
	if err != nil || back.Host == "" || back.Scheme != "https" && back.Scheme != "http" {
		return nil, fmt.Errorf("oauth: %q is not an address that browsers can return to", o.RedirectURL)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Broker{o: o, path: back.Path, sessions: map[string]*session{}, pending: map[string]*pending{}}, nil
}

// Transport returns a transport that adds tokens to requests to a server and answers its refusals. It does not change
// requests with an Authorization header. Transports for the same entry share one token. After a change of the entry a
// new session begins, and a consent in progress ends. For an invalid entry the transport fails every request.
func (b *Broker) Transport(e Entry, next http.RoundTripper) http.RoundTripper {
	at, err := url.Parse(e.URL)
	if err != nil || at.Host == "" {
		return failingTransport{fmt.Errorf("oauth: the url of MCP server %q cannot be read", e.Name)}
	}
	client, err := b.o.Egress.WithAllowed(append(ownHosts(at), e.Allow...)...)
	if err != nil {
		return failingTransport{fmt.Errorf("oauth: hosts allowed for MCP server %q: %w", e.Name, err)}
	}
	key := tokenKey(e)
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[key]
	// A consent in progress would be for the wrong client.
	if s == nil || !reflect.DeepEqual(s.e, e) {
		maps.DeleteFunc(b.pending, func(_ string, p *pending) bool { return p.s == s })
		s = &session{b: b, e: e, at: at, key: key, egress: client, lock: make(chan struct{}, 1)}
		b.sessions[key] = s
	}
	return &tokenTransport{s: s, next: next}
}

// ownHosts returns the private hosts that discovery may reach for a configured URL: its address at any port, or its
// name at its port.
func ownHosts(at *url.URL) []string {
	host := at.Hostname()
	// Local servers often have their authorization server at another port.
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		return []string{host}
	}
	return []string{host + ":" + cmp.Or(at.Port(), map[string]string{"http": "80", "https": "443"}[at.Scheme])}
}

// Waiting returns the consent in progress for a server and user, or false if there is none.
func (b *Broker) Waiting(server, user string) (Consent, bool) {
	p := b.find(func(p *pending) bool { return p.Server == server && p.User == user })
	if p == nil {
		return Consent{}, false
	}
	return p.Consent, true
}

// Forget deletes the token of a server and user, in memory and in the store. The registration of the client stays. The
// error comes from ctx or the store.
func (b *Broker) Forget(ctx context.Context, server, user string) error {
	key := tokenKey(Entry{Name: server, User: user})
	b.mu.Lock()
	s := b.sessions[key]
	b.mu.Unlock()
	if s == nil {
		return b.save(key, nil)
	}
	// The lock keeps a renewal in progress from storing the token again.
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer s.release()
	s.rec = record{} // the stored record stays
	b.removePending(s)
	return b.save(key, nil)
}

type failingTransport struct{ err error }

// RoundTrip returns the error.
func (f failingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	closeBody(r)
	return nil, f.err
}
