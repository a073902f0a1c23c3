package mcp

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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

// No connection outlives the transport, idle or in use.
func TestOriginTransport_CloseEndsEveryConnection(t *testing.T) {
	states := make(chan http.ConnState, 16)
	under, goOn := make(chan struct{}), make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(under)
			<-goOn
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			states <- state
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	g := transportTo(t, s.URL)
	get := func(path string) {
		resp, err := g.client().Get(s.URL + path)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body) // an empty body, so that the connection can be used again
		resp.Body.Close()
	}
	ended := make(chan struct{})
	go func() { defer close(ended); get("/slow") }()
	<-under
	get("/quick")
	g.close()
	<-states // of the idle one
	close(goOn)
	<-ended
	<-states // of the other
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
