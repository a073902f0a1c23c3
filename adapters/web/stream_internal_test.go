package web

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// An answer is stored while a browser reads the log, which has it already, and the work on it is still shown.
func TestSendEntry_AnswerThatTheLogHad_EndsTheWork(t *testing.T) {
	w := New(Options{Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	out := httptest.NewRecorder()
	s := &streamer{w: w, room: w.room("general"), seen: 7, rw: out, out: http.NewResponseController(deadlines{out, out}),
		shown: map[string]int{"4": 0}}
	answer := store.Entry{ID: "post/web/4", Seq: 7, Draft: &chat.Draft{Text: "done", Reply: chat.Reply{MessageID: "4"}}}
	for range 2 {
		if err := s.sendEvent(Event{Entry: &answer}); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.Body.String(); strings.Count(got, "hx-swap-oob=\"delete\"") != 1 || strings.Contains(got, "done") {
		t.Errorf("sent %q, want the end of the work once", got)
	}
}

// deadlines is a writer that takes deadlines.
type deadlines struct {
	http.ResponseWriter
	http.Flusher
}

func (deadlines) SetWriteDeadline(time.Time) error { return nil }
