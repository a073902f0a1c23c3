package mcp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// transportTo returns a transport to an address.
func transportTo(t *testing.T, address string) *originTransport {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return newOriginTransport(at, nil)
}

// Five redirects are followed, and a circle is left.
func TestOriginTransport_RedirectsInACircle(t *testing.T) {
	var asked atomic.Int32
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
	}))
	g := transportTo(t, s.URL)
	defer g.close()
	_, err := g.client().Get(s.URL)
	if err == nil || !strings.Contains(err.Error(), "the server redirects in a circle") || asked.Load() != 5 {
		t.Errorf("after %d requests: %v", asked.Load(), err)
	}
}

// No connection outlives the transport: not those that are open, and none that is made meanwhile.
func TestOriginTransport_CloseEndsEveryConnection(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	g := transportTo(t, s.URL)
	conn, err := g.dial(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	closed, err := g.dial(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil || len(g.open) != 1 {
		t.Errorf("%d connections are tracked after one was closed: %v", len(g.open), err)
	}
	g.close()
	if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) || len(g.open) != 0 {
		t.Errorf("an open connection after the end: %v, %d are tracked", err, len(g.open))
	}
	if _, err := g.dial(t.Context(), "tcp", s.Listener.Addr().String()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a new connection after the end: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := g.dial(ended, "tcp", s.Listener.Addr().String()); !errors.Is(err, context.Canceled) {
		t.Errorf("a connection that cannot be made: %v", err)
	}
}

func TestIsSameOrigin(t *testing.T) {
	own := &url.URL{Scheme: "https", Host: "own.example"}
	for address, want := range map[string]bool{
		"https://own.example/x": true, "https://OWN.example": true, "http://own.example": false,
		"https://own.example:443": false, "https://x.own.example": false,
	} {
		at, err := url.Parse(address)
		if err != nil || isSameOrigin(at, own) != want {
			t.Errorf("%s: %v, %v", address, !want, err)
		}
	}
}
