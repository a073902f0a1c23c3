package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/testing/pgtest"
)

// replica is a process that shares a database.
type replica struct {
	*postgres.DB
	*postgres.Membership
	id int64
}

// openReplica opens a database for a process that has not joined yet.
func openReplica(t *testing.T, url string) *replica {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, postgres.Options{Specs: specs, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := db.Membership(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // a test may have stopped the server
	return &replica{DB: db, Membership: m}
}

// joinReplica opens a database for a process that is a member.
func joinReplica(t *testing.T, url string) *replica {
	t.Helper()
	r := openReplica(t, url)
	me, err := r.Join(t.Context(), "10.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	r.id = me.ID
	return r
}

// save writes, and returns why that is refused.
func (r *replica) save(t *testing.T, text string) error {
	t.Helper()
	return put(t.Context(), r.DB, notes, "test", text)
}

// take returns what others have left.
func (r *replica) take(t *testing.T) kv.Taken {
	t.Helper()
	left, err := r.Take(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// owner returns the id of the replica that owns a key, after this one has asked for it.
func (r *replica) owner(t *testing.T, key string) int64 {
	t.Helper()
	owner, err := r.Claim(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return owner.ID
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// pause ends the time of a member, as if it had been paused for long, and has another one inherit from it. A member
// renews its time every two seconds, so that its time is ended until the other one is faster.
func pause(t *testing.T, conn *pgx.Conn, paused, other *replica) (left kv.Taken) {
	t.Helper()
	for len(left.From) == 0 {
		const sql = "update ravenbot.replicas set expires_at = '-infinity' where id = $1"
		if _, err := conn.Exec(t.Context(), sql, paused.id); err != nil {
			t.Fatal(err)
		}
		left = other.take(t)
	}
	if len(left.From) != 1 || left.From[0].ID != paused.id {
		t.Fatalf("took from %+v, want from the replica %d", left.From, paused.id)
	}
	return left
}

// await waits until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func TestMembership_MembersWrite(t *testing.T) {
	url := pgtest.Start(t)
	first, second := openReplica(t, url), openReplica(t, url)
	if err := first.save(t, `1`); err == nil || first.Owned() == nil {
		t.Error("a process wrote before it had joined")
	}
	for n, r := range []*replica{first, second} {
		me, err := r.Join(t.Context(), "10.0.0.1:8080")
		if err != nil || me.Name == "" || me.Address != "10.0.0.1:8080" || me.ID != int64(n+1) {
			t.Fatalf("joined as %+v (%v)", me, err)
		}
		if err := r.save(t, `1`); err != nil || r.Owned() != nil {
			t.Errorf("a member was refused: %v, %v", err, r.Owned())
		}
		list, err := second.Replicas(t.Context())
		if err != nil || len(list) != n+1 || list[n] != me {
			t.Errorf("the members are %+v (%v), want %+v as number %d", list, err, me, n)
		}
		if _, err := r.Join(t.Context(), ""); err == nil {
			t.Error("a process joined twice")
		}
	}
	if left := second.take(t); len(left.From) > 0 {
		t.Errorf("took from %+v, which is at work", left.From)
	}

	if err := first.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.save(t, `3`); err == nil || first.Owned() == nil {
		t.Error("a process wrote after it had left")
	}
	if _, err := first.Claim(t.Context(), "free"); err == nil {
		t.Error("a process claimed a key after it had left")
	}
	if _, err := first.Join(t.Context(), ""); err == nil {
		t.Error("a process joined again after it had left")
	}
	if list, err := second.Replicas(t.Context()); err != nil || len(list) != 1 || list[0].ID != 2 {
		t.Errorf("the members are %+v (%v), want the second alone", list, err)
	}
	if left := second.take(t); len(left.From) != 1 || left.From[0].ID != 1 {
		t.Errorf("took from %+v, want from the one that has left", left.From)
	}
	if left := second.take(t); len(left.From) != 0 {
		t.Errorf("took twice from %+v", left.From)
	}
	if err := second.save(t, `4`); err != nil || second.Owned() != nil {
		t.Errorf("who inherited was refused: %v, %v", err, second.Owned())
	}
}

func TestMembership_WhoWasPausedWritesNoMore(t *testing.T) {
	url := pgtest.Start(t)
	first, second, conn := joinReplica(t, url), joinReplica(t, url), connect(t, url)
	idle := joinReplica(t, url)
	pause(t, conn, idle, second)
	pause(t, conn, first, second)
	if err := first.save(t, `1`); err == nil || !strings.Contains(err.Error(), "another replica") {
		t.Errorf("the write of a replica whose membership was ended returned %v, want that it was refused", err)
	}
	select {
	case <-first.Lost():
	default:
		t.Error("the replica does not notice by its write that its membership was ended")
	}
	if _, err := first.Claim(t.Context(), "free"); err == nil {
		t.Error("a replica whose membership was ended claimed a key")
	}
	select {
	case <-idle.Lost():
	case <-time.After(20 * time.Second):
		t.Error("a replica that writes nothing does not notice that its membership was ended")
	}
	if first.Owned() == nil {
		t.Error("the replica whose membership was ended may still send")
	}
	if err := second.save(t, `2`); err != nil || second.Owned() != nil {
		t.Errorf("the replica that inherited was refused: %v, %v", err, second.Owned())
	}
	if err := first.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	if list, err := second.Replicas(t.Context()); err != nil || len(list) != 1 || list[0].ID != second.id {
		t.Errorf("the members are %+v (%v), want the second alone", list, err)
	}
}

func TestTake_WaitsForWritesUnderWay(t *testing.T) {
	url := pgtest.Start(t)
	r, conn := joinReplica(t, url), connect(t, url)
	// A write of another process that has been checked and is not committed yet; its time is over.
	if _, err := conn.Exec(t.Context(), `insert into ravenbot.replicas (name, address, expires_at)
		values ('paused/1', '', '-infinity')`); err != nil {
		t.Fatal(err)
	}
	writing, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"select from ravenbot.replicas where id = 2 for key share",
		`insert into ravenbot.c_tasks (grp, key, value, sum, owner)
			values ('', 'slow', convert_to('{"name": "slow"}', 'UTF8'), 1, 2)`,
	} {
		if _, err := writing.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	watching := connect(t, url)
	var wg sync.WaitGroup
	wg.Go(func() {
		waitForLock(t, watching)
		if err := writing.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	})
	left := r.take(t)
	wg.Wait()
	if got := describe(left); got != "slow, " {
		t.Errorf("took %q, want the task that was written last", got)
	}
}

// A database that was away for longer than the time of its members ends no membership.
func TestMembership_DatabaseIsAwayForLong_AllStayMembers(t *testing.T) {
	cluster := pgtest.NewCluster(t, pgtest.Options{})
	url := cluster.Database(t)
	first, second := joinReplica(t, url), joinReplica(t, url)
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	await(t, "replicas that cannot renew their time send nothing", func() bool {
		return first.Owned() != nil && second.Owned() != nil
	})
	<-time.After(4 * time.Second) // their time is over, too
	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "both go on when the database is back", func() bool {
		for _, r := range []*replica{first, second} {
			if left, err := r.Take(t.Context(), all); err == nil && len(left.From) > 0 {
				t.Fatalf("took from %+v", left.From)
			}
		}
		return first.Owned() == nil && second.Owned() == nil
	})
	for _, r := range []*replica{first, second} {
		if err := r.save(t, `1`); err != nil {
			t.Error(err)
		}
		select {
		case <-r.Lost():
			t.Error("a replica counts its membership as ended though nobody has inherited")
		default:
		}
	}
}

// Somebody who wants the database alone gets it when no other is a member, and keeps others from joining.
func TestReserve_AloneOrNotAtAll(t *testing.T) {
	url := pgtest.Start(t)
	member := joinReplica(t, url)
	if isNew, err := add(t.Context(), member.DB, "1", ""); !isNew || err != nil {
		t.Fatal(isNew, err)
	}
	var inUse *store.InUseError
	alone := open(t, url, time.Now)
	if err := alone.Reserve(t.Context()); !errors.As(err, &inUse) || inUse.By.ID != member.id {
		t.Fatalf("beside a member: %v, want that it has the store", err)
	}
	if err := member.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	alone = open(t, url, time.Now)
	if err := alone.Reserve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := own(t, alone); got != "1, " || alone.Owned() != nil {
		t.Errorf("it has the tasks %q (%v), want the one that was left", got, alone.Owned())
	}
	second := openReplica(t, url)
	if _, err := second.Join(t.Context(), ""); !errors.As(err, &inUse) || inUse.By.Name == "" {
		t.Errorf("joining beside who is alone: %v, want that it has the store", err)
	}
	if err := open(t, url, time.Now).Reserve(t.Context()); !errors.As(err, &inUse) {
		t.Errorf("a second one that wants to be alone: %v, want that the store is in use", err)
	}
	// Its time is over, as if it had been killed: the next one need not wait to be sure of that.
	conn := connect(t, url)
	for inUse = nil; ; {
		const sql = "update ravenbot.replicas set expires_at = clock_timestamp() - interval '1 second'"
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
		next := open(t, url, time.Now)
		err := next.Reserve(t.Context())
		if errors.As(err, &inUse) {
			continue // it has renewed its time
		}
		if got := own(t, next); err != nil || got != "1, " {
			t.Errorf("the next one has the tasks %q (%v)", got, err)
		}
		if err := (&replica{DB: alone}).save(t, `1`); err == nil {
			t.Error("the one before writes still")
		}
		alone = next
		break
	}
	if err := alone.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Join(t.Context(), ""); err != nil {
		t.Errorf("joining after who was alone: %v", err)
	}
	if left := second.take(t); len(left.From) != 1 || len(left.Values[tasks]) != 1 {
		t.Errorf("inherited %+v, want what the one that was alone has left", left)
	}
}

// A member renews its time every two seconds, and not at once again. While the server is away it tries to connect now and
// then.
func TestMembership_KeepsItsPace(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, pgtest.Options{})
	address := c.Database(t)
	p, behind := newProxy(t, address)
	r, conn := joinReplica(t, behind), connect(t, address)
	var until time.Time
	renewal := func() time.Time {
		t.Helper()
		before := until
		waitFor(t, func() bool {
			err := conn.QueryRow(t.Context(), "select expires_at from ravenbot.replicas where id = $1", r.id).Scan(&until)
			if err != nil {
				t.Fatal(err)
			}
			return !until.Equal(before)
		})
		return time.Now()
	}
	renewal() // when it has joined
	first := renewal()
	if took := renewal().Sub(first); took < time.Second {
		t.Errorf("renewed again after %v", took)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	stopped := p.accepted.Load()
	// The first ones may be of what had begun before.
	waitFor(t, func() bool { return p.accepted.Load() >= stopped+4 })
	began := time.Now()
	waitFor(t, func() bool { return p.accepted.Load() >= stopped+12 })
	if took := time.Since(began); took < time.Second {
		t.Errorf("8 connections were tried within %v", took)
	}
}
