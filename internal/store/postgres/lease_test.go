package postgres_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/postgres/pgtest"
)

// replica is a process that shares a database.
type replica struct {
	*postgres.DB
	lease store.Lease
}

func openReplica(t *testing.T, url string) replica {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, postgres.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := db.Lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // a test may have stopped the server
	return replica{db, lease}
}

func (r replica) acquire(t *testing.T, address string) (bool, store.Holder) {
	t.Helper()
	held, holder, err := r.lease.Acquire(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	return held, holder
}

// save writes, and returns why that is refused.
func (r replica) save(t *testing.T, text string) error {
	return r.SaveBlob(t.Context(), "test", json.RawMessage(text))
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

// expire ends the time of the lease, as if its holder had not renewed it.
func expire(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), "update ravenbot.lease set expires_at = '-infinity'"); err != nil {
		t.Fatal(err)
	}
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

func TestLease_OneReplicaHoldsItAndWrites(t *testing.T) {
	url := pgtest.Start(t)
	first, second := openReplica(t, url), openReplica(t, url)
	if err := first.save(t, `1`); err == nil || first.Owned() == nil {
		t.Error("a replica wrote before it held the lease")
	}
	if held, holder := first.acquire(t, "10.0.0.1:8080"); !held || holder.Epoch != 1 {
		t.Fatalf("the first replica: %v, %+v, want the lease with epoch 1", held, holder)
	}
	held, holder := second.acquire(t, "10.0.0.2:8080")
	if held || holder.Address != "10.0.0.1:8080" || holder.Name == "" || holder.Epoch != 1 {
		t.Errorf("the second replica: %v, %+v, want who holds the lease", held, holder)
	}
	if err := second.save(t, `2`); err == nil || second.Owned() == nil {
		t.Error("a replica on standby wrote")
	}
	if err := first.save(t, `1`); err != nil || first.Owned() != nil {
		t.Errorf("the replica with the lease was refused: %v, %v", err, first.Owned())
	}
	if data, err := second.LoadBlob(t.Context(), "test"); string(data) != `1` {
		t.Errorf("the second replica reads %s, %v, want what the first wrote", data, err)
	}

	if err := first.lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held, holder := second.acquire(t, "10.0.0.2:8080"); !held || holder.Epoch != 2 {
		t.Errorf("after the release the second replica has %v, %+v, want the lease with epoch 2", held, holder)
	}
	if err := first.save(t, `3`); err == nil || first.Owned() == nil {
		t.Error("a replica wrote after it had released the lease")
	}
}

func TestLease_WhoWasPausedWritesNoMore(t *testing.T) {
	url := pgtest.Start(t)
	first, second, conn := openReplica(t, url), openReplica(t, url), connect(t, url)
	first.acquire(t, "")
	// The first replica renews all two seconds, so that its lease is ended until the second one is faster.
	for held := false; !held; held, _ = second.acquire(t, "") {
		expire(t, conn)
	}
	if err := first.save(t, `1`); err == nil || !strings.Contains(err.Error(), "another replica") {
		t.Errorf("the write of a replica that lost the lease returned %v, want that it was refused", err)
	}
	select {
	case <-first.lease.Lost():
	case <-time.After(20 * time.Second):
		t.Error("the replica does not notice that it lost the lease")
	}
	if first.Owned() == nil {
		t.Error("the replica that lost the lease may still send")
	}
	if err := second.save(t, `2`); err != nil || second.Owned() != nil {
		t.Errorf("the replica that took over was refused: %v, %v", err, second.Owned())
	}
	// Its release must not end the lease of the other.
	if err := first.lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held, holder := openReplica(t, url).acquire(t, ""); held || holder.Epoch != 2 {
		t.Errorf("a third replica has %v, %+v, want that the second holds the lease", held, holder)
	}
}

func TestLease_TakingItWaitsForWritesUnderWay(t *testing.T) {
	url := pgtest.Start(t)
	r, conn := openReplica(t, url), connect(t, url)
	// A write of another process that has been checked and is not committed yet; its lease is over.
	if _, err := conn.Exec(t.Context(), "update ravenbot.lease set epoch = 1"); err != nil {
		t.Fatal(err)
	}
	writing, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writing.Exec(t.Context(), "select from ravenbot.lease where epoch = 1 for key share"); err != nil {
		t.Fatal(err)
	}
	taken := make(chan error, 1)
	go func() {
		_, _, err := r.lease.Acquire(t.Context(), "")
		taken <- err
	}()
	await(t, "who takes the lease waits for the write", func() (waits bool) {
		err := conn.QueryRow(t.Context(), `select exists (select from pg_stat_activity
			where wait_event_type = 'Lock' and query like '%ravenbot.lease%')`).Scan(&waits)
		return err == nil && waits
	})
	select {
	case <-taken:
		t.Fatal("the lease was taken in the middle of a write")
	default:
	}
	if err := writing.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	if err := r.save(t, `1`); err != nil {
		t.Error(err)
	}
}

func TestLease_OutlivesTheDatabaseBeingAway(t *testing.T) {
	cluster := pgtest.NewCluster(t, pgtest.Options{})
	r := openReplica(t, cluster.Database(t))
	r.acquire(t, "")
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	await(t, "a replica that cannot renew its lease sends nothing", func() bool { return r.Owned() != nil })
	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the replica goes on when the database is back", func() bool { return r.Owned() == nil })
	if err := r.save(t, `1`); err != nil {
		t.Error(err)
	}
	select {
	case <-r.lease.Lost():
		t.Error("the replica counts its lease as lost though nobody took it")
	default:
	}
}
