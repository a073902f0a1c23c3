package digest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/chat"
)

func TestCheckMemberFilter(t *testing.T) {
	f := memberFilter{Version: memberVersion, ID: "abcd1234", Digest: "news", Words: "security, -sponsored",
		To: chat.Address{Platform: "slack", Workspace: "T1", Channel: "D1"}, At: time.Unix(1, 0)}
	good, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckMemberFilter("abcd1234", good); err != nil {
		t.Errorf("a filter as it is stored: %v", err)
	}
	for name, raw := range map[string]string{
		"another":  string(good),
		"abcd1234": strings.Replace(string(good), `"D1"`, `""`, 1) + "x",
		"":         `{"to":"slack:T1/D1"}`,
		"e":        `{"id":"e","digest":"news","words":"a"}`,
	} {
		if CheckMemberFilter(name, json.RawMessage(raw)) == nil {
			t.Errorf("taken as %q: %s", name, raw)
		}
	}
	f.Words = ""
	if raw, _ := json.Marshal(f); CheckMemberFilter("abcd1234", raw) == nil {
		t.Error("a filter without words was taken")
	}
}

func TestCheckUnsubscribed(t *testing.T) {
	raw := json.RawMessage(`{"version":1,"digest":"news","mailbox":"Anna@example.com"}`)
	if err := CheckUnsubscribed(mailingID("news", "anna@example.com"), raw); err != nil {
		t.Error(err)
	}
	if CheckUnsubscribed("anna", raw) == nil || CheckUnsubscribed("anna", json.RawMessage(`[]`)) == nil {
		t.Error("an unsubscription that is never found was taken")
	}
}

func TestCheckPause_IsForItsDigestAlone(t *testing.T) {
	s := &Service{configured: map[string]spec{"configured": {Plan: Plan{Name: "configured", Source: FromConfig}}}}
	for _, c := range []struct {
		name, source string
		want         bool
	}{
		{"configured", FromConfig, true}, {"configured", FromChat, false},
		{"made", FromChat, true}, {"made", "api", true}, {"made", FromConfig, false},
	} {
		err := s.CheckPause(c.name, json.RawMessage(fmt.Sprintf(`{"paused":true,"source":%q}`, c.source)))
		if (err == nil) != c.want {
			t.Errorf("pause of %q from %q: %v", c.name, c.source, err)
		}
	}
}
