package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"ravenbot/internal/core/resident"
	"ravenbot/internal/ops/egress"
)

const (
	maxRedirects      = 5
	sessionEndTimeout = 2 * time.Second // for the request that ends a session
)

// SignIns signs in to servers whose credentials are not configured as headers. It must be safe for concurrent use.
type SignIns interface {
	// Authorize returns a RoundTripper that adds credentials to requests and sends them over next. Errors with a method
	// Authorizing are shown unchanged. A further method Link means that a person must consent first (see
	// oauth.ConsentNeededError).
	Authorize(c Config, next http.RoundTripper) http.RoundTripper
	// Waiting returns the consent that a server needs, or nil. It must not call the Host.
	Waiting(c Config) *Consent
}

// originTransport is the RoundTripper for servers over HTTP. It sends configured headers only to the configured origin,
// limits answers, and ignores proxies of the environment. Callers set deadlines, because event streams last.
type originTransport struct {
	origin     *url.URL
	agent      string         // User-Agent, unless the headers have one
	answers    *resident.Pool // memory for large answers of all servers
	headers    map[string]string
	authorized http.RoundTripper // with the credentials of SignIns
	close      func()            // ends all connections when no request is running
}

func newOriginTransport(origin *url.URL, headers map[string]string) *originTransport {
	base := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
		// Closes a dead connection, although a listen stream may be silent for hours.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
	return &originTransport{
		origin:     origin,
		headers:    headers,
		authorized: sessionTransport{base},
		close:      base.CloseIdleConnections, // including those that become idle later
	}
}

func (s *server) originTransport(at *url.URL) *originTransport {
	g := newOriginTransport(at, s.c.Headers)
	g.answers, g.agent = s.h.answers, "ravenbot/"+s.o.Version
	if s.o.SignIns != nil {
		g.authorized = s.o.SignIns.Authorize(s.c, g.authorized)
	}
	return g
}

// client returns a client that follows redirects only within the origin, because another host would receive the tool
// calls, and only with the same method: after a 301 or 302 Go sends a GET without the message.
func (g *originTransport) client() *http.Client {
	return &http.Client{Transport: g, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if !isSameOrigin(r.URL, g.origin) || r.Method != via[0].Method {
			// Without the query, which may contain a secret.
			return fmt.Errorf("the server redirects to %s://%s%s: if that is right, write it as the url",
				r.URL.Scheme, r.URL.Host, r.URL.EscapedPath())
		}
		if len(via) >= maxRedirects {
			return errors.New("the server redirects in a circle")
		}
		return nil
	}}
}

// isSameOrigin reports whether scheme, host and port are equal. An explicit default port makes a difference.
func isSameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host)
}

