package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/testing/pgtest"
)

func TestOpen_SeveralAtOnceOnAnEmptyDatabase_AllComeUp(t *testing.T) {
	address := pgtest.Start(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			db, err := postgres.Open(t.Context(), address, postgres.Options{MaxConns: 2, Specs: specs})
			if err != nil {
				t.Error(err)
				return
			}
			err = save(t.Context(), db, "1")
			if err := errors.Join(err, db.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if v, err := read(t.Context(), open(t, address, time.Now), "1"); err != nil || v != "1" {
		t.Errorf("the note is %q (%v)", v, err)
	}
}

// password is one that has to be escaped in an address.
const password = "s3cret/@:#%word"

func TestOpen_WhatCannotBeUsed_IsSaidWithARemedyAndNoPassword(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, pgtest.Options{Password: password})
	exec := func(sql ...string) {
		t.Helper()
		for _, s := range sql {
			if err := c.Exec(t.Context(), "postgres", s); err != nil {
				t.Fatal(err)
			}
		}
	}
	exec("create database readonly", "alter database readonly set default_transaction_read_only = on",
		"create database ascii encoding 'SQL_ASCII' template template0",
		"create role poor login password '"+password+"'", "create database norights",
		"create database newer", "create database cut")
	as := func(user, secret, database string) string {
		u, err := url.Parse(c.URL(database))
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(user, secret)
		return u.String()
	}
	for _, database := range []string{"newer", "cut"} {
		db, err := postgres.Open(t.Context(), c.URL(database), postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for database, change := range map[string]string{"newer": "number = 1000", "cut": "state = 'incomplete'"} {
		if err := c.Exec(t.Context(), database, "update ravenbot.format set "+change); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ name, address, want string }{
		{"wrong password", as("ravenbot", password+"x", "postgres"), "refuses the user or the password"},
		{"unknown user", as("nobody", password, "postgres"), "refuses the user or the password"},
		{"missing database", c.URL("missing"), "there is no such database"},
		{"read-only", c.URL("readonly"), "takes no changes"},
		{"wrong encoding", c.URL("ascii"), "encoding UTF8"},
		{"no rights", as("poor", password, "norights"), "lacks rights"},
		{"newer", c.URL("newer"), "was made by a newer ravenbot"},
		{"cut migration", c.URL("cut"), "run ravenbot store migrate again"},
		{"nobody there", "postgres://ravenbot:" + url.QueryEscape(password) + "@127.0.0.1:1/x", "does not answer"},
		{"bad address", "postgres://ravenbot:" + password + "@127.0.0.1:1/x", "cannot be read"},
		{"a path", "data/raven.db", "postgres://USER:PASSWORD@HOST/DATABASE"},
	} {
		t.Run(test.name, func(t *testing.T) {
			db, err := postgres.Open(t.Context(), test.address, postgres.Options{})
			if err == nil {
				t.Fatal("it was opened: ", db.Close())
			}
			_, checked := postgres.Check(t.Context(), test.address, postgres.Options{})
			if checked == nil {
				t.Fatal("nothing is found wrong with it")
			}
			for text, want := range map[string]bool{test.want: true, "s3cret": false, url.QueryEscape(password): false} {
				if strings.Contains(err.Error(), text) != want || strings.Contains(checked.Error(), text) != want {
					t.Errorf("the errors have %q: %v, want %v: %v, %v", text, !want, want, err, checked)
				}
			}
			if isContext := errors.Is(err, context.DeadlineExceeded); isContext {
				t.Errorf("it took to the deadline: %v", err)
			}
		})
	}
}

// A server that refuses is not asked again: too many attempts with a wrong password may lock the user out.
func TestOpen_ServerRefuses_IsNotAskedAgain(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, pgtest.Options{Password: password})
	for name, change := range map[string]func(u *url.URL){
		"wrong password":   func(u *url.URL) { u.User = url.UserPassword("ravenbot", "wrong") },
		"missing database": func(u *url.URL) { u.Path = "/missing" },
	} {
		p, address := newProxy(t, c.URL("postgres"))
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		change(u)
		if db, err := postgres.Open(t.Context(), u.String(), postgres.Options{}); err == nil {
			t.Fatal("it was opened: ", db.Close())
		}
		if n := p.accepted.Load(); n != 1 {
			t.Errorf("%s: there were %d connections", name, n)
		}
	}
}

// The same holds where the password is changed while the bot works: who reads or writes learns of it at once.
func TestStore_PasswordIsChanged_IsNotAskedAgain(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, pgtest.Options{Password: password})
	p, address := newProxy(t, c.URL("postgres"))
	db := open(t, address, time.Now)
	if err := c.Exec(t.Context(), "postgres", `alter role ravenbot password 'another';
		select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'ravenbot'`); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"writing": func() error { return save(t.Context(), db, "name") },
		"reading": func() error { _, err := read(t.Context(), db, "name"); return err },
	} {
		before := p.accepted.Load()
		if err := do(); err == nil || !strings.Contains(err.Error(), "refuses the user or the password") {
			t.Errorf("%s gave %v", name, err)
		}
		if n := p.accepted.Load() - before; n != 1 {
			t.Errorf("%s: there were %d connections", name, n)
		}
	}
}

