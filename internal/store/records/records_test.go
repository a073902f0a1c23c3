package records_test

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/records"
	"ravenbot/internal/testing/pgtest"
	"ravenbot/internal/testing/storetest"
)

func TestStore_InAFile(t *testing.T) {
	storetest.Run(t, func(t *testing.T, now func() time.Time) store.Store {
		db, err := bolt.Open(filepath.Join(t.TempDir(), "raven.db"), now)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return records.New(db)
	})
}

func TestStore_InADatabase(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, now func() time.Time) store.Store {
		return openDatabase(t, pgtest.Start(t), now)
	})
}

// Behind pgbouncer in transaction mode nothing may depend on which connection a transaction gets.
func TestStore_InADatabaseBehindAPooler(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, now func() time.Time) store.Store {
		return openDatabase(t, pgtest.StartPooled(t), now)
	})
}

func openDatabase(t *testing.T, url string, now func() time.Time) *records.Store {
	t.Helper()
	db, err := postgres.Open(t.Context(), url,
		postgres.Options{Now: now, Log: slog.New(slog.DiscardHandler), Specs: records.Specs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return records.New(db)
}
