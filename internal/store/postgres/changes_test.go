package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/store/kv"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/testing/pgtest"
)

func changesOf(t *testing.T, db *postgres.DB) map[string]int64 {
	t.Helper()
	now, err := db.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func TestChanges_AreSeenByOthersAlone(t *testing.T) {
	url := pgtest.Start(t)
	here, there := open(t, url, time.Now), open(t, url, time.Now)
	for _, c := range []struct {
		what, kind string // kind: what is seen; "": nothing
		do         func(tx kv.Tx) error
	}{
		{"a note", "job", func(tx kv.Tx) error { return tx.Put(notes, "", "job/a", []byte("1")) }},
		{"a note again", "job", func(tx kv.Tx) error { return tx.Put(notes, "", "job/a", []byte("2")) }},
		{"the same note", "", func(tx kv.Tx) error {
			v, err := tx.Get(notes, "", "job/a")
			return errors.Join(err, tx.Put(notes, "", "job/a", v))
		}},
		{"two notes of a kind", "agent", func(tx kv.Tx) error {
			return errors.Join(tx.Put(notes, "", "agent/a", []byte("1")), tx.Put(notes, "", "agent/b", []byte("1")))
		}},
		{"no note", "job", func(tx kv.Tx) error { return tx.Delete(notes, "", "job/a") }},
		{"what is not announced", "", func(tx kv.Tx) error { return tx.Put(logs, "g", "a", []byte("1")) }},
		{"what was sent before the commit", "agent", func(tx kv.Tx) error {
			err := tx.Delete(notes, "", "agent/a")
			_, countErr := tx.Count(notes, "")
			return errors.Join(err, countErr)
		}},
	} {
		before := changesOf(t, there)
		if err := here.Update(t.Context(), kv.Write{}, c.do); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		after := changesOf(t, there)
		if c.kind != "" && after[c.kind] == before[c.kind] {
			t.Errorf("%s: nothing is seen of it", c.what)
		}
		for kind := range after {
			if kind != c.kind && after[kind] != before[kind] {
				t.Errorf("%s: a change of %q is seen", c.what, kind)
			}
		}
		if own := changesOf(t, here); len(own) > 0 {
			t.Errorf("%s: the process sees its own changes: %v", c.what, own)
		}
	}
}

// Writers of one kind do not wait for one another: each could be held up by a transaction that is not committed.
func TestChanges_OfManyWritersAtOnce(t *testing.T) {
	url := pgtest.Start(t)
	a, b := open(t, url, time.Now), open(t, url, time.Now)
	var wg sync.WaitGroup
	for w := range 8 {
		for _, db := range []*postgres.DB{a, b} {
			wg.Go(func() {
				for n := range 20 {
					name := string(rune('a'+w)) + string(rune('a'+n))
					if err := save(context.Background(), db, "job/"+name); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	before := changesOf(t, a)
	if err := save(t.Context(), b, "job/last"); err != nil {
		t.Fatal(err)
	}
	if after := changesOf(t, a); after["job"] == before["job"] {
		t.Error("the last change is not seen")
	}
}
