package app_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	simdiscord "ravenbot/internal/testing/sim/discord"
	simslack "ravenbot/internal/testing/sim/slack"
)

// What a tool server asks back goes to whoever had it called, in a form of the
// platform, and to nobody else.
func TestAServerAsksWhoeverHadItCalled(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(useOnce("kit_wonder"))
	d := w.daemon(w.base()).withTools().start().toolsReady()
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" wonder")
	asked, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("asks something"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(asked.Content, "Which one?") {
		t.Errorf("everybody sees the question: %q", asked.Content)
	}
	values := regexp.MustCompile(`elicit [0-9a-f]+`).FindAllString(string(must(json.Marshal(asked.Components))), -1)
	if len(values) != 1 {
		t.Fatalf("the buttons are %v", values)
	}
	press := w.discord.Click(asked.ID, w.discord.AddUser("eve"), values[0])
	if p, err := w.discord.WaitAnswer(deadline(t), press.ID, func(simdiscord.Post) bool {
		return true
	}); err != nil || !p.Ephemeral() || !strings.Contains(p.Content, "nly anna can answer") {
		t.Errorf("somebody else was answered %+v (%v)", p.Content, err)
	}
	press = w.discord.Click(asked.ID, w.anna, values[0])
	var sent simdiscord.Interaction
	within(t, "the form is shown", func() bool {
		sent, err = w.discord.Fill(press.ID, map[string][]string{"colour": {"blue"}, "count": {"many"}})
		return err == nil
	})
	if p, err := w.discord.WaitAnswer(deadline(t), sent.ID, func(simdiscord.Post) bool {
		return true
	}); err != nil || !strings.Contains(p.Content, "want a number") {
		t.Errorf("a wrong value was answered %+v (%v)", p.Content, err)
	}
	press = w.discord.Click(asked.ID, w.anna, values[0])
	within(t, "the form is shown again", func() bool {
		_, err = w.discord.Fill(press.ID, map[string][]string{"colour": {"blue"}, "count": {"3"}})
		return err == nil
	})
	got, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("the tool says"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"action":"accept"`, `"colour":"blue"`, `"count":3`} {
		if !strings.Contains(strings.ReplaceAll(got.Content, "\\", ""), want) {
			t.Errorf("the server heard %q, want %s", got.Content, want)
		}
	}
	w.slack.Mention(w.channel.ID, w.berit, "wonder")
	question, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("asks something"))
	if err != nil {
		t.Fatal(err)
	}
	w.slack.Click(w.channel.ID, question.TS, w.berit, "ravenbot-0")
	view, err := w.slack.WaitView(deadline(t), func(v simslack.View) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.slack.FillView(view, w.berit, map[string][]string{"colour": {"red"}, "count": {"1"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("the tool says")); err != nil {
		t.Fatal(err)
	}
	d.idle()
	d.end()
}
