package slack_test

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"ravenbot/adapters/slack"
	simslack "ravenbot/internal/testing/sim/slack"
)

// Who joins a channel says once how to be used; who else joins is none of the bot's business.
func TestJoin_GreetsOnce(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	anna, channel := b.sim.AddUser("anna"), b.sim.AddChannel("general").ID
	up(t, b)
	for _, user := range []string{anna.ID, simslack.BotUserID, simslack.BotUserID} {
		acked(t, b, b.sim.Emit(map[string]any{"type": "member_joined_channel", "user": user, "channel": channel,
			"channel_type": "C", "team": simslack.TeamID}))
	}
	if _, err := b.sim.WaitPost(deadline(t), channel, func(p simslack.Post) bool {
		return strings.Contains(p.Shown(), "Mention me")
	}); err != nil {
		t.Fatal(err)
	}
	handed(t, b, b.sim.Mention(channel, anna, "hello"))
	if posts := b.sim.Posts(channel); len(posts) != 1 {
		t.Errorf("%d posts: %+v", len(posts), posts)
	}
}

// Slack tells that it keeps events back: the operator learns of it, and it is counted.
func TestRateLimitOfEvents_IsLoggedAndCounted(t *testing.T) {
	var log bytes.Buffer
	b := start(t, simslack.Options{}, slack.Options{
		Mode:          "http",
		SigningSecret: "signing-secret",
		Log:           slog.New(slog.NewTextHandler(&log, nil)),
	})
	door := httptest.NewServer(b.Handler())
	t.Cleanup(door.Close)
	body := `{"type":"app_rate_limited","team_id":"T1","minute_rate_limited":1518467820,"api_app_id":"A1"}`
	if status := post(t, b, simslack.SignedRequest{URL: door.URL + "/slack/events", Body: []byte(body)}); status != 200 {
		t.Errorf("answered %d", status)
	}
	b.stop()
	if n := b.Health().RateLimited; n != 1 || !strings.Contains(log.String(), "level=WARN msg=\"slack withholds events") {
		t.Errorf("counted %d, logged %s", n, log.String())
	}
}

func TestConnectionsOfAnotherProcessAreReported(t *testing.T) {
	var first, second journal
	b := start(t, simslack.Options{}, slack.Options{Log: first.logger()})
	up(t, b)
	join(t, b.sim, slack.Options{Log: second.logger()})
	second.wait(t, "slack counts connections of another process")
	// Also where processes share a store: that of the others is another one.
	var third journal
	join(t, b.sim, slack.Options{Log: third.logger(), Replicas: alone{}})
	third.wait(t, "slack counts connections of another process")
	first.mu.Lock()
	defer first.mu.Unlock()
	if strings.Contains(first.lines.String(), "another process") {
		t.Errorf("the first process reports another one before there was any:\n%s", first.lines.String())
	}
}
