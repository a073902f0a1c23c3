package bolt

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/store"
)

// A store that a migration has begun to fill is refused by whoever else opens it, and is filled from the start by the
// next one. A store without records is filled, too.
func TestOpenTarget_BegunOrEmpty_IsFilledFromTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "target.db")
	fill := func(n int) *DB {
		t.Helper()
		db, err := OpenTarget(t.Context(), path, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		r := store.Record{Kind: "blob", Key: fmt.Sprint("key", n), Body: []byte(`1`)}
		if err := db.AddRecords(t.Context(), []store.Record{r}); err != nil {
			t.Fatal(err)
		}
		return db
	}
	empty, err := Open(path, time.Now)
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
	if _, err := Open(path, time.Now); !errors.As(err, &damaged) || !strings.Contains(damaged.Remedy, "migrate again") {
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

// Whoever reads all records gets each of them once, however many there are, and ends where they want.
func TestRecords_ManyOrLarge_AreReadOnceUpToTheFirstError(t *testing.T) {
	db := opened(t)
	const n = 2*maxRead + 1
	if err := db.update(t.Context(), func(tx *tx) error {
		var err error
		for i := range n {
			err = errors.Join(err, tx.top(blobsBucket).put(seqKey(uint64(i)), i))
		}
		for i := range 3 {
			err = errors.Join(err, tx.top(feedsBucket).put(seqKey(uint64(i)), string(repeatX(maxReadBytes*2/3))))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	if err := db.Records(t.Context(), func(r store.Record) error { found[r.Kind+r.Key]++; return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if found["blob"+string(seqKey(uint64(i)))] != 1 || i < 3 && found["feed"+string(seqKey(uint64(i)))] != 1 {
			t.Fatalf("record %d was read %d times", i, found["blob"+string(seqKey(uint64(i)))])
		}
	}
	over, cancel := context.WithCancel(t.Context())
	for what, c := range map[string]struct {
		ctx  context.Context
		fn   func() error // called with the seventh record
		want error
	}{
		"an error":               {t.Context(), func() error { return errStop }, errStop},
		"the end of the context": {over, func() error { cancel(); return nil }, context.Canceled},
	} {
		calls := 0
		err := db.Records(c.ctx, func(store.Record) error {
			if calls++; calls == 7 {
				return c.fn()
			}
			return nil
		})
		if !errors.Is(err, c.want) || calls > 8 {
			t.Errorf("%s: %d records were read (%v)", what, calls, err)
		}
	}
}

// Entries of indexes whose conversation is gone are no records any more: a store that checks what an index refers to
// would refuse them.
func TestRecords_IndexEntryOfNoConversation_IsLeftOut(t *testing.T) {
	db := opened(t)
	saveTurns(t, db, general, 0, 1, time.Now())
	gone := store.TurnRef{Conversation: room(1), Seq: 1}
	here := store.TurnRef{Conversation: general, Seq: 1}
	if err := db.update(t.Context(), func(tx *tx) error {
		places, quotes := tx.top(messageTurnsBucket), tx.top(quotesBucket)
		return errors.Join(places.put([]byte("gone"), gone), places.put([]byte("here"), here),
			quotes.put([]byte("gone"), []store.TurnRef{gone, gone}), quotes.put([]byte("here"), []store.TurnRef{gone, here}))
	}); err != nil {
		t.Fatal(err)
	}
	var found []string
	if err := db.Records(t.Context(), func(r store.Record) error {
		if r.Key == "gone" || r.Key == "here" {
			found = append(found, r.Kind+" "+r.Key)
		}
		return nil
	}); err != nil || !slices.Equal(found, []string{"messageTurn here", "quote here"}) {
		t.Errorf("read %q (%v)", found, err)
	}
	// One that cannot be understood is not taken for either.
	for _, bucket := range []string{messageTurnsBucket, quotesBucket} {
		if err := db.update(t.Context(), func(tx *tx) error { return tx.top(bucket).put([]byte("odd"), 7) }); err != nil {
			t.Fatal(err)
		}
		if err := db.Records(t.Context(), func(store.Record) error { return nil }); err == nil {
			t.Errorf("an entry of %s that is a number is read", bucket)
		}
		if err := db.update(t.Context(), func(tx *tx) error { return tx.top(bucket).delete([]byte("odd")) }); err != nil {
			t.Fatal(err)
		}
	}
}

// A record in the place of a bucket is not left out silently.
func TestRecords_RecordInThePlaceOfABucket_IsDamage(t *testing.T) {
	db := opened(t)
	changeUncounted(t, db, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(itemsBucket)).Put([]byte("kind"), seal(itemsBucket, []byte("kind"), []byte("{}")))
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
	for name, begin := range map[string]func(t *testing.T, path string) *DB{
		"in the file": func(t *testing.T, path string) *DB {
			db, err := OpenTarget(t.Context(), path, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			return db
		},
		"before anything else": func(t *testing.T, path string) *DB {
			db, err := Open(path, time.Now)
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
				if other, err := Open(path, time.Now); err == nil {
					t.Fatal("it is opened: ", other.Close())
				} else if !errors.As(err, &damaged) || !strings.Contains(damaged.Remedy, "migrate again") {
					t.Errorf("opening it gave %v", err)
				}
			}
			db, err := OpenTarget(t.Context(), path, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			if left, err := db.LoadBlob(t.Context(), "copied"); err != nil || left != nil {
				t.Errorf("of the first try there is %q (%v)", left, err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// However large they are, the records that one transaction reads take little memory.
func TestReadSome_LargeRecords_AreReadInParts(t *testing.T) {
	db := opened(t)
	for _, key := range []string{"a", "b", "c"} {
		saveBlob(t, db, key, maxReadBytes/2)
	}
	if err := db.view(func(tx *tx) error {
		list, after, err := db.readSome(tx, tx.top(blobsBucket), store.Record{}, nil, nil)
		if len(list) != 2 || string(after) != "b" {
			t.Errorf("%d records up to %q", len(list), after)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
