package mcp

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func pid(t *testing.T, h *Host, server string) string {
	t.Helper()
	return call(t, find1(t, h, server, "pid"), `{}`).Text
}

// ended waits until a server that was retired has ended.
func ended(t *testing.T, s *server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if !s.awaitState(ctx, func() bool { return s.state == Stopped }) {
		t.Fatalf("server %s has not ended: %+v", s.c.Name, s.status())
	}
}

func TestOnlyWhatChangedIsRestarted(t *testing.T) {
	same, changed, gone, fresh := fakeServer("same", "plain"), fakeServer("changed", "plain"), fakeServer("gone",
		"plain"), fakeServer("fresh", "plain")
	h := running(t, Options{Servers: []Config{same, changed, gone}})
	for _, name := range []string{"same", "changed", "gone"} {
		settled(t, h, name)
	}
	before := map[string]string{"same": pid(t, h, "same"), "changed": pid(t, h, "changed")}
	old := must(h.server("gone"))
	fresh.Env["FAKE_MARK"] = same.Env["FAKE_MARK"]
	changed.Timeout = time.Minute
	same.Args = []string{} // nothing is nothing
	if err := h.Apply([]Config{same, changed, fresh}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"same", "changed", "fresh"} {
		until(t, h, name, Connected)
	}
	if pid(t, h, "same") != before["same"] {
		t.Error("an entry that had not changed was restarted")
	}
	if pid(t, h, "changed") == before["changed"] {
		t.Error("an entry that had changed was not restarted")
	}
	if _, err := h.Get("gone"); err == nil || len(toolsOf(h, "gone")) > 0 {
		t.Error("an entry that is gone is still there")
	}
	ended(t, old)
	lines(t, h, "changed", "bot: started") // the log continues after a replacement
	if n := strings.Count(logText(h, "changed"), "started"); n != 2 {
		t.Errorf("the log contains %d starts, want 2", n)
	}
	if err := h.Apply([]Config{same, {Name: "odd"}}); err == nil {
		t.Error("a faulty set was taken")
	}
	if _, err := h.Get("fresh"); err != nil {
		t.Error("a faulty set changed something")
	}
}

func logText(h *Host, name string) string {
	var b strings.Builder
	for _, l := range logLines(h, name) {
		b.WriteString(l.Stream + ": " + l.Text + "\n")
	}
	return b.String()
}

func TestATurnKeepsTheServersItBeganWith(t *testing.T) {
	entry := fakeServer("a", "plain")
	h := running(t, Options{Servers: []Config{entry}})
	settled(t, h, "a")
	first := pid(t, h, "a")
	release := h.Lease()
	tools, old := find1(t, h, "a", "pid"), must(h.server("a"))
	entry.Timeout = time.Minute
	if err := h.Apply([]Config{entry}); err != nil {
		t.Fatal(err)
	}
	later := h.Lease() // begins after the change: contains only new lines
	defer later()
	until(t, h, "a", Connected)
	second := pid(t, h, "a")
	if again := call(t, tools, `{}`).Text; again != first || second == first {
		t.Errorf("the turn that holds reaches process %s, it began with %s; others reach %s", again, first, second)
	}
	release()
	release() // once is enough
	ended(t, old)
	wantFailure(t, call(t, tools, `{}`), "is not available (state: stopped)")
	if got := pid(t, h, "a"); got != second {
		t.Errorf("the new server was restarted: process %s, was %s", got, second)
	}
}

func TestAHoldThatIsNeverReleasedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := must(NewHost(Options{Servers: []Config{{Name: "a", Command: "no-such-program"}}}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.Run(ctx) }()
		synctest.Wait()
		old := must(h.server("a"))
		h.Lease()
		if err := h.Apply(nil); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if !old.awaitState(t.Context(), func() bool { return old.state == Stopped }) || time.Since(began) != maxLease {
			t.Errorf("the server ended after %v, want %v", time.Since(began), maxLease)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestServersAddedBesideTheConfiguration(t *testing.T) {
	keep := &memoryStore{}
	config, added := Config{Name: "config", Command: "no-such-program"}, Config{Name: "added", Command: "no-such-program"}
	h := must(NewHost(Options{Servers: []Config{config}, Store: keep}))
	wants := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	wants("add", h.Put(added, "api"), nil)
	wants("add again", h.Put(added, "api"), nil)
	wants("put over a configured one", h.Put(config, "api"), ErrConfigured)
	wants("put", h.Put(Config{Name: "added", Command: "other"}, "api"), nil)
	wants("remove a configured one", h.Remove("config"), ErrConfigured)
	wants("remove nobody", h.Remove("x"), ErrNotFound)
	if err := h.Put(Config{Name: "bad\n", Command: "x"}, "api"); err == nil {
		t.Error("a name with a line end was taken")
	}
	sources := func() map[string]string {
		got := map[string]string{}
		for _, s := range h.Servers() {
			got[s.Name] = s.Source
		}
		return got
	}
	if diff := cmp.Diff(map[string]string{"config": "config", "added": "api"}, sources()); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
	wants("apply", h.Apply([]Config{{Name: "other", Command: "x"}}), nil)
	if diff := cmp.Diff(map[string]string{"other": "config", "added": "api"}, sources()); diff != "" {
		t.Errorf("after Apply (-want +got):\n%s", diff)
	}
	must(0, keep.SaveBlob(t.Context(), "tools/added", []byte(`{"x":1}`)))
	wants("remove", h.Remove("added"), nil)
	if got := string(must(keep.LoadBlob(t.Context(), "tools/added"))); got != "null" {
		t.Errorf("of a removed server remains %s", got)
	}
	wants("apply over an added one", errors.Join(h.Put(added, "api"), h.Apply([]Config{added})), nil)
	if diff := cmp.Diff(map[string]string{"added": "config"}, sources()); diff != "" {
		t.Errorf("the configuration comes first (-want +got):\n%s", diff)
	}
}

// A server whose tools are known is not started by looking at it, or by the time
// at which others are asked whether they live.
func TestLookingStartsNothing(t *testing.T) {
	keep := &memoryStore{}
	known := Config{Name: "known", Command: os.Args[0], Args: []string{"fake", "plain"}}
	first, end := hosted(t, Options{Servers: []Config{known}, Store: keep})
	settled(t, first, "known")
	end()

	var lists atomic.Int32
	polled := make(chan struct{})
	good := scripted(answer)
	busy := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lists.Add(1) == 20 {
			close(polled)
		}
		good.ServeHTTP(w, r)
	}))
	h := running(t, Options{Store: keep, HealthInterval: 5 * time.Millisecond, StatusTTL: time.Nanosecond,
		Servers: []Config{known, {Name: "busy", URL: busy.URL}}})
	settled(t, h, "busy")
	<-polled
	h.Servers()
	if st := settled(t, h, "known"); st.State != Uninitialized || len(h.ToolsOf("known")) == 0 || len(st.Tools) == 0 {
		t.Errorf("a known server that nobody called: %+v", st)
	}
	if strings.Contains(logText(h, "known"), "started") {
		t.Error("a known server was started though nobody called it")
	}
}

// gatedStore is a store whose deletions wait.
type gatedStore struct {
	memoryStore
	deleting  chan struct{} // receives when a deletion begins
	proceed   chan struct{}
	readEarly atomic.Bool // something was read before the deletions were done
}

func (s *gatedStore) LoadBlob(ctx context.Context, key string) ([]byte, error) {
	select {
	case <-s.proceed:
	default:
		s.readEarly.Store(true)
	}
	return s.memoryStore.LoadBlob(ctx, key)
}

func (s *gatedStore) SaveBlob(ctx context.Context, key string, data []byte) error {
	if string(data) == "null" {
		s.deleting <- struct{}{}
		<-s.proceed
	}
	return s.memoryStore.SaveBlob(ctx, key, data)
}

// A store that deletes the state of a server slowly delays nobody else; a new server of that name waits, since
// it would find the tools that were approved for the old one.
func TestRemove_SlowStore_DelaysNobody(t *testing.T) {
	s := &gatedStore{deleting: make(chan struct{}, 9), proceed: make(chan struct{})}
	h, err := NewHost(Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	entry := Config{Name: "a", URL: "http://127.0.0.1:1/mcp"}
	if err := h.Put(entry, "api"); err != nil {
		t.Fatal(err)
	}
	if n := len(h.Servers()); n != 1 {
		t.Fatalf("%d servers", n)
	}
	s.readEarly.Store(false)
	removed, added, listed := make(chan error, 1), make(chan error, 1), make(chan struct{})
	go func() { removed <- h.Remove("a") }()
	<-s.deleting
	go func() { added <- h.Put(entry, "api") }()
	go func() { h.Config("other"); close(listed) }()
	select {
	case <-listed:
	case <-time.After(10 * time.Second):
		t.Error("nobody can look at the servers while the store deletes")
	}
	close(s.proceed)
	if err := errors.Join(<-removed, <-added); err != nil {
		t.Error(err)
	}
	if s.readEarly.Load() {
		t.Error("the new server read the state during its deletion")
	}
}
