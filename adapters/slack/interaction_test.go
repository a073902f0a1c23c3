package slack_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	simslack "ravenbot/internal/testing/sim/slack"
)

var rating = []chat.Button{{Label: "👍", Value: chat.PressGood + "turn"}, {Label: "👎", Value: chat.PressBad + "turn"},
	{Label: "Try again", Value: chat.PressRetry + "turn", Style: chat.Primary}, {Label: "Stop", Value: chat.PressStop, Style: chat.Danger}}

// labels are the buttons that a post shows.
func labels(t *testing.T, p simslack.Post) string {
	t.Helper()
	var blocks []struct {
		Type     string
		Elements []struct {
			Type string
			Text json.RawMessage
		}
	}
	if len(p.Blocks) > 0 {
		if err := json.Unmarshal(p.Blocks, &blocks); err != nil {
			t.Fatal(err)
		}
	}
	var all []string
	for _, b := range blocks {
		for _, e := range b.Elements {
			var label struct{ Text string }
			if b.Type == "actions" && json.Unmarshal(e.Text, &label) == nil {
				all = append(all, label.Text)
			}
		}
	}
	return strings.Join(all, " ")
}

func TestAPressIsAMessage(t *testing.T) {
	for _, mode := range []string{"socket", "http"} {
		b := start(t, simslack.Options{}, slack.Options{Mode: mode, SigningSecret: "signing-secret"})
		if mode == "http" {
			door := httptest.NewServer(b.Handler())
			t.Cleanup(door.Close)
			b.sim.DeliverHTTP(door.URL)
		} else {
			up(t, b)
		}
		channel, anna, berit := b.sim.AddChannel("general").ID, b.sim.AddUser("anna"), b.sim.AddUser("berit")
		root := b.sim.Say(channel, anna, "a question")
		for _, thread := range []string{"", root.TS} {
			n := len(b.wait(t, 1))
			to := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel, Thread: thread}
			ref, err := b.Post(deadline(t), to, chat.Draft{Key: "k" + thread, Text: long("text ", 2), Buttons: rating})
			if err != nil || len(ref.IDs) != 2 {
				t.Fatal(ref, err)
			}
			posts := b.sim.Posts(channel)
			if above, below := labels(t, posts[len(posts)-2]), labels(t, posts[len(posts)-1]); above != "" ||
				below != "👍 👎 Try again Stop" {
				t.Errorf("buttons %q and %q, want them below all", above, below)
			}
			if thread == "" {
				b.sim.ThreadReply(channel, ref.IDs[1], anna, "a thread begins below it")
			}
			call := b.sim.Click(channel, ref.IDs[1], berit, "ravenbot-1")
			if d, err := b.sim.WaitAck(deadline(t), call.EventID); err != nil || len(d.Answer) != 0 {
				t.Errorf("%s: acknowledged with %s, %v", mode, d.Answer, err)
			}
			var m chat.Message
			for m.Command == "" {
				n++
				m = b.wait(t, n)[n-1]
			}
			if what, turn := m.Press(); what != chat.PressBad || turn != "turn" ||
				!strings.HasPrefix(m.ID, "press/"+call.TriggerID+"/") || m.Reach != chat.Addressed ||
				m.Author.ID != berit.ID || m.Author.Name != "berit" || m.Author.Handle != "berit" || m.Conversation != to ||
				m.Reply.MessageID != ref.IDs[1] {
				t.Errorf("%s: the press became %+v", mode, m)
			}
		}
	}
}

func TestAPressIsAnsweredToWhoPressedAlone(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	to, d := asked(t, b)
	ref := whole(t, b, to, d)
	anna := b.sim.AddUser("anna")
	call := b.sim.Click(to.Channel, ref.IDs[0], anna, "ravenbot-0")
	m := b.wait(t, 3)[2]
	before := b.sim.Posts(to.Channel)
	for n := range 6 {
		if _, err := b.Post(deadline(t), m.Conversation, chat.Draft{
			Key:   fmt.Sprint(n),
			Text:  "Thank you, <!channel>!",
			Reply: m.Reply,
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range b.sim.Answers(call) {
		if a.InChannel || a.Replaces || a.Deletes || a.Pings.Any() {
			t.Errorf("answered with %+v", a)
		}
	}
	whispers := b.sim.Ephemerals()
	if len(b.sim.Answers(call)) != 4 || len(whispers) != 2 || whispers[0].EphemeralTo != anna.ID ||
		whispers[0].ThreadTS != to.Thread || whispers[0].Pings.Any() {
		t.Errorf("%d answers at the response_url, then %+v", len(b.sim.Answers(call)), whispers)
	}
	if after := b.sim.Posts(to.Channel); len(after) != len(before) || after[0].Edits != before[0].Edits {
		t.Errorf("the posts became %+v", after)
	}
}

func TestAnEditKeepsOrTakesButtons(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel := b.sim.AddChannel("general").ID
	up(t, b)
	d := chat.Draft{Key: "k", Text: "words", Buttons: rating[:2]}
	for _, c := range []struct {
		buttons []chat.Button
		want    string
	}{{rating[:2], "👍 👎"}, {rating[:2], "👍 👎"}, {rating[2:3], "Try again"}, {nil, ""}} {
		d.Buttons = c.buttons
		ref, err := b.Post(deadline(t), chat.Address{Channel: channel}, d)
		if err != nil {
			t.Fatal(err)
		}
		if p := b.sim.Posts(channel)[0]; labels(t, p) != c.want {
			t.Errorf("buttons %q, want %q", labels(t, p), c.want)
		}
		d.Replaces = ref
	}
}

// What other apps' posts, forms and menus bring is acknowledged and no message.
func TestOnlyOurButtonsArePressed(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	up(t, b)
	for _, payload := range []string{
		`{"type":"view_submission","trigger_id":"1","user":{"id":"U1"},"view":{}}`,
		`{"type":"block_actions","trigger_id":"1","user":{"id":"U1"},"channel":{"id":"C1"},` +
			`"actions":[{"action_id":"other","value":"stop"}]}`,
		`{"type":"block_actions","trigger_id":"1","user":{"id":"U1"},"channel":{"id":"C1"},"actions":[]}`,
		`{"type":"block_actions","trigger_id":"1","user":{"id":"U1"},"actions":[{"action_id":"ravenbot-0","value":"stop"}]}`,
		`{"type":["odd"]}`,
	} {
		if _, err := b.sim.WaitAck(deadline(t), b.sim.InjectPayload(simslack.KindInteractive,
			json.RawMessage(payload))); err != nil {
			t.Error(err)
		}
	}
	b.sim.DM(b.sim.AddUser("anna"), "hello")
	if got := b.wait(t, 1); len(got) != 1 || got[0].Command != "" || time.Since(got[0].Time) > time.Hour {
		t.Errorf("taken %+v", got)
	}
}
