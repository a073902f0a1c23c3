package postgres_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres/pgtest"
)

// TestOpen_PrimaryThatWasReplaced_IsNotUsed: a primary that failed, whose standby was promoted, and that came back takes
// changes as before. What is written to it would be missing in the other one.
func TestOpen_PrimaryThatWasReplaced_IsNotUsed(t *testing.T) {
	t.Parallel()
	first := pgtest.NewCluster(t, pgtest.Options{})
	address := first.Database(t)
	if err := open(t, address, time.Now).SaveBlob(t.Context(), "before", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	second := first.NewStandby(t)
	both, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	database := strings.TrimPrefix(both.Path, "/")
	both.Host = first.Address() + "," + second.Address()
	both.RawQuery += "&target_session_attrs=read-write"
	running := open(t, both.String(), time.Now)

	if err := errors.Join(first.Kill(), second.Promote(), running.SaveBlob(t.Context(), "promoted", []byte(`{}`)),
		first.Start()); err != nil {
		t.Fatal(err)
	}
	const disconnect = `select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname is
		not null`
	started := open(t, both.String(), time.Now)
	if err := errors.Join(second.Exec(t.Context(), database, disconnect),
		running.SaveBlob(t.Context(), "running", []byte(`{}`)),
		started.SaveBlob(t.Context(), "started", []byte(`{}`))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		server *pgtest.Cluster
		want   bool
	}{{first, false}, {second, true}} {
		db := open(t, c.server.URL(database), time.Now)
		for _, name := range []string{"promoted", "running", "started"} {
			if data, err := db.LoadBlob(t.Context(), name); err != nil || (data != nil) != c.want {
				t.Errorf("%s: %q, %v; in the second server: %t", name, data, err, c.want)
			}
		}
	}

	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	err = running.SaveBlob(t.Context(), "alone", []byte(`{}`))
	if e, ok := errors.AsType[*store.SystemError](err); !ok || !e.Passing || !strings.Contains(e.What, "has replaced") {
		t.Errorf("with the first server alone: %v", err)
	}
}
