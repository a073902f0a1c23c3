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
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/storetest"
)

var general = chat.Address{Platform: "web", Channel: "general"}

// saveTurns stores turns that answer a message each, and quote another, in few transactions.
func saveTurns(t *testing.T, db *DB, a chat.Address, from, to int, began time.Time) {
	t.Helper()
	for i := from; i < to; i += 200 {
		err := db.update(t.Context(), func(tx *tx) error {
			for n := i; n < min(to, i+200); n++ {
				turn := &conversation.Turn{ID: fmt.Sprint(n), Of: []string{fmt.Sprint("web/", n)}, Began: began,
					Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "hello", Subject: fmt.Sprint("web/q", n)}}}}}
				if err := db.putTurn(tx, a, turn); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFindOldTurns_StopsAfterSoMany: one read transaction looks at a limited number of turns, and the next one goes on behind
// them.
func TestFindOldTurns_StopsAfterSoMany(t *testing.T) {
	db := opened(t)
	var all []chat.Address
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, chat.Address{Platform: "web", Channel: name})
		saveTurns(t, db, all[len(all)-1], 0, maxLooked*6/10, time.Now().Add(-time.Hour))
	}
	p := &pruner{db: db, ctx: t.Context(), now: time.Now(), changed: map[chat.Address]bool{},
		keep: store.Retention{Conversations: func(chat.Address) time.Duration { return time.Minute }}}
	var got [][]chat.Address
	for after, done := []byte(nil), false; !done; {
		if err := db.view(func(tx *tx) error {
			found, last, err := p.findOldTurns(tx, turnsBucket, after)
			var list []chat.Address
			for _, o := range found {
				list = append(list, o.address)
			}
			got = append(got, list)
			after, done = last, last == nil
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([][]chat.Address{all[:2], all[2:]}, got); diff != "" {
		t.Error(diff)
	}
}

// deletions returns the numbers of records that transactions delete from now on.
func deletions(db *DB) *[]int {
	var list []int
	db.observe = func(tx *tx) {
		if tx.deleted > 0 {
			list = append(list, tx.deleted)
		}
	}
	return &list
}

// checkSizes fails where a transaction deleted more than one may, and those of a last record in the
// indexes.
func checkSizes(t *testing.T, list []int, atLeast int) {
	t.Helper()
	if len(list) < atLeast {
		t.Errorf("%d transactions deleted %v, want at least %d", len(list), list, atLeast)
	}
	for _, n := range list {
		if n > maxDeleted+3 {
			t.Errorf("a transaction deleted %d records", n)
		}
	}
}

func TestPrune_DeletesInSmallTransactions(t *testing.T) {
	now := time.Now()
	db := openAt(t, func() time.Time { return now })
	saveTurns(t, db, general, 0, 800, now)
	for i := 0; i < 1600; i += 200 {
		if err := db.update(t.Context(), func(tx *tx) error {
			for n := i; n < i+200; n++ {
				if err := tx.top(doneBucket).put(messageDoneKey(fmt.Sprint(n)), doneRecord{Done: now}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(30 * 24 * time.Hour)
	sizes := deletions(db)
	if _, err := db.Prune(t.Context(), storetest.WeekIn("general")); err != nil {
		t.Fatal(err)
	}
	checkSizes(t, *sizes, 4+5) // 1,600 done messages, and 800 turns with two entries each
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
	sizes := deletions(db)
	if err := db.DeleteConversation(t.Context(), general); err != nil {
		t.Fatal(err)
	}
	checkSizes(t, *sizes, (3*800+2*1200)/(maxDeleted+3))
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

// On a slow machine fewer records are deleted at a time, but always one.
func TestIsFull_AfterSomeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		one, none, many := &tx{deleted: 4}, &tx{deleted: 3}, &tx{deleted: 3 + maxDeleted}
		if one.isFull(3, began) || !many.isFull(3, began) {
			t.Error("the number does not count")
		}
		time.Sleep(maxDeleteTime + 1)
		if !one.isFull(3, began) || none.isFull(3, began) {
			t.Error("the time does not count, or keeps all from being deleted")
		}
	})
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
	db.observe = func(tx *tx) {
		if tx.deleted > 1 {
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
func countRecords(t *testing.T, db *DB, word string) (n int) {
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

func openAt(t *testing.T, now func() time.Time) *DB {
	t.Helper()
	db, err := Open(filepath.Join(t.TempDir(), "raven.db"), now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func reopen(t *testing.T, db *DB) *DB {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(db.path, db.now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	return again
}

// checkWhole closes the store and fails where a record is missing, unexpected or wrong.
func checkWhole(t *testing.T, db *DB) {
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
