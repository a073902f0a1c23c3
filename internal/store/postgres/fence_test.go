package postgres_test

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/testing/kvtest"
	"ravenbot/internal/testing/pgtest"
)

// holdCommit holds the next commit of a process behind a proxy until the function that it returns is called; reached
// is closed when there is one.
func holdCommit(p *proxy) (reached <-chan struct{}, release func()) {
	at, goOn := make(chan struct{}), make(chan struct{})
	hold := func(net.Conn, net.Conn, []byte) bool {
		close(at)
		<-goOn
		return true
	}
	p.onCommit.Store(&hold)
	return at, func() { close(goOn) }
}

// joinBehind is joinReplica for a process that reaches the database by another address.
func joinBehind(t *testing.T, url string, o postgres.Options) *replica {
	t.Helper()
	r, err := joinMember(t, url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// joinMember opens a database for a process that is a member.
func joinMember(t *testing.T, url string, o postgres.Options) (*replica, error) {
	o.Log, o.Specs = slog.New(slog.DiscardHandler), specs
	db, err := postgres.Open(t.Context(), url, o)
	if err != nil {
		return nil, err
	}
	m, err := db.Membership(t.Context())
	var me store.Replica
	if err == nil {
		me, err = m.Join(t.Context(), "")
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &replica{DB: db, Membership: m, id: me.ID}, nil
}

// A process is paused between its last statement and its commit. Who inherits waits for it, and has what it wrote.
func TestTake_PausedBeforeItsCommit_IsWaitedFor(t *testing.T) {
	url := pgtest.Start(t)
	p, behind := newProxy(t, url)
	paused, heir, conn := joinBehind(t, behind, postgres.Options{}), joinReplica(t, url), connect(t, url)
	reached, release := holdCommit(p)
	accepted := make(chan error, 1)
	go func() {
		_, err := add(t.Context(), paused.DB, "late", "")
		accepted <- err
	}()
	<-reached
	watching := connect(t, url)
	var wg sync.WaitGroup
	wg.Go(func() {
		waitForLock(t, watching)
		release()
	})
	left := pause(t, conn, paused, heir)
	wg.Wait()
	if err := <-accepted; err != nil {
		t.Errorf("the write was cut off: %v", err)
	}
	if got := describe(left); got != "late, " {
		t.Errorf("took %q, want the task that was committed meanwhile", got)
	}
}

// waitForLock waits until somebody waits for the lock of a member.
func waitForLock(t *testing.T, conn *pgx.Conn) {
	for end := time.Now().Add(30 * time.Second); ; <-time.After(5 * time.Millisecond) {
		var waits bool
		err := conn.QueryRow(t.Context(), `select exists (select from pg_stat_activity
			where wait_event_type = 'Lock' and query like '%ravenbot.replicas%for update')`).Scan(&waits)
		switch {
		case err == nil && waits:
			return
		case time.Now().After(end):
			t.Error("who inherits does not wait for a write")
			return
		}
	}
}

// A process that is paused for long does not hold up who inherits: the server ends its transaction. If it stores the
// task once more before its membership is ended, the task is inherited, and otherwise refused.
func TestTake_PausedForLongBeforeItsCommit_IsNotWaitedFor(t *testing.T) {
	url := pgtest.Start(t)
	p, behind := newProxy(t, url)
	paused, heir, conn := joinBehind(t, behind, postgres.Options{}), joinReplica(t, url), connect(t, url)
	reached, release := holdCommit(p)
	accepted := make(chan error, 1)
	go func() {
		_, err := add(t.Context(), paused.DB, "late", "")
		accepted <- err
	}()
	<-reached
	left := pause(t, conn, paused, heir)
	release()
	isInherited := describe(left) != ""
	if err := <-accepted; (err == nil) != isInherited {
		t.Errorf("took %q, and the write returned %v", describe(left), err)
	}
	if isNew, err := add(t.Context(), heir.DB, "late", ""); isNew == isInherited || err != nil {
		t.Errorf("took %q, and the task counts as new: %v, %v", describe(left), isNew, err)
	}
}

// The connection is lost in the middle of inheriting: it is tried again, and each row is returned once.
func TestTake_ConnectionIsLost_ReturnsEachRowOnce(t *testing.T) {
	url := pgtest.Start(t)
	p, behind := newProxy(t, url)
	first, heir := joinReplica(t, url), joinBehind(t, behind, postgres.Options{})
	first.leave(t, "a", 1)
	if err := first.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	cut := func(client, _ net.Conn, _ []byte) bool {
		_ = client.Close()
		return false
	}
	p.onCommit.Store(&cut)
	const want = "a0, a0 without a claim, "
	left := heir.take(t)
	if got := describe(left); got != want || len(left.From) != 1 || len(left.Keys) != 2 {
		t.Errorf("took %q from %+v with %q, want %q", got, left.From, left.Keys, want)
	}
}

// The database is gone in the middle of inheriting, and for so long that it is not found out what became of it.
func TestTake_OutcomeIsUnknown_EndsTheMembership(t *testing.T) {
	url := pgtest.Start(t)
	p, behind := newProxy(t, url)
	first, heir := joinReplica(t, url), joinBehind(t, behind, postgres.Options{Timeout: time.Second})
	first.leave(t, "a", 1)
	if err := first.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	cut := func(client, _ net.Conn, _ []byte) bool {
		if err := errors.Join(p.Close(), client.Close()); err != nil {
			t.Error(err)
		}
		return false
	}
	p.onCommit.Store(&cut)
	if left, err := heir.Take(t.Context(), all); err == nil || len(left.Values) > 0 {
		t.Errorf("took %q (%v) though nobody knows", describe(left), err)
	}
	select {
	case <-heir.Lost():
	default:
		t.Error("the process goes on, though tasks may wait with it of which it does not know")
	}
	if heir.Owned() == nil {
		t.Error("the process may still send")
	}
}

// Renewals do not wait behind statements that take long.
func TestMembership_AllConnectionsAreBusy_IsRenewed(t *testing.T) {
	url := pgtest.Start(t)
	r, conn := joinBehind(t, url, postgres.Options{MaxConns: 1}), connect(t, url)
	locking, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locking.Exec(t.Context(), "lock table ravenbot.c_notes"); err != nil {
		t.Fatal(err)
	}
	saved := make(chan error, 1)
	go func() { saved <- r.save(t, `1`) }()
	var last, until time.Time
	for renewals := 0; renewals < 3; last = until {
		await(t, "a renewal", func() bool {
			const sql = "select expires_at from ravenbot.replicas where id = $1"
			return conn.QueryRow(t.Context(), sql, r.id).Scan(&until) == nil && until != last
		})
		renewals++
	}
	select {
	case err := <-saved:
		t.Errorf("the write did not wait: %v", err)
	default:
	}
	if err := locking.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-saved; err != nil {
		t.Error(err)
	}
}

// A member's store keeps the contract beside another member.
func TestStore_OfAMember_KeepsTheContract(t *testing.T) {
	kvtest.Run(t, func(t *testing.T) kv.DB {
		url := pgtest.Start(t)
		other := joinReplica(t, url)
		if _, err := other.Claim(t.Context(), store.LeaderKey); err != nil {
			t.Fatal(err)
		}
		return joinBehind(t, url, postgres.Options{}).DB
	})
}

// A process of the version before may still be sending: what it has left waits until its time is over.
func TestOpen_DatabaseWithALease_ItsHolderIsAMember(t *testing.T) {
	url := pgtest.Start(t)
	conn := connect(t, url)
	makeFormat(t, conn, 2)
	for _, sql := range []string{
		`insert into ravenbot.inbox (key, seq, v, record) values ('1', 1, 1,
			'{"message": {"id": "1", "conversation": {"platform": "web", "channel": "general"}}}')`,
		`insert into ravenbot.posts (key, seq, v, record, failed) values ('p', 1, 1, '{"key": "p"}', false)`,
		`update ravenbot.lease set holder = 'old/7', expires_at = now() + interval '1 hour'`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	var inUse *store.InUseError
	if err := open(t, url, time.Now).Reserve(t.Context()); !errors.As(err, &inUse) || inUse.By.Name != "old/7" {
		t.Errorf("while the lease is held: %v, want that old/7 has the store", err)
	}
	conn.Close(t.Context())
	conn = connect(t, url)
	r := joinBehind(t, url, postgres.Options{})
	owned := func(id int64) (n int) {
		t.Helper()
		err := conn.QueryRow(t.Context(), `select (select count(*) from ravenbot.c_inbox where owner = $1)
			+ (select count(*) from ravenbot.c_outbox where owner = $1)`, id).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := owned(inUse.By.ID); n != 2 {
		t.Errorf("who holds the lease owns %d records, want the message and the post", n)
	}
	r.take(t)
	if n := owned(r.id); n != 0 {
		t.Errorf("inherited %d records while the lease is held", n)
	}
	old := &replica{id: inUse.By.ID}
	pause(t, conn, old, r)
}
