package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/store/postgres"
	"ravenbot/internal/testing/pgtest"
)

// setClock has what uses a database find its clock off by some seconds.
func setClock(t *testing.T, url string, seconds int) {
	t.Helper()
	name := url[strings.LastIndexByte(url, '/')+1:]
	name, _, _ = strings.Cut(name, "?")
	if _, err := connect(t, url).Exec(t.Context(), fmt.Sprintf(`
		create schema if not exists another;
		create or replace function another.clock_timestamp() returns timestamptz language sql volatile
			as $$ select pg_catalog.clock_timestamp() + interval '%d seconds' $$;
		alter database %s set search_path = another, pg_catalog`, seconds, name)); err != nil {
		t.Fatal(err)
	}
}

// The time is that of the server where the clock of this machine is another one, which is said; a difference that a time
// server leaves does not count. A clock that is set while the store is open is followed.
func TestNow_ClockOfMachineIsWrong_IsThatOfServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		seconds int
		said    string
	}{
		{300, "300 s behind"},
		{-7200, "7200 s ahead"},
		{4, ""},
		{-4, ""},
	} {
		url := pgtest.Start(t)
		setClock(t, url, c.seconds)
		db := open(t, url, time.Now)
		want := time.Duration(c.seconds) * time.Second
		if c.said == "" {
			want = 0
		}
		if off := time.Until(db.Now()); (off-want).Abs() > time.Second || !strings.Contains(db.Clock(), c.said) ||
			(c.said == "") != (db.Clock() == "") {
			t.Errorf("off by %d s: the time is off by %v, said is %q", c.seconds, off, db.Clock())
		}
	}
}

// Run says once that the clock is wrong, and once that it is right again.
func TestRun_ClockOfMachineIsWrong_IsLoggedOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	setClock(t, url, 300)
	var log lockedBuffer
	db, err := postgres.Open(t.Context(), url, postgres.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wg.Go(func() { db.Run(ctx, slog.New(slog.DiscardHandler)) })
	waitFor(t, func() bool { return strings.Contains(log.String(), "300 s behind") })
	setClock(t, url, 0)
	db.Reconnect() // settings of a database count for new connections
	waitFor(t, func() bool { return strings.Contains(log.String(), "agrees with the database's clock again") })
	if n := strings.Count(log.String(), "300 s behind"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
}