func TestOpen_ForAUserWhoOwnsTheSchemaAlone_Works(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, pgtest.Options{Password: password})
	for _, sql := range []string{"create role poor login password 'x'", "create schema ravenbot authorization poor"} {
		if err := c.Exec(t.Context(), "postgres", sql); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(c.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("poor", "x")
	open(t, u.String(), time.Now)
}

// The name of a database is the same at each open, and that of no other database of the same server. Without the right to
// ask for it there is none.
func TestID(t *testing.T) {
	t.Parallel()
	c := pgtest.NewCluster(t, pgtest.Options{})
	address, another := c.Database(t), c.Database(t)
	id := func(address string) string {
		t.Helper()
		id, err := open(t, address, time.Now).ID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	own := id(address)
	if own == "" || id(address) != own || id(another) == own {
		t.Errorf("%q, then %q, another one %q", own, id(address), id(another))
	}
	u, err := url.Parse(c.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"create role poor login", "create schema ravenbot authorization poor",
		"revoke execute on function pg_control_system() from public",
	} {
		if err := c.Exec(t.Context(), strings.TrimPrefix(u.Path, "/"), sql); err != nil {
			t.Fatal(err)
		}
	}
	u.User = url.User("poor")
	if got := id(u.String()); got != "" {
		t.Errorf("without the right it is %q", got)
	}
}

func TestCheck_ChangesNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	check := func(when, want string) {
		t.Helper()
		remark, err := postgres.Check(t.Context(), url, postgres.Options{})
		if err != nil || !strings.Contains(remark, want) || want == "" && remark != "" {
			t.Errorf("%s: %q, %v; want %q", when, remark, err, want)
		}
	}
	check("an empty database", "the first start makes its tables")
	check("an empty database again", "the first start makes its tables")
	if err := save(t.Context(), open(t, url, time.Now), "test"); err != nil {
		t.Fatal(err)
	}
	check("a database in use", "")
	conn := connect(t, url)
	if _, err := conn.Exec(t.Context(), "update ravenbot.format set number = 2"); err != nil {
		t.Fatal(err)
	}
	check("tables of an older version", "from format 2 to")
	var format int
	if err := conn.QueryRow(t.Context(), "select number from ravenbot.format").Scan(&format); err != nil || format != 2 {
		t.Errorf("the format is %d, %v", format, err)
	}
}

// A command of this version that is refused, since daemons of the version before use the database, leaves them the format
// that they know. When they are gone it brings the tables to its own.
func TestOpen_OlderDaemonIsConnected_FormatStays(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t)
	conn := connect(t, address)
	makeFormat(t, conn, 2)
	format := func() (n int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), "select number from ravenbot.format").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	older := connect(t, address+"&application_name=ravenbot")
	opens := map[string]func(context.Context, string, postgres.Options) (*postgres.DB, error){
		"alone": postgres.OpenAlone, "source": postgres.OpenSource, "target": postgres.OpenTarget,
	}
	var wg sync.WaitGroup
	for name, open := range opens {
		wg.Go(func() {
			var inUse *store.InUseError
			if _, err := open(t.Context(), address, postgres.Options{}); !errors.As(err, &inUse) {
				t.Errorf("%s: %v, want that the store is in use", name, err)
			}
		})
	}
	wg.Wait()
	if n := format(); n != 2 {
		t.Errorf("the format is %d, was 2", n)
	}
	if err := older.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alone", "source", "target"} {
		db, err := opens[name](t.Context(), address, postgres.Options{})
		if err != nil {
			t.Fatalf("%s: %v, when no daemon is connected", name, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := format(); n == 2 {
		t.Error("the format is still 2")
	}
}
