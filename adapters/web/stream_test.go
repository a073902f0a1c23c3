package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// deadlined is a recorder that takes deadlines, which a streamer sets.
type deadlined struct{ *httptest.ResponseRecorder }

func (deadlined) SetWriteDeadline(time.Time) error { return nil }

func TestSendEntry_AnswerThatTheLogAlreadyHad_EndsItsWork(t *testing.T) {
	w, _ := begin(t, ignore)
	out := deadlined{httptest.NewRecorder()}
	s := &streamer{w: w, room: w.room("general"), seen: 2, rw: out, out: http.NewResponseController(out),
		shown: map[string]int{"room/a": 0}}
	d := chat.Draft{Key: "k", Text: "the answer", Reply: chat.Reply{MessageID: "room/a"}}
	if err := s.sendEvent(Event{Entry: &store.Entry{Seq: 2, ID: "post/k", Room: "general", Draft: &d}}); err != nil {
		t.Fatal(err)
	}
	if sent := out.Body.String(); !strings.Contains(sent, `id="work-a" hx-swap-oob="delete"`) || strings.Contains(sent, "the answer") {
		t.Errorf("the browser gets\n%s", sent)
	}
}
