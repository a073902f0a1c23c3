package history_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/recall/history"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/meaningtest"
)

func TestMeaning_MessagesAreFoundByParaphrasesAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		index, end := meaningtest.Start(t, w.db, "cancelled", "called off")
		defer end()
		ctx := t.Context()
		w.search = history.New(history.Options{
			Store:    w.db,
			Platform: func(string) chat.Platform { return nil },
			Place:    func(c tool.Caller) (chat.Address, bool) { return c.Conversation, true },
			IsOver:   func(_ chat.Address, at time.Time) bool { return at.Before(w.keptFrom) },
			Meaning:  index,
			Log:      slog.New(slog.DiscardHandler),
			Now:      w.time,
		})
		var said []store.Message
		for n, text := range []string{"anna: the concert is cancelled", "anna: lunch was great", "berit: it was cancelled",
			"berit: see you", "anna: it snows", "berit: good morning", "anna: cancelled in a thread"} {
			by, words, _ := strings.Cut(text, ": ")
			m := store.Message{Conversation: general, ID: fmt.Sprint(n), Author: chat.User{ID: by, Name: by}, Text: words,
				At: noon.Add(time.Duration(n) * time.Hour)}
			if strings.Contains(words, "thread") {
				m.Conversation = thread
			}
			said = append(said, m)
		}
		if _, err := w.db.SaveMessages(ctx, said); err != nil {
			t.Fatal(err)
		}
		find := func(q history.Query) (texts []string) {
			t.Helper()
			q.Limit = 10
			found, err := w.search.Search(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range found {
				texts = append(texts, m.Text)
			}
			return texts
		}
		stored := func() int { return meaningtest.Stored(t, w.db, "history/"+general.String()) }
		const concert, other, inThread = "the concert is cancelled", "it was cancelled", "cancelled in a thread"
		all := history.Query{In: general, Text: "called off"}
		if found := find(all); len(found) > 0 {
			t.Errorf("the first search waited for the messages: %q", found)
		}
		synctest.Wait()
		want := fmt.Sprint([]string{concert, other, inThread})
		if found := find(all); fmt.Sprint(found) != want {
			t.Errorf("found %q, want %s", found, want)
		}
		want = fmt.Sprint([]string{concert, other})
		if found := find(history.Query{In: general, Narrow: true, Text: "called off"}); fmt.Sprint(found) != want {
			t.Errorf("without threads found %q, want %s", found, want)
		}
		found := find(history.Query{In: general, Text: "what did Berit say was called off?"})
		if len(found) == 0 || found[0] != other {
			t.Errorf("of what Berit said %q is found, want first %q", found, other)
		}
		if n := stored(); n != len(said) {
			t.Errorf("%d vectors are stored", n)
		}
		if err := w.search.Purge(ctx, "slack/0"); err != nil || stored() != len(said)-1 {
			t.Errorf("after a message was deleted %d vectors are left: %v", stored(), err)
		}
		w.keptFrom = noon.Add(5*time.Hour + time.Minute) // of all but the last the retention is over
		if err := index.Prune(ctx); err != nil || stored() != 1 {
			t.Errorf("%d vectors are left of one message that is kept: %v", stored(), err)
		}
		if found := find(all); len(found) > 0 {
			t.Errorf("over the retention found %q", found)
		}
	})
}
