package slack_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"ravenbot/adapters/slack"
	simslack "ravenbot/internal/testing/sim/slack"
)

// Whether a request is too old is judged by the clock of the bot, which is that of the database where the machine has
// another one. That it was refused for this reason alone is logged once, with how far the clocks are apart.
func TestARequestIsJudgedByTheClockOfTheBot(t *testing.T) {
	const ahead = 2 * time.Hour
	var log journal
	b := start(t, simslack.Options{}, slack.Options{Mode: "http", SigningSecret: "signing-secret",
		Now: func() time.Time { return time.Now().Add(ahead) }, Log: log.logger()})
	forged := signedRequest("/slack/events", event, time.Now())
	forged.Header.Set("X-Slack-Signature", simslack.Sign("another-secret", time.Now(), event))
	if code := status(b, forged); code != http.StatusUnauthorized {
		t.Errorf("forged: status %d", code)
	}
	for range 3 {
		if code := status(b, signedRequest("/slack/events", event, time.Now())); code != http.StatusUnauthorized {
			t.Errorf("signed by another clock: status %d", code)
		}
	}
	if lines := log.wait(t, "clock_ahead=2h0m"); strings.Count(lines, "clock_ahead") != 1 {
		t.Errorf("said more than once: %s", lines)
	}
	if code := status(b, signedRequest("/slack/events", event, time.Now().Add(ahead))); code != http.StatusOK {
		t.Errorf("signed by the clock of the bot: status %d", code)
	}
}
