package settings_test

import (
	"testing"

	"ravenbot/internal/feature/settings"
)

func TestCheckStored_RefusesWhatWouldNotApply(t *testing.T) {
	for _, c := range []struct {
		scope, layer string
		ok           bool
	}{
		{"instance", `{"language":"German"}`, true},
		{"channel/slack:T1/C1", `{"model":"default"}`, true},
		{"user/slack/U1", `{"timezone":"Europe/Oslo"}`, true},
		{"user/slack/U1", `{"tongue":"German"}`, false},
		{"instance", `{"language":7}`, false},
		{"instance", `{"tools":{"maxSteps":100}}`, true},
		{"instance", `{"tools":{"maxSteps":-5}}`, false},
		{"channel/slack:T1/C1", `{"tools":{"maxSteps":1000000000}}`, false},
		{"user/slack/U1", `{"timezone":"Mars/Base"}`, false},
		{"channel/slack:T1/C1/1.1", `{}`, false}, // a thread has the settings of its channel
		{"channel/here", `{}`, false},
		{"user/slack", `{}`, false},
		{"everybody", `{}`, false},
	} {
		if err := settings.CheckStored(c.scope, []byte(c.layer)); (err == nil) != c.ok {
			t.Errorf("%s %s: %v", c.scope, c.layer, err)
		}
	}
}
