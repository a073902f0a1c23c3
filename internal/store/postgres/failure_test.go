package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/postgres/pgtest"
	"ravenbot/internal/store/storetest"
)

// proxy is a TCP proxy that can do something to a connection when the client commits.
type proxy struct {
	net.Listener
	to string
	// onCommit is called with what the client sends to commit, once. It returns whether to go on.
	onCommit atomic.Pointer[func(client, server net.Conn, commit []byte) bool]
	accepted atomic.Int64 // connections
	sent     atomic.Int64 // bytes to clients
	cutAt    atomic.Int64 // sent, at which a connection is closed, once; 0: never
	isSilent atomic.Bool  // nothing passes, and nothing is closed, as where a machine is gone
	wg       sync.WaitGroup
}

// newProxy returns a proxy before the server of an address, and the address through it.
func newProxy(t *testing.T, address string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: u.Host}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		_ = l.Close()
		p.wg.Wait()
	})
	u.Host = l.Addr().String()
	return p, u.String()
}

func (p *proxy) serve() {
	for {
		client, err := p.Accept()
		if err != nil {
			return
		}
		p.accepted.Add(1)
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.wg.Go(func() {
			_, _ = io.Copy(answers{p, client}, server)
			_ = client.Close()
		})
		p.wg.Go(func() {
			defer server.Close()
			p.forward(client, server)
		})
	}
}

// answers writes what the server answers to a client.
type answers struct {
	p      *proxy
	client net.Conn
}

func (a answers) Write(b []byte) (int, error) {
	if a.p.isSilent.Load() {
		return len(b), nil
	}
	sent := a.p.sent.Add(int64(len(b)))
	if at := a.p.cutAt.Load(); at > 0 && sent >= at && a.p.cutAt.CompareAndSwap(at, 0) {
		_, _ = a.client.Write(b[:len(b)-int(sent-at)])
		return 0, a.client.Close()
	}
	return a.client.Write(b)
}

// forward sends what the client sends to the server. The store sends a commit in one piece.
func (p *proxy) forward(client, server net.Conn) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if p.isSilent.Load() {
			continue
		}
		if bytes.Contains(buffer[:n], []byte("; commit")) {
			if on := p.onCommit.Swap(nil); on != nil && !(*on)(client, server, buffer[:n]) {
				return
			}
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// The connection is lost around the commit: before the server gets it, behind it, or with the commit on its
// way so late that the store has given the transaction up. What is counted is counted once.
func TestWrite_ConnectionLostAtTheCommit_TakesPlaceOnce(t *testing.T) {
	for name, onCommit := range map[string]func(t *testing.T) func(client, server net.Conn, commit []byte) bool{
		"before": func(*testing.T) func(client, server net.Conn, commit []byte) bool {
			return func(client, _ net.Conn, _ []byte) bool {
				_ = client.Close()
				return false
			}
		},
		"behind": func(t *testing.T) func(client, server net.Conn, commit []byte) bool {
			return func(client, server net.Conn, commit []byte) bool {
				_ = client.(*net.TCPConn).CloseWrite() // the answer does not come through any more
				if _, err := server.Write(commit); err != nil {
					t.Error(err)
				}
				_ = client.Close()
				return false
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, address := newProxy(t, pgtest.Start(t))
			db := open(t, address, time.Now)
			for _, write := range []func(n int) error{
				func(int) error {
					return db.CountUsage(t.Context(), store.Usage{Model: "m", Channel: general, Turns: 1})
				},
				func(n int) error {
					m := chat.Message{ID: fmt.Sprint(n), Conversation: general}
					isNew, err := db.Accept(t.Context(), store.Received{Message: m})
					if !isNew {
						t.Error("a message that was accepted is called a repeat")
					}
					return err
				},
				func(n int) error {
					turn := &conversation.Turn{ID: fmt.Sprint(n), Began: time.Now()}
					err := db.SaveTurn(t.Context(), general, turn, store.ToolCall{ID: "c"})
					if turn.Seq != uint64(n+1) {
						t.Errorf("turn %d has the number %d", n, turn.Seq)
					}
					return err
				},
			} {
				for n := range 3 {
					do := onCommit(t)
					p.onCommit.Store(&do)
					if err := write(n); err != nil {
						t.Error(err)
					}
					if p.onCommit.Load() != nil {
						t.Error("no commit came through the proxy")
					}
				}
			}
			usage, _, err := db.Usage(t.Context(), "", "", 10)
			if err != nil || len(usage) != 1 || usage[0].Turns != 3 {
				t.Errorf("the sums are %+v (%v), want 3 turns", usage, err)
			}
			calls, err := db.ToolCalls(t.Context(), 0, 10, nil)
			if err != nil || len(calls) != 3 {
				t.Errorf("%d calls (%v), want 3", len(calls), err)
			}
		})
	}
}

// A commit that is on its way while the store gives the transaction up does not take place.
func TestWrite_CommitThatArrivesTooLate_IsRefused(t *testing.T) {
	p, address := newProxy(t, pgtest.Start(t))
	db := open(t, address, time.Now)
	late := make(chan func() string, 1)
	hold := func(client, server net.Conn, commit []byte) bool {
		held := bytes.Clone(commit)
		// The server keeps its half of the connection.
		kept, err := server.(*net.TCPConn).File()
		if err != nil {
			t.Error(err)
			return false
		}
		answer, err := net.FileConn(kept)
		if err := errors.Join(err, kept.Close()); err != nil {
			t.Error(err)
			return false
		}
		late <- func() string {
			defer answer.Close()
			if _, err := answer.Write(held); err != nil {
				return err.Error()
			}
			if err := answer.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
				return err.Error()
			}
			text := make([]byte, 4096)
			n, err := answer.Read(text)
			return fmt.Sprint(string(text[:n]), err)
		}
		_ = client.Close()
		return false
	}
	p.onCommit.Store(&hold)
	// Nothing that a call locks keeps the same call from being stored again.
	if err := db.SaveCalls(t.Context(), []store.ToolCall{{ID: "c"}}); err != nil {
		t.Fatal(err)
	}
	if answer := (<-late)(); !strings.Contains(answer, "violates check constraint") {
		t.Errorf("the server answered the late commit with %q", answer)
	}
	calls, err := db.ToolCalls(t.Context(), 0, 10, nil)
	if err != nil || len(calls) != 1 {
		t.Errorf("%d calls (%v), want 1", len(calls), err)
	}
}

