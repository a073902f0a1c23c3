package bolt

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

func opened(t *testing.T) *DB {
	t.Helper()
	db, err := Open(filepath.Join(t.TempDir(), "raven.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// TestARecordLostWhileTheStoreIsOpenIsNoticed by whoever reads all of its bucket.
func TestARecordLostWhileTheStoreIsOpenIsNoticed(t *testing.T) {
	db, to := opened(t), chat.Address{Platform: "web", Channel: "general"}
	for i := range 5 {
		if err := db.SaveTurn(t.Context(), to, &conversation.Turn{ID: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
		m := chat.Message{ID: fmt.Sprint(i), Conversation: to}
		if _, err := db.Accept(t.Context(), store.Received{Message: m}); err != nil {
			t.Fatal(err)
		}
	}
	err := db.direct(func(tx *bbolt.Tx) error {
		return errors.Join(tx.Bucket([]byte(inboxBucket)).Delete([]byte("web/2")),
			tx.Bucket([]byte(turnsBucket)).Bucket([]byte(to.String())).Delete(seqKey(2)))
	})
	if err != nil {
		t.Fatal(err)
	}
	var damaged *store.DamagedError
	if _, err := db.Unanswered(t.Context()); !errors.As(err, &damaged) ||
		!strings.Contains(damaged.What, "holds 4 records where 5 were stored") {
		t.Errorf("listing the messages gave %v", err)
	}
	if _, err := db.Turns(t.Context(), to, store.Range{Newest: math.MaxInt}); !errors.As(err, &damaged) {
		t.Errorf("reading the whole conversation gave %v", err)
	}
	if turns, err := db.Turns(t.Context(), to, store.Range{Newest: 3}); err != nil || len(turns) != 3 {
		t.Errorf("reading what is there of it gave %d turns (%v)", len(turns), err)
	}
}

func prune(t *testing.T, db *DB) error {
	_, err := db.Prune(t.Context(), store.Retention{})
	return err
}

func TestOnlyWhatChangesIsCommitted(t *testing.T) {
	db, to := opened(t), chat.Address{Platform: "web", Channel: "general"}
	began := db.Commits()
	for _, err := range []error{db.SaveTurn(t.Context(), to, &conversation.Turn{ID: "1"}),
		db.DeleteTurn(t.Context(), to, 9),
		db.DeleteRoom(t.Context(), "nowhere"), db.MarkNotified(t.Context(), []string{"nothing"}), prune(t, db)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.DeleteSubscription(t.Context(), to, "nothing"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	if n := db.Commits() - began; n != 1 {
		t.Errorf("%d transactions for one change", n)
	}
	if err := db.DeleteConversation(t.Context(), to); err != nil {
		t.Error(err)
	}
	if n := db.Commits() - began; n != 2 {
		t.Errorf("%d transactions for two changes", n)
	}
}

// TestOnlyTransactionsWrite: what is written past them has no tally.
func TestOnlyTransactionsWrite(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	writes := regexp.MustCompile(`\.(Put|Delete|CreateBucket\w*|DeleteBucket|NextSequence|SetSequence)\(`)
	seen := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		switch found := writes.FindString(string(text)); {
		case strings.HasSuffix(name, "_test.go"):
		case name == "tx.go":
			seen = len(writes.FindAll(text, -1))
		case found != "":
			t.Errorf("%s calls %s", name, found)
		}
	}
	if seen < 5 {
		t.Errorf("tx.go has only %d writes", seen)
	}
}

// TestTalliesStayInStep has writers make, change and remove records and buckets, some
// of them in vain, all in shared transactions.
func TestTalliesStayInStep(t *testing.T) {
	db := opened(t)
	refused := errors.New("refused")
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			name := fmt.Sprint("room", w%3)
			for i := range 60 {
				err := db.update(t.Context(), func(tx *tx) error {
					top := tx.top(roomsBucket)
					inner, err := top.createNested(name)
					if err != nil {
						return err
					}
					seq := inner.nextSequence()
					if err := inner.put(seqKey(seq%7), i); err != nil {
						return err
					}
					switch {
					case i%5 == w%5:
						return refused
					case i%7 == w:
						return inner.delete(seqKey(seq % 3))
					case i%11 == w:
						return top.deleteNested(name)
					}
					return nil
				})
				if (err != nil) != (i%5 == w%5) {
					t.Errorf("change %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	if db.Commits() > 8*60 {
		t.Errorf("%d transactions", db.Commits())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := Check(t.Context(), db.path); err != nil {
		t.Errorf("%v\n%+v", err, r)
	}
}

// A transaction that cannot be committed is told to whoever made it and to Health, and a copy that follows the store
// ends: whether the file has the transaction is not known.
func TestUpdate_CommitFails_IsNotedUntilOneSucceeds(t *testing.T) {
	db := opened(t)
	db.journal = &journal{}
	db.observe = func(tx *tx) {
		tx.atOnce = true
		if err := tx.bolt.Bucket([]byte(talliesBucket)).Put([]byte(headKey), seal([]byte("no tally"))); err != nil {
			t.Error(err)
		}
	}
	commits := db.Commits()
	failed := db.SaveBlob(t.Context(), "key", []byte(`1`))
	if health := db.Health(); health == nil || !errors.Is(failed, health) {
		t.Errorf("the write gave %v, and the health of the store is %v", failed, health)
	}
	if n := db.Commits() - commits; n != 0 {
		t.Errorf("%d transactions count as committed", n)
	}
	if _, _, err := db.journal.take(); !errors.Is(err, errUncertain) {
		t.Errorf("the journal goes on: %v", err)
	}
	db.observe, db.journal = nil, nil
	if err := db.SaveBlob(t.Context(), "key", []byte(`2`)); err != nil || db.Health() != nil {
		t.Errorf("the next write gave %v, and the health of the store is %v", err, db.Health())
	}
	checkWhole(t, db)
}

// A change whose time to wait ends while others take it along is carried out once, and is done when it is committed.
func TestUpdateWithin_PatienceEndsDuringTheCommit_IsCarriedOutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := opened(t)
		flush(t, db)
		before, runs := db.Commits(), 0
		done := make(chan error, 1)
		go func() {
			done <- db.updateWithin(t.Context(), time.Minute, func(tx *tx) error {
				runs++
				return tx.top(blobsBucket).put([]byte("patient"), 1)
			})
		}()
		synctest.Wait()
		began := time.Now()
		db.observe = func(*tx) { time.Sleep(2 * time.Minute) }
		if err := db.SaveBlob(t.Context(), "other", []byte(`1`)); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if n := db.Commits() - before; n != 1 || runs != 1 || time.Since(began) != 2*time.Minute {
			t.Errorf("it ran %d times, and %d transactions took %v", runs, n, time.Since(began))
		}
		db.observe = nil
		// Nothing is left of it that the next change would meet.
		if err := db.SaveBlob(t.Context(), "next", []byte(`1`)); err != nil || runs != 1 {
			t.Errorf("it ran %d times (%v)", runs, err)
		}
	})
}

// Of several changes that wait the one whose time is over first takes the others along.
func TestUpdateWithin_SeveralWait_ShareTheFirstTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := opened(t)
		before, began := db.Commits(), time.Now()
		done := make(chan error, 3)
		for n := range 3 {
			go func() {
				done <- db.updateWithin(t.Context(), time.Duration(n+1)*time.Minute, func(tx *tx) error {
					return tx.top(blobsBucket).put(seqKey(uint64(n)), n)
				})
			}()
		}
		for range 3 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if n, took := db.Commits()-before, time.Since(began); n != 1 || took != time.Minute {
			t.Errorf("%d transactions within %v", n, took)
		}
	})
}

// TestCursor_PrevBeforeTheFirst_StaysThere: also in a transaction that changes the bucket.
func TestCursor_PrevBeforeTheFirst_StaysThere(t *testing.T) {
	db := opened(t)
	if err := db.update(t.Context(), func(tx *tx) error {
		blobs := tx.top(blobsBucket)
		for n := range 3 {
			if err := blobs.put(seqKey(uint64(n)), "a blob"); err != nil {
				return err
			}
		}
		c := blobs.cursor()
		c.first()
		for range 2 {
			if k, _ := c.prev(); k != nil {
				t.Errorf("before the first record is %q", k)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// What bbolt cannot stand in a damaged file ends what has read it with an error, and not the process.
func TestDB_PanicInATransaction_IsDamage(t *testing.T) {
	db := opened(t)
	if err := db.SaveBlob(t.Context(), "server", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"looking up": func() error { return db.lookUp(func(*tx) error { panic("a page is not what it should be") }) },
		"reading":    func() error { return db.view(func(*tx) error { panic("a page is not what it should be") }) },
		"reading the file": func() error {
			return db.viewFile(func(*bbolt.Tx) error { panic("a page is not what it should be") })
		},
		"writing": func() error {
			return db.update(t.Context(), func(*tx) error { panic("a page is not what it should be") })
		},
	} {
		var damaged *store.DamagedError
		if err := do(); !errors.As(err, &damaged) {
			t.Errorf("%s returned %v", name, err)
		}
	}
	if found, err := db.readPending(func(*tx) error { return nil }); err != nil {
		t.Error("reading once more:", found, err)
	}
}

// Changes that come while others are made wait for them, and share the next transaction.
func TestUpdate_ChangesComeWhileOneIsMade_ShareTheNextTransaction(t *testing.T) {
	db := opened(t)
	before := db.Commits()
	isMade, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	change := func(key string, wait bool) {
		wg.Go(func() {
			err := db.update(t.Context(), func(tx *tx) error {
				if wait {
					once.Do(func() { close(isMade); <-goOn })
				}
				return tx.top(blobsBucket).put([]byte(key), key)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	change("first", true)
	<-isMade
	change("second", false)
	change("third", false)
	waiting := func() (n int) {
		db.group.mu.Lock()
		defer db.group.mu.Unlock()
		return len(db.group.queue)
	}
	for end := time.Now().Add(10 * time.Second); waiting() < 2 && time.Now().Before(end); {
		runtime.Gosched()
	}
	if n := waiting(); n != 2 {
		t.Errorf("%d changes wait for the first one, want 2", n)
	}
	close(goOn)
	wg.Wait()
	if n := db.Commits() - before; n != 2 {
		t.Errorf("three changes took %d transactions, want 2", n)
	}
}

// What deletes or moves much is committed with its own transaction: a log with all of it would be made again by the next
// start, and what is pending would grow.
func TestUpdate_DeletesOrMovesMuch_IsCommittedAtOnce(t *testing.T) {
	db := opened(t)
	CommitOnlyWhenFull(db)
	if err := db.SaveBlob(t.Context(), "key", []byte("1")); err != nil {
		t.Fatal(err)
	}
	saveTurns(t, db, general, 0, 3, time.Now())
	s := sweep{top: blobsBucket, isOld: func(*tx, []byte, []byte) (bool, error) { return true, nil }}
	if !db.uncommitted.Load() {
		t.Fatal("nothing is in the log alone")
	}
	if n, _, err := s.delete(t.Context(), db, [][]byte{[]byte("key")}); n != 1 || err != nil || db.uncommitted.Load() {
		t.Errorf("deleted %d (%v), and it is in the log alone: %v", n, err, db.uncommitted.Load())
	}
	saveTurns(t, db, general, 3, 6, time.Now())
	name := general.String()
	if err := db.update(t.Context(), func(tx *tx) error {
		return tx.top(turnsBucket).moveNested(name, tx.top(trashName(turnsBucket)))
	}); err != nil || db.uncommitted.Load() {
		t.Errorf("moving gave %v, and is in the log alone: %v", err, db.uncommitted.Load())
	}
	saveTurns(t, db, room(1), 0, 1, time.Now())
	if err := db.update(t.Context(), func(tx *tx) error {
		_, err := emptySome(tx, general)
		return err
	}); err != nil || db.uncommitted.Load() {
		t.Errorf("emptying gave %v, and is in the log alone: %v", err, db.uncommitted.Load())
	}
}
