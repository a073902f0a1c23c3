// Package oauth gets the bot access to MCP servers that ask for it by OAuth 2.1:
// it lies around the HTTP transport of a connection, adds the token there is, and
// when the server refuses finds out where a token is given, asks a person for
// consent, and keeps what it got.
//
// It promises that a token goes to the origin of the configured URL alone, and a
// client's secret to the authorization server that it belongs to alone; that
// every address learnt from a stranger is fetched through the guarded way out,
// with a deadline and a size limit, and without leaving its origin by redirects;
// that a consent counts once, for ten minutes, for the server and user it was
// asked for; that what is kept is encrypted, and that no secret is in an error or
// a log. Nothing waits for a person: a request that needs consent fails at once
// with ConsentNeeded.
//
// Nothing is repeated here after a fault of the network: whoever supervises the
// connection tries again. Sending the link to the person, and connecting again
// when consent was given, are left to Options.Consent and Options.Granted.
package oauth

import (
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"sync"
	"time"

	"ravenbot/internal/egress"
)

// How a token is got, as in Entry.Grant.
const (
	AuthorizationCode = "authorization_code" // a person consents
	ClientCredentials = "client_credentials" // the bot's own credentials are enough
)

const (
	consentLifetime = 10 * time.Minute // for a person to consent
	flowTimeout     = 30 * time.Second // for everything that is asked of servers at one refusal
	requestTimeout  = 10 * time.Second // for one request of these
	maxDocument     = 256 << 10        // bytes of one answer
)

// Store holds small records over restarts. It must be safe for concurrent use.
type Store interface {
	// Load gives what was last saved under a key, or nil.
	Load(key string) ([]byte, error)
	// Save replaces it; nil forgets it.
	Save(key string, data []byte) error
}

// Options are what a Broker is made of.
type Options struct {
	Egress *egress.Client // the guarded way to whatever servers name
	Store  Store          // nil: tokens do not outlive the process
	Key    []byte         // 32 bytes, as of LoadKey: encrypts what is kept

	// RedirectURL is where Callback is served, as browsers reach it.
	RedirectURL string
	// MetadataURL is where the Broker itself is served as the client metadata
	// document: an https address that authorization servers reach; "": nowhere.
	MetadataURL string

	// NotifyConsent is told when a person is to open a link, and must return soon. It is
	// told again, at growing distances, while the link is not used.
	NotifyConsent func(ctx context.Context, c Consent) error
	// OnGranted is told when a token has come by a consent; it must return soon.
	OnGranted func(server, user string)

	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // nil: silence
}

// Entry is a server that may ask for a token, and what is configured for it.
// Everything but Name and URL may be empty.
type Entry struct {
	Name string // of the server
	URL  string // of its MCP endpoint
	User string // whose token it is; "": the bot's, for all

	ClientID     string   // of a client registered by hand
	ClientSecret string   // its secret
	PrivateKey   string   // or its key (PKCS #8 in PEM: EC P-256 or RSA), for signed assertions
	Issuer       string   // the one authorization server that may be used
	Scopes       []string // asked for instead of those that the server names
	Grant        string   // AuthorizationCode if empty
	Allow        []string // hosts not publicly routable that discovery may reach, as in egress
}

// Consent is what a person is asked for. URL is for that person's eyes alone.
type Consent struct {
	Server  string
	User    string // as in Entry
	URL     string
	Scopes  []string
	Expires time.Time
}

// ConsentNeededError is the error of a request that waits for a person's consent.
type ConsentNeededError struct{ Consent }

// Error leaves out the link, which is for one person and not for logs.
func (e *ConsentNeededError) Error() string {
	return fmt.Sprintf("the MCP server %q needs consent: open the link that the bot has sent, or that its status shows", e.Server)
}

// Authorizing marks what its text tells as enough.
func (e *ConsentNeededError) Authorizing() {}

// Link is the link to open, whose consent it asks for, and until when it works.
func (e *ConsentNeededError) Link() (url, user string, until time.Time) {
	return e.URL, e.User, e.Expires
}

// Broker holds the tokens of all servers and users. All methods are safe for
// concurrent use.
type Broker struct {
	o    Options
	aead cipher.AEAD
	path string // of RedirectURL, as browsers know it

	mu       sync.Mutex
	sessions map[string]*session // by key
	pending  map[string]*pending // by state
}

// New checks the options.
func New(o Options) (*Broker, error) {
	if o.Egress == nil {
		return nil, errors.New("oauth: no way out is given")
	}
	box, err := newCipher(o.Key)
	if err != nil {
		return nil, err
	}
	back, err := url.Parse(o.RedirectURL)
	if err != nil || back.Host == "" || back.Scheme != "https" && back.Scheme != "http" {
		return nil, fmt.Errorf("oauth: %q is no address that browsers can be sent back to", o.RedirectURL)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Broker{o: o, aead: box, path: back.Path, sessions: map[string]*session{}, pending: map[string]*pending{}}, nil
}

// Transport adds tokens to the requests to a server, and answers its refusals. A
// request that has an Authorization header is passed on as it is.
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
	if s == nil || !reflect.DeepEqual(s.e, e) {
		maps.DeleteFunc(b.pending, func(_ string, p *pending) bool { return p.s == s })
		s = &session{b: b, e: e, at: at, key: key, egress: client, lock: make(chan struct{}, 1)}
		b.sessions[key] = s
	}
	return &tokenTransport{s: s, next: next}
}

// ownHosts are the hosts not publicly routable that a configured URL allows
// discovery to reach: its own address at any port, its own name at its port.
func ownHosts(at *url.URL) []string {
	host := at.Hostname()
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		return []string{host}
	}
	port := at.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[at.Scheme]
	}
	return []string{host + ":" + port}
}

// Waiting gives the consent that is asked for at present, if any.
func (b *Broker) Waiting(server, user string) (Consent, bool) {
	now := b.o.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.pending {
		if p.Server == server && p.User == user && now.Before(p.Expires) {
			return p.Consent, true
		}
	}
	return Consent{}, false
}

// Forget drops the token of a server and user, here and where it is kept.
func (b *Broker) Forget(ctx context.Context, server, user string) error {
	key := tokenKey(Entry{Name: server, User: user})
	b.mu.Lock()
	s := b.sessions[key]
	b.mu.Unlock()
	if s == nil {
		return b.save(key, nil)
	}
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer s.release()
	s.clearRecord()
	b.removePending(s)
	return b.save(key, nil)
}

// failingTransport is a way that leads nowhere, and says why.
type failingTransport struct{ err error }

// RoundTrip fails.
func (f failingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body.Close()
	}
	return nil, f.err
}
