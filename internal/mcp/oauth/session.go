package oauth

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/ops/egress"
)

const (
	renewBefore  = 30 * time.Second // before a token expires it is renewed
	maxWidenings = 3                // consents for more scopes within widenWindow
	widenWindow  = time.Hour
	maxQuiet     = 24 * time.Hour // between two notices about a consent
	maxNotices   = 5              // without a pause, each for more scopes
)

// session is the state of one server and user. lock guards everything that changes, also during requests, so that a
// token is renewed only once.
type session struct {
	b      *Broker
	e      Entry
	at     *url.URL
	key    string
	egress *egress.Client

	lock           chan struct{}
	loaded         bool        // the stored record was read
	rec            record      // the token in use; zero: none
	widenings      []time.Time // times of requests for more scopes
	notices        int         // since the last consent
	quietUntil     time.Time   // no notice for notifiedScopes before this time
	notifiedScopes []string    // scopes of the last notice
}

// acquire takes the lock, and reads the stored record the first time. Its error is the cause of ctx.
func (s *session) acquire(ctx context.Context) error {
	// Unlike a mutex, a channel lets waiting callers give up.
	select {
	case s.lock <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.loaded {
		return nil
	}
	s.loaded = true
	if r, ok := s.storedRecord(); ok {
		s.rec = r
	}
	return nil
}

func (s *session) release() { <-s.lock }

// saveRecord stores the record. If that fails, the record is used until the process ends.
func (s *session) saveRecord() {
	var value any
	if s.rec.Access != "" {
		r := s.rec
		if s.e.ClientID != "" {
			r.Client.Secret = "" // it is in the configuration
		}
		value = r
	}
	if err := s.b.save(s.key, value); err != nil {
		s.b.o.Log.Warn("failed to store an mcp token", "server", s.e.Name, "error", err)
	}
}

// current returns the token, renewed if it is about to expire, or "" if there is none. It fails if the token has
// expired and cannot be renewed now. A token that the server has refused permanently counts as none: the request is
// then refused, which leads to a sign-in.
func (s *session) current(ctx context.Context) (string, error) {
	if err := s.acquire(ctx); err != nil {
		return "", err
	}
	defer s.release()
	now, ends := s.b.o.Now(), s.rec.Expires
	if s.rec.Refresh == "" || ends.IsZero() || now.Before(ends.Add(-renewBefore)) {
		return s.rec.Access, nil
	}
	// A token is valid until it expires, even if its renewal fails.
	if err := s.refresh(ctx); err != nil && s.rec.Refresh != "" && !now.Before(ends) {
		return "", err
	}
	return s.rec.Access, nil
}

// handleRefusal returns nil, nil if there is a new token, so that the request can be sent again: from another request,
// a renewal, or the bot's own credentials. Otherwise it returns the consent that is needed, or an error. The session's
// lock is held, for up to flowTimeout.
func (s *session) handleRefusal(ctx context.Context, c *challenge, used string) (*pending, error) {
	// Another process may have a newer one.
	if s.rec.Access != used || s.takeRenewed() {
		return nil, nil
	}
	// A second refusal for the same scopes waits for the same consent.
	if p := s.b.find(func(p *pending) bool { return p.s == s }); p != nil {
		if covers(p.asked, c.scopes) {
			return p, nil
		}
		c.scopes = union(p.asked, c.scopes)
	}
	if c.insufficientScope {
		if err := s.checkWiden(c.scopes); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, flowTimeout)
	defer cancel()
	at, err := s.discover(ctx, c)
	if err != nil {
		return nil, s.signInError(err)
	}
	// A refresh token must go only to its issuer.
	if !isSameIssuer(s.rec.Issuer, at.issuer) {
		s.rec = record{} // the stored record stays
	}
	// A renewed token has the same scopes.
	if !c.insufficientScope && s.rec.Refresh != "" {
		s.rec.Endpoint = at.token
		err := s.refresh(ctx)
		if err == nil || s.rec.Refresh != "" {
			return nil, err
		}
	}
	p, err := s.startSignIn(ctx, at, c)
	if err != nil {
		return nil, s.signInError(err)
	}
	return p, nil
}

func (s *session) signInError(err error) error {
	return fmt.Errorf("sign in at MCP server %q: %w", s.e.Name, err)
}

// checkWiden returns an error if another consent would change nothing, or if there were too many.
func (s *session) checkWiden(scopes []string) error {
	now := s.b.o.Now()
	s.widenings = slices.DeleteFunc(s.widenings, func(at time.Time) bool { return now.Sub(at) >= widenWindow })
	asked := strings.Join(scopes, " ")
	switch {
	case s.rec.Access != "" && covers(s.rec.Requested, scopes):
		return fmt.Errorf("the MCP server %q refuses the request although it has the permissions that it asks for (%.200s)",
			s.e.Name, asked)
	case len(s.e.Scopes) > 0:
		return fmt.Errorf("the MCP server %q asks for more permissions (%.200s) than are configured", s.e.Name, asked)
	case len(s.widenings) >= maxWidenings:
		return fmt.Errorf("the MCP server %q keeps asking for more permissions (%.200s): stopped for an hour", s.e.Name, asked)
	}
	s.widenings = append(s.widenings, now)
	return nil
}

// scopes returns the scopes to request: the configured ones, the scopes in the refusal, or the scopes that the server
// supports, in addition to earlier ones.
func (s *session) scopes(c *challenge, at *target) []string {
	list := s.e.Scopes
	if len(list) == 0 {
		if list = c.scopes; len(list) == 0 {
			list = scopesOf(strings.Join(at.scopes, " "))
		}
		list = union(s.rec.Requested, list)
	}
	// Only with other scopes: alone it would request no access.
	if len(list) > 0 && s.e.Grant != ClientCredentials && covers(at.authServer.scopes, []string{offlineAccess}) {
		list = union(list, []string{offlineAccess})
	}
	return list
}

// offlineAccess is the scope that some authorization servers require for a refresh token.
const offlineAccess = "offline_access"

// startSignIn gets a token for the bot's own credentials, or returns the consent that is needed.
func (s *session) startSignIn(ctx context.Context, at *target, c *challenge) (*pending, error) {
	scopes := s.scopes(c, at)
	if s.e.Grant == ClientCredentials {
		return nil, s.requestOwnToken(ctx, at, scopes)
	}
	switch {
	case at.authorize == "":
		return nil, fmt.Errorf("the authorization server %.200s has no page for consent", at.issuer)
	case !at.s256:
		return nil, fmt.Errorf("the authorization server %.200s does not support PKCE with S256, which protects sign-ins",
			at.issuer)
	}
	who, err := s.clientFor(ctx, at, scopes)
	if err != nil {
		return nil, err
	}
	// Separate random values, because different parties see the link, the state and the verifier.
	p := &pending{
		s:        s,
		ticket:   rand.Text(),
		state:    rand.Text(),
		verifier: rand.Text() + rand.Text(),
		asked:    c.scopes,
		target:   at,
		client:   who,
	}
	p.Consent = Consent{Server: s.e.Name, User: s.e.User, Scopes: scopes, Expires: s.b.o.Now().Add(consentLifetime),
		URL: s.b.o.RedirectURL + "?open=" + p.ticket}
	if p.consentURL, err = p.authorizeURL(s.b.o.RedirectURL); err != nil {
		return nil, err
	}
	s.b.removePending(s)
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.pending[p.state] = p
	return p, nil
}

func (s *session) shouldNotify(p *pending) bool {
	now := s.b.o.Now()
	// More scopes justify a new notice, up to maxNotices.
	known := covers(s.notifiedScopes, p.Scopes) || s.notices > maxNotices
	if p.notified || known && now.Before(s.quietUntil) {
		return false
	}
	p.notified, s.notifiedScopes = true, p.Scopes
	gap := consentLifetime
	if s.e.User == "" { // the supervisor keeps asking for the bot's own token, but not for a person's
		gap = min(gap<<min(s.notices, 10), maxQuiet)
	}
	s.quietUntil = now.Add(gap)
	s.notices++
	return true
}

// exchangeCode exchanges the code of a consent for a token. After an error the person must consent again, because a
// code works only once.
func (s *session) exchangeCode(ctx context.Context, p *pending, code string) error {
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer s.release()
	form := url.Values{"grant_type": {AuthorizationCode}, "code": {code}, "redirect_uri": {s.b.o.RedirectURL},
		"code_verifier": {p.verifier}, "resource": {p.target.resource}}
	t, err := s.requestToken(ctx, p.target.token, p.target.issuer, p.client, form)
	if err != nil {
		return s.signInError(err)
	}
	s.useToken(p.target, p.client, p.Scopes, t)
	s.notices, s.quietUntil, s.notifiedScopes = 0, time.Time{}, nil
	return nil
}

func (s *session) useToken(at *target, who client, requested []string, t record) {
	t.URL, t.Issuer, t.Endpoint, t.Resource = s.e.URL, at.issuer, at.token, at.resource
	t.Requested, t.Client = requested, who
	s.rec = t
	s.saveRecord()
}
