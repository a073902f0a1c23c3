package delivery_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/storage"
)

// A reaction counts at once while its conversation is at work, and for nothing where
// its post is unknown or its author has nothing to say. Nobody is answered.
func TestReactionsAreWordsOnTheTurnThatTheyStandBelow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raven.db")
	synctest.Test(t, func(t *testing.T) {
		p := &platform{}
		w := start(t, path, p, answerer(echo))
		accept(t, w, said("a", "1", "hello"))
		synctest.Wait() // posted, and perhaps not on record yet
		react := func(w world, room, user string, r chat.Reaction) {
			t.Helper()
			m := said(room, "sign", "")
			m.Author.ID, m.Reaction, m.Time = user, &r, time.Now()
			if user == "stranger" {
				m.Reach = chat.Overheard
			}
			accept(t, w, m)
		}
		react(w, "a", "U1", chat.Reaction{Post: "1", Sign: "up", Good: true})
		react(w, "a", "stranger", chat.Reaction{Post: "1", Sign: "up", Good: true})
		react(w, "b", "U2", chat.Reaction{Post: "1", Sign: "up", Good: true})
		react(w, "a", "U2", chat.Reaction{Post: "7", Sign: "up", Good: true})
		react(w, "a", "U2", chat.Reaction{Post: "7", Sign: "up", Gone: true})
		synctest.Wait()
		w.stop()

		w = start(t, path, p, answerer(echo))
		react(w, "a", "U3", chat.Reaction{Post: "1", Sign: "down"})
		synctest.Wait()
		w.stop()
		if got := p.texts(); !cmp.Equal(got, []string{"re: hello"}) {
			t.Errorf("posted %q", got)
		}
	})
	db, err := storage.OpenFile(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	got, err := db.Feedback(t.Context())
	want := []store.Feedback{{Turn: "web/1", User: "U1", Good: true,
		Signs: []store.Sign{{Post: "a/1", Name: "up", Good: true}}},
		{Turn: "web/1", User: "U3", Signs: []store.Sign{{Post: "a/1", Name: "down"}}}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(store.Feedback{}, "At")); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if waiting, err := db.Unanswered(t.Context()); len(waiting) != 0 || err != nil {
		t.Errorf("waiting: %v, %v", waiting, err)
	}
}
