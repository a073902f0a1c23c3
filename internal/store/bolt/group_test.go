package bolt_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
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
