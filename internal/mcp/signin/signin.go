// Package signin offers the sign-ins that MCP servers require to the right people: the
// operator finds the link on the dashboard, a user in the conversation where they used the
// server. It promises that a link for one person is shown to nobody else. It leaves the
// sign-in itself to internal/mcp/oauth.
package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature/elicit"
	"ravenbot/internal/mcp"
	"ravenbot/internal/mcp/oauth"
	"ravenbot/internal/ops/egress"
	"ravenbot/internal/store"
	"ravenbot/internal/store/seal"
)

// Paths of the HTTP server: where sign-ins come back to, and where the bot tells
// authorization servers what it is.
const (
	CallbackPath = "/oauth/callback"
	clientPath   = "/oauth/client.json"
)

// blobPrefix is what the keys of stored sign-ins begin with.
const blobPrefix = "oauth"

// offerTimeout bounds bringing a link to a user.
const offerTimeout = 10 * time.Second

// SharedBlobs are Blobs that several processes use.
type SharedBlobs interface {
	store.Blobs
	Changes(ctx context.Context) (map[string]int64, error)
	Item(ctx context.Context, kind, name string) (json.RawMessage, error)
	SwapItem(ctx context.Context, kind, name string, was, now json.RawMessage, posts []store.Post) (bool, error)
}

// Questions brings links to people in a chat.
type Questions interface {
	Offer(ctx context.Context, caller tool.Caller, q elicit.Question, until time.Time) error
}

// Options are what a Service needs.
type Options struct {
	Box       *seal.Box // encrypts what is stored of sign-ins
	BaseURL   string    // where browsers find the bot
	Egress    *egress.Client
	Store     store.Blobs
	Questions Questions
	Log       *slog.Logger
	Now       func() time.Time
}

// Service signs the bot in to MCP servers. It is safe for concurrent use.
type Service struct {
	o       Options
	broker  *oauth.Broker
	callers sync.Map // user → tool.Caller: where a user last used a server

	mu   sync.Mutex
	host *mcp.Host
}

// New returns a Service. Attach gives it the host whose servers it signs in to.
func New(o Options) (*Service, error) {
	s := &Service{o: o}
	var kept oauth.Store = grants{o.Store}
	if shared, ok := o.Store.(SharedBlobs); ok {
		kept = sharedGrants{grants{o.Store}, shared, o.Log, o.Now}
	}
	options := oauth.Options{
		Egress:        o.Egress,
		Store:         kept,
		Box:           o.Box,
		RedirectURL:   o.BaseURL + CallbackPath,
		NotifyConsent: s.offerLink,
		OnGranted:     s.startServer,
		Now:           o.Now,
		Log:           o.Log,
	}
	// Authorization servers fetch the client metadata only from https addresses.
	if strings.HasPrefix(o.BaseURL, "https://") {
		options.MetadataURL = o.BaseURL + clientPath
	}
	var err error
	s.broker, err = oauth.New(options)
	return s, err
}

// Attach sets the host, which itself needs the service. It is called once, before the host
// runs.
func (s *Service) Attach(h *mcp.Host) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.host = h
}

// attached returns the host that is told of sign-ins; nil: none yet.
func (s *Service) attached() *mcp.Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host
}

// startServer connects a server that was waiting for a consent.
func (s *Service) startServer(server, _ string) { _ = s.attached().Start(server) }

// Handlers returns what serves CallbackPath and ClientPath.
func (s *Service) Handlers() map[string]http.Handler {
	return map[string]http.Handler{CallbackPath: s.broker.Callback(), clientPath: s.broker}
}

// Authorize returns a RoundTripper over next that signs in where the server requires it.
func (s *Service) Authorize(c mcp.Config, next http.RoundTripper) http.RoundTripper {
	return s.broker.Transport(oauth.Entry{
		Name:         c.Name,
		URL:          c.URL,
		User:         c.User,
		ClientID:     c.SignIn.ClientID,
		ClientSecret: c.SignIn.ClientSecret.Reveal(),
		PrivateKey:   c.SignIn.PrivateKey.Reveal(),
		Issuer:       c.SignIn.Issuer,
		Scopes:       c.SignIn.Scopes,
		Grant:        c.SignIn.Grant,
		Allow:        c.AllowPrivateHosts,
	}, next)
}

