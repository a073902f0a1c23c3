package replica_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/replica"
	"ravenbot/internal/store"
)

// members is a store.Membership whose leader the test sets.
type members struct {
	mu     sync.Mutex
	leader store.Replica
	isFree bool
	err    error
	asked  chan struct{} // receives whenever Claim has answered

	openError error
}

// me is the replica that the tests are about.
var me = store.Replica{ID: 2, Name: "second/8"}

func newMembers(leader store.Replica) *members {
	return &members{leader: leader, asked: make(chan struct{}, 1)}
}

// open returns the membership, or the error that the test has set.
func (m *members) open(context.Context) (store.Membership, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.openError != nil {
		return nil, "", m.openError
	}
	return m, "", nil
}

// setOpenError sets what opening the store returns.
func (m *members) setOpenError(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.openError = err
}

func (m *members) set(isFree bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isFree, m.err = isFree, err
}

func (m *members) Join(context.Context, string) (store.Replica, error) { return me, nil }

func (m *members) Claim(context.Context, string) (store.Replica, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() {
		select {
		case m.asked <- struct{}{}:
		default:
		}
	}()
	if m.isFree && m.err == nil {
		return me, nil
	}
	return m.leader, m.err
}

func (m *members) Inherit(context.Context) (store.Inherited, error) { return store.Inherited{}, nil }

func (m *members) Release(context.Context, ...string) error { return nil }

func (m *members) Replicas(context.Context) ([]store.Replica, error) { return nil, nil }

func (m *members) Lost() <-chan struct{} { return nil }

func (m *members) Leave(context.Context) error { return nil }

// waitAsked waits until the replica knows an answer of Claim that was given from now on: one may be waiting in
// asked, and the next one may have been under way.
func (m *members) waitAsked(t *testing.T) {
	t.Helper()
	for range 3 {
		select {
		case <-m.asked:
		case <-time.After(20 * time.Second):
			t.Fatal("the replica does not ask who is the leader")
		}
	}
}

// standBy starts a replica on standby and returns its base URL, and what StandBy returns.
func standBy(t *testing.T, ctx context.Context, l *members) (string, *net.TCPListener, <-chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	ended := make(chan error, 1)
	tcp := listener.(*net.TCPListener)
	go func() {
		ended <- replica.StandBy(ctx, replica.Options{Open: l.open, Listener: tcp, Log: slog.New(slog.DiscardHandler)})
	}()
	return "http://" + listener.Addr().String(), tcp, ended
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestStandbyAnswersAndHandsOn(t *testing.T) {
	next := make(chan struct{})
	active := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			for n := range 2 {
				fmt.Fprintf(w, "data: %d\n\n", n)
				w.(http.Flusher).Flush()
				<-next
			}
		default:
			fmt.Fprintf(w, "%s of %s for %s", r.URL, r.Host, r.Header.Get("X-Forwarded-For"))
		}
	}))
	defer active.Close()
	l := newMembers(store.Replica{Name: "first/7", Address: strings.TrimPrefix(active.URL, "http://")})
	url, _, _ := standBy(t, t.Context(), l)
	l.waitAsked(t)

	for path, want := range map[string]string{
		"/healthz": `{"status":"ok"}`,
		"/readyz":  `{"active":"first/7","status":"standby"}`,
		"/metrics": "ravenbot_replica_active 0",
	} {
		if status, body := get(t, url+path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %s", path, status, body, want)
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/x?y=1", nil)
	req.Host = "bot.example.com"
	req.Header.Set("X-Forwarded-For", "203.0.113.9")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if want := "/api/v1/x?y=1 of bot.example.com for 203.0.113.9, 127.0.0.1"; string(body) != want {
		t.Errorf("the replica that acts saw %q, want %q", body, want)
	}

	events, err := http.Get(url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	lines := bufio.NewScanner(events.Body)
	for n := range 2 { // each event is there before the next is made
		lines.Scan()
		if want := fmt.Sprintf("data: %d", n); lines.Text() != want {
			t.Errorf("event %q, want %q", lines.Text(), want)
		}
		lines.Scan()
		next <- struct{}{}
	}
}

func TestStandbyWithoutAnActiveReplica(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	l := newMembers(store.Replica{Name: "first/7", Address: strings.TrimPrefix(gone.URL, "http://")})
	url, _, _ := standBy(t, t.Context(), l)
	l.waitAsked(t)
	if status, body := get(t, url+"/api/v1/status"); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "does not answer") {
		t.Errorf("%d %s, want 503", status, body)
	}
	l.set(false, errors.New("connection refused"))
	l.waitAsked(t)
	if status, body := get(t, url+"/readyz"); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "database") {
		t.Errorf("without the database /readyz is %d %s, want 503", status, body)
	}
	if status, _ := get(t, url+"/healthz"); status != http.StatusOK {
		t.Errorf("without the database /healthz is %d, want 200", status)
	}
}

