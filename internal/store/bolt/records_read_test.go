package bolt

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/store"
	"ravenbot/internal/store/records"
)

// A store that a migration has begun to fill is refused by whoever else opens it, and is filled from the start by the
// next one. A store without records is filled, too.
func TestOpenTarget_BegunOrEmpty_IsFilledFromTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "target.db")
	fill := func(n int) *TestStore {
		t.Helper()
		db, err := OpenTarget(t.Context(), path, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		r := store.Record{Kind: blobsBucket, Key: fmt.Sprint("key", n), Body: []byte(`1`)}
		if err := records.NewTarget(db).AddRecords(t.Context(), []store.Record{r}); err != nil {
			t.Fatal(err)
		}
		return NewTestStore(db)
	}
	empty, err := OpenRecords(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	var inUse *store.InUseError
	if _, err := OpenTarget(t.Context(), path, time.Now); !errors.As(err, &inUse) {
		t.Errorf("filling a store in use gave %v", err)
	}
	if err := empty.Close(); err != nil {
		t.Fatal(err)
	}
	if err := fill(1).Close(); err != nil {
		t.Fatal(err)
	}
	var damaged *store.DamagedError
	if _, err := OpenRecords(path, time.Now); !errors.As(err, &damaged) || !strings.Contains(damaged.Remedy, "migrate again") {
		t.Errorf("opening a store that was begun gave %v", err)
	}
	db := fill(2)
	if err := db.Complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, err1 := db.LoadBlob(t.Context(), "key1")
	second, err2 := db.LoadBlob(t.Context(), "key2")
	if err := errors.Join(err1, err2); err != nil || first != nil || string(second) != "1" {
		t.Errorf("of the first try there is %q, of the second %q (%v)", first, second, err)
	}
	checkWhole(t, db)
}

// A record in the place of a bucket is not left out silently.
func TestRecords_RecordInThePlaceOfABucket_IsDamage(t *testing.T) {
	db := opened(t)
	changeUncounted(t, db, func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(itemsBucket))
		if err != nil {
			return err
		}
		return b.Put([]byte("kind"), seal(itemsBucket, []byte("kind"), []byte("{}")))
	})
	var damaged *store.DamagedError
	err := db.Records(t.Context(), func(store.Record) error { return nil })
	if !errors.As(err, &damaged) || !strings.Contains(damaged.What, `"kind"`) {
		t.Errorf("it returned %v", err)
	}
}

// A migration that is killed right after its beginning leaves what no daemon opens, and what the next one fills from the
// start, also where the log alone says so.
func TestOpenTarget_KilledAtOnce_IsOpenedByNobody(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, path string) *TestStore{
		"in the file": func(t *testing.T, path string) *TestStore {
			db, err := OpenTarget(t.Context(), path, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			return NewTestStore(db)
		},
		"before anything else": func(t *testing.T, path string) *TestStore {
			db, err := OpenRecords(path, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			if err := db.update(t.Context(), func(tx *tx) error {
				return tx.top(formatBucket).put([]byte(formatBucket), formatRecord{incompleteFormat})
			}); err != nil {
				t.Fatal(err)
			}
			return db
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "target.db")
			db := begin(t, path)
			saveBlob(t, db, "copied", 10)
			if err := db.leave(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				var damaged *store.DamagedError
				if other, err := OpenRecords(path, time.Now); err == nil {
					t.Fatal("it is opened: ", other.Close())
				} else if !errors.As(err, &damaged) || !strings.Contains(damaged.Remedy, "migrate again") {
					t.Errorf("opening it gave %v", err)
				}
			}
			target, err := OpenTarget(t.Context(), path, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			db = NewTestStore(target)
			if left, err := db.LoadBlob(t.Context(), "copied"); err != nil || left != nil {
				t.Errorf("of the first try there is %q (%v)", left, err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
