package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/postgres/pgtest"
	"ravenbot/internal/store/storetest"
)

// What Records reads and AddRecords stores is the whole store.
func TestRecords_AddedToAnotherDatabase_AreAllOfThem(t *testing.T) {
	ctx, address := t.Context(), pgtest.Start(t)
	o := postgres.Options{Now: func() time.Time { return changeTime }, Log: slog.New(slog.DiscardHandler)}
	db := open(t, pgtest.Start(t), o.Now)
	storetest.Fill(t, db, changeTime)
	to, err := postgres.OpenTarget(ctx, address, o)
	if err != nil {
		t.Fatal(err)
	}
	before := recordsOf(t, db)
	if err := db.Records(ctx, func(r store.Record) error { return to.AddRecords(ctx, []store.Record{r}) }); err != nil {
		t.Fatal(err)
	}
	damaged := (*store.DamagedError)(nil)
	if _, err := postgres.Open(ctx, address, o); !errors.As(err, &damaged) {
		t.Errorf("opening a store that is not filled yet gave %v", err)
	}
	if err := to.Complete(ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, recordsOf(t, to)); diff != "" {
		t.Errorf("records (-before +after):\n%s", diff)
	}
	// What is counted is no record.
	if diff := cmp.Diff(countsOf(t, db), countsOf(t, to)); diff != "" {
		t.Errorf("conversations (-before +after):\n%s", diff)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.OpenTarget(ctx, address, o); !errors.Is(err, store.ErrExists) {
		t.Errorf("filling it once more gave %v", err)
	}
}

// Whoever reads records may end it at any of them, and it is no success then.
func TestRecords_ReaderFails_ReturnsItsError(t *testing.T) {
	db := open(t, pgtest.Start(t), func() time.Time { return changeTime })
	storetest.Fill(t, db, changeTime)
	kinds := map[string]bool{}
	if err := db.Records(t.Context(), func(r store.Record) error { kinds[r.Kind] = true; return nil }); err != nil {
		t.Fatal(err)
	}
	for kind := range kinds {
		stop := errors.New("enough")
		err := db.Records(t.Context(), func(r store.Record) error {
			if r.Kind == kind {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) {
			t.Errorf("ended at a %s: %v", kind, err)
		}
	}
}

// A record that cannot be read, and has to be to be carried to another store, ends that.
func TestRecords_RecordIsDamaged_SaysSo(t *testing.T) {
	url := pgtest.Start(t)
	db, conn := open(t, url, func() time.Time { return changeTime }), connect(t, url)
	storetest.Fill(t, db, changeTime)
	read := func(record string) error {
		t.Helper()
		if _, err := conn.Exec(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		return db.Records(t.Context(), func(store.Record) error { return nil })
	}
	for _, table := range []string{"feeds", "subscriptions", "room_files"} {
		if err := read(`alter table ravenbot.` + table + ` add kept json`); err != nil {
			t.Fatal(err)
		}
		if err := read(`update ravenbot.` + table + ` set kept = record, record = '7'`); err == nil {
			t.Errorf("records of %s that are numbers are read", table)
		}
		if err := read(`update ravenbot.` + table + ` set record = kept`); err != nil {
			t.Fatal(err)
		}
	}
}

// A record that is none of its kind is refused where its columns are made of what it holds.
func TestAddRecords_BodyIsOfNoKind_IsRefused(t *testing.T) {
	ctx := t.Context()
	db := open(t, pgtest.Start(t), func() time.Time { return changeTime })
	storetest.Fill(t, db, changeTime)
	to := open(t, pgtest.Start(t), func() time.Time { return changeTime })
	isWhole := map[string]bool{"summary": true, "run": true, "setting": true, "blob": true, "item": true}
	if err := db.Records(ctx, func(r store.Record) error {
		r.Body = []byte(`7`)
		if err := to.AddRecords(ctx, []store.Record{r}); err == nil && !isWhole[r.Kind] {
			t.Errorf("a %s may be a number", r.Kind)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// countsOf returns the list of conversations, and for each the versions of its channel.
func countsOf(t *testing.T, db *postgres.DB) (all []string) {
	t.Helper()
	list, _, err := db.Conversations(t.Context(), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		all = append(all, fmt.Sprint(c.Address, c.Turns, c.Last))
		versions, err := db.Versions(t.Context(), c.Address)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range versions {
			all = append(all, fmt.Sprint(v.Address, v.Turns, v.Messages != 0))
		}
	}
	return all
}

// A database that a daemon is connected to is neither read nor filled.
func TestOpenSourceAndTarget_DaemonIsConnected_AreRefused(t *testing.T) {
	t.Parallel()
	address := pgtest.Start(t)
	db := open(t, address, time.Now)
	if err := db.SaveBlob(t.Context(), "a", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for name, open := range map[string]func(context.Context, string, postgres.Options) (*postgres.DB, error){
		"source": postgres.OpenSource, "target": postgres.OpenTarget,
	} {
		wg.Go(func() {
			var inUse *store.InUseError
			if _, err := open(t.Context(), address, postgres.Options{}); !errors.As(err, &inUse) {
				t.Errorf("opened as a %s: %v", name, err)
			}
		})
	}
	wg.Wait()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	source, err := postgres.OpenSource(t.Context(), address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(recordsOf(t, source)); n == 0 {
		t.Error("nothing is read")
	}
	if err := source.Close(); err != nil {
		t.Error(err)
	}
}

// recordsOf returns all records of a store, in order.
func recordsOf(t *testing.T, db *postgres.DB) (all []string) {
	t.Helper()
	if err := db.Records(t.Context(), func(r store.Record) error {
		all = append(all, fmt.Sprintf("%s %q %q %d %s", r.Kind, r.Group, r.Key, r.Seq, r.Body))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// What the role or the database allow a statement does not end what takes as long as the store is large: its migration to
// another format, and reading all of it.
func TestMigrateAndRecords_TakeLongerThanTheRoleAllows_AreDone(t *testing.T) {
	ctx, address := t.Context(), pgtest.Start(t)
	db, conn := open(t, address+"&options=-c%20statement_timeout%3D200%20-c%20lock_timeout%3D100", time.Now), connect(t, address)
	if err := postgres.MigrateBy(ctx, db, `select pg_sleep(0.5)`); err != nil {
		t.Errorf("a step of a migration: %v", err)
	}
	if _, err := conn.Exec(ctx, `begin; lock table ravenbot.turns`); err != nil {
		t.Fatal(err)
	}
	released := make(chan error, 1)
	go func() {
		_, err := conn.Exec(ctx, `select pg_sleep(0.5); commit`)
		released <- err
	}()
	if err := db.Records(ctx, func(store.Record) error { return nil }); err != nil {
		t.Errorf("reading all records: %v", err)
	}
	if err := <-released; err != nil {
		t.Error(err)
	}
}
