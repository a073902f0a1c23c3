package oauth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxTries is how often one request is sent: each refusal but the last is answered with a new token.
const maxTries = 3

// tokenTransport carries the requests of one connection.
type tokenTransport struct {
	s    *session
	next http.RoundTripper
}

// RoundTrip sends a request with the current token, and again when a refusal could be answered with another one. It
// returns a *ConsentNeededError where a person is asked for consent.
func (c *tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	at := c.s.at
	// Redirects to other origins must not carry the token.
	if r.Header.Get("Authorization") != "" || r.URL.Scheme != at.Scheme || !strings.EqualFold(r.URL.Host, at.Host) {
		return c.next.RoundTrip(r)
	}
	for try := 1; ; try++ {
		token, err := c.s.current(r.Context())
		if err != nil {
			// RoundTrip must close the body also when it returns an error.
			closeBody(r)
			return nil, wrapFailure(r.Context(), err)
		}
		attempt, err := withToken(r, token, try)
		if err != nil {
			return nil, err
		}
		resp, err := c.next.RoundTrip(attempt)
		if err != nil {
			return nil, err
		}
		refused := readChallenge(resp)
		// A body that cannot be read again cannot be sent again.
		// Nobody should be asked to consent to the end of an MCP session.
		if refused == nil || try == maxTries || r.Method == http.MethodDelete || r.Body != nil && r.GetBody == nil {
			return resp, nil
		}
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection can be used again
		resp.Body.Close()
		if err := c.s.answerRefusal(r.Context(), refused, token); err != nil {
			return nil, wrapFailure(r.Context(), err)
		}
	}
}

// signInFailure says why there is no token. Its text holds no secret.
type signInFailure struct{ error }

// Authorizing marks the error's text as complete: callers add nothing to it.
func (signInFailure) Authorizing() {}

// Unwrap returns the cause.
func (f signInFailure) Unwrap() error { return f.error }

// wrapFailure returns err as a signInFailure, unless it is ctx's error or asks for consent.
func wrapFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.As(err, new(*ConsentNeededError)) {
		return err
	}
	return signInFailure{err}
}

// withToken returns the request to send. The first attempt uses the body of r, further ones a new copy.
func withToken(r *http.Request, token string, try int) (*http.Request, error) {
	attempt := r.Clone(r.Context())
	if token != "" {
		attempt.Header.Set("Authorization", "Bearer "+token)
	}
	if try > 1 && r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		attempt.Body = body
	}
	return attempt, nil
}

// closeBody closes the body of a request, if it has one, as a RoundTripper has to also when it sends nothing.
func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// answerRefusal deals with the refusal of a request that was sent with the token used. It returns nil when the
// request is worth sending again.
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

// notify has the link sent to the person. A link that could not be sent is sent next time.
func (s *session) notify(ctx context.Context, p *pending) {
	// The request that was refused may end before the message is sent.
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
