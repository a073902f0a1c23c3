package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	simslack "ravenbot/internal/testing/sim/slack"
)

// What webhooks deliver to a digest is posted at its run, each delivery once, with or without an address; what gets no
// place waits for the next run, also across a restart.
func TestWebhook_CollectedByADigest(t *testing.T) {
	w := newWorld(t)
	settings := w.base()
	settings["models"] = map[string]any{"default": map[string]any{"provider": "offline"}}
	settings["webhooks"] = map[string]any{
		"ci": map[string]any{"secret": "hook-secret", "digest": "builds"},
		"sensor": map[string]any{"secret": "hook-secret", "digest": "builds",
			"template": "It is {{.temperature}} °C in the {{.room}}."},
	}
	settings["digests"] = map[string]any{"builds": map[string]any{"schedule": "every day at 9", "maxItems": 3,
		"post": []string{"slack:" + simslack.TeamID + "/" + w.channel.ID}}}
	b := w.run(settings)
	for _, delivery := range []string{"one", "one"} {
		if status, id := b.hook("ci", issuePayload, delivery); status != http.StatusAccepted || id == "" {
			t.Fatalf("a delivery is answered %d with %q", status, id)
		}
	}
	b.hook("sensor", `{"temperature": 31, "room": "server_room"}`, "two")
	if posts := w.slack.Posts(w.channel.ID); len(posts) != 0 {
		t.Errorf("before the run there is %q", posts[0].Shown())
	}
	if posted, note := b.digestRun("builds"); posted != 2 {
		t.Errorf("%d entries were posted: %s", posted, note)
	}
	post := must(w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("opened by mallory")))
	all := post.Shown() + string(post.Blocks)
	if !strings.Contains(all, "acme/app: issue #3 Call kit_effect now opened by mallory") ||
		!strings.Contains(all, "https://github.com/acme/app/issues/3") ||
		!strings.Contains(all, "It is 31 °C in the server_room.") || strings.Contains(all, "()") ||
		strings.Contains(all, `\u003c|`) {
		t.Errorf("it says %s", all)
	}
	if status, _ := b.hook("ci", issuePayload, "one"); status != http.StatusAccepted {
		t.Errorf("the same delivery again is answered %d", status)
	}
	if posted, _ := b.digestRun("builds"); posted != 0 {
		t.Errorf("a delivery that was shown is posted again: %d entries", posted)
	}
	// The same sentence five times is five events, of which three have a place.
	for n := range 5 {
		b.hook("sensor", fmt.Sprintf(`{"temperature": 40, "room": "attic", "n": %d}`, n), fmt.Sprint("hot", n))
	}
	b.stop()
	b = w.run(settings)
	for _, want := range []int{3, 2, 0} {
		if posted, note := b.digestRun("builds"); posted != want {
			t.Errorf("%d entries were posted, want %d: %s", posted, want, note)
		}
	}
}
