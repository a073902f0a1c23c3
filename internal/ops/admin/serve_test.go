package admin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/ops/transfer"
)

// serveOn serves a Server on loopback as the daemon does, and returns its address and its log.
func serveOn(t *testing.T, wrap func(net.Listener) net.Listener) (address string, log func() string) {
	t.Helper()
	var mu sync.Mutex
	var text bytes.Buffer
	_, s, _, _ := start(t, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return text.Write(p)
		}), nil))
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	if wrap != nil {
		l = wrap(l)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return address, func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// stall opens a connection and sends a part of a request.
func stall(t *testing.T, address, part string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, part); err != nil {
		t.Fatal(err)
	}
	return c
}

// A probe and a refused request are answered at once, and their connection is closed, though their bodies never come.
func TestServe_BodyStallsAtRefusal_AnswersAndCloses(t *testing.T) {
	address, _ := serveOn(t, nil)
	for path, want := range map[string]string{"/healthz": "200", "/api/v1/status": "401", "/chat/general": "401"} {
		c := stall(t, address, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx")
		if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(bufio.NewReader(c))
		if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 "+want) ||
			!strings.Contains(string(all), "Connection: close") {
			t.Errorf("%s: %v, answered %q", path, err, all)
		}
	}
}

// Connections that never send a whole request do not keep out a client that does, however many they are.
func TestServe_ManyStalledConnections_OthersAreAnswered(t *testing.T) {
	for name, part := range map[string]string{
		"bodies of probes": "POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx",
		"bodies of logins": "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx",
		"headers":          "GET /healthz HTTP/1.1\r\nHost: local",
	} {
		t.Run(name, func(t *testing.T) {
			address, log := serveOn(t, nil)
			for range 1100 {
				stall(t, address, part)
			}
			client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			r, err := client.Get("http://" + address + "/healthz")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			if r.StatusCode != http.StatusOK {
				t.Errorf("answered %s", r.Status)
			}
			crowded := strings.Count(log(), "too many connections")
			if want := name != "bodies of probes"; want && crowded != 1 {
				t.Errorf("%d warnings, want one a minute: %s", crowded, log())
			}
		})
	}
}

// A request that is being answered keeps its connection, also when it is the oldest of too many.
func TestListener_Crowded_ClosesTheOldestThatWaits(t *testing.T) {
	inner := &conns{}
	l := newListener(inner, 2, slog.New(slog.DiscardHandler))
	accept := func(name string) *connection {
		inner.next = append(inner.next, &namedConn{name: name})
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return c.(*connection)
	}
	closed := func(c *connection) bool { return c.Conn.(*namedConn).closed }
	busy, waits := accept("busy"), accept("waits")
	request, err := http.NewRequestWithContext(withConnection(t.Context(), busy), "GET", "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	keepConnection(request)
	third := accept("third")
	if closed(busy) || !closed(waits) || closed(third) {
		t.Errorf("closed: busy %v, waiting %v, new %v; want the waiting one alone", closed(busy),
			closed(waits), closed(third))
	}
	l.note(busy, http.StateIdle)
	accept("fourth")
	if closed(busy) || !closed(third) {
		t.Error("the connection that had waited longer was not the one that was closed")
	}
	l.note(third, http.StateClosed) // it was removed before; this must not count twice
	if len(l.open) != 2 || l.waiting.Len() != 2 {
		t.Errorf("%d open and %d waiting, want 2 and 2", len(l.open), l.waiting.Len())
	}
}

// conns is a listener that returns prepared connections.
type conns struct{ next []net.Conn }

func (c *conns) Accept() (net.Conn, error) {
	n := c.next[0]
	c.next = c.next[1:]
	return n, nil
}
func (c *conns) Close() error   { return nil }
func (c *conns) Addr() net.Addr { return &net.TCPAddr{} }

type namedConn struct {
	net.Conn
	name   string
	closed bool
}

func (c *namedConn) Close() error { c.closed = true; return nil }

// An error at accepting is a warning: the bot cannot be reached while it lasts.
func TestServe_AcceptFails_Warns(t *testing.T) {
	address, log := serveOn(t, func(l net.Listener) net.Listener { return &failsOnce{Listener: l} })
	r, err := http.Get("http://" + address + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if text := log(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "too many open files") {
		t.Errorf("logged %q", text)
	}
}

type failsOnce struct {
	net.Listener
	failed bool
}

func (f *failsOnce) Accept() (net.Conn, error) {
	if !f.failed {
		f.failed = true
		return nil, tooMany{errors.New("too many open files")}
	}
	return f.Listener.Accept()
}

type tooMany struct{ error }

func (tooMany) Timeout() bool   { return false }
func (tooMany) Temporary() bool { return true }

// slowImport is an import that the end of the bot cuts off.
type slowImport struct{ began chan struct{} }

func (slowImport) Export(context.Context, io.Writer, chat.Address) error { return nil }

func (slowImport) Missing(context.Context, chat.Address) ([]string, error) { return nil, nil }

func (i slowImport) Import(ctx context.Context, _ io.Reader, _ int) (transfer.Result, error) {
	close(i.began)
	<-ctx.Done()
	return transfer.Result{}, ctx.Err()
}

// Whoever waits while the bot is being stopped must not take what was cut off for done.
func TestServe_StoppedDuringARequest_AnswersThatItFailed(t *testing.T) {
	slow := slowImport{make(chan struct{})}
	_, s, _, client := start(t, func(o *Options) { o.Transfer = slow })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	go func() { <-slow.began; stop() }()
	r := do(t, client, "POST", "http://"+l.Addr().String()+"/api/v1/import", strings.NewReader("{}"),
		"Authorization", bearerHeader)
	if r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, "importing them again adds the rest") {
		t.Errorf("%d %q", r.status, r.body)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
