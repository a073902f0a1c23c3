package digest

import (
	"encoding/json"
	"fmt"
	"testing"
)

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