// Waiting returns the consent that a server waits for, or nil.
func (s *Service) Waiting(c mcp.Config) *mcp.Consent {
	w, ok := s.broker.Waiting(c.Name, c.User)
	if !ok {
		return nil
	}
	return &mcp.Consent{URL: w.URL, User: w.User, Until: w.Expires}
}

// NoteCaller records where a user calls a tool, if its server has a sign-in per user: the
// link is offered there.
func (s *Service) NoteCaller(c tool.Caller, n tool.Named) {
	if c.User.ID == "" {
		return
	}
	if e, ok := s.attached().Config(n.Tool.Spec().Server); ok && e.PerUser {
		at := c.Conversation
		s.callers.Store(at.Platform+":"+at.Workspace+"/"+c.User.ID, c)
	}
}

// offerLink offers a link to the person who has to sign in.
func (s *Service) offerLink(ctx context.Context, c oauth.Consent) error {
	if c.User == "" {
		s.o.Log.Warn("MCP server needs a sign-in by the operator", "server", c.Server,
			"remedy", "open the page Servers of the dashboard: "+s.o.BaseURL+"/servers")
		return nil
	}
	known, ok := s.callers.Load(c.User)
	if !ok {
		return fmt.Errorf("offer %s a sign-in to MCP server %s: their direct message is not known", c.User, c.Server)
	}
	caller := known.(tool.Caller)
	caller.Report = nil // the call whose progress it shows may have ended
	ctx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	q := elicit.Question{Server: c.Server, URL: c.URL, Message: "Sign in, so that I may use it for you."}
	if err := s.o.Questions.Offer(ctx, caller, q, c.Expires); err != nil && !errors.Is(err, elicit.ErrNobody) {
		return err
	}
	return nil
}

// grants stores the state of sign-ins, which the broker has encrypted.
type grants struct{ store store.Blobs }

// Load returns what was last saved under a key, or nil.
func (g grants) Load(key string) ([]byte, error) {
	raw, err := g.store.LoadBlob(context.Background(), blobPrefix+"/"+key)
	if err != nil || len(raw) == 0 {
		return nil, err
	}
	var data []byte
	err = json.Unmarshal(raw, &data)
	return data, err
}

// Save replaces what is kept under a key; nil deletes it.
func (g grants) Save(key string, data []byte) error {
	raw, err := json.Marshal(data) // nil becomes null, which stands for nothing
	if err != nil {
		return err
	}
	return g.store.SaveBlob(context.Background(), blobPrefix+"/"+key, raw)
}

// renewalKind is the kind of the items that say until when a process renews a token.
const renewalKind = "oauth renewal"

// sharedGrants are grants in a store that several processes share.
type sharedGrants struct {
	grants
	items SharedBlobs
	log   *slog.Logger
	now   func() time.Time
}

// Claim gives one process at a time the right to renew a token.
func (g sharedGrants) Claim(key string, until time.Time) (release func(), ok bool, err error) {
	ctx := context.Background()
	was, err := g.items.Item(ctx, renewalKind, key)
	if errors.Is(err, store.ErrNotFound) {
		was, err = nil, nil
	}
	var taken time.Time
	if err == nil && was != nil {
		err = json.Unmarshal(was, &taken)
	}
	if err != nil || g.now().Before(taken) {
		return nil, false, err
	}
	claim, err := json.Marshal(until)
	if err == nil {
		ok, err = g.items.SwapItem(ctx, renewalKind, key, was, claim, nil)
	}
	return func() {
		// Swapped, not deleted: once its time was over another process may have claimed it.
		// One that stays is over soon.
		if _, err := g.items.SwapItem(ctx, renewalKind, key, claim, nil, nil); err != nil {
			g.log.Warn("failed to store the end of a token renewal", "error", err)
		}
	}, ok, err
}

// HasConsent reports whether a request to CallbackPath belongs to a sign-in that this process asks for. Of one that has
// ended, or that another process asks for, it is false.
func (s *Service) HasConsent(r *http.Request) bool { return s.broker.HasConsent(r.URL.Query()) }

// SharedKinds returns the kind whose changes Reload takes up.
func (*Service) SharedKinds() []string { return []string{store.BlobChanges + blobPrefix} }

// Reload connects the servers that wait here for a sign-in that another process has completed.
func (s *Service) Reload(ctx context.Context) error { return s.broker.TakeGranted(ctx) }
