package kit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

var errGone = errors.New("another process has taken over")

// guarded is a client whose permission can be taken away, and a server that counts the requests it reads to their end.
type guarded struct {
	client *http.Client
	isGone atomic.Bool
	whole  atomic.Int32
	url    string
	// first is called by the server for each request that is there as a whole.
	first func(http.ResponseWriter)
}

func newGuarded(t *testing.T, dial func()) *guarded {
	g := &guarded{first: func(http.ResponseWriter) {}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			g.whole.Add(1)
			g.first(w)
		}
	}))
	g.url = server.URL
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dial != nil {
			dial()
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}}
	g.client = &http.Client{Transport: kit.PermittedTransport{Next: transport}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	return g
}

func (g *guarded) post(t *testing.T, body io.Reader) error {
	t.Helper()
	ctx := chat.WithPermission(t.Context(), func() error {
		if g.isGone.Load() {
			return errGone
		}
		return nil
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "1") // http.Transport repeats such a request where a connection turns out to be closed
	res, err := g.client.Do(r)
	if err == nil {
		_ = res.Body.Close()
	}
	return err
}

// wantUnsent checks that the server has got n whole requests, and that err says that this one was not sent.
func (g *guarded) wantUnsent(t *testing.T, err error, n int32) {
	t.Helper()
	if !errors.Is(err, errGone) || !kit.IsUnsent(err) {
		t.Errorf("the error is %v, want that nothing was sent since %v", err, errGone)
	}
	if got := g.whole.Load(); got != n {
		t.Errorf("the server got %d whole requests, want %d", got, n)
	}
}

func TestPermittedTransport_GoneBefore_NothingIsSent(t *testing.T) {
	g := newGuarded(t, nil)
	g.isGone.Store(true)
	g.wantUnsent(t, g.post(t, strings.NewReader("hello")), 0)
	g.wantUnsent(t, g.post(t, nil), 0)
	if err := errors.Unwrap(g.post(t, nil)); kit.IsUnsent(errGone) || err == nil {
		t.Error("any error counts as one of a request that was not sent")
	}
}

func TestPermittedTransport_GoneWhileItConnects_NothingIsSent(t *testing.T) {
	var g *guarded
	g = newGuarded(t, func() { g.isGone.Store(true) })
	g.wantUnsent(t, g.post(t, strings.NewReader("hello")), 0)
}

// partedReader gives a text in two parts, and calls between before the second one.
type partedReader struct {
	parts   []string
	between func()
}

func (r *partedReader) Read(p []byte) (int, error) {
	if len(r.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.parts[0])
	if r.parts[0] = r.parts[0][n:]; r.parts[0] == "" {
		r.parts = r.parts[1:]
		r.between()
	}
	return n, nil
}

func TestPermittedTransport_GoneWithinABody_RequestIsCutOff(t *testing.T) {
	g := newGuarded(t, nil)
	body := &partedReader{parts: []string{strings.Repeat("a", 100_000), "b"}, between: func() { g.isGone.Store(true) }}
	g.wantUnsent(t, g.post(t, body), 0)
}

// What is read to its end may be with the server, so that it must not be called unsent.
func TestPermittedTransport_GoneAfterTheBody_RequestCounts(t *testing.T) {
	g := newGuarded(t, nil)
	ctx := chat.WithPermission(t.Context(), func() error {
		if g.isGone.Load() {
			return errGone
		}
		return nil
	})
	body := &partedReader{parts: []string{strings.Repeat("a", 100_000)}, between: func() { g.isGone.Store(true) }}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = 100_000
	res, err := g.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if got := g.whole.Load(); got != 1 {
		t.Errorf("the server got %d whole requests, want 1", got)
	}
}

func TestPermittedTransport_GoneBeforeARepeat_NothingIsSentAgain(t *testing.T) {
	g := newGuarded(t, nil)
	if err := g.post(t, strings.NewReader("hello")); err != nil {
		t.Fatal(err)
	}
	g.first = func(w http.ResponseWriter) {
		g.isGone.Store(true)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}
	_ = g.post(t, strings.NewReader("hello"))
	if got := g.whole.Load(); got != 2 {
		t.Errorf("the server got %d whole requests, want 2: the one before, and the one of which it closed the connection", got)
	}
}
