package web

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/records"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// shownLines writes down a room as it is shown: changed lines with their state, and deleted ones by it alone.
func shownLines(t *testing.T, log Log) []string {
	t.Helper()
	entries, err := log.Entries(t.Context(), "general", 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		who, words := "bot", ""
		if e.User != nil {
			who, words = e.User.ID, e.Text
		} else {
			words = e.Draft.Text
		}
		switch {
		case e.Deleted && words == "" && len(e.Files) == 0:
			words = "(deleted)"
		case e.User != nil && e.Revision > 0:
			words += " (edited)"
		}
		out = append(out, who+": "+words)
	}
	return out
}

// chatter is a Web whose messages are kept, with one question that was answered.
func chatter(t *testing.T) (*Web, *records.Store, *[]chat.Message) {
	t.Helper()
	var taken []chat.Message
	w, db := begin(t, func(_ *Web, m chat.Message) error { taken = append(taken, m); return nil })
	m, err := w.Say(t.Context(), "general", anna, "how hihg is the tower?")
	if err != nil {
		t.Fatal(err)
	}
	answer(w, m, "What is hihg?")
	return w, db, &taken
}

func TestEdit_BecomesAChangeAndTheLineShowsIt(t *testing.T) {
	w, db, taken := chatter(t)
	events, cancel := w.Subscribe("general")
	defer cancel()
	for _, words := range []string{" how high is the tower? ", "how high is it?"} {
		if err := w.Edit(t.Context(), "general", 1, anna, words); err != nil {
			t.Fatal(err)
		}
		if e := <-events; !e.Anew || e.Entry.Text != strings.TrimSpace(words) {
			t.Errorf("shown: %+v", e.Entry)
		}
	}
	if err := w.Edit(t.Context(), "general", 1, anna, "how high is it?"); err != nil {
		t.Fatal(err)
	}
	said, first, second := (*taken)[0], (*taken)[1], (*taken)[2]
	if len(*taken) != 3 {
		t.Errorf("%d messages: an edit of nothing was taken", len(*taken))
	}
	if first.Kind() != chat.EventEdit || first.Text != "how high is the tower?" || first.Subject() != said.Subject() ||
		first.Key() == second.Key() || first.Revision >= second.Revision || first.Author.ID != "anna" {
		t.Errorf("the edits became %+v and %+v", first, second)
	}
	want := []string{"anna: how high is it? (edited)", "bot: What is hihg?"}
	if diff := cmp.Diff(want, shownLines(t, db)); diff != "" {
		t.Error(diff)
	}
	// The answer takes the place of the former one, although nobody knows any more where that is.
	answer(w, second, "300 m")
	if diff := cmp.Diff([]string{"anna: how high is it? (edited)", "bot: 300 m"}, shownLines(t, db)); diff != "" {
		t.Error(diff)
	}
	if work := w.room("general").currentWork(); len(work) != 0 {
		t.Errorf("worked on: %+v", work)
	}
}

func TestDelete_TakesTheLineItsFilesAndTheAnswer(t *testing.T) {
	var taken []chat.Message
	w, db := begin(t, func(_ *Web, m chat.Message) error { taken = append(taken, m); return nil })
	m, err := w.Say(t.Context(), "general", anna, "a secret", chat.File{Name: "secret.txt", Data: []byte("secret")})
	if err != nil {
		t.Fatal(err)
	}
	other, err := w.Say(t.Context(), "general", anna, "hello")
	if err != nil {
		t.Fatal(err)
	}
	d := chat.Draft{Key: m.Key(), Text: "the secret", Reply: m.Reply, Answers: []chat.Reply{other.Reply},
		Files: []chat.File{{Name: "answer.txt", Data: []byte("secret")}}, Tools: []chat.ToolRun{{Name: "secret"}}}
	if _, err := w.Post(t.Context(), general, d); err != nil {
		t.Fatal(err)
	}
	press := chat.Message{ID: "press", Conversation: general, Reply: chat.Reply{MessageID: "3"}}
	answer(w, press, "noted about the secret")
	events, cancel := w.Subscribe("general")
	defer cancel()
	for range 2 {
		if err := w.Delete(t.Context(), "general", 1, chat.Operator()); err != nil {
			t.Fatal(err)
		}
	}
	if len(taken) != 3 || taken[2].Kind() != chat.EventDelete || taken[2].Subject() != m.Subject() {
		t.Errorf("taken: %+v", taken)
	}
	if left, err := json.Marshal(taken[2]); err != nil || strings.Contains(string(left), "secret") {
		t.Errorf("the deletion says %s", left)
	}
	if len(events) != 3 {
		t.Errorf("%d lines were shown", len(events))
	}
	want := []string{"anna: (deleted)", "anna: hello", "bot: (deleted)", "bot: (deleted)"}
	if diff := cmp.Diff(want, shownLines(t, db)); diff != "" {
		t.Error(diff)
	}
	entries, err := db.Entries(t.Context(), "general", 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := json.Marshal(entries); err != nil || strings.Contains(string(all), "secret") {
		t.Errorf("the room holds %s", all)
	}
	for n := range uint64(2) {
		if _, err := db.RoomFile(t.Context(), "general", n+1); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("file %d: %v", n+1, err)
		}
	}
	// What was answered together with it is no longer waited for.
	base, c := serve(t, w)
	if _, _, page := request(t, c, "GET", base+"/chat/general", nil); strings.Contains(page, `id="work-`) ||
		!strings.Contains(page, "<p>Message deleted</p>") {
		t.Errorf("the page shows %s", page)
	}
}

