package digest

import (
	"encoding/json"
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
