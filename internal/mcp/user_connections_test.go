package mcp

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdkserver "github.com/mark3labs/mcp-go/server"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
)

// signedIn simulates a sign-in: requests of a user who has consented carry his
// name, all others fail.
type signedIn struct {
	mu  sync.Mutex
	who map[string]bool
}

func (s *signedIn) allow(user string, yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.who[user] = yes
}

func (s *signedIn) has(user string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.who[user]
}

func (s *signedIn) Authorize(c Config, next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if !s.has(c.User) {
			if r.Body != nil {
				r.Body.Close()
			}
			return nil, noToken{"consent is needed"}
		}
		r = r.Clone(r.Context())
		r.Header.Set("X-Who", c.User)
		return next.RoundTrip(r)
	})
}

func (s *signedIn) Waiting(c Config) *Consent {
	if s.has(c.User) {
		return nil
	}
	return &Consent{URL: "https://x/?open=" + c.User, User: c.User}
}

// named serves a tool that says in whose name it was called.
func named(seen *sync.Map) http.Handler {
	next := scripted(func(w http.ResponseWriter, r *http.Request, request []byte) {
		respond(w, request, fmt.Sprintf(`"result":{"content":[{"type":"text","text":%q}]}`,
			"called by "+r.Header.Get("X-Who")))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		seen.Store(r.Header.Get("X-Who")+" "+jsonString(jsonObject(body)["method"]), true)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		next.ServeHTTP(w, r)
	})
}

func asUser(t *testing.T, tl tool.Tool, workspace, id string) tool.Result {
	t.Helper()
	ctx := tool.WithCaller(t.Context(), tool.Caller{Conversation: chat.Address{Platform: "slack", Workspace: workspace,
		Channel: "C"}, User: chat.User{ID: id}})
	res, err := tl.Call(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestEachUserHasAConnection(t *testing.T) {
	var seen sync.Map
	sign := &signedIn{who: map[string]bool{"": true, "slack:T1/alice": true}}
	h := running(t, Options{SignIns: sign,
		Servers: []Config{{Name: "a", URL: serve(t, named(&seen)).URL, PerUser: true}}})
	if st := settled(t, h, "a"); st.State != Connected || st.ConsentURL != "" {
		t.Fatalf("%+v", st)
	}
	do := find1(t, h, "a", "do")
	for range 2 {
		wantText(t, asUser(t, do, "T1", "alice"), "called by slack:T1/alice")
	}
	wantFailure(t, asUser(t, do, "T1", "bob"), "needs a sign-in first")
	wantFailure(t, asUser(t, do, "T2", "alice"), "needs a sign-in first") // another alice
	wantFailure(t, call(t, do, "{}"), "it is not known for whom")
	sign.allow("slack:T1/bob", true)
	if err := h.Start("a"); err != nil { // as is done when a consent was given
		t.Fatal(err)
	}
	for deadline := time.Now().Add(soon); ; {
		if res := asUser(t, do, "T1", "bob"); !res.IsError {
			wantText(t, res, "called by slack:T1/bob")
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("bob's connection was not made")
		}
	}
	var calls []string
	seen.Range(func(key, _ any) bool {
		if who, ok := strings.CutSuffix(key.(string), " tools/call"); ok {
			calls = append(calls, who)
		}
		return true
	})
	slices.Sort(calls)
	if !slices.Equal(calls, []string{"slack:T1/alice", "slack:T1/bob"}) {
		t.Errorf("calls in the names of %q", calls)
	}
}

// The connection of a user ends when it was not used for a while, and with the
// server.
func TestConnectionsOfUsersEnd(t *testing.T) {
	var seen sync.Map
	sign := &signedIn{who: map[string]bool{"": true, "slack:T/u": true, "slack:T/v": true}}
	h := running(t, Options{SignIns: sign,
		Servers: []Config{{Name: "a", URL: serve(t, named(&seen)).URL, PerUser: true}}})
	settled(t, h, "a")
	do := find1(t, h, "a", "do")
	for _, u := range []string{"u", "v"} {
		wantText(t, asUser(t, do, "T", u), "called by slack:T/"+u)
	}
	s := h.servers["a"]
	s.users.mu.Lock()
	all := maps.Clone(s.users.byUser)
	s.users.mu.Unlock()
	ended := func(m *userServer) {
		t.Helper()
		if !m.awaitState(t.Context(), func() bool { return m.state == Stopped }) {
			t.Error("the connection did not end")
		}
	}
	// Its timer has fired, but a call was given the connection at the same moment.
	s.closeIdleUser("slack:T/u", all["slack:T/u"])
	if m, problem := s.userServer("slack:T/u"); m != all["slack:T/u"] || problem != "" {
		t.Errorf("the connection was closed under a call that had just been given it (%s)", problem)
	}
	s.users.mu.Lock()
	all["slack:T/u"].used = time.Now().Add(-userIdleTimeout)
	s.users.mu.Unlock()
	s.closeIdleUser("slack:T/u", all["slack:T/u"]) // as its timer does
	ended(all["slack:T/u"])
	wantText(t, asUser(t, do, "T", "u"), "called by slack:T/u") // starts again
	if err := h.Apply(nil); err != nil {
		t.Fatal(err)
	}
	ended(all["slack:T/v"])
	wantFailure(t, asUser(t, do, "T", "v"), "is not available")
}

func TestPerUserNeedsAURL(t *testing.T) {
	if _, err := NewHost(Options{Servers: []Config{{Name: "a", Command: "x", PerUser: true}}}); err == nil {
		t.Error("a process for each user is taken")
	}
	h := running(t, Options{Servers: []Config{{Name: "a",
		URL: serve(t, sdkserver.NewStreamableHTTPServer(library())).URL}}})
	settled(t, h, "a")
	wantText(t, call(t, find1(t, h, "a", "echo"), `{"text":"x"}`), "you said x") // without a user, if none is needed
}

// At most 200 people use a server at a time; who does not use it for 15 minutes makes room for others.
func TestUserServer_NumberIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := must(NewHost(Options{Servers: []Config{{Name: "a", URL: "https://x.example", PerUser: true}},
			StartAfter: make(chan struct{})})) // so that none connects
		s := must(h.server("a"))
		if _, problem := s.userServer("early"); problem == "" {
			t.Error("a host that does not run has a connection of a user")
		}
		ctx, cancel := context.WithCancel(t.Context())
		runsIn(h, ctx)
		for n := range 201 {
			m, problem := s.userServer(fmt.Sprint("user", n))
			if (problem == "") != (n < 200) || m != nil && (m.c.PerUser || m.c.User != fmt.Sprint("user", n)) {
				t.Errorf("user %d: %q", n, problem)
			}
		}
		time.Sleep(10 * time.Minute)
		first, _ := s.userServer("user0")
		time.Sleep(5*time.Minute + time.Second)
		s.users.mu.Lock()
		left := len(s.users.byUser)
		s.users.mu.Unlock()
		if again, problem := s.userServer("user0"); left != 1 || again != first || problem != "" {
			t.Errorf("%d users are left, the one who came again has another connection: %v", left, again != first)
		}
		if _, problem := s.userServer("user200"); problem != "" {
			t.Errorf("one more, once there is room: %s", problem)
		}
		s.closeUsers()
		if _, problem := s.userServer("late"); problem == "" || len(s.users.byUser) != 0 {
			t.Error("a server that has ended has users")
		}
		cancel()
		h.work.Wait()
	})
}