// A post that was made before an edit or a deletion, and is sent again by the next process, brings nothing back.
func TestPost_MadeBeforeAChange_BringsNothingBack(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *Web) error
		want   []string
	}{
		"edited": {func(w *Web) error { return w.Edit(t.Context(), "general", 1, anna, "new") },
			[]string{"anna: new (edited)", "bot: the answer"}},
		"deleted": {func(w *Web) error { return w.Delete(t.Context(), "general", 1, anna) },
			[]string{"anna: (deleted)", "bot: (deleted)"}},
	} {
		for _, sent := range []bool{false, true} {
			var taken chat.Message
			w, db := begin(t, func(_ *Web, m chat.Message) error {
				if m.Change == "" {
					taken = m
				}
				return nil
			})
			if _, err := w.Say(t.Context(), "general", anna, "old"); err != nil {
				t.Fatal(err)
			}
			if sent {
				answer(w, taken, "the answer")
			}
			if err := c.change(w); err != nil {
				t.Fatal(err)
			}
			next := over(t, db, ignore)
			for range 2 {
				answer(next, taken, "the answer")
			}
			answer(w, taken, "the answer")
			if diff := cmp.Diff(c.want, shownLines(t, db)); diff != "" {
				t.Errorf("%s, sent before: %v:\n%s", name, sent, diff)
			}
		}
	}
}

// What takes the place of an answer that was deleted meanwhile is deleted as well.
func TestPost_InPlaceOfADeletedAnswer_IsNotShown(t *testing.T) {
	w, db, _ := chatter(t)
	w.Show(general, chat.Progress{Message: "press/2/x", Reset: true})
	if err := w.Delete(t.Context(), "general", 1, anna); err != nil {
		t.Fatal(err)
	}
	ref := chat.Ref{IDs: []string{"2"}}
	d := chat.Draft{Key: "press", Text: "the tower", Reply: chat.Reply{MessageID: "2"}, Replaces: ref}
	again, err := w.Post(t.Context(), general, d)
	if err != nil || !cmp.Equal(again, ref) {
		t.Errorf("posted at %v, %v", again, err)
	}
	if diff := cmp.Diff([]string{"anna: (deleted)", "bot: (deleted)"}, shownLines(t, db)); diff != "" {
		t.Error(diff)
	}
	if work := w.room("general").currentWork(); len(work) != 0 {
		t.Errorf("worked on: %+v", work)
	}
}

// A change whose process ended before it was noted is noted by Revise, and once.
func TestRevise_AfterARestart_NotesTheChange(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *Web) error
		want   []string
		shown  int // lines
	}{
		"edited": {func(w *Web) error { return w.Edit(t.Context(), "general", 1, anna, "new") },
			[]string{"anna: new (edited)", "bot: What is hihg?"}, 1},
		"deleted": {func(w *Web) error { return w.Delete(t.Context(), "general", 1, anna) },
			[]string{"anna: (deleted)", "bot: (deleted)"}, 2},
	} {
		_, db, _ := chatter(t)
		var taken chat.Message
		ending := over(t, &forgetful{db, 100}, func(_ *Web, m chat.Message) error { taken = m; return nil })
		if err := c.change(ending); err == nil {
			t.Errorf("%s: a change that is not noted is called done", name)
		}
		next := over(t, db, ignore)
		events, cancel := next.Subscribe("general")
		for range 2 {
			next.Show(general, chat.Progress{Message: taken.ID, Text: "late"})
			if err := next.Revise(t.Context(), taken); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if diff := cmp.Diff(c.want, shownLines(t, db)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		lines := 0
		for len(events) > 0 {
			if e := <-events; e.Entry != nil {
				lines++
			}
		}
		if lines != c.shown {
			t.Errorf("%s: %d lines were shown, want %d", name, lines, c.shown)
		}
		if name == "deleted" && len(next.room("general").currentWork()) > 0 {
			t.Error("work on a deleted message is shown")
		}
		// A failure takes the place of the former answer, too.
		if name == "edited" {
			d := chat.Draft{Key: taken.Key(), Text: "failed", Failed: true, Reply: taken.Reply}
			if _, err := next.Post(t.Context(), general, d); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"anna: new (edited)", "bot: failed"}, shownLines(t, db)); diff != "" {
				t.Error(diff)
			}
		}
	}
}