// The server restarts in order and crashes while others write. What was acknowledged is there, and nothing
// twice.
func TestWrite_ServerRestarts_LosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, pgtest.Options{Durable: true})
	db := open(t, c.Database(t), time.Now)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const writers = 4
	var done [writers]atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				// Nothing is cut off by the test itself: a write that has begun is ended.
				if err := oneAnswer(t.Context(), db, w, n); err != nil {
					t.Errorf("writer %d, answer %d: %v", w, n, err)
					return
				}
				done[w].Add(1)
			}
		})
	}
	for _, end := range []func() error{c.Stop, c.Kill, c.Kill} {
		target := done[0].Load() + 3
		waitFor(t, func() bool { return atLeast(&done, target) })
		if err := errors.Join(end(), c.Start()); err != nil {
			t.Fatal(err)
		}
	}
	target := done[0].Load() + 3
	waitFor(t, func() bool { return atLeast(&done, target) })
	stop()
	wg.Wait()
	total := 0
	for w := range writers {
		n := int(done[w].Load())
		total += n
		turns, err := db.Turns(t.Context(), room(w), store.Range{Newest: n + 10})
		if err != nil || len(turns) != n {
			t.Errorf("writer %d has %d turns (%v), want %d", w, len(turns), err, n)
		}
	}
	usage, _, err := db.Usage(t.Context(), "", "", 10)
	counted := 0
	for _, u := range usage {
		counted += u.Turns
	}
	if err != nil || counted != total {
		t.Errorf("%d turns are counted (%v), want %d", counted, err, total)
	}
	waiting, err := db.Unanswered(t.Context())
	pending, err2 := db.PendingPosts(t.Context())
	if err := errors.Join(err, err2); err != nil || len(waiting)+len(pending) > 0 {
		t.Errorf("%d messages and %d posts are left (%v)", len(waiting), len(pending), err)
	}
}

func room(w int) chat.Address { return chat.Address{Platform: "web", Channel: fmt.Sprint("room", w)} }

