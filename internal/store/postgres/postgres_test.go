package postgres_test

import (
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/testing/kvtest"
	"ravenbot/internal/testing/pgtest"
)

// Whatever the defaults of the role or the database are: each of them differs from that of a new server.
func TestStore_KeepsTheContract(t *testing.T) {
	t.Parallel()
	settings := []string{"datestyle=SQL,DMY", "timezone=Asia/Kolkata", "bytea_output=escape", "intervalstyle=sql_standard",
		"standard_conforming_strings=off", "search_path=nowhere", "default_transaction_isolation=serializable",
		"client_encoding=LATIN1", "extra_float_digits=0", "lock_timeout=1"}
	options := strings.ReplaceAll(url.QueryEscape("-c "+strings.Join(settings, " -c ")), "+", "%20")
	kvtest.Run(t, func(t *testing.T) kv.DB { return open(t, pgtest.Start(t)+"&options="+options, time.Now) })
}

// Behind pgbouncer in transaction mode nothing may depend on which connection a transaction gets.
func TestStore_BehindAPooler_KeepsTheContract(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(t *testing.T) kv.DB { return open(t, pgtest.StartPooled(t), time.Now) })
}

// open opens a store that is closed when the test ends.
func open(tb testing.TB, url string, now func() time.Time) *postgres.DB {
	tb.Helper()
	db, err := postgres.Open(tb.Context(), url, postgres.Options{Now: now, Log: slog.New(slog.DiscardHandler), Specs: specs})
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

// Whatever opening a store comes to, no connection outlasts its use.
func TestConnections_AreClosed(t *testing.T) {
	url := pgtest.Start(t)
	r, conn := openReplica(t, url), connect(t, url)
	if _, err := r.Join(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	o := postgres.Options{Log: slog.New(slog.DiscardHandler)}
	<-r.Changed() // its connection for notices listens
	if err := errors.Join(save(t.Context(), r.DB, "a"), r.Close()); err != nil {
		t.Fatal(err)
	}
	none := func() {
		t.Helper()
		waitFor(t, func() bool {
			var n int
			err := conn.QueryRow(t.Context(), `select count(*) from pg_stat_activity
				where datname = current_database() and pid <> pg_backend_pid()`).Scan(&n)
			return err == nil && n == 0
		})
	}
	none()
	if remark, err := postgres.Check(t.Context(), url, o); remark != "" || err != nil {
		t.Fatalf("checking gave %q, %v", remark, err)
	}
	none()
	if _, err := postgres.OpenTarget(t.Context(), url, o); !errors.Is(err, store.ErrExists) {
		t.Fatalf("filling a store that holds something gave %v", err)
	}
	none()
	if _, err := conn.Exec(t.Context(), `update ravenbot.format set number = number + 1`); err != nil {
		t.Fatal(err)
	}
	var newer *store.NewerError
	if _, err := postgres.Open(t.Context(), url, o); !errors.As(err, &newer) {
		t.Fatalf("opening a store of a later version gave %v", err)
	}
	none()
}

// A pooler lends the connection to others after each transaction.
func TestConnections_KeepNoState(t *testing.T) {
	db := open(t, pgtest.Start(t), time.Now)
	for range 20 {
		if err := readAndWrite(t.Context(), db, "a", 1); err != nil {
			t.Fatal(err)
		}
	}
	if got := db.SessionState(t); got != "0 prepared, limits 0 and 0" {
		t.Errorf("a connection has %s", got)
	}
}
