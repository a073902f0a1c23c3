package bolt

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/storetest"
)

var general = chat.Address{Platform: "web", Channel: "general"}

// saveTurns stores turns that answer a message each, and quote another, in few transactions.
func saveTurns(t *testing.T, db *TestStore, a chat.Address, from, to int, began time.Time) {
	t.Helper()
	for n := from; n < to; n++ {
		turn := &conversation.Turn{ID: fmt.Sprint(n), Of: []string{fmt.Sprint("web/", n)}, Began: began,
			Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "hello", Subject: fmt.Sprint("web/q", n)}}}}}
		if err := db.SaveTurn(t.Context(), a, turn); err != nil {
			t.Fatal(err)
		}
	}
}

// maxDeleted is how many records a transaction of maintenance deletes, those of indexes apart.
const maxDeleted = 200

// checkSplit fails unless do takes at least some transactions.
func checkSplit(t *testing.T, db *TestStore, atLeast uint64, do func() error) {
	t.Helper()
	before := db.Commits()
	if err := do(); err != nil {
		t.Fatal(err)
	}
	if n := db.Commits() - before; n < atLeast {
		t.Errorf("it took %d transactions, want at least %d", n, atLeast)
	}
}

func TestPrune_DeletesInSmallTransactions(t *testing.T) {
	now := time.Now()
	db := openAt(t, func() time.Time { return now })
	saveTurns(t, db, general, 0, 800, now)
	var keys []string
	for n := range 1600 {
		keys = append(keys, fmt.Sprint(n))
	}
	if err := db.SaveAnswer(t.Context(), general, keys, nil, nil); err != nil {
		t.Fatal(err)
	}
	now = now.Add(30 * 24 * time.Hour)
	checkSplit(t, db, 1600/maxDeleted+800/maxDeleted, func() error {
		_, err := db.Prune(t.Context(), storetest.WeekIn("general"))
		return err
	})
	if has, err := db.HasConversation(t.Context(), general); has || err != nil {
		t.Errorf("the conversation is there: %v (%v)", has, err)
	}
	checkWhole(t, db)
}

func TestDeleteConversation_DeletesInSmallTransactions(t *testing.T) {
	db := opened(t)
	saveTurns(t, db, general, 0, 800, time.Now())
	if _, err := db.SaveMessages(t.Context(), messages(1200)); err != nil {
		t.Fatal(err)
	}
	checkSplit(t, db, (800+1200)/maxDeleted, func() error { return db.DeleteConversation(t.Context(), general) })
	if err := db.DeleteConversation(t.Context(), general); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleting it again: %v", err)
	}
	checkWhole(t, db)
}

func messages(n int) []store.Message {
	var list []store.Message
	for i := range n {
		list = append(list, store.Message{Conversation: general, ID: fmt.Sprint(i), At: time.Unix(int64(i), 0)})
	}
	return list
}

