package oauth

import (
	"context"
	"maps"
	"slices"
	"time"
)

// SharedStore is a Store that other processes use, too. Refresh tokens that rotate are good once: of the processes one
// renews a token, and the others use what it has stored.
type SharedStore interface {
	Store
	// Claim gives one process at a time the right to renew the record of a key, until release is called or the time is
	// over. It returns false where another one has it.
	Claim(key string, until time.Time) (release func(), ok bool, err error)
}

const (
	// claimLifetime is how long a process that ends in the middle keeps the others from renewing: longer than the
	// request for a token takes.
	claimLifetime = requestTimeout + 5*time.Second
	claimRetry    = 100 * time.Millisecond
)

// storedRecord returns the stored record of the session. It returns false where there is none, or it belongs to
// another URL, issuer or client: its token would go to a stranger.
func (s *session) storedRecord() (r record, ok bool) {
	if !s.b.load(s.key, &r) || r.URL != s.e.URL || s.e.Issuer != "" && !isSameIssuer(s.e.Issuer, r.Issuer) ||
		s.e.ClientID != "" && s.e.ClientID != r.Client.ID {
		return record{}, false
	}
	// The secret may have changed in the configuration since the record was stored.
	if s.e.ClientID != "" {
		r.Client.Secret = s.e.ClientSecret
	}
	return r, true
}

// takeRenewed makes the token that another process has stored the current one, and reports whether there is another
// than the current one.
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

// claimRenewal waits until no other process renews the token. It returns true where one has done so meanwhile, and an
// error where ctx ends first. Where the right to renew it cannot be had, the caller renews it all the same: a token
// that may be lost is better than one that is never renewed.
func (s *session) claimRenewal(ctx context.Context) (release func(), renewed bool, err error) {
	release = func() {}
	shared, ok := s.b.o.Store.(SharedStore)
	if !ok {
		return release, false, nil
	}
	// Not less than a claim lasts: until then the other process may be using the refresh token.
	for end := time.Now().Add(claimLifetime); ; {
		let, claimed, err := shared.Claim(s.key, s.b.o.Now().Add(claimLifetime))
		if err != nil {
			s.b.o.Log.Warn("failed to lock the renewal of an mcp token; another process may renew it too", "server", s.e.Name, "error", err)
			return release, s.takeRenewed(), nil
		}
		if claimed {
			release = let
		}
		// Read after the claim: from then on nobody else renews it.
		if s.takeRenewed() {
			return release, true, nil
		}
		if claimed || time.Now().After(end) {
			return release, false, nil
		}
		select {
		case <-time.After(claimRetry):
		case <-ctx.Done():
			// A server that sees a refresh token twice may revoke what the other process has got.
			return release, false, context.Cause(ctx)
		}
	}
}

// TakeGranted ends the consents that this process asks for and another one has got meanwhile, as OnGranted does. It
// returns the error of ctx.
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
