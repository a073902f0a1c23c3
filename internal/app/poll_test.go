package app_test

import (
	"encoding/json"
	"testing"

	"ravenbot/internal/testing/browsertest"
	simdiscord "ravenbot/internal/testing/sim/discord"
	simslack "ravenbot/internal/testing/sim/slack"
)

// A poll is started, voted in on Discord and Slack by two people each, goes on after a restart
// with its votes, and is closed by whoever started it.
func TestPoll_OnDiscordAndSlack_SurvivesARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bob, arne := w.discord.AddUser("bob"), w.slack.AddUser("arne")
	settings := w.base()
	b := w.run(settings)
	if err := w.discord.WaitCommand(deadline(t), "raven"); err != nil {
		t.Fatal(err)
	}
	in := must(w.discord.Slash(w.news.ID, w.anna, "raven", "poll",
		map[string]any{"question": "Lunch?", "options": "Pizza | Soup", "closes": "2h"}))
	onDiscord := must(w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("Poll: Lunch?")))
	if p := must(w.discord.WaitAnswer(deadline(t), in.ID, inDiscord("The poll has begun."))); !p.Ephemeral() {
		t.Errorf("everybody sees that the poll has begun: %q", p.Content)
	}
	w.slack.Slash(w.channel.ID, w.berit, "/raven", "poll Lunch? | Pizza | Soup")
	onSlack := must(w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("Poll: Lunch?")))

	pressDiscord := func(by simdiscord.User, label, told string) {
		t.Helper()
		in := w.discord.Click(onDiscord.ID, by, buttonID(t, onDiscord.Components, label, "custom_id"))
		must(w.discord.WaitAnswer(deadline(t), in.ID, inDiscord(told)))
	}
	shown := func(text string) {
		t.Helper()
		discordPost := func(p simdiscord.Post) bool { return p.ID == onDiscord.ID && inDiscord(text)(p) }
		if _, err := w.discord.WaitPost(deadline(t), w.news.ID, discordPost); err != nil {
			t.Fatalf("%q on Discord: %v", text, err)
		}
		slackPost := func(p simslack.Post) bool { return p.TS == onSlack.TS && inSlack(text)(p) }
		if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, slackPost); err != nil {
			t.Fatalf("%q on Slack: %v", text, err)
		}
	}
	pressDiscord(w.anna, "Pizza", "Your vote: **Pizza**")
	w.slack.Click(w.channel.ID, onSlack.TS, w.berit, buttonID(t, onSlack.Blocks, "Pizza", "action_id"))
	shown("1 vote")
	b.stop()
	b = w.run(settings)
	pressDiscord(bob, "Soup", "Your vote: **Soup**")
	w.slack.Click(w.channel.ID, onSlack.TS, arne, buttonID(t, onSlack.Blocks, "Soup", "action_id"))
	shown("2 votes")
	pressDiscord(bob, "Close", "Only the person who started the poll")
	pressDiscord(w.anna, "Close", "The poll is closed.")
	w.slack.Click(w.channel.ID, onSlack.TS, w.berit, buttonID(t, onSlack.Blocks, "Close", "action_id"))
	shown("closed by")
	for _, p := range w.discord.Posts(w.news.ID) {
		if p.ID == onDiscord.ID && len(p.Components) > 0 {
			t.Error("the closed poll still has buttons on Discord")
		}
	}
	b.stop()
}

func TestPoll_OnThePage(t *testing.T) {
	browser := browsertest.Start(t)
	w := newWorld(t)
	w.run(w.base()).browse(browser, func(page *browsertest.Page) {
		said := func(text string) string {
			return `document.querySelector("#log").textContent.includes("` + text + `")`
		}
		page.Type("#text", "/poll Lunch? | Pizza | Soup")
		page.Enter(false)
		page.Wait(said("Poll: Lunch?"))
		page.Wait(bound("#log .presses"))
		page.Click("#log .presses button")
		page.Wait(said("Your vote: Pizza"))
		page.Wait(said("1 vote · asked by operator"))
		if n := page.Eval(`document.querySelector("#log").textContent.split("Poll: Lunch?").length - 1`); n != float64(1) {
			t.Errorf("the poll is shown %v times", n)
		}
	})
}

// buttonID returns what the button with a label has under a key, anywhere in JSON.
func buttonID(t *testing.T, post any, label, key string) string {
	t.Helper()
	var tree any
	if err := json.Unmarshal(must(json.Marshal(post)), &tree); err != nil {
		t.Fatal(err)
	}
	var find func(any) string
	find = func(v any) string {
		switch v := v.(type) {
		case []any:
			for _, inner := range v {
				if id := find(inner); id != "" {
					return id
				}
			}
		case map[string]any:
			text, _ := v["text"].(map[string]any)
			if id, ok := v[key].(string); ok && (v["label"] == label || text["text"] == label) {
				return id
			}
			for _, inner := range v {
				if id := find(inner); id != "" {
					return id
				}
			}
		}
		return ""
	}
	id := find(tree)
	if id == "" {
		t.Fatalf("no button %q in %v", label, tree)
	}
	return id
}
