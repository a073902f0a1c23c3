package bolt

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/storetest"
)

// changeUncounted changes a store as no transaction of it does.
func changeUncounted(t *testing.T, db *TestStore, change func(tx *bbolt.Tx) error) {
	t.Helper()
	if err := db.bolt.Update(change); err != nil {
		t.Fatal(err)
	}
}

// Where the check finds that pages are wrong, nothing is written any more: it could be written over good records.
func TestCheckOpen_PagesAreGone_RefusesWrites(t *testing.T) {
	db := opened(t)
	saveTurns(t, db, general, 0, 700, time.Now())
	if err := os.Truncate(db.path, 4*4096); err != nil {
		t.Fatal(err)
	}
	var damaged *store.DamagedError
	faults, err := db.CheckOpen(t.Context())
	if err != nil || len(faults) == 0 || !errors.As(db.Health(), &damaged) {
		t.Fatalf("found %q (%v), health %v", faults, err, db.Health())
	}
	commits := db.Commits()
	if err := db.SaveBlob(t.Context(), "k", []byte(`1`)); !errors.As(err, &damaged) || db.Commits() != commits {
		t.Errorf("writing gave %v", err)
	}
	if _, err := db.Turns(t.Context(), general, store.Range{Newest: 1000}); !errors.As(err, &damaged) {
		t.Errorf("reading gave %v", err)
	}
	_ = db.leave() // the test is over
}

// The index of quotes says of a record of it that is no list that it is damaged, and nothing is added to it.
func TestSaveTurn_IndexOfQuotesIsNoList_IsDamage(t *testing.T) {
	for _, held := range []string{`{"conversation":"web:/general","seq":1}`, `[]`, ``} {
		db := opened(t)
		if err := db.update(t.Context(), func(tx *tx) error {
			return tx.top(quotesBucket).putSealed([]byte("web/q0"), seal(quotesBucket, []byte("web/q0"), []byte(held)))
		}); err != nil {
			t.Fatal(err)
		}
		before := dump(t, db)
		var damaged *store.DamagedError
		err := db.update(t.Context(), func(tx *tx) error {
			return tx.top(quotesBucket).appendTo([]byte("web/q0"), []byte(`{"seq":2}`))
		})
		if !errors.As(err, &damaged) || !strings.Contains(damaged.What, "web/q0") {
			t.Errorf("%q: %v", held, err)
		}
		if !slices.Equal(before, dump(t, db)) {
			t.Errorf("%q was changed", held)
		}
	}
}

// A store that is missing although one was made is what a check reports.
func TestCheck_FileIsMissing_IsDamage(t *testing.T) {
	db := opened(t)
	if err := errors.Join(db.Close(), os.Remove(db.path)); err != nil {
		t.Fatal(err)
	}
	var damaged *store.DamagedError
	r, err := Check(t.Context(), db.path)
	if !errors.As(err, &damaged) || !slices.Equal(r.Damage, []string{damaged.What}) {
		t.Errorf("found %q, %v", r.Damage, err)
	}
	for what, do := range map[string]func() error{
		"a backup":   func() error { return BackupFile(t.Context(), db.path, db.path+".backup") },
		"compacting": func() error { _, _, err := Compact(t.Context(), db.path, time.Now()); return err },
	} {
		if err := do(); !errors.As(err, &damaged) {
			t.Errorf("%s gave %v", what, err)
		}
	}
}

// A turn that is damaged is reported, and is deleted with what the indexes have of it where its time can be read.
func TestPrune_TurnIsDamaged_IsReportedAndDeleted(t *testing.T) {
	db := opened(t)
	began := time.Now().Add(-48 * time.Hour)
	turn := conversation.Turn{ID: "1", Of: []string{"web/1"}, Began: began}
	if err := db.SaveTurn(t.Context(), general, &turn); err != nil {
		t.Fatal(err)
	}
	// It can be read as far as its time, and not as a turn.
	if err := db.update(t.Context(), func(tx *tx) error {
		record := map[string]any{"began": began, "messages": "no list"}
		return tx.top(turnsBucket).nested(general.String()).put(seqKey(turn.Seq), record)
	}); err != nil {
		t.Fatal(err)
	}
	keep := store.Retention{Conversations: func(chat.Address) time.Duration { return time.Hour }}
	var damaged *store.DamagedError
	if _, err := db.Prune(t.Context(), keep); !errors.As(err, &damaged) {
		t.Errorf("pruning gave %v", err)
	}
	if left := dump(t, db); slices.ContainsFunc(left, func(r string) bool { return strings.Contains(r, "web/1") }) {
		t.Errorf("it has left %q", left)
	}
	if _, err := db.Prune(t.Context(), keep); err != nil {
		t.Errorf("pruning once more gave %v", err)
	}
}

// Wherever buckets of their own are expected.
func TestPrune_RecordInThePlaceOfABucket_IsReported(t *testing.T) {
	for _, top := range []string{seenBucket, messagesBucket, roomsBucket, roomFilesBucket} {
		db := opened(t)
		changeUncounted(t, db, func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(top)).Put([]byte("web:/general"), seal(top, []byte("web:/general"), []byte("{}")))
		})
		var damaged *store.DamagedError
		_, err := db.Prune(t.Context(), storetest.WeekIn("general"))
		if want := "a record is in the place of " + top; !errors.As(err, &damaged) || !strings.HasPrefix(damaged.What, want) ||
			len(db.Damage()) != 1 {
			t.Errorf("%s: pruning gave %v, damage %q", top, err, db.Damage())
		}
	}
}
