package postgres_test

import (
	"log/slog"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/postgres/pgtest"
	"ravenbot/internal/store/storetest"
)

func TestStore_KeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, now func() time.Time) store.Store { return open(t, pgtest.Start(t), now) })
}

// Behind pgbouncer in transaction mode nothing may depend on which connection a transaction gets.
func TestStore_BehindAPooler_KeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, now func() time.Time) store.Store { return open(t, pgtest.StartPooled(t), now) })
}

// open opens a store that is closed when the test ends.
func open(tb testing.TB, url string, now func() time.Time) *postgres.DB {
	tb.Helper()
	db, err := postgres.Open(tb.Context(), url, postgres.Options{Now: now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return db
}

// A pooler lends the connection to others after each transaction.
func TestConnections_KeepNoState(t *testing.T) {
	db := open(t, pgtest.Start(t), time.Now)
	for n := range 20 {
		if err := oneAnswer(t.Context(), db, 0, n); err != nil {
			t.Fatal(err)
		}
	}
	if got := db.SessionState(t); got != "0 prepared, limits 0 and 0" {
		t.Errorf("a connection has %s", got)
	}
}
