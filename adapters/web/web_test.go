package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/records"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/testing/chattest"
)

var (
	anna    = chat.User{ID: "anna", Name: "Anna"}
	general = chat.Address{Platform: "web", Channel: "general"}
)

// begin starts a Web over a new store; whatever it accepts goes to bot.
func begin(t *testing.T, bot func(w *Web, m chat.Message) error) (*Web, *records.Store) {
	t.Helper()
	db, err := storage.OpenFile(filepath.Join(t.TempDir(), "rooms.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return over(t, db, bot), db
}

func over(t *testing.T, log Log, bot func(w *Web, m chat.Message) error) *Web {
	t.Helper()
	w := New(Options{Log: log, Commands: chattest.Commands(), Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- w.Run(ctx, func(_ context.Context, m chat.Message) error { return bot(w, m) })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return w
}

func answer(w *Web, m chat.Message, text string) {
	_, err := w.Post(context.Background(), m.Conversation, chat.Draft{Key: m.Key(), Text: text, Reply: m.Reply})
	if err != nil {
		panic(err)
	}
}

func ignore(*Web, chat.Message) error { return nil }

// lines writes down a room as "who: text".
func lines(t *testing.T, log Log) []string {
	t.Helper()
	entries, err := log.Entries(t.Context(), "general", 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if e.Draft != nil {
			out = append(out, "bot: "+e.Draft.Text)
		} else {
			out = append(out, e.User.ID+": "+e.Text)
		}
	}
	return out
}

func TestAskYieldsTheWorkAndLastTheAnswer(t *testing.T) {
	w, db := begin(t, func(w *Web, m chat.Message) error {
		go func() {
			w.Show(m.Conversation, chat.Progress{Message: m.ID,
				Tool: &chat.ToolRun{ID: "1", Name: "web_fetch", State: chat.Running}})
			w.Show(m.Conversation, chat.Progress{Message: m.ID, Text: "It is "})
			w.Show(m.Conversation, chat.Progress{Message: "another", Text: "not yours"})
			w.Post(context.Background(), m.Conversation, chat.Draft{Key: "a digest", Text: "news"})
			answer(w, m, "It is sunny.")
		}()
		return nil
	})
	var got []string
	for e, err := range w.Ask(t.Context(), "general", anna, " how is the weather? ") {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Entry != nil:
			got = append(got, "answer "+e.Entry.Draft.Text)
		case e.Progress.Tool != nil:
			got = append(got, "tool "+e.Progress.Tool.Name)
		default:
			got = append(got, "text "+e.Progress.Text)
		}
	}
	if diff := cmp.Diff([]string{"tool web_fetch", "text It is ", "answer It is sunny."}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"anna: how is the weather?", "bot: news", "bot: It is sunny."},
		lines(t, db)); diff != "" {
		t.Errorf("room (-want +got):\n%s", diff)
	}
}

func TestWhatIsSaidBecomesAMessage(t *testing.T) {
	for _, c := range []struct{ said, command, text string }{
		{"hello there", "", "hello there"},
		{"/digest run morning", "digest", "run morning"},
		{"/raven tools", "tools", ""},
		{"/etc/passwd", "", "/etc/passwd"},
	} {
		var got chat.Message
		author := anna
		author.Operator = true
		w, _ := begin(t, func(_ *Web, m chat.Message) error { got = m; return nil })
		m, err := w.Say(t.Context(), "general", anna, c.said)
		if err != nil {
			t.Fatal(err)
		}
		if got.Command != c.command || got.Text != c.text || got.Reach != chat.Addressed || got.Conversation != general ||
			!cmp.Equal(got.Author, author) || got.Direct || got.Reply.MessageID != m.ID || got.ID != m.ID {
			t.Errorf("%q became %+v", c.said, got)
		}
	}
}

func TestALineComesBeforeTheAnswerHoweverQuickThatIs(t *testing.T) {
	answered := make(chan struct{})
	w, db := begin(t, func(w *Web, m chat.Message) error {
		begun := make(chan struct{})
		go func() { close(begun); answer(w, m, "quick"); close(answered) }()
		<-begun
		return nil
	})
	if _, err := w.Say(t.Context(), "general", anna, "?"); err != nil {
		t.Fatal(err)
	}
	<-answered
	if diff := cmp.Diff([]string{"anna: ?", "bot: quick"}, lines(t, db)); diff != "" {
		t.Error(diff)
	}
}

func TestALineThatACrashCutOffComesWithTheAnswer(t *testing.T) {
	var taken chat.Message
	first, _ := begin(t, func(_ *Web, m chat.Message) error { taken = m; return nil })
	if _, err := first.Say(t.Context(), "general", anna, "still there?"); err != nil {
		t.Fatal(err)
	}
	// The next process has the message, but the store never got the line.
	second, db := begin(t, ignore)
	answer(second, taken, "yes")
	answer(second, taken, "yes")
	if diff := cmp.Diff([]string{"anna: still there?", "bot: yes"}, lines(t, db)); diff != "" {
		t.Error(diff)
	}
}

func TestAPostRepeatedShowsOnce(t *testing.T) {
	w, db := begin(t, ignore)
	events, cancel := w.Subscribe("general")
	defer cancel()
	for range 3 {
		ref, err := w.Post(t.Context(), general, chat.Draft{Key: "k", Text: "once"})
		if err != nil || !cmp.Equal(ref, chat.Ref{IDs: []string{"1"}}) {
			t.Fatalf("post: %v %v", ref, err)
		}
	}
	again := over(t, db, ignore)
	if _, err := again.Post(t.Context(), general, chat.Draft{Key: "k", Text: "once", Again: true}); err != nil {
		t.Fatal(err)
	}
	if n := len(events); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	if diff := cmp.Diff([]string{"bot: once"}, lines(t, db)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatCannotBeTakenIsRefused(t *testing.T) {
	w, db := begin(t, ignore)
	for _, c := range []struct{ room, text string }{
		{"General", "upper case"}, {"", "no room"}, {"a/b", "slash"}, {strings.Repeat("a", 65), "long"}, {"å", "letters"},
		{"general", ""}, {"general", " \n "}, {"general", strings.Repeat("a", maxText+1)},
	} {
		_, err := w.Say(t.Context(), c.room, anna, c.text)
		var input *InputError
		if !errors.As(err, &input) {
			t.Errorf("say %q in %q: %v, want an InputError", shorten(c.text, 20), c.room, err)
		}
	}
	for _, to := range []chat.Address{{Platform: "web", Channel: "Ä"}, {Platform: "slack", Workspace: "T", Channel: "c"},
		{Platform: "web", Channel: "a", Thread: "b"}} {
		_, err := w.Post(t.Context(), to, chat.Draft{Key: "k", Text: "x"})
		var refused *chat.PostError
		if !errors.As(err, &refused) || !refused.Permanent {
			t.Errorf("post to %v: %v, want a permanent PostError", to, err)
		}
	}
	if got := lines(t, db); got != nil {
		t.Errorf("the room holds %v", got)
	}
}

func TestAMessageThatIsNotTakenLeavesNoLine(t *testing.T) {
	w, db := begin(t, func(*Web, chat.Message) error { return chat.ErrBusy })
	for _, err := range w.Ask(t.Context(), "general", anna, "hello") {
		if !errors.Is(err, chat.ErrBusy) {
			t.Errorf("ask: %v, want %v", err, chat.ErrBusy)
		}
	}
	if got := lines(t, db); got != nil {
		t.Errorf("the room holds %v", got)
	}
}

// forgetful is a log whose writes fail for a while.
type forgetful struct {
	Log
	fail int
}

func (f *forgetful) SaveEntry(ctx context.Context, e store.Entry) (store.Entry, error) {
	if f.fail > 0 {
		f.fail--
		return store.Entry{}, errors.New("disk full")
	}
	return f.Log.SaveEntry(ctx, e)
}

func TestALineThatCouldNotBeWrittenComesWithTheAnswer(t *testing.T) {
	_, db := begin(t, ignore)
	var taken chat.Message
	w := over(t, &forgetful{db, 1}, func(_ *Web, m chat.Message) error { taken = m; return nil })
	if _, err := w.Say(t.Context(), "general", anna, "hello"); err != nil {
		t.Fatal(err)
	}
	answer(w, taken, "hi")
	if diff := cmp.Diff([]string{"anna: hello", "bot: hi"}, lines(t, db)); diff != "" {
		t.Error(diff)
	}
}

func TestAReaderWhoFallsBehindIsDroppedAndHoldsNobodyUp(t *testing.T) {
	w, _ := begin(t, ignore)
	slow, cancel := w.Subscribe("general")
	defer cancel()
	for i := range 3 * maxWaitingEvents {
		w.Show(general, chat.Progress{Message: "m", Text: fmt.Sprint(i)})
	}
	n := 0
	for range slow { // ends because the channel is closed
		n++
	}
	if n != maxWaitingEvents {
		t.Errorf("%d events were kept, want %d", n, maxWaitingEvents)
	}
}

func TestAnAskerWhoFellBehindCatchesUp(t *testing.T) {
	flooded, resume := make(chan struct{}), make(chan struct{})
	w, _ := begin(t, func(w *Web, m chat.Message) error {
		go func() {
			for range 2 * maxWaitingEvents {
				w.Show(m.Conversation, chat.Progress{Message: m.ID, Text: "a"})
			}
			w.Show(m.Conversation, chat.Progress{Message: m.ID, Tool: &chat.ToolRun{ID: "1", Name: "t", State: chat.Done}})
			close(flooded)
			<-resume
			w.Show(m.Conversation, chat.Progress{Message: m.ID, Text: "b"})
			answer(w, m, "done")
		}()
		return nil
	})
	var text strings.Builder
	resets, tools, first := 0, 0, true
	for e, err := range w.Ask(t.Context(), "general", anna, "go") {
		if err != nil {
			t.Fatal(err)
		}
		if first {
			first = false
			<-flooded
		}
		switch {
		case e.Entry != nil:
		case e.Progress.Tool != nil:
			tools++
			close(resume)
		case e.Progress.Reset:
			resets++
			text.Reset()
		default:
			text.WriteString(e.Progress.Text)
		}
	}
	if want := strings.Repeat("a", 2*maxWaitingEvents) + "b"; text.String() != want {
		t.Errorf("%d bytes of text, want %d", text.Len(), len(want))
	}
	if resets != 1 || tools != 1 {
		t.Errorf("%d resets and %d tools, want one of each", resets, tools)
	}
}

func TestHealthFollowsRun(t *testing.T) {
	w := New(Options{Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if w.Health().Connected {
		t.Error("connected before it runs")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx, nil) }()
	<-w.started
	cancel()
	<-done
	if w.Health().Connected {
		t.Error("connected after it has ended")
	}
	if _, err := w.Say(t.Context(), "general", anna, "hello"); !errors.Is(err, errStopped) {
		t.Errorf("say: %v, want %v", err, errStopped)
	}
}
