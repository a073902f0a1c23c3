package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A connection over which nothing comes back any more, as after the machine was suspended or its address has changed,
// is not used for long: Go's own would be, as often as there are requests, for a quarter of an hour.
func TestHTTPClient_ConnectionIsDead_MakesAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		listener := newPipeListener()
		served.Listener, served.EnableHTTP2 = listener, true
		served.StartTLS()
		defer served.Close()
		var dialed []*silentConn
		client := newHTTPClient()
		defer client.CloseIdleConnections()
		transport := client.Transport.(*http.Transport)
		transport.TLSClientConfig = served.Client().Transport.(*http.Transport).TLSClientConfig
		transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			dialed = append(dialed, &silentConn{Conn: here})
			listener.conns <- there
			return dialed[len(dialed)-1], nil
		}
		get := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://example.com/", nil)
			if err != nil {
				return err
			}
			answer, err := client.Do(r)
			if err != nil {
				return err
			}
			return answer.Body.Close()
		}
		if err := get(); err != nil {
			t.Fatal(err)
		}
		dialed[0].silent.Store(true)
		first, second := get(), get()
		if errors.Is(first, context.DeadlineExceeded) || second != nil || len(dialed) != 2 {
			t.Errorf("two requests after it died: %v, %v; %d connections", first, second, len(dialed))
		}
	})
}

// silentConn is a connection that takes everything and lets nothing through once it is silent.
type silentConn struct {
	net.Conn
	silent atomic.Bool
}

func (c *silentConn) Write(p []byte) (int, error) {
	if c.silent.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// pipeListener accepts the connections that it is sent.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	close func()
}

func newPipeListener() *pipeListener {
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.done) })
	return l
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error { l.close(); return nil }

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }
