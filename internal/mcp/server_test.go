package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/mark3labs/mcp-go/mcp"
)

// memoryServer is a server in memory: a transport that answers what the older protocol asks.
type memoryServer struct {
	*rpcConn
	capabilities string // as JSON
	// results are its answers other than to initialize and tools/list, by method, or by method and cursor; other
	// methods are unknown to it.
	results map[string]string

	mu       sync.Mutex
	isSilent bool
	tools    string
	asked    map[string]int // requests by method
	cursors  []string       // with the method, of requests that have one
}

func (m *memoryServer) Start(context.Context) error { return nil }

func (m *memoryServer) Close() error { return nil }

// answer is the send of its rpcConn.
func (m *memoryServer) answer(_ context.Context, message []byte) error {
	o := jsonObject(message)
	method := jsonString(o["method"])
	m.mu.Lock()
	if m.asked == nil {
		m.asked = map[string]int{}
	}
	m.asked[method]++
	page := method
	if cursor := jsonString(jsonObject(o["params"])["cursor"]); cursor != "" {
		page += " " + cursor
		m.cursors = append(m.cursors, page)
	}
	isSilent, tools := m.isSilent, m.tools
	m.mu.Unlock()
	result, ok := m.results[page]
	if !ok {
		result, ok = m.results[method]
	}
	if !ok {
		result, ok = map[string]string{
			"initialize": `{"protocolVersion":"2025-06-18","capabilities":` + m.capabilities +
				`,"serverInfo":{"name":"memory","version":"1"}}`,
			"tools/list": `{"tools":[` + tools + `]}`,
		}[method]
	}
	switch {
	case isSilent || o["id"] == nil:
	case ok:
		go m.receive(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, o["id"], result))
	default:
		go m.receive(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}`, o["id"]))
	}
	return nil
}

// fallSilent has it answer nothing any more.
func (m *memoryServer) fallSilent(isSilent bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isSilent = isSilent
}

func (m *memoryServer) count(method string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[method]
}

// inMemory returns a server that is connected to a memoryServer and has listed its tools.
func inMemory(t *testing.T, o Options) (*server, *connection, *memoryServer) {
	t.Helper()
	m := &memoryServer{capabilities: `{"tools":{}}`, tools: `{"name":"x"}`}
	s, conn := connectTo(t, m, o)
	return s, conn, m
}

// connectTo connects a server in memory, and lists its tools.
func connectTo(t *testing.T, m *memoryServer, o Options) (*server, *connection) {
	t.Helper()
	o.Servers = []Config{{Name: "a", Command: "x"}}
	s := must(must(NewHost(o)).server("a"))
	m.rpcConn = newRPCConn(func([]byte) {})
	m.send = m.answer
	conn := s.newConnection(m.rpcConn)
	conn, err := s.handshake(t.Context(), conn, &wrappedTransport{Interface: m, conn: conn, era: legacy}, Stdio, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.refresh(t.Context(), conn, time.Minute); err != nil {
		t.Fatal(err)
	}
	return s, conn
}

// watchFor starts to watch a connection, and returns when that ended and why.
func watchFor(t *testing.T, s *server, conn *connection) (ended func() (time.Duration, error)) {
	began := time.Now()
	result := make(chan error, 1)
	go func() { result <- s.watch(t.Context(), conn) }()
	return func() (time.Duration, error) {
		err := <-result
		return time.Since(began), err
	}
}

// A server that falls silent is given up at the first regular check, or at the third in a row while a call may keep
// it busy.
func TestWatch_SilentServer_IsGivenUp(t *testing.T) {
	for _, tt := range []struct {
		what  string
		calls bool
		do    func(m *memoryServer)
		want  time.Duration
	}{
		{"at once", false, func(m *memoryServer) { m.fallSilent(true) }, 70 * time.Second},
		{"during a call", true, func(m *memoryServer) { m.fallSilent(true) }, 190 * time.Second},
		{"twice, and then permanently", true, func(m *memoryServer) {
			m.fallSilent(true)
			time.Sleep(150 * time.Second) // two checks are missed
			m.fallSilent(false)
			time.Sleep(60 * time.Second)
			m.fallSilent(true)
		}, 370 * time.Second},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, conn, m := inMemory(t, Options{})
				defer conn.close()
				if tt.calls {
					_, end := conn.beginCall(t.Context(), "x", time.Hour)
					defer end()
				}
				ended := watchFor(t, s, conn)
				tt.do(m)
				// A check that was asked for in between may hold up the regular one for as long as it takes.
				if took, err := ended(); took < tt.want || took > tt.want+2*probeTimeout ||
					!errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("given up after %v: %v, want %v", took, err, tt.want)
				}
			})
		})
	}
}

// A server that did not answer a call is asked whether it lives. It is given up where nothing else can be the reason.
func TestWatch_SuspectServer_HasToAnswer(t *testing.T) {
	for _, tt := range []struct {
		what               string
		isSilent, hasCalls bool
		want               time.Duration
	}{
		{"no call", true, false, 1500 * time.Millisecond},
		{"a call may keep it busy", true, true, 0},
		{"it lives", false, false, 0},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, conn, m := inMemory(t, Options{HealthInterval: 24 * time.Hour})
				defer conn.close()
				m.fallSilent(tt.isSilent)
				if tt.hasCalls {
					_, end := conn.beginCall(t.Context(), "x", time.Hour)
					defer end()
				}
				ended := watchFor(t, s, conn)
				synctest.Wait()
				wake(conn.checkWanted)
				if tt.want == 0 {
					time.Sleep(1600 * time.Millisecond)
					if m.count("tools/list") != 2 {
						t.Errorf("%d lists", m.count("tools/list"))
					}
					wake(conn.checkWanted)
					time.Sleep(time.Minute)
					if n := m.count("tools/list"); n < 3 || !tt.isSilent && n > 3 {
						t.Errorf("%d lists after another request", n)
					}
					m.fail(errors.New("the end"))
					_, _ = ended()
					return
				}
				if took, err := ended(); took != tt.want || err == nil {
					t.Errorf("given up after %v: %v, want %v", took, err, tt.want)
				}
			})
		})
	}
}

// Tools that change are listed at once, and while a server says without a pause that they do, ever less often.
func TestWatch_ChangedTools_AreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s, conn, m := inMemory(t, Options{HealthInterval: 24 * time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil))})
		defer conn.close()
		ended := watchFor(t, s, conn)
		m.mu.Lock()
		m.tools += `,{"name":"y"}`
		m.mu.Unlock()
		say := func(during time.Duration) (lists int) {
			before := m.count("tools/list")
			for began := time.Now(); time.Since(began) < during; time.Sleep(50 * time.Millisecond) {
				m.receive([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`))
			}
			return m.count("tools/list") - before
		}
		if n := say(100 * time.Millisecond); n != 1 || len(s.offeredTools()) != 2 {
			t.Errorf("after a change the tools were listed %d times, and %d are offered", n, len(s.offeredTools()))
		}
		time.Sleep(time.Minute)
		// At 0, 1, 3, 7, 15, 31, 63, 127 and 255 s, and then every 300 s.
		if n := say(10 * time.Second); n != 4 {
			t.Errorf("in 10 s the tools were listed %d times, want 4", n)
		}
		if n := say(time.Hour); n != 16 {
			t.Errorf("in the next hour the tools were listed %d times, want 16", n)
		}
		time.Sleep(20 * time.Minute)
		if n := say(2500 * time.Millisecond); n != 2 {
			t.Errorf("after a pause the tools were listed %d times in 2.5 s, want 2", n)
		}
		m.fail(errors.New("the pipe broke"))
		if _, err := ended(); err == nil || err.Error() != "the pipe broke" {
			t.Errorf("the connection ended: %v", err)
		}
		if n := strings.Count(log.String(), "keeps announcing changed tools"); n != 1 {
			t.Errorf("the log says %d times so:\n%s", n, log.String())
		}
	})
}

// A status that is older than its time is checked when it is read, once.
func TestStatus_OldOne_IsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conn, _ := inMemory(t, Options{StatusTTL: time.Minute})
		defer conn.close()
		time.Sleep(time.Minute)
		s.status()
		if len(conn.checkWanted) != 0 {
			t.Error("a status of a minute was checked")
		}
		time.Sleep(time.Nanosecond)
		s.status()
		if len(conn.checkWanted) != 1 {
			t.Error("an older one was not checked")
		}
	})
}

// A server that cannot be ended is left behind, so that stopping it does not wait for ever.
func TestStop_ServerThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := must(must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}}})).server("a"))
		began := time.Now()
		if err := s.stop(); err == nil || err.Error() != "the server has not ended yet" ||
			time.Since(began) != 15*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		s.setState(Stopped, "")
		if err := s.stop(); err != nil {
			t.Errorf("an ended one: %v", err)
		}
	})
}

// A server that is stopped just before its session begins is not connected.
func TestRunSession_StoppedJustBefore_EndsAtOnce(t *testing.T) {
	s := must(must(NewHost(Options{Servers: []Config{{Name: "a", Command: "no-such-program"}}})).server("a"))
	s.setWanted(false, errStopped)
	if reached, err := s.runSession(t.Context()); reached != notConnected || !errors.Is(err, errStopped) {
		t.Errorf("it ended with %v, %v; want %v", reached, err, errStopped)
	}
}

// A server that cannot be started is tried less and less often, until somebody asks for it.
func TestRun_CannotStart_IsTriedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := must(NewHost(Options{Servers: []Config{{Name: "a", Command: "no-such-program"}}}))
		must(h.server("a")).setWanted(true, nil) // asks for the attempt that is made anyway, and for no other
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.Run(ctx) }()
		attempts := func() (list []time.Time) {
			synctest.Wait()
			for _, l := range logLines(h, "a") {
				if strings.HasPrefix(l.Text, "failed: ") {
					list = append(list, l.Time)
				}
			}
			return list
		}
		time.Sleep(20 * time.Minute)
		list := attempts()
		if len(list) < 11 {
			t.Fatalf("%d attempts in 20 minutes", len(list))
		}
		for n := range len(list) - 1 {
			longest := min(time.Second<<n, 5*time.Minute)
			if pause := list[n+1].Sub(list[n]); pause <= longest/2 || pause > longest {
				t.Errorf("pause %d is %v, want at most %v and more than half of it", n+1, pause, longest)
			}
		}
		asked := time.Now()
		if err := h.Start("a"); err != nil {
			t.Error(err)
		}
		if now := attempts(); len(now) != len(list)+1 || !now[len(list)].Equal(asked) {
			t.Errorf("when somebody asks it is tried at %v, it is %v", now[len(list):], asked)
		}
		time.Sleep(time.Second)
		if now := attempts(); len(now) != len(list)+2 {
			t.Errorf("a second later it has been tried %d times, want 2", len(now)-len(list))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A connection that is lost again and again is made again later each time, unless it was of use or lasted.
func TestRun_LostConnection_IsMadeAgain(t *testing.T) {
	waitBesideOthers(t)
	var clock atomic.Int64
	h := running(t, Options{
		Servers: []Config{{Name: "a", URL: serve(t, scripted(answer)).URL}},
		Now:     func() time.Time { return time.Unix(clock.Load(), 0) },
	})
	s := must(h.server("a"))
	for _, tt := range []struct {
		what   string
		before func()
		isLong bool // the pause that follows is more than a second
	}{
		{"the first time", func() {}, false},
		{"at once again", func() {}, true},
		{"after a call", func() { wantText(t, call(t, find1(t, h, "a", "do"), `{}`), "done") }, false},
		{"at once again", func() {}, true},
		{"after a minute", func() { clock.Add(60) }, false},
		{"at once again", func() {}, true},
		{"after a restart", func() {
			before := connectionOf(h, "a")
			if err := h.Restart("a"); err != nil {
				t.Error(err)
			}
			reconnected(t, h, "a", before)
		}, false},
	} {
		until(t, h, "a", Connected)
		tt.before()
		var before time.Time
		s.awaitState(t.Context(), func() bool { before = s.retryAt; return true })
		connectionOf(h, "a").fail(errors.New("lost"))
		var pause time.Duration
		// Not by the state, which may be another one again before it is seen.
		s.awaitState(t.Context(), func() bool {
			pause = s.retryAt.Sub(s.o.Now())
			return !s.retryAt.Equal(before)
		})
		if (pause > time.Second) != tt.isLong {
			t.Errorf("lost %s: the next attempt is in %v", tt.what, pause)
		}
	}
}

// Nothing starts before the channel is closed, because the stored tools suffice until then.
func TestStartAfter_DelaysServers(t *testing.T) {
	begin := make(chan struct{})
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain")}, StartAfter: begin})
	for range 100 {
		if st, _ := h.Get("a"); st.State != Uninitialized {
			t.Fatalf("the server is %s", st.State)
		}
	}
	close(begin)
	h.WaitAll(t.Context())
	if st, _ := h.Get("a"); st.State != Connected {
		t.Errorf("the server is %+v", st)
	}
	// A host that ends before then ends at once.
	_, end := hosted(t, Options{Servers: []Config{fakeServer("b", "plain")}, StartAfter: make(chan struct{})})
	end()
}

// WaitAll waits for the slowest server, until the context ends.
func TestWaitAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := must(NewHost(Options{Servers: []Config{{Name: "a", Disabled: true}, {Name: "b", Command: "x"},
			{Name: "c", Command: "x"}}}))
		began := time.Now()
		time.AfterFunc(time.Second, must(h.server("c")).endFirstAttempt)
		time.AfterFunc(2*time.Second, must(h.server("b")).endFirstAttempt)
		h.WaitAll(t.Context())
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("waited for %v", took)
		}
		h = must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}, {Name: "b", Command: "x"}}}))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began = time.Now()
		h.WaitAll(ctx)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("waited for %v although the context ended after 3 s", took)
		}
	})
}

// A call that was answered shows that the server works, and is not pending any more; a list does not count.
func TestRequest_NotesWhatWasAnswered(t *testing.T) {
	m := &memoryServer{capabilities: `{"tools":{}}`, results: map[string]string{"tools/call": `{"content":[]}`}}
	_, conn := connectTo(t, m, Options{})
	defer conn.close()
	if _, err := conn.list(t.Context(), time.Minute); err != nil || conn.hasAnswered.Load() {
		t.Errorf("after a list: %v, a call was answered %v", err, conn.hasAnswered.Load())
	}
	raw, err := conn.call(t.Context(), "x", json.RawMessage(`{}`), time.Minute)
	if err != nil || string(raw) != `{"content":[]}` || !conn.hasAnswered.Load() || conn.hasCalls() {
		t.Errorf("after a call: %s, %v, answered %v, pending %v", raw, err, conn.hasAnswered.Load(), conn.hasCalls())
	}
}

// Servers without tools, resources and prompts are no fault, and the library need not know a page to read it.
func TestList_ReadsWhatServersSend(t *testing.T) {
	for _, tt := range []struct{ what, tools, want string }{
		{"none", ``, ""},
		{"twice", `{"name":"b"},{"name":"a"},{"name":"b","title":"second"}`, "a b"},
		{"unusable names", `{"name":""},5,{"title":"x"},{"name":"` + strings.Repeat("x", 513) + `"}`, ""},
		{"a long name", `{"name":"` + strings.Repeat("x", 512) + `"}`, strings.Repeat("x", 512)},
	} {
		s, conn, m := inMemory(t, Options{})
		m.mu.Lock()
		m.tools = tt.tools
		m.mu.Unlock()
		list, err := conn.list(t.Context(), time.Minute)
		var got []string
		for _, one := range list {
			got = append(got, one.Name)
		}
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%s of %s: %.100q, %v", tt.what, s.c.Name, got, err)
		}
		conn.close()
	}
	// Of too many tools some are left out: 2,000 of them, or 4 MiB together.
	var many []string
	for n := range 2100 {
		many = append(many, fmt.Sprintf(`{"name":"t%d"}`, n))
	}
	large := `,"description":"` + strings.Repeat("x", 1<<20) + `"}`
	for tools, want := range map[string]int{
		strings.Join(many, ","): 2000,
		`{"name":"a"` + large + `,{"name":"b"` + large + `,{"name":"c"` + large + `,{"name":"d"` + large + `,{"name":"e"}`: 4,
	} {
		_, conn, m := inMemory(t, Options{})
		m.mu.Lock()
		m.tools = tools
		m.mu.Unlock()
		if list, err := conn.list(t.Context(), time.Minute); err != nil || len(list) != want {
			t.Errorf("%d tools were taken, want %d: %v", len(list), want, err)
		}
		conn.close()
	}
}

// The pages of a list are read to its end, or until a server names the page that it has just sent.
func TestList_ReadsEachPageOnce(t *testing.T) {
	for what, last := range map[string]string{"at the end": "", "in a circle": `,"nextCursor":"2"`} {
		m := &memoryServer{capabilities: `{"tools":{}}`, results: map[string]string{
			"tools/list":   `{"tools":[{"name":"b"}],"nextCursor":"2"}`,
			"tools/list 2": `{"tools":[{"name":"a"}]` + last + `}`,
		}}
		s, conn := connectTo(t, m, Options{})
		if got := names(s.offeredTools()); !slices.Equal(got, []string{"a/a", "a/b"}) || m.count("tools/list") != 2 {
			t.Errorf("%s: tools %q of %d pages, want 2", what, got, m.count("tools/list"))
		}
		conn.close()
	}
}

// A server of the newest protocol that has no tools shows that it is alive by what else it offers.
func TestList_ServerWithoutTools_IsAskedForWhatItOffers(t *testing.T) {
	for _, tt := range []struct {
		capabilities       string
		resources, prompts int // lists that are asked for
	}{
		{`{"resources":{},"prompts":{}}`, 1, 0}, {`{"prompts":{}}`, 0, 1}, {`{}`, 0, 0},
	} {
		m := &memoryServer{capabilities: tt.capabilities, results: map[string]string{
			"resources/list": `{"resources":[]}`,
			"prompts/list":   `{"prompts":[]}`,
		}}
		_, conn := connectTo(t, m, Options{})
		conn.info.protocol = sdk.LATEST_PROTOCOL_VERSION
		before := m.count("tools/list")
		list, err := conn.list(t.Context(), time.Minute)
		if err != nil || len(list) > 0 || m.count("tools/list") != before ||
			m.count("resources/list") != tt.resources || m.count("prompts/list") != tt.prompts {
			t.Errorf("%s: asked for %d resources and %d prompts: %v, %v", tt.capabilities, m.count("resources/list"),
				m.count("prompts/list"), list, err)
		}
		m.results = nil
		if _, err := conn.list(t.Context(), time.Minute); (err == nil) != (tt.resources+tt.prompts == 0) {
			t.Errorf("%s: when it refuses: %v", tt.capabilities, err)
		}
		conn.close()
	}
}

// Only a server with log messages is asked for them, and subscriptions cover only announced lists.
func TestWatchChanges_AsksForTheLog(t *testing.T) {
	for capabilities, want := range map[string]int{`{"tools":{},"logging":{}}`: 1, `{"tools":{}}`: 0} {
		m := &memoryServer{capabilities: capabilities}
		_, conn := connectTo(t, m, Options{})
		if conn.info.version != "memory 1" || conn.info.protocol != "2025-06-18" || conn.info.transport != Stdio {
			t.Errorf("the server's description: %+v", conn.info)
		}
		for deadline := time.Now().Add(soon); m.count("logging/setLevel") < want; <-time.After(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the server was not asked for its log")
			}
		}
		m.fail(errors.New("closed"))
		conn.close()
		if n := m.count("logging/setLevel"); n != want {
			t.Errorf("with %s it was asked %d times", capabilities, n)
		}
	}
}

// A connection that ends takes its requests and its background work with it, however often it is closed.
func TestConnection_Close(t *testing.T) {
	_, conn, _ := inMemory(t, Options{})
	ended := make(chan struct{})
	conn.runInBackground(func(ctx context.Context) { <-ctx.Done(); close(ended) })
	after := 0
	conn.afterClose = func() { after++ }
	conn.close()
	if !isClosed(ended) || after != 1 {
		t.Errorf("the work has ended: %v, called after %d times", isClosed(ended), after)
	}
	conn.close()
}

// What a newer server says is one of the messages that are known, and nothing else.
func TestHandleNotification_ToolsHaveChanged(t *testing.T) {
	c := unconnected(t, Options{})
	note := func(method string) sdk.JSONRPCNotification {
		var n sdk.JSONRPCNotification
		if err := json.Unmarshal([]byte(`{"jsonrpc":"2.0","method":"`+method+`"}`), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for method, want := range map[string]int{
		"notifications/tools/list_changed":         1,
		"notifications/subscriptions/acknowledged": 1,
		"notifications/prompts/list_changed":       0,
		"notifications/resources/list_changed":     0,
		"notifications/message":                    0,
		"notifications/something/else":             0,
	} {
		c.handleNotification(note(method))
		if len(c.relistWanted) != want {
			t.Errorf("%s: %d lists are wanted, want %d", method, len(c.relistWanted), want)
		}
		select {
		case <-c.relistWanted:
		default:
		}
	}
}