func TestStandbyTakesOver(t *testing.T) {
	l := newMembers(store.Replica{Name: "first/7", Address: "127.0.0.1:1"})
	url, listener, ended := standBy(t, t.Context(), l)
	l.waitAsked(t)
	l.set(true, nil)
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the replica does not take over")
	}
	// The listener is open and serves the bot now.
	server := &http.Server{Handler: http.NotFoundHandler()}
	go server.Serve(listener)
	defer server.Close()
	if status, _ := get(t, url+"/readyz"); status != http.StatusNotFound {
		t.Errorf("after taking over the listener answers %d, want that of the next server", status)
	}
}

func TestStandbyEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := newMembers(store.Replica{})
	_, _, ended := standBy(t, ctx, l)
	l.waitAsked(t)
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("StandBy returned %v, want that it was cancelled", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("StandBy does not end")
	}
}

func TestAdvertisedAddress(t *testing.T) {
	database := &net.TCPAddr{IP: net.ParseIP("10.1.2.3"), Port: 40000}
	for _, c := range []struct {
		listen, want string
		towards      net.Addr
	}{
		{"127.0.0.1:8080", "127.0.0.1:8080", database},
		{"10.1.2.9:8080", "10.1.2.9:8080", database},
		{"0.0.0.0:8080", "10.1.2.3:8080", database},
		{"[::]:8080", "10.1.2.3:8080", database},
		{"[::]:8080", "127.0.0.1:8080", &net.UnixAddr{Name: "/run/postgresql", Net: "unix"}},
	} {
		addr, err := net.ResolveTCPAddr("tcp", c.listen)
		if err != nil {
			t.Fatal(err)
		}
		if got := replica.AdvertisedAddress(addr, c.towards); got != c.want {
			t.Errorf("AdvertisedAddress(%s, %v) = %s, want %s", c.listen, c.towards, got, c.want)
		}
	}
}

// A replica that starts while the database is away waits for it, and says so; what will not pass ends it.
func TestStandBy_DatabaseIsAwayAtTheStart_Waits(t *testing.T) {
	away := fmt.Errorf("open store: %w", &store.SystemError{What: "the database does not answer", Passing: true})
	refused := &store.SystemError{What: "the database refuses the password"}
	for name, then := range map[string]error{"back": nil, "refused": refused} {
		t.Run(name, func(t *testing.T) {
			l := newMembers(store.Replica{Name: "first/7"})
			l.setOpenError(away)
			url, _, ended := standBy(t, t.Context(), l)
			if status, body := get(t, url+"/readyz"); status != http.StatusServiceUnavailable ||
				!strings.Contains(body, "does not answer") {
				t.Errorf("/readyz without the database: %d %s", status, body)
			}
			if status, _ := get(t, url+"/healthz"); status != http.StatusOK {
				t.Errorf("/healthz: %d: a supervisor would restart the replica", status)
			}
			l.setOpenError(then)
			if then == nil {
				l.waitAsked(t)
				if status, body := get(t, url+"/readyz"); status != http.StatusOK || !strings.Contains(body, "standby") {
					t.Errorf("/readyz with the database: %d %s", status, body)
				}
				return
			}
			select {
			case err := <-ended:
				if !errors.Is(err, refused) {
					t.Errorf("ended with %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it waits for what will not pass")
			}
		})
	}
}
