package oauth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxTries bounds how often one request is sent. Each refusal except the last leads to a new token.
const maxTries = 3

type tokenTransport struct {
	s    *session
	next http.RoundTripper
}

// RoundTrip sends a request with the current token, and again after a refusal if there is a new token. It returns a
// *ConsentNeededError if a person must consent.
func (c *tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	at := c.s.at
	// Redirects to other origins must not carry the token.
	if r.Header.Get("Authorization") != "" || r.URL.Scheme != at.Scheme || !strings.EqualFold(r.URL.Host, at.Host) {
		return c.next.RoundTrip(r)
	}
	for try := 1; ; try++ {
		token, err := c.s.current(r.Context())
		if err != nil {
			// RoundTrip must close the body even after an error.
			closeBody(r)
			return nil, wrapFailure(r.Context(), err)
		}
		attempt := r.Clone(r.Context())
		if token != "" {
			attempt.Header.Set("Authorization", "Bearer "+token)
		}
		if try > 1 && r.GetBody != nil {
			if attempt.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
		resp, err := c.next.RoundTrip(attempt)
		if err != nil {
			return nil, err
		}
		refused := readChallenge(resp)
		// Only a body that can be read again can be sent again. The end of a session needs no consent.
		if refused == nil || try == maxTries || r.Method == http.MethodDelete || r.Body != nil && r.GetBody == nil {
			return resp, nil
		}
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // for reuse of the connection
		resp.Body.Close()
		if err := c.s.answerRefusal(r.Context(), refused, token); err != nil {
			return nil, wrapFailure(r.Context(), err)
		}
	}
}

// signInFailure is the reason for a missing token. Its text contains no secret.
type signInFailure struct{ error }

// Authorizing marks the error's text as complete.
func (signInFailure) Authorizing() {}

// Unwrap returns the cause.
func (f signInFailure) Unwrap() error { return f.error }

// wrapFailure returns err as a signInFailure, unless it comes from ctx or asks for consent.
func wrapFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.As(err, new(*ConsentNeededError)) {
		return err
	}
	return signInFailure{err}
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// answerRefusal handles the refusal of a request with the token used. It returns nil if the request can be sent again.
func (s *session) answerRefusal(ctx context.Context, c *challenge, used string) error {
	if err := s.acquire(ctx); err != nil {
		return err
	}
	p, err := s.handleRefusal(ctx, c, used)
	notify := p != nil && s.shouldNotify(p)
	s.release()
	if p == nil {
		return err
	}
	if notify && s.b.o.NotifyConsent != nil {
		s.notify(ctx, p)
	}
	return &ConsentNeededError{p.Consent}
}

// notify sends the link to the person. After a failure it is sent next time.
func (s *session) notify(ctx context.Context, p *pending) {
	// The refused request may end before the message is sent.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	err := s.b.o.NotifyConsent(ctx, p.Consent)
	if err == nil {
		return
	}
	s.b.o.Log.Warn("failed to deliver an mcp consent link", "server", s.e.Name, "error", err)
	if s.acquire(ctx) == nil {
		p.notified, s.quietUntil = false, time.Time{}
		s.release()
	}
}
