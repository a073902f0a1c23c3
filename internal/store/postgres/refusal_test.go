package postgres_test

import (
	"errors"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/testing/pgtest"
)

// newPoorUser returns the address of a database for a user to whom limits of connections apply, and one for whoever
// changes these.
func newPoorUser(t *testing.T) (poor, admin string) {
	t.Helper()
	c := pgtest.NewCluster(t, pgtest.Options{Password: password})
	admin = c.URL("postgres")
	const sql = `create role poor login password 'x'; create schema ravenbot authorization poor`
	if err := c.Exec(t.Context(), "postgres", sql); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("poor", "x")
	return u.String(), admin
}

// A server that accepts no further connection would not replace those that there are: they stay in use.
func TestStore_FurtherConnectionIsRefused_KeepsTheOthers(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]string{
		"none is left":            `alter role poor connection limit 1`,
		"the password is another": `alter role poor password 'another'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, admin := newPoorUser(t)
			db, locking, conn := open(t, address, time.Now), connect(t, admin), connect(t, admin)
			connection := func(where string) (pid int) {
				t.Helper()
				err := conn.QueryRow(t.Context(), `select coalesce(min(pid), 0) from pg_stat_activity
					where usename = 'poor' and `+where).Scan(&pid)
				if err != nil {
					t.Fatal(err)
				}
				return pid
			}
			if _, err := conn.Exec(t.Context(), refuse); err != nil {
				t.Fatal(err)
			}
			if _, err := locking.Exec(t.Context(), "begin; lock table ravenbot.c_notes"); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 2)
			go func() { _, err := read(t.Context(), db, "name"); done <- err }()
			waitFor(t, func() bool { return connection("wait_event_type = 'Lock'") != 0 })
			first := connection("true")
			go func() { done <- save(t.Context(), db, "name") }()
			waitFor(t, func() bool { return db.Health() != nil })
			if _, err := locking.Exec(t.Context(), "rollback"); err != nil {
				t.Fatal(err)
			}
			<-done
			<-done
			if _, err := read(t.Context(), db, "name"); err != nil || connection("true") != first {
				t.Errorf("reading afterwards: %v, over connection %d instead of %d", err, connection("true"), first)
			}
		})
	}
}

// A process that cannot renew its time does not join: what it accepts would wait for others to inherit it.
func TestMembership_NoConnectionForRenewals_IsPassing(t *testing.T) {
	t.Parallel()
	address, admin := newPoorUser(t)
	db, err := postgres.Open(t.Context(), address, postgres.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := connect(t, admin).Exec(t.Context(), `alter role poor connection limit 1`); err != nil {
		t.Fatal(err)
	}
	_, err = db.Membership(t.Context())
	if trouble, ok := errors.AsType[*store.SystemError](err); !ok || !trouble.Passing {
		t.Errorf("the membership returned %v", err)
	}
}
