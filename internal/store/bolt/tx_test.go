package bolt

import (
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
)

func opened(t *testing.T) *TestStore {
	t.Helper()
	db, err := OpenRecords(filepath.Join(t.TempDir(), "raven.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func prune(t *testing.T, db *TestStore) error {
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

// A change whose time to wait ends while others take it along is carried out once, and is done when it is committed.
func TestUpdateWithin_PatienceEndsDuringTheCommit_IsCarriedOutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := opened(t)
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

// What bbolt cannot stand in a damaged file ends what has read it with an error, and not the process.
func TestDB_PanicInATransaction_IsDamage(t *testing.T) {
	db := opened(t)
	if err := db.SaveBlob(t.Context(), "server", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"reading": func() error { return db.view(func(*tx) error { panic("a page is not what it should be") }) },
		"writing": func() error {
			return db.update(t.Context(), func(*tx) error { panic("a page is not what it should be") })
		},
	} {
		var damaged *store.DamagedError
		if err := do(); !errors.As(err, &damaged) {
			t.Errorf("%s returned %v", name, err)
		}
	}
	if err := db.SaveBlob(t.Context(), "server", []byte(`{}`)); err != nil {
		t.Error("writing once more:", err)
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
