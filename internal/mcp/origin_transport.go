package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/resident"
)

const (
	maxRedirects      = 5
	sessionEndTimeout = 2 * time.Second // of the request that ends a session
)

// SignIns signs in to servers whose credentials are not configured as headers. It must be
// safe for concurrent use.
type SignIns interface {
	// Authorize returns a RoundTripper that sends requests to a server over next, with the
	// credentials. Its errors that have a method Authorizing are shown as they are; one that
	// also has a method Link says that a person has to consent first (see
	// oauth.ConsentNeededError).
	Authorize(c Config, next http.RoundTripper) http.RoundTripper
	// Waiting returns the consent that a server waits for, or nil. It must not call the Host.
	Waiting(c Config) *Consent
}

// originTransport is the RoundTripper of servers over HTTP: the configured headers go only to the
// configured origin, the size of answers is limited, and the proxies of the environment are not
// used. It has no deadline for whole answers, because event streams last; those who call set one.
type originTransport struct {
	origin     *url.URL
	headers    map[string]string
	base       *http.Transport
	answers    *resident.Pool    // what large answers of all servers take
	authorized http.RoundTripper // base, with the credentials of SignIns

	mu     sync.Mutex
	closed bool              // no connection is made any more
	open   map[net.Conn]bool // every connection that is not closed
}

// newOriginTransport returns a transport for one server: headers of the configuration are sent to its origin alone, and
// close ends all of its connections.
func newOriginTransport(origin *url.URL, headers map[string]string) *originTransport {
	g := &originTransport{origin: origin, headers: headers, open: map[net.Conn]bool{}}
	g.base = &http.Transport{
		DialContext:         g.dial,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
		// A connection that is dead is closed, though a listen stream may be silent for hours.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
	g.authorized = g.base
	return g
}

// originTransport returns a transport to the server, with the credentials of SignIns.
func (s *server) originTransport(at *url.URL) *originTransport {
	g := newOriginTransport(at, s.c.Headers)
	g.answers = s.h.answers
	if s.o.SignIns != nil {
		g.authorized = s.o.SignIns.Authorize(s.c, g.base)
	}
	return g
}

// dial makes a connection and tracks it until it is closed. Closing the idle connections
// at the end would miss those that become idle, or are made, afterwards.
func (g *originTransport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// The connection was being made while close ran, which did not see it.
	if g.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	c := &trackedConn{conn, g}
	g.open[c] = true
	return c, nil
}

// trackedConn is a connection that originTransport.close can end.
type trackedConn struct {
	net.Conn
	owner *originTransport
}

// Close closes the connection and stops tracking it.
func (c *trackedConn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// close ends every connection; new ones are refused from now on.
func (g *originTransport) close() {
	g.mu.Lock()
	g.closed = true
	open := slices.Collect(maps.Keys(g.open))
	g.mu.Unlock()
	// Without the lock, which trackedConn.Close takes.
	for _, conn := range open {
		conn.Close()
	}
	g.base.CloseIdleConnections()
}

// client returns a client that follows redirects only within the origin: another host
// could otherwise receive the tool calls, arguments included.
func (g *originTransport) client() *http.Client {
	return &http.Client{Transport: g, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if !isSameOrigin(r.URL, g.origin) {
			return fmt.Errorf("the server redirects to %s://%s: if that is right, write it as the url",
				r.URL.Scheme, r.URL.Host)
		}
		if len(via) >= maxRedirects {
			return errors.New("the server redirects in a circle")
		}
		return nil
	}}
}

// isSameOrigin reports whether scheme, host and port are equal. A default port that only one of
// them names makes them differ.
func isSameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host)
}