func TestChange_ThatCannotBeMade_IsRefused(t *testing.T) {
	w, db, taken := chatter(t)
	if _, err := w.Say(t.Context(), "general", anna, "/help"); err != nil {
		t.Fatal(err)
	}
	n, berit := len(*taken), chat.User{ID: "berit"}
	for name, err := range map[string]error{
		"of a post":                   w.Edit(t.Context(), "general", 2, anna, "x"),
		"of nothing":                  w.Delete(t.Context(), "general", 99, anna),
		"of line 0":                   w.Delete(t.Context(), "general", 0, anna),
		"of another's":                w.Edit(t.Context(), "general", 1, berit, "x"),
		"deletion of another's":       w.Delete(t.Context(), "general", 1, berit),
		"in no room":                  w.Edit(t.Context(), "General", 1, anna, "x"),
		"to nothing":                  w.Edit(t.Context(), "general", 1, anna, " "),
		"to too much":                 w.Edit(t.Context(), "general", 1, anna, strings.Repeat("a", maxText+1)),
		"of a command":                w.Edit(t.Context(), "general", 3, anna, "what else?"),
		"of a message into a command": w.Edit(t.Context(), "general", 1, anna, "/digest run morning"),
	} {
		if _, ok := errors.AsType[*InputError](err); !ok {
			t.Errorf("an edit %s: %v, want an InputError", name, err)
		}
	}
	if err := w.Delete(t.Context(), "general", 3, anna); err != nil {
		t.Errorf("a command is not deleted: %v", err)
	}
	if left := w.workUnderWay("general", must(db.Entries(t.Context(), "general", 0, 9))); len(left) > 0 {
		t.Errorf("a deleted message without an answer is shown as worked on: %+v", left)
	}
	if err := w.Edit(t.Context(), "general", 3, anna, "back"); err == nil {
		t.Error("what was deleted is edited")
	}
	if len(*taken) != n+1 {
		t.Errorf("%d changes were taken, want the deletion", len(*taken)-n)
	}
	want := []string{"anna: how hihg is the tower?", "bot: What is hihg?", "anna: (deleted)"}
	if diff := cmp.Diff(want, shownLines(t, db)); diff != "" {
		t.Error(diff)
	}
	busy := over(t, db, func(*Web, chat.Message) error { return chat.ErrBusy })
	if err := busy.Edit(t.Context(), "general", 1, anna, "new"); !errors.Is(err, chat.ErrBusy) {
		t.Errorf("an edit that is not taken: %v", err)
	}
	if got := shownLines(t, db)[0]; got != "anna: how hihg is the tower?" {
		t.Errorf("an edit that was not taken is shown as %q", got)
	}
}

// An edit is offered by the same rule by which it is taken: words that only look like a command can be edited.
func TestEdit_IsOfferedWhereItIsTaken(t *testing.T) {
	for said, want := range map[string]bool{"/path is wrong": true, "/etc": true, "what is /help?": true, "hello": true,
		"/help": false, "/HELP": false, "/raven what is new": false, " /digest list": false} {
		w, _, _ := chatter(t)
		if _, err := w.Say(t.Context(), "general", anna, said); err != nil {
			t.Fatal(err)
		}
		shown, err := w.page.fragment("own", store.Entry{Room: "general", Seq: 3, Text: said})
		if err != nil {
			t.Fatal(err)
		}
		offered := strings.Contains(string(shown), ">Edit<")
		if taken := w.Edit(t.Context(), "general", 3, anna, "better words") == nil; offered != want || taken != want {
			t.Errorf("%q: an edit is offered %v and taken %v, want %v", said, offered, taken, want)
		}
	}
}

