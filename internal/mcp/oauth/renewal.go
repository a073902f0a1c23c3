package oauth

import (
	"context"
	"maps"
	"slices"
	"time"
)

// SharedStore is a Store of several processes. Rotating refresh tokens work only once: one process renews a token, and
// the others load it.
type SharedStore interface {
	Store
	// Claim gives one process at a time the right to renew a record, until release is called or the time has passed. It
	// returns false if another process has the right.
	Claim(key string, until time.Time) (release func(), ok bool, err error)
}

const (
	// claimLifetime bounds the claim of a process that has crashed. It is longer than the request for a token.
	claimLifetime = requestTimeout + 5*time.Second
	claimRetry    = 100 * time.Millisecond
)

// storedRecord returns the stored record of the session. It returns false if there is none, or if the record belongs to
// another URL, issuer or client, which must not get the token.
func (s *session) storedRecord() (r record, ok bool) {
	if !s.b.load(s.key, &r) || r.URL != s.e.URL || s.e.Issuer != "" && !isSameIssuer(s.e.Issuer, r.Issuer) ||
		s.e.ClientID != "" && s.e.ClientID != r.Client.ID {
		return record{}, false
	}
	// The configured secret may have changed since.
	if s.e.ClientID != "" {
		r.Client.Secret = s.e.ClientSecret
	}
	return r, true
}

// takeRenewed loads the token that another process has stored. It returns false if that is not a new token.
func (s *session) takeRenewed() bool {
	if _, shared := s.b.o.Store.(SharedStore); !shared {
		return false
	}
	r, ok := s.storedRecord()
	if !ok || r.Access == s.rec.Access {
		return false
	}
	s.rec = r
	return true
}

// claimRenewal waits until no other process renews the token. It returns true if another process has renewed it, and an
// error if ctx ends first. If the claim fails, the caller renews the token anyway: a lost token is better than no
// renewal.
func (s *session) claimRenewal(ctx context.Context) (release func(), renewed bool, err error) {
	release = func() {}
	shared, ok := s.b.o.Store.(SharedStore)
	if !ok {
		return release, false, nil
	}
	// Not less than claimLifetime: the other process may still use the refresh token.
	for end := time.Now().Add(claimLifetime); ; {
		let, claimed, err := shared.Claim(s.key, s.b.o.Now().Add(claimLifetime))
		if err != nil {
			s.b.o.Log.Warn("failed to lock the renewal of an mcp token; another process may renew it too", "server", s.e.Name, "error", err)
			return release, s.takeRenewed(), nil
		}
		if claimed {
			release = let
		}
		// After the claim, when no other process renews it.
		if s.takeRenewed() {
			return release, true, nil
		}
		if claimed || time.Now().After(end) {
			return release, false, nil
		}
		select {
		case <-time.After(claimRetry):
		case <-ctx.Done():
			// A server that sees a refresh token twice may revoke the new token.
			return release, false, context.Cause(ctx)
		}
	}
}

// TakeGranted ends the consents of this process that another process has completed, and calls OnGranted. It returns the
// error of ctx.
func (b *Broker) TakeGranted(ctx context.Context) error {
	b.mu.Lock()
	asking := slices.Collect(maps.Values(b.pending))
	b.mu.Unlock()
	for _, p := range asking {
		if err := p.s.acquire(ctx); err != nil {
			return err
		}
		granted := p.s.takeRenewed()
		p.s.release()
		if !granted {
			continue
		}
		b.removePending(p.s)
		if b.o.OnGranted != nil {
			b.o.OnGranted(p.Server, p.User)
		}
	}
	return nil
}
