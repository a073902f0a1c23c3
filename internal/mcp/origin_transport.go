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
)

const (
	maxRedirects      = 5
	sessionEndTimeout = 2 * time.Second // for a server to hear that a session ends
)

// Authorize gives what carries requests to a server over HTTP with credentials that
// are not configured as headers. Errors of it with a method Authorizing are shown
// as they are; one with a method Link as well says that a person has to consent
// first (see oauth.ConsentNeededError).
type Authorize func(c Config, next http.RoundTripper) http.RoundTripper

// originTransport is how servers are reached over HTTP: the configured headers go to the
// configured origin alone, answers have a limit, proxies of the environment are
// not used.
type originTransport struct {
	origin     *url.URL
	headers    map[string]string
	base       *http.Transport
	authorized http.RoundTripper // over base; adds credentials where they are not configured

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]bool
}

func newOriginTransport(origin *url.URL, headers map[string]string) *originTransport {
	g := &originTransport{origin: origin, headers: headers, open: map[net.Conn]bool{}}
	g.base = &http.Transport{
		DialContext:         g.dial,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
	}
	g.authorized = g.base
	return g
}

// originTransport is the way to the server, with credentials that are not configured.
func (s *server) originTransport(at *url.URL) *originTransport {
	g := newOriginTransport(at, s.c.Headers)
	if s.o.Authorize != nil {
		g.authorized = s.o.Authorize(s.c, g.base)
	}
	return g
}

// dial keeps account of connections: closing idle ones would leave those that
// become idle, or are made, afterwards.
func (g *originTransport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	c := &trackedConn{conn, g}
	g.open[c] = true
	return c, nil
}

type trackedConn struct {
	net.Conn
	owner *originTransport
}

// Close closes the connection and forgets it.
func (c *trackedConn) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// close ends every connection, and lets no new one be made.
func (g *originTransport) close() {
	g.mu.Lock()
	g.closed = true
	open := slices.Collect(maps.Keys(g.open))
	g.mu.Unlock()
	for _, conn := range open {
		conn.Close()
	}
	g.base.CloseIdleConnections()
}

func (g *originTransport) client() *http.Client {
	return &http.Client{Transport: g, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if !isSameOrigin(r.URL, g.origin) {
			return fmt.Errorf("the server redirects to %s://%s: if that is right, write it as the url", r.URL.Scheme, r.URL.Host)
		}
		if len(via) >= maxRedirects {
			return errors.New("the server redirects in a circle")
		}
		return nil
	}}
}

func isSameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host)
}

// RoundTrip makes one request.
func (g *originTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	cancel := context.CancelFunc(func() {})
	if r.Method == http.MethodDelete {
		var ctx context.Context
		ctx, cancel = context.WithTimeout(r.Context(), sessionEndTimeout)
		r = r.WithContext(ctx)
	}
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
	resp.Body = &limitedBody{ReadCloser: resp.Body, events: kind == "text/event-stream", cancel: cancel}
	return resp, nil
}

// limitedBody is a body that fails beyond maxMessage bytes: of the whole, or of one
// event in a stream of them.
type limitedBody struct {
	io.ReadCloser
	events bool
	cancel context.CancelFunc
	read   int
	last   byte
}

// Read fails with errTooLong once the limit is passed.
func (l *limitedBody) Read(p []byte) (int, error) {
	if l.read > maxMessageBytes {
		return 0, errTooLong
	}
	n, err := l.ReadCloser.Read(p)
	if n == 0 {
		return n, err
	}
	l.read += n
	if l.events {
		l.countSinceEvent(p[:n])
	}
	if l.read > maxMessageBytes {
		return 0, errTooLong
	}
	return n, err
}

// countSinceEvent counts only what came after the last empty line.
func (l *limitedBody) countSinceEvent(p []byte) {
	if l.last == '\n' && p[0] == '\n' {
		l.read = len(p)
	}
	l.last = p[len(p)-1]
	for i := bytes.LastIndexByte(p, '\n'); i > 0; i = bytes.LastIndexByte(p[:i], '\n') {
		if p[i-1] == '\n' || i > 1 && p[i-1] == '\r' && p[i-2] == '\n' {
			l.read = len(p) - i
			return
		}
	}
}

// Close ends the request.
func (l *limitedBody) Close() error {
	l.cancel()
	return l.ReadCloser.Close()
}