// Whoever waits for an answer, such as the terminal, is told that the message is gone.
func TestAsk_MessageIsDeleted_Ends(t *testing.T) {
	for _, flood := range []int{0, 2 * maxWaitingEvents} {
		deleted := make(chan struct{})
		w, _ := begin(t, func(w *Web, m chat.Message) error {
			if m.Change == "" {
				go func() {
					defer close(deleted)
					w.Show(m.Conversation, chat.Progress{Message: m.ID, Text: "a"})
					for range flood {
						w.Show(m.Conversation, chat.Progress{Message: m.ID, Text: "b"})
					}
					if err := w.Delete(context.Background(), "general", 1, anna); err != nil {
						t.Error(err)
					}
				}()
			}
			return nil
		})
		var last Event
		for e, err := range w.Ask(t.Context(), "general", anna, "hello") {
			if err != nil {
				t.Fatal(err)
			}
			<-deleted // whoever reads so slowly is dropped, and has to catch up
			last = e
		}
		if last.Entry == nil || !last.Entry.Draft.Failed || !strings.Contains(last.Entry.Draft.Text, "was deleted") {
			t.Errorf("after %d events the wait ended with %+v", flood, last)
		}
	}
}

// An answer to a message far above is found and deleted as well.
func TestDelete_AnswerIsFarBelow(t *testing.T) {
	var taken chat.Message
	w, db := begin(t, func(_ *Web, m chat.Message) error { taken = m; return nil })
	if _, err := w.Say(t.Context(), "general", anna, "slow"); err != nil {
		t.Fatal(err)
	}
	first := taken
	for i := range 3*pageSize + 1 {
		if _, err := w.Post(t.Context(), general, chat.Draft{Key: string(rune('a' + i)), Text: "news"}); err != nil {
			t.Fatal(err)
		}
	}
	answer(w, first, "at last")
	next := over(t, db, ignore)
	if err := next.Delete(context.Background(), "general", 1, anna); err != nil {
		t.Fatal(err)
	}
	entries, err := db.Entries(t.Context(), "general", 0, 1)
	if err != nil || !entries[0].Deleted || entries[0].Draft.Text != "" {
		t.Errorf("left: %+v, %v", entries, err)
	}
}

// Revisions grow also where the clock does not.
func TestEdit_ClockStandsStill_RevisionsGrow(t *testing.T) {
	w, _, taken := chatter(t)
	at := time.Now()
	w.o.Now = func() time.Time { at = at.Add(-time.Hour); return at }
	for _, words := range []string{"a", "b"} {
		if err := w.Edit(t.Context(), "general", 1, anna, words); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := (*taken)[1].Revision, (*taken)[2].Revision; a >= b {
		t.Errorf("revisions %s and %s", a, b)
	}
}

// What answers a question of a turn can be had again; a digest and an answer to a command cannot.
func TestAnswerAgain_IsOfferedBelowAnswers(t *testing.T) {
	good := chat.Button{Label: "👍", Value: chat.PressGood + "web/1"}
	retry := chat.Button{Label: "Try again", Value: chat.PressRetry + "web/1"}
	to := chat.Reply{MessageID: "room/1"}
	for name, c := range map[string]struct {
		d    chat.Draft
		want string
	}{
		"an answer":              {chat.Draft{Reply: to, Buttons: []chat.Button{good}}, "retry web/1"},
		"a digest":               {chat.Draft{Buttons: []chat.Button{good}}, ""},
		"a failure":              {chat.Draft{Reply: to, Buttons: []chat.Button{retry}}, ""},
		"an answer to a command": {chat.Draft{Reply: to}, ""},
	} {
		if got := againValue(c.d); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A question that could not be answered again has one failure below its answer, until it is answered.
func TestAnswerAgain_FailureGoesWithTheNextAnswer(t *testing.T) {
	w, db, _ := chatter(t)
	post := func(button, key string, d chat.Draft) {
		t.Helper()
		m := must(w.newPress("general", button, chat.PressRetry+"web/1"))
		w.Show(general, chat.Progress{Message: m.ID, Reset: true})
		if d.Key, d.Reply = key, m.Reply; !d.Failed {
			d.Reply.Handle, d.Replaces = nil, chat.Ref{IDs: []string{"2"}}
		}
		must(w.Post(t.Context(), general, d))
		if work := w.room("general").currentWork(); len(work) > 0 {
			t.Errorf("after %s there is work on %+v", key, work)
		}
	}
	post("2", "press1", chat.Draft{Text: "failed", Failed: true})
	post("3", "press2", chat.Draft{Text: "failed again", Failed: true})
	want := []string{"anna: how hihg is the tower?", "bot: What is hihg?", "bot: failed again"}
	if diff := cmp.Diff(want, shownLines(t, db)); diff != "" {
		t.Error(diff)
	}
	post("3", "press3", chat.Draft{Text: "300 m"})
	want = []string{"anna: how hihg is the tower?", "bot: 300 m", "bot: (deleted)"}
	if diff := cmp.Diff(want, shownLines(t, db)); diff != "" {
		t.Error(diff)
	}
}
