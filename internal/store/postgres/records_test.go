package postgres_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