// RoundTrip makes one request. It adds the configured headers and limits the answer.
func (g *originTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	var ctx context.Context
	var cancel context.CancelFunc
	if r.Method == http.MethodDelete {
		// It ends a session: a server that hangs must not hold up the end of the connection.
		ctx, cancel = context.WithTimeout(r.Context(), sessionEndTimeout)
	} else {
		ctx, cancel = context.WithCancel(r.Context())
	}
	r = r.WithContext(ctx)
	if isSameOrigin(r.URL, g.origin) && len(g.headers) > 0 {
		r = r.Clone(r.Context())
		for name, value := range g.headers {
			r.Header.Set(name, value)
		}
	}
	resp, err := g.authorized.RoundTrip(r)
	if err != nil {
		cancel()
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	resp.Body = &limitedBody{
		ReadCloser: resp.Body,
		events:     kind == "text/event-stream",
		size:       resp.ContentLength,
		memory:     g.answers,
		ctx:        ctx,
		cancel:     cancel,
	}
	return resp, nil
}

const (
	// smallAnswer is how many bytes of an answer, or of one event, are read without waiting for memory.
	smallAnswer = 1 << 20
	// answerMemory is how many times its size an answer takes at most until it is decoded: 31 MB were in use for one of 10 MB
	// (heap profile of 2026-11-27), besides what the decoder's buffer was copied from as it grew.
	answerMemory = 4
	// largeAnswerTime is how long a large answer may take to arrive, once there is memory for it: others wait for that.
	largeAnswerTime = 30 * time.Second
)

// limitedBody is a response body that fails beyond maxMessageBytes: of the whole body, or
// of one event in an event stream. What is larger than smallAnswer waits for memory.
type limitedBody struct {
	io.ReadCloser
	events bool
	size   int64 // of the whole body; negative: unknown
	memory *resident.Pool
	ctx    context.Context // of the request
	cancel context.CancelFunc
	read   int
	tail   [3]byte // the last bytes of an event stream so far, the newest last
	large  bool    // it has waited for memory

	mu     sync.Mutex // guards what follows: Close may be called during Read
	free   func()     // gives back the memory; nil: there is none to give back
	closed bool
}

// Read fails with errTooLong once the limit is passed.
func (l *limitedBody) Read(p []byte) (int, error) {
	if l.read > maxMessageBytes {
		return 0, errTooLong
	}
	if l.read > smallAnswer && !l.large {
		if err := l.takeMemory(); err != nil {
			return 0, err
		}
	}
	n, err := l.ReadCloser.Read(p)
	if n == 0 {
		return n, err
	}
	l.read += n
	if l.events {
		l.countSinceEvent(p[:n])
	}
	if l.large && l.read <= smallAnswer {
		l.large = false
		l.freeMemory()
	}
	if l.read > maxMessageBytes {
		return 0, errTooLong
	}
	return n, err
}

// countSinceEvent sets the count to the bytes after the last empty line, which ends an
// event.
func (l *limitedBody) countSinceEvent(p []byte) {
	// The empty line may be split between reads: the bytes before p are put in front of its first ones.
	seam := slices.Concat(l.tail[:], p[:min(len(p), 2)])
	copy(l.tail[:], slices.Concat(l.tail[:], p[max(0, len(p)-3):])[min(len(p), 3):])
	for i := bytes.LastIndexByte(p, '\n'); i >= 0; i = bytes.LastIndexByte(p[:i], '\n') {
		before := p[:i]
		if i < 2 {
			before = seam[:len(l.tail)+i]
		}
		if bytes.HasSuffix(before, []byte("\n")) || bytes.HasSuffix(before, []byte("\n\r")) {
			l.read = len(p) - i
			return
		}
	}
}

// takeMemory waits for the memory of a large answer. From then on the rest has largeAnswerTime to arrive.
func (l *limitedBody) takeMemory() error {
	size := int64(maxMessageBytes)
	if l.size >= 0 && !l.events {
		size = min(size, l.size)
	}
	release, err := l.memory.Take(l.ctx, answerMemory*size)
	if err != nil {
		return fmt.Errorf("a large answer found no memory: %w", err)
	}
	late := time.AfterFunc(largeAnswerTime, func() {
		l.cancel()
		l.freeMemory()
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.large, l.free = true, func() {
		late.Stop()
		release()
	}
	if l.closed {
		l.free()
		l.free = nil
		return net.ErrClosed
	}
	return nil
}

// freeMemory gives back the memory of a large answer, if it was taken.
func (l *limitedBody) freeMemory() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free != nil {
		l.free()
		l.free = nil
	}
}

// Close ends the request.
func (l *limitedBody) Close() error {
	l.cancel()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.freeMemory()
	return l.ReadCloser.Close()
}
