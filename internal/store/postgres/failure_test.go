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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/testing/pgtest"
)

// proxy is a TCP proxy that can do something to a connection when the client commits.
type proxy struct {
	net.Listener
	to string
	// onCommit is called with what the client sends to commit, once. It returns whether to go on.
	onCommit  atomic.Pointer[func(client, server net.Conn, commit []byte) bool]
	accepted  atomic.Int64 // connections
	sent      atomic.Int64 // bytes to clients
	questions atomic.Int64 // what clients sent behind an answer
	isAsked   atomic.Bool  // nothing was answered since
	cutAt     atomic.Int64 // sent, at which a connection is closed, once; 0: never
	isSilent  atomic.Bool  // nothing passes, and nothing is closed, as where a machine is gone
	wg        sync.WaitGroup
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
	a.p.isAsked.Store(false)
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
		if !p.isAsked.Swap(true) {
			p.questions.Add(1)
		}
		if bytes.Contains(buffer[:n], []byte("commit\x00")) {
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
			for n := range 3 {
				for _, write := range []func() error{
					func() error { return readAndWrite(t.Context(), db, "sum", 1) },
					func() error { // in one round trip
						return db.Update(t.Context(), kv.Write{Scopes: []string{"x"}}, func(tx kv.Tx) error {
							return tx.Put(notes, "", fmt.Sprint("note ", n), []byte("1"))
						})
					},
					func() error {
						isNew, err := add(t.Context(), db, fmt.Sprint(n), "")
						if !isNew {
							t.Error("a task that was stored is called a repeat")
						}
						return err
					},
				} {
					do := onCommit(t)
					p.onCommit.Store(&do)
					if err := write(); err != nil {
						t.Error(err)
					}
					if p.onCommit.Load() != nil {
						t.Error("no commit came through the proxy")
					}
				}
			}
			if sum, entries := count(t, db, "sum"); sum != 3 || entries != 3 {
				t.Errorf("the sum is %d, of %d entries, want 3 of 3", sum, entries)
			}
			if got := own(t, db); got != "0, 1, 2, " {
				t.Errorf("the tasks are %q", got)
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
	// Nothing that a transaction without scopes locks keeps it from being carried out again.
	if err := db.Update(t.Context(), kv.Write{}, func(tx kv.Tx) error {
		v, err := tx.Get(notes, "", "a")
		return errors.Join(err, tx.Put(notes, "", "a", append(slices.Clone(v), 'x')))
	}); err != nil {
		t.Fatal(err)
	}
	if answer := (<-late)(); !strings.Contains(answer, "violates check constraint") {
		t.Errorf("the server answered the late commit with %q", answer)
	}
	if v, err := read(t.Context(), db, "a"); v != "x" || err != nil {
		t.Errorf("the note is %q (%v), want what was added once", v, err)
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
				if err := persist(t.Context(), db, w); err != nil {
					t.Errorf("writer %d, write %d: %v", w, n, err)
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
		if _, entries := count(t, db, fmt.Sprint("of writer ", w)); entries != n {
			t.Errorf("writer %d has %d entries, want %d", w, entries, n)
		}
	}
	if sum, entries := count(t, db, "all"); sum != total || entries != total {
		t.Errorf("all have %d in %d entries, want %d", sum, entries, total)
	}
}

// persist writes to what a writer has alone, and to what all have in common. Like the callers of the store it repeats
// what failed while the database was away: nothing was written then.
func persist(ctx context.Context, db *postgres.DB, w int) error {
	for _, name := range []string{fmt.Sprint("of writer ", w), "all"} {
		err := readAndWrite(ctx, db, name, 1)
		for err != nil && strings.Contains(err.Error(), "the database does not answer") {
			err = readAndWrite(ctx, db, name, 1)
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
	if _, err := locking.Exec(t.Context(), "begin; lock table ravenbot.c_notes"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := read(ctx, db, "a")
		failed <- err
	}()
	waitFor(t, func() bool {
		var waiting bool
		err := looking.QueryRow(t.Context(), `select exists (select from pg_locks where not granted
			and relation = 'ravenbot.c_notes'::regclass)`).Scan(&waiting)
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
	if _, err := read(t.Context(), db, "a"); !errors.As(err, &system) {
		t.Errorf("reading without a server: %v", err)
	}
	if err := save(t.Context(), db, "a"); !errors.As(err, &system) {
		t.Errorf("writing without a server: %v", err)
	}
	const problem = "the store cannot be used: the database does not answer"
	if err := db.Health(); !errors.As(err, &system) || db.Problem() != problem {
		t.Errorf("health %v, problem %q", err, db.Problem())
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := save(t.Context(), db, "a"); err != nil || db.Health() != nil {
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
			err := save(t.Context(), db, "a")
			if step.want == "" {
				return err == nil
			}
			return err != nil && strings.Contains(err.Error(), step.want)
		})
		// Reading goes on, and does not make the store healthy.
		if _, err := read(t.Context(), db, "a"); err != nil {
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
		return strings.Contains(logged.String(), "store cannot be used; messages are not accepted")
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