// RoundTrip makes one request. It adds the configured headers and limits the answer.
func (g *originTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	var ctx context.Context
	var cancel context.CancelFunc
	if r.Method == http.MethodDelete {
		// The end of a session: a server that hangs must not delay the end of the connection.
		ctx, cancel = context.WithTimeout(r.Context(), sessionEndTimeout)
	} else {
		ctx, cancel = context.WithCancel(r.Context())
	}
	r = r.Clone(ctx)
	r.Header.Set("User-Agent", g.agent)
	if isSameOrigin(r.URL, g.origin) {
		for name, value := range g.headers {
			r.Header.Set(name, value)
		}
	}
	resp, err := g.send(r)
	if err != nil {
		cancel()
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	resp.Body = &answerBody{
		ReadCloser: resp.Body,
		isStream:   kind == "text/event-stream",
		length:     resp.ContentLength,
		memory:     g.answers,
		ctx:        ctx,
		cancel:     cancel,
	}
	return resp, nil
}

// send sends a request. If the server refuses a call with 429 and asks for a pause that the call has time for, send
// waits and tries again.
func (g *originTransport) send(r *http.Request) (*http.Response, error) {
	for {
		resp, err := g.authorized.RoundTrip(r)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests {
			return resp, err
		}
		call, pause := callFromContext(r.Context()), egress.ReadRetryAfter(resp.Header)
		if call == nil || pause == 0 || pause >= call.timeLeft() || r.GetBody == nil {
			return resp, nil
		}
		resp.Body.Close()
		select {
		case <-time.After(pause):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		r = r.Clone(r.Context())
		if r.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
}

// sessionTransport answers 404, as the specification demands, if a server refuses a forgotten session with another
// status: 400 (examples of the TypeScript SDK), 401 (Rust SDK), 403 or 503 (seen 2026-11). Such a server has not run
// the request.
type sessionTransport struct{ next http.RoundTripper }

// RoundTrip makes a request.
func (t sessionTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil || r.Method != http.MethodPost || r.Header.Get(transport.HeaderKeySessionID) == "" ||
		resp.Header.Get("WWW-Authenticate") != "" {
		return resp, err
	}
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable:
		head, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // reading the rest returns an error again
		said := bytes.ToLower(head)
		if bytes.Contains(said, []byte("session")) || bytes.Contains(said, []byte("not initialized")) {
			resp.StatusCode = http.StatusNotFound
		}
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	}
	return resp, nil
}

const (
	// smallAnswer is the size in bytes up to which an answer, or one event, is read without waiting for memory.
	smallAnswer = 1 << 20
	// answerMemory is the memory for an answer in multiples of its size (31 MB for one of 10 MB, profile of
	// 2026-11-27).
	answerMemory = 4
	// largeAnswerTime bounds the time of a large answer after it gets memory, because others wait for the memory.
	largeAnswerTime = 30 * time.Second
)

// answerBody is a response body that fails beyond maxMessageBytes, counted for the whole body or for one event of a
// stream. Beyond smallAnswer it waits for memory. In event streams it converts line ends to line feeds and removes a
// byte order mark (HTML, 9.2.6), because the library reads no others (mcp-go v1.2.1, 2026-11).
type answerBody struct {
	io.ReadCloser
	isStream bool
	length   int64 // of the whole body; negative: unknown
	memory   *resident.Pool
	ctx      context.Context // of the request
	cancel   context.CancelFunc
	free     func() // releases the memory of a large answer; may be nil
	size     int    // bytes of the body, or of the event so far
	mark     int    // bytes of a byte order mark so far
	last     byte   // the newest byte before conversion
	isBroken bool   // the newest byte returned is a line break
}

// Read fails with errTooLong beyond the limit.
func (b *answerBody) Read(p []byte) (int, error) {
	if b.size > smallAnswer && b.free == nil {
		if err := b.takeMemory(); err != nil {
			return 0, err
		}
	}
	n, err := b.ReadCloser.Read(p)
	kept := p[:0]
	for _, c := range p[:n] {
		if b.isStream && !b.normalize(&c) {
			continue
		}
		b.size++
		kept = append(kept, c)
	}
	if b.size > maxMessageBytes {
		return 0, errTooLong
	}
	if b.size <= smallAnswer && b.free != nil {
		b.free()
		b.free = nil
	}
	return len(kept), err
}

// takeMemory waits for the memory of a large answer. The rest of the answer then has largeAnswerTime.
func (b *answerBody) takeMemory() error {
	size := int64(maxMessageBytes)
	if b.length >= 0 && !b.isStream {
		size = min(size, b.length)
	}
	release, err := b.memory.Take(b.ctx, answerMemory*size)
	if err != nil {
		return fmt.Errorf("a large answer found no memory: %w", err)
	}
	late := time.AfterFunc(largeAnswerTime, b.cancel)
	ended := context.AfterFunc(b.ctx, release) // as Close does
	b.free = func() {
		late.Stop()
		if ended() {
			release()
		}
	}
	return nil
}

// normalize converts the next byte of an event stream. It returns false if the byte is dropped.
func (b *answerBody) normalize(c *byte) bool {
	const mark = "\uFEFF"
	if b.mark < len(mark) && *c == mark[b.mark] {
		b.mark++
		return false
	}
	isSecond := *c == '\n' && b.last == '\r'
	b.mark, b.last = len(mark), *c
	if isSecond {
		return false
	}
	if *c == '\r' {
		*c = '\n'
	}
	if *c == '\n' && b.isBroken { // an empty line ends an event
		b.size = 0
	}
	b.isBroken = *c == '\n'
	return true
}

// Close ends the request.
func (b *answerBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}
