// Package oauth signs the bot in to MCP servers that ask for it by OAuth 2.1. It wraps the HTTP transport of a
// connection and adds the token there is. When the server refuses, it discovers where tokens are issued, asks a
// person for consent, and stores what it gets.
//
// It promises that a token is sent only to the origin of the configured URL, and a client's secret only to the
// authorization server that it belongs to; that every address learnt from a server is fetched through package egress,
// with a deadline and a size limit, and without redirects to other origins; that a consent counts once, within ten
// minutes, for the server and user it was asked for; that stored records are encrypted; and that no secret is in an
// error or a log. Nothing waits for a person: a request that needs consent fails at once with a *ConsentNeededError.
//
// Nothing is retried after a network failure: whoever supervises the connection tries again. Sending the link to the
// person, and connecting again after a consent, are left to Options.NotifyConsent and Options.OnGranted.
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
	flowTimeout     = 30 * time.Second // for all requests that one refusal leads to
	requestTimeout  = 10 * time.Second // for each of these requests
	maxDocument     = 256 << 10        // bytes of one answer
)

// Store keeps small records across restarts. It must be safe for concurrent use. Keys begin with
// token/ or client/; what is stored is encrypted, and of no use without the key of Options.Box.
type Store interface {
	// Load returns what was last saved under a key, or nil.
	Load(key string) ([]byte, error)
	// Save replaces the record; nil deletes it.
	Save(key string, data []byte) error
}

// Options configures a Broker.
type Options struct {
	Egress *egress.Client // fetches addresses that servers name
	Store  Store          // nil: tokens do not outlive the process
	Box    *seal.Box      // encrypts stored records

	// RedirectURL is where Callback is served, as browsers reach it.
	RedirectURL string
	// MetadataURL is where the Broker itself is served as the client metadata document: an https address that
	// authorization servers can reach. "": it is not served.
	MetadataURL string

	// NotifyConsent is called when a person has to open a link. It must return soon. It is called again, at growing
	// intervals, while the link is not used.
	NotifyConsent func(ctx context.Context, c Consent) error
	// OnGranted is called when a consent has led to a token. It must return soon.
	OnGranted func(server, user string)

	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // nil: silence
}

// Entry is a server that may ask for a token, and its configuration. Everything but Name and URL may be empty.
type Entry struct {
	Name string // of the server
	URL  string // of its MCP endpoint
	User string // whose token it is; "": the bot's own, for everybody

	ClientID     string   // of a client that was registered by hand
	ClientSecret string   // its secret
	PrivateKey   string   // or its key (PKCS #8 in PEM: EC P-256 or RSA), for signed assertions
	Issuer       string   // the one authorization server that may be used
	Scopes       []string // requested instead of those that the server names
	Grant        string   // AuthorizationCode if empty
	Allow        []string // private hosts that discovery may reach, as in package egress
}

// Consent is what a person is asked for. URL must be shown to that person only.
type Consent struct {
	Server  string
	User    string // as in Entry
	URL     string
	Scopes  []string
	Expires time.Time
}

// ConsentNeededError is the error of a request that needs a person's consent. A second request that
// needs the same consent gets the same link.
type ConsentNeededError struct{ Consent }

// Error leaves out the link, which is for one person and not for logs.
func (e *ConsentNeededError) Error() string {
	if e.User != "" {
		return fmt.Sprintf("the MCP server %q needs a sign-in: open the link that was sent privately, and try again", e.Server)
	}
	return fmt.Sprintf("the MCP server %q needs a sign-in by the operator, who finds the link on the page Servers", e.Server)
}

// Authorizing marks the error's text as complete: callers add nothing to it.
func (e *ConsentNeededError) Authorizing() {}

// Link returns the link to open, whose consent it asks for, and until when it works.
func (e *ConsentNeededError) Link() (url, user string, until time.Time) {
	return e.URL, e.User, e.Expires
}

// Broker holds the tokens of all servers and users. All methods are safe for concurrent use. mu is held only for a
// moment, and after a session's lock where both are needed; nobody waits for a server with it.
type Broker struct {
	o    Options
	path string // of RedirectURL, as browsers know it

	mu       sync.Mutex
	sessions map[string]*session // by key
	pending  map[string]*pending // by state
}

// New returns a Broker, which reads stored records only when they are needed. It returns an error if RedirectURL is no
// http or https address.
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

// Transport returns a transport that adds tokens to the requests to a server and answers its refusals. It passes on a
// request that has an Authorization header unchanged. Transports for the same entry share one
// token. Where the entry has changed since, a new session begins, and a consent under way ends. A
// transport is returned in any case; for an entry that cannot be used it fails every request.
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
	// After a change of the configuration a consent under way would be for the wrong client.
	if s == nil || !reflect.DeepEqual(s.e, e) {
		maps.DeleteFunc(b.pending, func(_ string, p *pending) bool { return p.s == s })
		s = &session{b: b, e: e, at: at, key: key, egress: client, lock: make(chan struct{}, 1)}
		b.sessions[key] = s
	}
	return &tokenTransport{s: s, next: next}
}

// ownHosts returns the private hosts that a configured URL allows discovery to reach: its own address at any port,
// its own name at its port.
func ownHosts(at *url.URL) []string {
	host := at.Hostname()
	// Local servers often run their authorization server on another port.
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		return []string{host}
	}
	return []string{host + ":" + cmp.Or(at.Port(), map[string]string{"http": "80", "https": "443"}[at.Scheme])}
}

// Waiting returns the consent that is being asked for, and false where there is none.
func (b *Broker) Waiting(server, user string) (Consent, bool) {
	p := b.find(func(p *pending) bool { return p.Server == server && p.User == user })
	if p == nil {
		return Consent{}, false
	}
	return p.Consent, true
}

// Forget deletes the token of a server and user, in memory and in the store. Without one it returns
// nil. The registration of the client stays. The error is that of ctx or of the store.
func (b *Broker) Forget(ctx context.Context, server, user string) error {
	key := tokenKey(Entry{Name: server, User: user})
	b.mu.Lock()
	s := b.sessions[key]
	b.mu.Unlock()
	if s == nil {
		return b.save(key, nil)
	}
	// A renewal under way would store the token again after it was deleted.
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer s.release()
	s.rec = record{} // the stored one stays
	b.removePending(s)
	return b.save(key, nil)
}

// failingTransport returns the same error for every request.
type failingTransport struct{ err error }

// RoundTrip returns the error.
func (f failingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	closeBody(r)
	return nil, f.err
}