// What a crash, or an end of the program, leaves of a deleted conversation goes when it is deleted again. A turn that
// begins meanwhile stays.
func TestDeleteConversation_CutShort_IsEndedByTheNextOne(t *testing.T) {
	db := opened(t)
	saveTurns(t, db, general, 0, 800, time.Now())
	if err := db.SaveSummary(t.Context(), general, conversation.Summary{Upto: 1, Text: "words"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	changes := 0
	db.observe = func(*tx) {
		if changes++; changes == 2 { // the first deletes the summary
			cancel()
		}
	}
	if err := db.DeleteConversation(ctx, general); !errors.Is(err, context.Canceled) {
		t.Fatalf("the deletion was not cut short: %v", err)
	}
	db.observe = nil
	db = reopen(t, db)
	if s, err := db.Summary(t.Context(), general); err != nil || s.Text != "" {
		t.Errorf("the summary is %q (%v)", s.Text, err)
	}
	if err := db.DeleteConversation(t.Context(), general); err != nil {
		t.Fatal(err)
	}
	if has, err := db.HasConversation(t.Context(), general); has || err != nil {
		t.Errorf("the conversation is there: %v (%v)", has, err)
	}
	for _, subject := range []string{"web/0", "web/799"} {
		if _, known, err := db.ConversationOf(t.Context(), subject); known || err != nil {
			t.Errorf("message %s is known: %v (%v)", subject, known, err)
		}
	}
	checkWhole(t, db)
}

// A deletion and a turn of the same conversation may share a transaction.
func TestDeleteConversation_BesideWriters_KeepsTheStoreWhole(t *testing.T) {
	db := opened(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 200 {
			turn := &conversation.Turn{ID: fmt.Sprint(i), Of: []string{fmt.Sprint("web/", i)}}
			if err := db.SaveTurn(t.Context(), general, turn); err != nil {
				t.Error(err)
			}
		}
	}()
	for deleting := true; deleting; {
		if err := db.DeleteConversation(t.Context(), general); err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		select {
		case <-done:
			deleting = false
		default:
		}
	}
	checkWhole(t, db)
}

// TestPrune_LeavesNoWordInAnyRecord looks through the records themselves, whatever they are.
func TestPrune_LeavesNoWordInAnyRecord(t *testing.T) {
	now := time.Now()
	db := openAt(t, func() time.Time { return now })
	storetest.SayEverywhere(t, db, general, "old", "marker-of-old", now)
	if n := countRecords(t, db, "marker-of-old"); n < 9 {
		t.Fatalf("the words are in %d records only", n)
	}
	now = now.Add(8 * 24 * time.Hour)
	storetest.SayEverywhere(t, db, general, "young", "marker-of-young", now)
	if _, err := db.Prune(t.Context(), storetest.WeekIn("general")); err != nil {
		t.Fatal(err)
	}
	if n := countRecords(t, db, "marker-of-old"); n > 0 {
		t.Errorf("the words are still in %d records", n)
	}
	if n := countRecords(t, db, "marker-of-young"); n < 9 {
		t.Errorf("what is not over its time is in %d records only", n)
	}
	checkWhole(t, db)
}

// countRecords returns how many records of all buckets hold a word.
func countRecords(t *testing.T, db *TestStore, word string) (n int) {
	t.Helper()
	inFiles := base64.StdEncoding.EncodeToString([]byte(word))
	var visit func(b *bbolt.Bucket) error
	visit = func(b *bbolt.Bucket) error {
		return b.ForEach(func(k, v []byte) error {
			if v == nil {
				return visit(b.Bucket(k))
			}
			if text := string(k) + string(v); strings.Contains(text, word) || strings.Contains(text, inFiles) {
				n++
			}
			return nil
		})
	}
	if err := db.bolt.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error { return visit(b) })
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func repeatX(n int) []byte { return bytes.Repeat([]byte("x"), n) }

func openAt(t *testing.T, now func() time.Time) *TestStore {
	t.Helper()
	db, err := OpenRecords(filepath.Join(t.TempDir(), "raven.db"), now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func reopen(t *testing.T, db *TestStore) *TestStore {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenRecords(db.path, db.now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	return again
}

// checkWhole closes the store and fails where a record is missing, unexpected or wrong.
func checkWhole(t *testing.T, db *TestStore) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := Check(t.Context(), db.path); err != nil {
		t.Errorf("%v\n%+v", err, r)
	}
}

// A backup reads all of the store, which need not be checked again so soon.
func TestBackup_CountsAsACheck(t *testing.T) {
	now := time.Now()
	db := openAt(t, func() time.Time { return now })
	now = now.Add(time.Hour)
	if err := db.Backup(t.Context(), filepath.Join(t.TempDir(), "copy.db")); err != nil {
		t.Fatal(err)
	}
	if !db.Checked().Equal(now) {
		t.Errorf("the store counts as checked at %v, want %v", db.Checked(), now)
	}
}

// A backup of a store that a disk has spoiled is no backup.
func TestBackup_OfASpoiledRecord_FailsAndLeavesNothing(t *testing.T) {
	db := opened(t)
	if err := db.SaveBlob(t.Context(), "words", []byte(`"spoiled by a disk"`)); err != nil {
		t.Fatal(err)
	}
	flipByte(t, db.path, "spoiled by")
	to := filepath.Join(t.TempDir(), "copy.db")
	var damaged *store.DamagedError
	if err := db.Backup(t.Context(), to); !errors.As(err, &damaged) {
		t.Errorf("the backup gave %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(to)); err != nil || len(left) > 0 {
		t.Errorf("it left %v (%v)", left, err)
	}
}
