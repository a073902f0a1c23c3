package bolt_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

// Outcomes wait for a write of somebody else and cost no transaction of their own; where there is none they are stored
// after the time that they may wait.
func TestSaveOutcomes_WithPatience_ShareAnotherWrite(t *testing.T) {
	for name, others := range map[string]bool{"another write": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := open(t, filepath.Join(t.TempDir(), "raven.db"))
				at := chat.Address{Platform: "web", Channel: "general"}
				if err := db.SavePosts(t.Context(), []store.Post{{Key: "post", To: at, At: time.Now()}}); err != nil {
					t.Fatal(err)
				}
				before, began := db.Commits(), time.Now()
				stored := make(chan error, 1)
				go func() {
					stored <- db.SaveOutcomes(t.Context(), []store.Outcome{
						{Key: "post", Ref: chat.Ref{IDs: []string{"1"}}, At: time.Now()}}, time.Minute)
				}()
				synctest.Wait()
				if others {
					if err := db.SaveItem(t.Context(), "kind", "name", json.RawMessage(`{}`), true); err != nil {
						t.Fatal(err)
					}
				}
				if err := <-stored; err != nil {
					t.Fatal(err)
				}
				if _, ok, err := db.PostRef(t.Context(), "post"); !ok || err != nil {
					t.Errorf("the outcome is not stored: %v", err)
				}
				if n := db.Commits() - before; n != 1 {
					t.Errorf("it took %d transactions", n)
				}
				if waited := time.Since(began); others != (waited == 0) || !others && waited != time.Minute {
					t.Errorf("it waited %v", waited)
				}
			})
		})
	}
}

// A change that shares its transaction with one that fails is made a second time. What it returns and stores is as if it
// had been made once.
func TestUpdate_AnotherChangeOfTheBatchFails_IsAsIfMadeOnce(t *testing.T) {
	at, now := chat.Address{Platform: "web", Channel: "general"}, time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC)
	for name, change := range map[string]func(*bolt.TestStore) (any, error){
		"messages": func(db *bolt.TestStore) (any, error) {
			return db.SaveMessages(t.Context(), []store.Message{{Conversation: at, ID: "1", At: now},
				{Conversation: at, ID: "2", At: now}})
		},
		"a line of a room": func(db *bolt.TestStore) (any, error) {
			e, err := db.SaveEntry(t.Context(), store.Entry{ID: "1", Room: "general", At: now})
			return e.Seq, err
		},
		"a message": func(db *bolt.TestStore) (any, error) {
			return db.Accept(t.Context(), store.Received{Message: chat.Message{ID: "1", Conversation: at}, At: now})
		},
		"posts": func(db *bolt.TestStore) (any, error) {
			posts := []store.Post{{Key: "1", To: at, At: now}, {Key: "2", To: at, At: now}}
			err := db.SavePosts(t.Context(), posts)
			return []uint64{posts[0].Seq, posts[1].Seq}, err
		},
		"an answer": func(db *bolt.TestStore) (any, error) {
			turn := conversation.Turn{ID: "1"}
			err := db.SaveAnswer(t.Context(), at, []string{"web/1"}, &turn, nil)
			return turn.Seq, err
		},
		"an item": func(db *bolt.TestStore) (any, error) {
			return db.SwapItem(t.Context(), "kind", "name", nil, json.RawMessage(`1`), nil)
		},
		"a layer of settings": func(db *bolt.TestStore) (any, error) {
			return db.SwapSetting(t.Context(), "global", nil, []byte(`{}`))
		},
		"a note": func(db *bolt.TestStore) (any, error) {
			kept, isNew, err := db.SaveMemory(t.Context(), store.Memory{Scope: "web/general", Text: "one"}, 1)
			return fmt.Sprint(kept.N, isNew), err
		},
		"a file of a room": func(db *bolt.TestStore) (any, error) {
			return db.SaveRoomFile(t.Context(), "general", chat.File{Name: "a.txt", Data: []byte("a")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				alone, shared := open(t, filepath.Join(t.TempDir(), "raven.db")), open(t, filepath.Join(t.TempDir(), "raven.db"))
				for _, db := range []*bolt.TestStore{alone, shared} {
					if err := db.SavePosts(t.Context(), []store.Post{{Key: "other", To: at, At: now}}); err != nil {
						t.Fatal(err)
					}
				}
				want, err := change(alone)
				if err != nil {
					t.Fatal(err)
				}
				failed := make(chan error, 1)
				go func() {
					// JSON has no such year.
					failed <- shared.SaveOutcomes(t.Context(),
						[]store.Outcome{{Key: "other", At: now.AddDate(10_000, 0, 0)}}, time.Minute)
				}()
				synctest.Wait()
				got, err := change(shared)
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("%s (%v)", diff, err)
				}
				if err := <-failed; err == nil {
					t.Error("the other change did not fail")
				}
				if diff := cmp.Diff(bolt.RawRecords(t, alone), bolt.RawRecords(t, shared)); diff != "" {
					t.Errorf("the records differ: %s", diff)
				}
			})
		})
	}
}
