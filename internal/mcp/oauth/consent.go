package oauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"strings"
)

// pending is a consent in progress. Later only browser and notified change.
type pending struct {
	Consent
	s          *session
	ticket     string   // identifies it in the link
	consentURL string   // the authorization server's page
	browser    string   // the browser that opened the link last; Broker.mu guards it
	state      string   // identifies it in the return; the authorization server sees it
	verifier   string   // secret of PKCE (RFC 7636), sent with the code
	asked      []string // scopes in refusals
	notified   bool     // guarded by the session's lock
	target     *target
	client     client
}

// authorizeURL returns the address of the consent page of the authorization server.
func (p *pending) authorizeURL(redirect string) (string, error) {
	u, err := url.Parse(p.target.authorize)
	if err != nil {
		return "", fmt.Errorf("authorization endpoint: %w", err)
	}
	sum := sha256.Sum256([]byte(p.verifier))
	q := u.Query()
	q.Set("response_type", "code")
	q.Set("client_id", p.client.ID)
	q.Set("redirect_uri", redirect)
	q.Set("state", p.state)
	q.Set("code_challenge", base64.RawURLEncoding.EncodeToString(sum[:]))
	q.Set("code_challenge_method", "S256")
	// RFC 8707: the token must be valid only for this server.
	q.Set("resource", p.target.resource)
	if len(p.Scopes) > 0 {
		q.Set("scope", strings.Join(p.Scopes, " "))
	}
	if covers(p.Scopes, []string{offlineAccess}) {
		q.Set("prompt", "consent") // required for offline_access by OpenID Connect Core, 11
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// removePending removes the consent of a session, and all expired ones.
func (b *Broker) removePending(s *session) {
	now := b.o.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.pending, func(_ string, p *pending) bool { return p.s.key == s.key || !now.Before(p.Expires) })
}

func (b *Broker) find(isWanted func(*pending) bool) *pending {
	now := b.o.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.pending {
		if now.Before(p.Expires) && isWanted(p) {
			return p
		}
	}
	return nil
}

// findTicket returns the consent of a link, or nil. A link can be opened several times.
func (b *Broker) findTicket(ticket string) *pending {
	return b.find(func(p *pending) bool {
		// In constant time, because the ticket is the only secret in the link.
		return subtle.ConstantTimeCompare([]byte(p.ticket), []byte(ticket)) == 1
	})
}

// HasConsent reports whether the query of a link or of a return belongs to a consent of this process. Other processes
// with the same store have their own.
func (b *Broker) HasConsent(q url.Values) bool {
	if ticket := q.Get("open"); ticket != "" {
		return b.findTicket(ticket) != nil
	}
	return b.find(func(p *pending) bool { return p.state == q.Get("state") }) != nil
}

// markOpened records the browser that opened a link. It returns false if the consent has ended.
func (b *Broker) markOpened(p *pending, browser string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending[p.state] != p {
		return false
	}
	p.browser = browser
	return true
}

// takePending removes and returns the consent with a state, so that it counts once.
func (b *Broker) takePending(state string) (*pending, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.pending[state]
	delete(b.pending, state)
	return p, ok && b.o.Now().Before(p.Expires)
}
