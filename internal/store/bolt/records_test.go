package bolt

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
	"ravenbot/internal/store/records"
	"ravenbot/internal/testing/storetest"
)

// fillWithSpace writes records of all kinds, and deletes some.
func fillWithSpace(t *testing.T, db *TestStore) {
	t.Helper()
	for i, name := range []string{"general", "keep", "gone"} {
		a := chat.Address{Platform: "web", Channel: name}
		storetest.SayEverywhere(t, db, a, "first"+name, "words of "+name, db.now())
		saveTurns(t, db, a, 10_000*(i+1), 10_000*(i+1)+400, db.now())
	}
	if err := db.DeleteConversation(t.Context(), chat.Address{Platform: "web", Channel: "gone"}); err != nil {
		t.Fatal(err)
	}
}

// What Records reads and AddRecords stores is the whole store, indexes included.
func TestRecords_AddedToAnotherStore_AreAllOfThem(t *testing.T) {
	db := opened(t)
	fillWithSpace(t, db)
	path := filepath.Join(t.TempDir(), "other.db")
	engine, err := OpenTarget(t.Context(), path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	to := NewTestStore(engine)
	if err := db.Records(t.Context(), func(r store.Record) error {
		return records.NewTarget(engine).AddRecords(t.Context(), []store.Record{r})
	}); err != nil {
		t.Fatal(err)
	}
	if again, err := OpenRecords(path, time.Now); err == nil {
		t.Error("a store that is not filled yet can be opened", again.Close())
	}
	if err := to.Complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(recordsOf(t, db), recordsOf(t, to)); diff != "" {
		t.Error(diff)
	}
	// Numbers count on from where they were.
	next := func(db *TestStore) (turn, line uint64) {
		t.Helper()
		saved := &conversation.Turn{ID: "next", Began: time.Now()}
		entry, err := db.SaveEntry(t.Context(), store.Entry{ID: "next", Room: "general"})
		if err := errors.Join(err, db.SaveTurn(t.Context(), general, saved)); err != nil {
			t.Fatal(err)
		}
		return saved.Seq, entry.Seq
	}
	wantTurn, wantLine := next(db)
	if turn, line := next(to); turn != wantTurn || line != wantLine || turn == 1 || line == 1 {
		t.Errorf("the next turn is %d and the next line %d, want %d and %d", turn, line, wantTurn, wantLine)
	}
	checkWhole(t, to)
	if _, err := OpenTarget(t.Context(), path, time.Now); !errors.Is(err, store.ErrExists) {
		t.Errorf("filling it once more gave %v", err)
	}
}

// recordsOf returns what dump does, without the sequences, of which some are no longer used.
func recordsOf(t *testing.T, db *TestStore) []string {
	t.Helper()
	return slices.DeleteFunc(dump(t, db), func(s string) bool { return strings.Contains(s, " counts on from ") })
}

// A store that could not be begun is closed, so that the next attempt finds it free.
func TestOpenTarget_FormatNotWritten_StoreIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raven.db")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if db, err := OpenTarget(cancelled, path, time.Now); !errors.Is(err, context.Canceled) || db != nil {
		t.Fatalf("%v, %v", db, err)
	}
	db, err := OpenTarget(t.Context(), path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
