package delivery_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store/records"
	"ravenbot/internal/turn/delivery"
)

// recorder is a platform that keeps messages on a record of its own, and shows work.
type recorder struct {
	platform
	revised []string // keys of the changes that it was told of
	shown   []chat.Progress
	full    int // how many changes it fails to note
}

func (r *recorder) Revise(_ context.Context, m chat.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full > 0 {
		r.full--
		return errors.New("disk full")
	}
	r.revised = append(r.revised, m.Key())
	return nil
}

func (r *recorder) Show(_ chat.Address, p chat.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shown = append(r.shown, p)
}

func (r *recorder) was(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(slices.Compact(slices.Clone(r.revised)), want) {
		t.Errorf("told of the changes %q, want %q", r.revised, want)
	}
}

func startRecorder(t *testing.T, path string, r *recorder, a delivery.Answerer) world {
	t.Helper()
	return startOver(t, path, func(db *records.Store) delivery.Store { return db }, r, a, delivery.Options{})
}

// A platform with a record of its own is told of a change before it is done, whether the message waits or was answered,
// and as long as its record cannot be written.
func TestChange_IsNotedByThePlatformBeforeItIsDone(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		r := &recorder{}
		w := startRecorder(t, path, r, &thinker{})
		defer w.stop()
		accept(t, w, said("a", "1", "helo"))
		soon()
		accept(t, w, changed("a", "1", chat.Edited, "1", "hello"))
		soon()
		r.was(t, "web/1~edited1")
		later()
		r.full = 3
		accept(t, w, changed("a", "1", chat.Edited, "2", "hello there"))
		later()
		accept(t, w, changed("a", "1", chat.Deleted, "3", ""))
		later()
		r.was(t, "web/1~edited1", "web/1~edited2", "web/1~deleted3")
		posted(t, &r.platform, "re: hello", "re: hello there")
	})
}

// What was accepted and not done by a process that ended is noted by the next one.
func TestChange_AfterARestart_IsNoted(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		first := &recorder{}
		w := startRecorder(t, path, first, &thinker{})
		for _, id := range []string{"1", "2"} {
			accept(t, w, said("a", id, id))
		}
		soon()
		w.stop()
		r, a := &recorder{}, &thinker{}
		w = startRecorder(t, path, r, a)
		accept(t, w, changed("a", "2", chat.Deleted, "3", ""))
		w.stop()
		last := &recorder{}
		w = startRecorder(t, path, last, a)
		defer w.stop()
		later()
		last.was(t, "web/2~deleted3")
		if got := last.texts(); !slices.Equal(got, []string{"re: 1"}) {
			t.Errorf("posted %q", got)
		}
	})
}

// The handle of an edit takes the place of that of the message: it may hold the words.
func TestRevise_EditBringsItsHandle(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, &thinker{})
		defer w.stop()
		m := said("a", "1", "old")
		m.Reply.Handle = []byte(`"old"`)
		accept(t, w, m)
		soon()
		m = changed("a", "1", chat.Edited, "1", "new")
		m.Reply.Handle = []byte(`"new"`)
		accept(t, w, m)
		later()
		posted(t, p, "re: new")
		if got := string(p.at(0).Reply.Handle); got != `"new"` {
			t.Errorf("answered with the handle %s", got)
		}
	})
}

// silent remembers nothing of what was edited.
type silent struct{ answerer }

func (silent) Answer(context.Context, chat.Asked, func(chat.Progress)) (*conversation.Turn, *chat.Draft) {
	return nil, nil
}

// Whoever looks on sees that an answered question is being answered again, and that this ends.
func TestShow_WorkOnAChange_BeginsAndEnds(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		r := &recorder{}
		w := startRecorder(t, path, r, answerer(echo))
		accept(t, w, said("a", "1", "hello"))
		later()
		w.stop()
		if len(r.shown) != 0 {
			t.Errorf("shown of a first answer: %+v", r.shown)
		}
		w = startRecorder(t, path, r, silent{})
		defer w.stop()
		accept(t, w, changed("a", "1", chat.Edited, "1", "hello there"))
		press := said("a", "press", chat.PressRetry+"web/1")
		press.Command = chat.Pressed
		accept(t, w, press)
		later()
		want := []chat.Progress{{Message: "1", Reset: true}, {Message: "1", Ended: true}, {Message: "press", Reset: true},
			{Message: "press", Ended: true}}
		if !slices.Equal(r.shown, want) {
			t.Errorf("shown %+v, want %+v", r.shown, want)
		}
	})
}

// A question whose answer was posted so long ago that its place is forgotten is answered again where its button was
// pressed.
func TestRetry_OfAnOldAnswer_ReplacesThePostWithTheButton(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, &thinker{})
		defer w.stop()
		press := said("a", "press", chat.PressRetry+"web/1")
		press.Command, press.Reply = chat.Pressed, chat.Reply{MessageID: "42", Handle: []byte(`{}`)}
		accept(t, w, press)
		later()
		if d := p.at(0); !slices.Equal(d.Replaces.IDs, []string{"42"}) || len(d.Reply.Handle) > 0 {
			t.Errorf("the answer replaces %q with the handle %q", d.Replaces.IDs, d.Reply.Handle)
		}
	})
}
