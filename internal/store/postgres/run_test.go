package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/testing/pgtest"
)

// A store whose disk was full is unhealthy until Run has found that writing works again: who is not ready gets no
// messages. Run notes when it found the database to be good.
func TestRun_DiskWasFull_TriesToWrite(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	var now atomic.Pointer[time.Time]
	opened := time.Now()
	now.Store(&opened)
	db, conn := open(t, url, func() time.Time { return *now.Load() }), connect(t, url)
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`create function full_disk() returns trigger language plpgsql as
		$$ begin raise exception 'full' using errcode = '53100'; end $$`)
	exec(`create trigger full_disk before insert on ravenbot.c_notes execute function full_disk()`)
	if err := save(t.Context(), db, "a"); err == nil {
		t.Fatal("a full disk takes a blob")
	}
	if problem := db.Problem(); db.Health() == nil || !strings.Contains(problem, "the disk of the database is full") {
		t.Fatalf("health %v, problem %q", db.Health(), problem)
	}
	later := opened.Add(time.Minute)
	now.Store(&later)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { db.Run(ctx, slog.New(slog.DiscardHandler)) })
	waitFor(t, func() bool { return db.Health() == nil && db.Checked().Equal(later) })
	cancel()
	wg.Wait()
	if problem := db.Problem(); problem != "" {
		t.Errorf("the problem is %q", problem)
	}
}

// Commits that wait for a synchronous standby which is gone are said to, and go on when it is not asked for any more. A
// write whose wait is cut off is committed, and is not reported as one that failed.
func TestRun_SynchronousStandbyIsMissing_IsSaid(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, pgtest.Options{})
	url := c.Database(t)
	db := open(t, url, time.Now)
	set := func(standby string) {
		t.Helper()
		for _, sql := range []string{"alter system set synchronous_standby_names = '" + standby + "'",
			"select pg_reload_conf()"} {
			if err := c.Exec(t.Context(), "postgres", sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	var logged lockedBuffer
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { db.Run(ctx, slog.New(slog.NewTextHandler(&logged, nil))) })
	set("missing")
	var written, failed atomic.Int64
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			switch err := save(ctx, db, fmt.Sprint(n)); {
			case err == nil:
				written.Add(1)
			case ctx.Err() == nil:
				failed.Add(1)
			}
		}
	})
	waitFor(t, func() bool { return strings.Contains(db.Problem(), "commits wait for a synchronous standby") })
	waitFor(t, func() bool { return written.Load() > 0 })
	set("")
	waitFor(t, func() bool { return db.Health() == nil && strings.Contains(logged.String(), "can be used again") })
	cancel()
	wg.Wait()
	if n := db.Count(t, "c_notes"); failed.Load() > 0 || int64(n) < written.Load() {
		t.Errorf("%d writes failed, %d were done, and the table has %d", failed.Load(), written.Load(), n)
	}
	if n := strings.Count(logged.String(), "level=ERROR"); n != 1 {
		t.Errorf("logged %s", logged.String())
	}
}

// Rows of processes that have ended are deleted after a day.
func TestRun_DeletesRowsOfEndedProcesses(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	db, conn := open(t, url, time.Now), connect(t, url)
	if _, err := conn.Exec(t.Context(), `
		insert into ravenbot.writers (id, last, at)
			values (1, 7, now() - interval '25 hours'), (2, 7, now() - interval '23 hours');
		insert into ravenbot.changes (kind, slot, process, n, at)
			values ('k', 1, 1, 1, now() - interval '25 hours'), ('k', 2, 1, 1, now() - interval '23 hours')`); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wg.Go(func() { db.Run(ctx, slog.New(slog.DiscardHandler)) })
	waitFor(t, func() bool {
		var writers, changes int
		err := conn.QueryRow(t.Context(), `select (select count(*) from ravenbot.writers where last = 7),
			(select count(*) from ravenbot.changes where n = 1)`).Scan(&writers, &changes)
		return err == nil && writers == 1 && changes == 1
	})
}

// A store whose tables a later version has changed is unhealthy, though its server works.
func TestRun_TablesAreOfALaterVersion_IsUnhealthy(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	db := open(t, url, time.Now)
	if _, err := connect(t, url).Exec(t.Context(), `update ravenbot.format set number = number + 1`); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wg.Go(func() { db.Run(ctx, slog.New(slog.DiscardHandler)) })
	var newer *store.NewerError
	waitFor(t, func() bool { return errors.As(db.Health(), &newer) })
}

// The size is that of the tables, which are there from the start, and grows with what is stored.
func TestSize_GrowsWithTheRecords(t *testing.T) {
	t.Parallel()
	db := open(t, pgtest.Start(t), time.Now)
	before, free, err := db.Size()
	if err != nil || before <= 0 || free != 0 {
		t.Fatalf("an empty store has %d bytes, of which %d are free (%v)", before, free, err)
	}
	digits := rand.New(rand.NewPCG(1, 0))
	text := strings.Builder{}
	for range 20_000 { // what cannot be compressed
		fmt.Fprint(&text, digits.Uint64())
	}
	if err := put(t.Context(), db, notes, "a", text.String()); err != nil {
		t.Fatal(err)
	}
	if after, _, err := db.Size(); err != nil || after < before+100_000 {
		t.Errorf("with a large blob it has %d bytes, and %d before (%v)", after, before, err)
	}
}

// A cap of one session a day lets one begin, and one of none none.
func TestBeginIdentify_FewAreAllowed(t *testing.T) {
	r := joinReplica(t, pgtest.Start(t))
	for bot, maxPerDay := range map[string]int{"one": 1, "two": 2} {
		if _, err := r.JoinShards(t.Context(), bot, 1, 1); err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			wait, err := r.BeginIdentify(t.Context(), bot, n, maxPerDay)
			if err != nil || (wait > 0) != (n >= maxPerDay) {
				t.Errorf("session %d of %d waits for %v (%v)", n+1, maxPerDay, wait, err)
			}
		}
	}
}

// Who joins takes the number that the others use, unless that is less than it can do with.
func TestJoinShards_NumberIsJustEnough(t *testing.T) {
	url := pgtest.Start(t)
	first, second := joinReplica(t, url), joinReplica(t, url)
	if _, err := first.JoinShards(t.Context(), "bot", 4, 1); err != nil {
		t.Fatal(err)
	}
	for least, want := range []int{3: 4, 4: 4, 5: 8} {
		if least < 3 {
			continue
		}
		if n, err := second.JoinShards(t.Context(), "bot", 8, least); n != want || err != nil {
			t.Errorf("of at least %d shards: %d (%v), want %d", least, n, err, want)
		}
	}
}
