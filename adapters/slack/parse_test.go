package slack

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"
)

func TestWorkspace_IsTheAppsOwn_UnlessInstalledInAnOrganization(t *testing.T) {
	s := New(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	s.self = botIdentity{team: "T1", user: "U1", bot: "B1"}
	const (
		event = `{"team_id":"T2","context_team_id":%s,"authorizations":[{"is_enterprise_install":%s}],
			"event":{"type":"message","user":"U2","text":"<@U1> hi","channel":"C1","ts":"1700000000.000001"}}`
		command = `{"team_id":%s,"is_enterprise_install":%s,"channel_id":"C1","user_id":"U2","text":"help"}`
		press   = `{"type":"block_actions","trigger_id":"1","team":{"id":%s},"is_enterprise_install":%s,"user":{"id":"U2"},
			"channel":{"id":"C1"},"container":{"message_ts":"1.1"},"actions":[{"action_id":"ravenbot-0","value":"stop"}]}`
	)
	for _, c := range []struct {
		kind, payload  string
		named, orgWide string // as they are written
		expected       string
	}{
		{eventsKind, event, `"T1"`, `false`, "T1"},
		{eventsKind, event, `null`, `true`, "T2"},
		{eventsKind, event, `"T3"`, `true`, "T3"}, // what a guest did who belongs to T2
		{commandsKind, command, `"T2"`, `"false"`, "T1"},
		{commandsKind, command, `"T2"`, `"true"`, "T2"},
		{commandsKind, command, `null`, `null`, "T1"},
		{interactiveKind, press, `"T2"`, `false`, "T1"},
		{interactiveKind, press, `"T2"`, `true`, "T2"},
	} {
		payload := fmt.Sprintf(c.payload, c.named, c.orgWide)
		m, ok := s.parseRequest(request{Kind: c.kind, Payload: json.RawMessage(payload)})
		if !ok || m.Conversation.Workspace != c.expected {
			t.Errorf("workspace %q, want %q, of %s; read: %v", m.Conversation.Workspace, c.expected, payload, ok)
		}
	}
}

// A message that was sent through the Web API may say everything in its blocks.
func TestMessageOfAPerson_InBlocksAlone_IsRead(t *testing.T) {
	s := New(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	s.self = botIdentity{team: "T1", user: "U1", bot: "B1"}
	const payload = `{"team_id":"T1","event":{"type":"message","user":"U2","text":"","channel":"C1","ts":"1700000000.000001",
		"blocks":[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"user","user_id":"U1"},
		{"type":"text","text":" what is new?"}]}]}]}}`
	m, ok := s.parseRequest(request{Kind: eventsKind, Payload: json.RawMessage(payload)})
	if !ok || m.Text != "what is new?" || m.Conversation.Thread != "1700000000.000001" {
		t.Errorf("read %v: %+v", ok, m)
	}
}

// A message that was not acknowledged comes again after it was deleted.
func TestMessage_ThatComesAfterItsDeletion_IsNotTaken(t *testing.T) {
	s := New(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	s.self = botIdentity{team: "T1", user: "U1", bot: "B1"}
	read := func(event string) bool {
		_, ok := s.parseRequest(request{Kind: eventsKind, Payload: json.RawMessage(`{"team_id":"T1","event":` + event + `}`)})
		return ok
	}
	const fields = `"user":"U2","text":"<@U1> hi","channel":"C1","ts":"1700000000.000001"}`
	if !read(`{"type":"app_mention",` + fields) {
		t.Error("the message is not taken")
	}
	if !read(`{"type":"message","subtype":"message_deleted","deleted_ts":"1700000000.000001","channel":"C1"}`) {
		t.Error("its deletion is not taken")
	}
	if read(`{"type":"app_mention",`+fields) || read(`{"type":"message",`+fields) {
		t.Error("it is taken after its deletion")
	}
}
