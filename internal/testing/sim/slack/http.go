package simslack

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Paths of HTTP delivery under the app's base URL.
const (
	PathEvents      = "/slack/events"
	PathCommands    = "/slack/commands"
	PathInteractive = "/slack/interactive"
)

// DeliverHTTP sends everything from now on as signed requests to the app's
// base URL instead of Socket Mode; an empty base goes back.
func (s *Server) DeliverHTTP(base string) {
	s.state.Lock()
	defer s.state.Release()
	s.base = base
}

// Sign returns Slack's signature of a body at a time under a secret.
func Sign(secret string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "v0:%d:%s", at.Unix(), body) // a hash takes everything
	return "v0=" + hex.EncodeToString(mac.Sum(nil))
}

// SignedRequest is one request to the app. Every part of it can be forged.
type SignedRequest struct {
	URL         string
	ContentType string // default application/json
	Body        []byte
	At          time.Time // default now
	Secret      string    // default the right one
	Header      map[string]string
}

// Post sends a parcel and returns the app's answer.
func (s *Server) Post(ctx context.Context, p SignedRequest) (status int, body []byte, err error) {
	setDefault(&p.ContentType, "application/json")
	setDefault(&p.Secret, s.opts.SigningSecret)
	if p.At.IsZero() {
		p.At = time.Now()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(p.Body))
	if err != nil {
		return 0, nil, fmt.Errorf("post to app: %w", err)
	}
	req.Header.Set("Content-Type", p.ContentType)
	req.Header.Set("X-Slack-Request-Timestamp", strconv.FormatInt(p.At.Unix(), 10))
	req.Header.Set("X-Slack-Signature", Sign(p.Secret, p.At, p.Body))
	for k, v := range p.Header {
		req.Header.Set(k, v)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("post to app: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return resp.StatusCode, nil, fmt.Errorf("read the app's answer: %w", err)
	}
	if resp.Header.Get("X-Slack-No-Retry") == "1" {
		err = errNoRetry
	}
	return resp.StatusCode, body, err
}

var errNoRetry = errors.New("the app wants no retry")

// VerifyURL does what Slack does when an events URL is entered: it sends a
// challenge and wants it back.
func (s *Server) VerifyURL(ctx context.Context, base string) error {
	body := mustJSON(map[string]any{"type": "url_verification", "token": "legacy", "challenge": "challenge-3eZbrw1a"})
	status, answer, err := s.Post(ctx, SignedRequest{URL: base + PathEvents, Body: body})
	if err != nil {
		return err
	}
	var reply struct {
		Challenge string `json:"challenge"`
	}
	if json.Unmarshal(answer, &reply) != nil {
		reply.Challenge = string(bytes.TrimSpace(answer))
	}
	if status != http.StatusOK || reply.Challenge != "challenge-3eZbrw1a" {
		return fmt.Errorf("verify events URL: status %d, answer %q", status, answer)
	}
	return nil
}

// post makes one attempt to deliver over HTTP.
func (s *Server) post(d *Delivery, base, reason string) {
	defer s.live.Done()
	ctx, cancel := context.WithTimeout(s.ctx, s.opts.AckWithin)
	defer cancel()
	p := newSignedRequest(d, base)
	if d.Attempt > 0 {
		p.Header = map[string]string{"X-Slack-Retry-Num": strconv.Itoa(d.Attempt), "X-Slack-Retry-Reason": reason}
	}
	status, body, err := s.Post(ctx, p)
	s.state.Lock()
	defer s.state.Release()
	d.Status = status
	switch {
	case status >= 200 && status < 300:
		if !json.Valid(body) {
			body = nil
		}
		s.recordAck(d, body)
		s.recordAnswer(d)
	case errors.Is(err, errNoRetry):
		d.Over = true
	case errors.Is(err, context.DeadlineExceeded):
		s.endAttempt(d, "http_timeout")
	case err != nil:
		s.endAttempt(d, "connection_failed")
	default:
		s.endAttempt(d, "http_error")
	}
}

// newSignedRequest returns what Slack sends to an app over HTTP for an envelope: forms for commands and interactions,
// the payload alone for events.
func newSignedRequest(d *Delivery, base string) SignedRequest {
	const formType = "application/x-www-form-urlencoded"
	switch d.Kind {
	case KindCommand:
		var fields map[string]string
		_ = json.Unmarshal(d.envelope.payload, &fields) // our own
		return SignedRequest{URL: base + PathCommands, ContentType: formType, Body: []byte(form(fields))}
	case KindInteractive:
		return SignedRequest{
			URL:         base + PathInteractive,
			ContentType: formType,
			Body:        []byte(url.Values{"payload": {string(d.envelope.payload)}}.Encode()),
		}
	}
	return SignedRequest{URL: base + PathEvents, Body: d.envelope.payload}
}

// uploadBody takes a raw body or the first file of a form.
func uploadBody(r *http.Request) (body []byte, name string, err error) {
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "multipart/form-data" {
		body, err = io.ReadAll(r.Body)
		return body, "", err
	}
	part, err := multipart.NewReader(r.Body, params["boundary"]).NextPart()
	if err != nil {
		return nil, "", err
	}
	body, err = io.ReadAll(part)
	return body, part.FileName(), err
}
