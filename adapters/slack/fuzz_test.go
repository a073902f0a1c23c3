package slack

import (
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
)

// FuzzEvent wants sound messages, or none, of whatever Slack sends or keeps.
func FuzzEvent(f *testing.F) {
	s := New(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	s.self = botIdentity{team: "T1", user: "U1", bot: "B1"}
	for _, seed := range []string{
		`{"type":"message","channel":"C1","user":"U2","text":"<@U1> hi <https://a|b>","ts":"1700000000.000001",` +
			`"thread_ts":"1700000000.000000"}`,
		`{"type":"message","subtype":"message_changed","channel":"C1","message":{"user":"U2","text":"b",` +
			`"ts":"1700000000.000001","edited":{"ts":"1700000001.000000"}},"previous_message":{"user":"U2","text":"a",` +
			`"ts":"1700000000.000001"}}`,
		`{"type":"message","subtype":"message_changed","channel":"C1","message":{"subtype":"tombstone","user":"USLACKBOT",` +
			`"ts":"1700000000.000001"},"previous_message":{"user":"U2","text":"a","ts":"1700000000.000001"}}`,
		`{"type":"message","subtype":"message_deleted","channel":"D1","deleted_ts":"1700000000.000001"}`,
		`{"type":"message","user":"U1","ts":"1.2","metadata":{"event_type":"ravenbot_post","event_payload":{"key":"k",` +
			`"piece":-1,"answers":"1 2"}}}`,
		`{"type":"message","user":"U1","ts":"1.2","metadata":{"event_type":"ravenbot_post",` +
			`"event_payload":{"key":"8254c329a92850f6d539dd37","piece":-1,"live":true}}}`,
		`{"type":"message","subtype":"message_changed","channel":"C1","message":"x","previous_message":[]}`,
		`{"type":"reaction_added","user":"U2","reaction":"+1::skin-tone-2","item_user":"U1","item":{"type":"message",` +
			`"channel":"C1","ts":"1700000000.000001"},"event_ts":"1700000001.000000"}`,
		`{"type":"reaction_removed","user":"U2","reaction":"-1","item":{"type":"message","channel":"C1","ts":"x"},` +
			`"event_ts":7}`,
		`{"type":"assistant_thread_started","assistant_thread":{"channel_id":"D1","thread_ts":"1700000000.000001"}}`,
		`{"type":"app_home_opened","tab":"messages","channel":"D1"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		payload := slices.Concat([]byte(`{"team_id":"T1","event":`), raw, []byte("}"))
		m, ok := s.parseRequest(request{Kind: eventsKind, Payload: payload})
		if ok && (m.ID == "" || m.Conversation.Channel == "" || m.Author.ID == "U1") {
			t.Errorf("%s became %+v", raw, m)
		}
		if ok && m.Change == chat.Deleted && (m.Text != "" || m.Author.ID != "" || m.Reply.MessageID != "") {
			t.Errorf("a deletion says more than what is gone: %+v", m)
		}
		if r := m.Reaction; r != nil && (m.Text != "" || m.Change != "" || m.Time.IsZero() || m.Author.ID == "" ||
			r.Post == "" || r.Sign == "") {
			t.Errorf("a reaction became %+v", m)
		}
		if ok && m.Change == chat.Edited && (m.Revision == "" || m.Reply.MessageID == "") {
			t.Errorf("an edit without its revision: %+v", m)
		}
		var e *wireMessage
		if json.Unmarshal(raw, &e) == nil {
			p := postJob{Slack: s, draft: chat.Draft{Key: "k"}, pieces: []piece{{body: e.Text}}, posted: map[int]string{},
				partial: map[int]string{}}
			if n := p.recognize(e); n < -1 || n >= len(p.pieces) {
				t.Errorf("recognised as piece %d", n)
			}
			s.findAnswered("T1", []*wireMessage{e})(e)
		}
	})
}

// FuzzPress wants sound presses, or none, of whatever Slack sends.
func FuzzPress(f *testing.F) {
	s := New(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	s.self = botIdentity{team: "T1", user: "U1", bot: "B1"}
	for _, seed := range []string{
		`{"type":"block_actions","trigger_id":"1","response_url":"https://hooks.slack.com/a","team":{"id":"T1"},` +
			`"user":{"id":"U2","username":"b"},"channel":{"id":"C1"},"container":{"message_ts":"1.1","thread_ts":"1.0"},` +
			`"message":{"thread_ts":"1.0"},"actions":[{"action_id":"ravenbot-0","value":"good x"}]}`,
		`{"type":"block_actions","user":null,"actions":[{"action_id":"ravenbot-0"}]}`,
		`{"type":"view_submission","trigger_id":"1","user":{"id":"U2"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, ok := s.parsePress(raw)
		if ok && (m.ID == "press/" || m.Command != chat.Pressed || m.Text == "" || m.Author.ID == "" ||
			m.Conversation.Channel == "" || len(m.Reply.Handle) == 0) {
			t.Errorf("%s became %+v", raw, m)
		}
	})
}
