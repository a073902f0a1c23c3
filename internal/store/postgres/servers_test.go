package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/testing/pgtest"
)

// TestOpen_PrimaryThatWasReplaced_IsNotUsed: a primary that failed, whose standby was promoted, and that came back
// takes changes as before. What is written to it would be missing in the other one.
func TestOpen_PrimaryThatWasReplaced_IsNotUsed(t *testing.T) {
	t.Parallel()
	first := pgtest.NewCluster(t, pgtest.Options{})
	address := first.Database(t)
	if err := save(t.Context(), open(t, address, time.Now), "before"); err != nil {
		t.Fatal(err)
	}
	second := first.NewStandby(t)
	both, database := bothOf(t, address, first, second)
	running := open(t, both, time.Now)

	if err := errors.Join(first.Kill(), second.Promote(), save(t.Context(), running, "promoted"),
		first.Start()); err != nil {
		t.Fatal(err)
	}
	const disconnect = `select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname is
		not null`
	started := open(t, both, time.Now)
	if err := errors.Join(second.Exec(t.Context(), database, disconnect),
		save(t.Context(), running, "running"),
		save(t.Context(), started, "started")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		server *pgtest.Cluster
		want   bool
	}{{first, false}, {second, true}} {
		db := open(t, c.server.URL(database), time.Now)
		for _, name := range []string{"promoted", "running", "started"} {
			if data, err := read(t.Context(), db, name); err != nil || (data != "") != c.want {
				t.Errorf("%s: %q, %v; in the second server: %t", name, data, err, c.want)
			}
		}
	}

	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	err := save(t.Context(), running, "alone")
	if e, ok := errors.AsType[*store.SystemError](err); !ok || !e.Passing || !strings.Contains(e.What, "has replaced") {
		t.Errorf("with the first server alone: %v", err)
	}
}

// TestRun_ServerIsReplaced_GoesOnWithTheOther: the one before was not stopped, and answers as before. Replicas that
// start now use the new one.
func TestRun_ServerIsReplaced_GoesOnWithTheOther(t *testing.T) {
	t.Parallel()
	first := pgtest.NewCluster(t, pgtest.Options{})
	address := first.Database(t)
	second := first.NewStandby(t)
	both, database := bothOf(t, address, first, second)
	r := joinReplica(t, both)
	if err := r.save(t, `"before"`); err != nil {
		t.Fatal(err)
	}
	standby := connect(t, second.URL(database))
	waitFor(t, func() bool {
		var n int
		return standby.QueryRow(t.Context(), "select count(*) from ravenbot.c_notes").Scan(&n) == nil && n == 1
	})
	replaced := connect(t, address)
	connections := func(condition string) (n int) {
		if err := replaced.QueryRow(t.Context(), `select count(*) from pg_stat_activity
			where datname = current_database() and pid <> pg_backend_pid() and `+condition).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	// Those for renewals and for notices stay open.
	waitFor(t, func() bool {
		return connections("query like 'update ravenbot.replicas set expires%'") > 0 && connections("query like 'listen%'") > 0
	})
	if err := second.Promote(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, slog.New(slog.DiscardHandler)) })
	defer running.Wait()
	defer cancel()

	waitFor(t, func() bool { return connections("true") == 0 })
	if err := errors.Join(r.save(t, `"after"`), r.Owned()); err != nil {
		t.Error("no member any more: ", err)
	}
	if data, err := read(t.Context(), open(t, second.URL(database), time.Now), "test"); data != `"after"` {
		t.Errorf("the new server has %s, %v", data, err)
	}
}

// TestRun_MachineOfServerIsGone_GoesOnWithTheOther: nothing is refused and no connection ends, as where a machine has
// lost its power. Nobody waits for it, also where the address lets connecting take longer than anybody waits.
func TestRun_MachineOfServerIsGone_GoesOnWithTheOther(t *testing.T) {
	t.Parallel()
	first := pgtest.NewCluster(t, pgtest.Options{})
	way, address := newProxy(t, first.Database(t))
	second := first.NewStandby(t)
	both, database := bothOf(t, address, first, second)
	both = strings.Replace(both, first.Address(), way.Addr().String(), 1) + "&connect_timeout=600"
	r := joinReplica(t, both)
	if err := r.save(t, `"before"`); err != nil {
		t.Fatal(err)
	}
	standby := connect(t, second.URL(database))
	waitFor(t, func() bool {
		var n int
		return standby.QueryRow(t.Context(), "select count(*) from ravenbot.c_notes").Scan(&n) == nil && n == 1
	})
	way.isSilent.Store(true)
	_, err := postgres.Open(t.Context(), both, postgres.Options{})
	if e, ok := errors.AsType[*store.SystemError](err); !ok || !e.Passing {
		t.Errorf("while the standby is none that takes changes: %v", err)
	}
	if err := second.Promote(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return r.save(t, `"after"`) == nil })
	waitFor(t, func() bool { return r.Owned() == nil })
	if data, err := read(t.Context(), open(t, second.URL(database), time.Now), "test"); data != `"after"` {
		t.Errorf("the new server has %s, %v", data, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db, err := postgres.Open(ctx, both, postgres.Options{})
	if err != nil {
		t.Fatal("a replica that starts: ", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestOpen_NoServerTakesChanges_IsPassing: in a planned change of the primary there is none for a moment.
func TestOpen_NoServerTakesChanges_IsPassing(t *testing.T) {
	t.Parallel()
	first := pgtest.NewCluster(t, pgtest.Options{})
	address := first.Database(t)
	second := first.NewStandby(t)
	both, database := bothOf(t, address, second, first)
	running := open(t, both, time.Now)
	const readOnly = "alter system set default_transaction_read_only to "
	set := func(value string) {
		t.Helper()
		if err := errors.Join(first.Exec(t.Context(), "postgres", readOnly+value),
			first.Exec(t.Context(), "postgres", "select pg_reload_conf()")); err != nil {
			t.Fatal(err)
		}
	}
	set("on")
	waitFor(t, func() bool {
		_, err := postgres.Open(t.Context(), both, postgres.Options{})
		e, ok := errors.AsType[*store.SystemError](err)
		return ok && e.Passing && strings.Contains(e.What, "target_session_attrs")
	})
	set("off")
	waitFor(t, func() bool { return save(t.Context(), running, "again") == nil })
	if data, err := read(t.Context(), open(t, first.URL(database), time.Now), "again"); data == "" {
		t.Errorf("nothing was stored: %v", err)
	}
}

// bothOf returns the address of a database on two servers, of which one takes changes, and the name of the database.
func bothOf(t *testing.T, address string, first, second *pgtest.Cluster) (both, database string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = first.Address() + "," + second.Address()
	u.RawQuery += "&target_session_attrs=read-write"
	return u.String(), strings.TrimPrefix(u.Path, "/")
}