// oneAnswer does what the store does for one answer. Like its callers it repeats what failed while the database
// was away: nothing was written then.
func oneAnswer(ctx context.Context, db *postgres.DB, w, n int) error {
	m := chat.Message{ID: fmt.Sprint(w, "/", n), Conversation: room(w), Time: time.Now()}
	turn := &conversation.Turn{ID: m.Key(), Began: time.Now(), Model: "m", User: fmt.Sprint(w), Usage: llm.Usage{Input: 1}}
	post := store.Post{Key: m.Key(), To: room(w), Message: m.Key(), At: time.Now()}
	for _, step := range []func() error{
		func() error {
			isNew, err := db.Accept(ctx, store.Received{Message: m, At: time.Now()})
			if err == nil && !isNew {
				err = errors.New("the message is called a repeat")
			}
			return err
		},
		func() error { return db.SaveTurn(ctx, room(w), turn) },
		func() error { return db.SaveAnswer(ctx, room(w), []string{m.Key()}, turn, []store.Post{post}) },
		func() error {
			return db.SaveOutcomes(ctx, []store.Outcome{{Key: post.Key, Ref: chat.Ref{IDs: []string{m.ID}}, At: time.Now()}}, 0)
		},
	} {
		err := step()
		for err != nil && strings.Contains(err.Error(), "the database does not answer") {
			err = step()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func atLeast(done *[4]atomic.Int64, n int64) bool {
	for i := range done {
		if done[i].Load() < n {
			return false
		}
	}
	return true
}

// A caller that ends, as at the end of the bot, is no sign of a slow server.
func TestRead_CallerEnds_IsNoSlowStatement(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t)
	db, locking, looking := open(t, address, time.Now), connect(t, address), connect(t, address)
	if _, err := locking.Exec(t.Context(), "begin; lock table ravenbot.settings"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := db.Settings(ctx)
		failed <- err
	}()
	waitFor(t, func() bool {
		var waiting bool
		err := looking.QueryRow(t.Context(), `select exists (select from pg_locks where not granted
			and relation = 'ravenbot.settings'::regclass)`).Scan(&waiting)
		return err == nil && waiting
	})
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "took too long") {
		t.Errorf("the error is %v", err)
	}
}

// waitFor waits until a condition holds, and fails after a minute.
func waitFor(t *testing.T, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatal("it did not come to that within a minute")
		case <-ticker.C:
		}
	}
}

func TestHealth_ServerStopsAndStartsAgain_IsSaid(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, pgtest.Options{})
	db := open(t, c.Database(t), time.Now)
	if err := db.Health(); err != nil || db.Problem() != "" || db.Checked().IsZero() {
		t.Fatalf("a store that was just opened: %v, %q, checked %v", err, db.Problem(), db.Checked())
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	var system *store.SystemError
	if _, err := db.Settings(t.Context()); !errors.As(err, &system) {
		t.Errorf("reading without a server: %v", err)
	}
	if _, err := db.SwapSetting(t.Context(), "a", nil, []byte(`{}`)); !errors.As(err, &system) {
		t.Errorf("writing without a server: %v", err)
	}
	const problem = "the store cannot be used: the database does not answer"
	if err := db.Health(); !errors.As(err, &system) || db.Problem() != problem {
		t.Errorf("health %v, problem %q", err, db.Problem())
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.SwapSetting(t.Context(), "a", nil, []byte(`{}`)); err != nil || db.Health() != nil {
		t.Errorf("writing when the server is there again: %v, health %v", err, db.Health())
	}
}

func TestWrite_ServerBecomesReadOnly_IsSaidAndPasses(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, pgtest.Options{})
	db := open(t, c.Database(t), time.Now)
	for _, step := range []struct{ setting, want string }{{"on", "takes no changes"}, {"off", ""}} {
		for _, sql := range []string{
			"alter system set default_transaction_read_only = " + step.setting,
			"select pg_reload_conf()",
		} {
			if err := c.Exec(t.Context(), "postgres", sql); err != nil {
				t.Fatal(err)
			}
		}
		waitFor(t, func() bool {
			_, err := db.SwapSetting(t.Context(), "a", nil, []byte(`{}`))
			if step.want == "" {
				return err == nil
			}
			return err != nil && strings.Contains(err.Error(), step.want)
		})
		// Reading goes on, and does not make the store healthy.
		if _, err := db.Settings(t.Context()); err != nil {
			t.Error(err)
		}
		if isHealthy := db.Health() == nil; isHealthy != (step.want == "") {
			t.Errorf("read-only %s: health %v, problem %q", step.setting, db.Health(), db.Problem())
		}
	}
}

// Run notices without a caller that the database is away, and that it takes no changes.
func TestRun_DatabaseAway_IsLogged(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, pgtest.Options{})
	db := open(t, c.Database(t), time.Now)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	var logged lockedBuffer
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { db.Run(ctx, slog.New(slog.NewTextHandler(&logged, nil))) })
	waitFor(t, func() bool {
		return strings.Contains(logged.String(), "store cannot be used, messages are not accepted")
	})
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return strings.Contains(logged.String(), "store can be used again") })
	cancel()
	wg.Wait()
	if err := db.Health(); err != nil {
		t.Error(err)
	}
}

// lockedBuffer is a buffer that several may use at once.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestPrune_TwoAtOnce_DoNoHarm(t *testing.T) {
	address := pgtest.Start(t)
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	first, second := open(t, address, clock), open(t, address, clock)
	for n := range 300 {
		if err := oneAnswer(t.Context(), first, n%3, n); err != nil {
			t.Fatal(err)
		}
	}
	now = time.Now().Add(40 * 24 * time.Hour)
	keep := store.Retention{Conversations: func(chat.Address) time.Duration { return 24 * time.Hour }}
	var wg sync.WaitGroup
	for _, db := range []*postgres.DB{first, second} {
		wg.Go(func() {
			if _, err := db.Prune(t.Context(), keep); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	list, _, err := first.Conversations(t.Context(), "", 10)
	if err != nil || len(list) != 0 {
		t.Errorf("%v are left (%v)", list, err)
	}
}

// A prune finds what is old behind 1,000 conversations that are kept, and all of 1,001 turns: a read holds 1,000 rows.
func TestPrune_MoreThanOneReadHolds_DeletesAllOfIt(t *testing.T) {
	address := pgtest.Start(t)
	now := time.Now()
	db := open(t, address, func() time.Time { return now })
	storetest.SayEverywhere(t, db, general, "old", "words", now)
	for _, sql := range []string{
		`turns select conversation + n, seq, v, record, began, hash from ravenbot.turns`,
		`messages select conversation + n, at, id || n, platform, v, record from ravenbot.messages`,
		`summaries select 'web:/a' || n, v, record from ravenbot.summaries`,
		`turns select id, last_turn + n, v, record, began, hash from ravenbot.conversations join ravenbot.turns
			on id = conversation`,
		`conversations select id + n, 'web:/a' || n, channel, last_turn, turns, messages, message_version
			from ravenbot.conversations`,
	} {
		if _, err := connect(t, address).Exec(t.Context(), `insert into ravenbot.`+sql+`, generate_series(1, 1000) n`); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(8 * 24 * time.Hour)
	if _, err := db.Prune(t.Context(), storetest.WeekIn(general.Channel)); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"turns", "messages", "summaries", "conversations"} {
		if n := db.Count(t, table); n != 1000 {
			t.Errorf("%d rows of %s are left, want those of the others", n, table)
		}
	}
}

// A deletion that is cut short is out of sight, and ended by Prune.
func TestDeleteConversation_CutShort_IsEndedByPrune(t *testing.T) {
	db := open(t, pgtest.Start(t), time.Now)
	var messages []store.Message
	for n := range 1000 {
		messages = append(messages, store.Message{Conversation: general, ID: fmt.Sprint(n), At: time.Now()})
	}
	if _, err := db.SaveMessages(t.Context(), messages); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	db.OnCommit(cancel)
	if err := db.DeleteConversation(ctx, general); !errors.Is(err, context.Canceled) {
		t.Fatalf("the deletion was not cut short: %v", err)
	}
	left, _, err := db.Messages(t.Context(), general, "", 10)
	has, err2 := db.HasConversation(t.Context(), general)
	if err := errors.Join(err, err2); err != nil || len(left) > 0 || has {
		t.Errorf("%d messages can be read, the conversation is there: %v (%v)", len(left), has, err)
	}
	if n := db.Count(t, "messages"); n != 1000 {
		t.Errorf("%d rows are left, want all", n)
	}
	if _, err := db.Prune(t.Context(), store.Retention{}); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"messages", "deleted_conversations", "conversations"} {
		if n := db.Count(t, table); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
}
