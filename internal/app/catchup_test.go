package app_test

import (
	"strings"
	"testing"

	simdiscord "ravenbot/internal/testing/sim/discord"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// Somebody is told what they missed in their channel, alone, with links to the messages and nothing of other channels.
func TestCatchup_OnSlack_CitesTheChannelAlone(t *testing.T) {
	w := newWorld(t)
	carl := w.slack.AddUser("carl")
	secret := w.slack.AddChannel("secret")
	w.slack.Say(w.channel.ID, carl, "We decided to paint the shed green")
	w.slack.Say(secret.ID, carl, "We decided to buy a boat")
	w.model.SetScript(simmodel.Sequence(simmodel.Reply{Text: []string{"DECISION: the shed will be green [1]\nDECISION: " +
		"no such message [7]"}}))
	b := w.run(w.base())
	call := w.slack.Slash(w.channel.ID, w.berit, "/raven", "catchup 3 hours")
	answer, err := w.slack.WaitAnswer(deadline(t), call, func(a simslack.Answer) bool {
		return strings.Contains(a.Text, "shed will be green")
	})
	if err != nil {
		t.Fatal(err)
	}
	all := answer.Text + string(answer.Blocks)
	if answer.InChannel || !strings.Contains(all, "https://") || strings.Contains(all, "no such message") ||
		strings.Contains(all, "boat") {
		t.Errorf("it says, to all %t: %s", answer.InChannel, all)
	}
	asked := w.model.Asked()
	if got := asked[len(asked)-1].LastUserText(); !strings.Contains(got, "paint the shed") ||
		strings.Contains(got, "boat") {
		t.Errorf("the model is given %q", got)
	}
	b.stop()
}

// On Discord the open threads of the channel belong to what was missed, archived ones too; private ones and those of
// other channels do not.
func TestCatchup_OnDiscord_ReadsOpenThreads(t *testing.T) {
	w := newWorldWith(t, simslack.Options{}, simdiscord.Options{Privileged: simdiscord.IntentMessageContent})
	bob := w.discord.AddUser("bob") // nobody else is answered
	settings := w.base()
	settings["models"] = map[string]any{"default": map[string]any{"provider": "offline"}}
	settings["channels"] = []map[string]any{{"match": "discord:*/*", "respondTo": "all", "allowUsers": []string{bob.ID}}}
	address := "discord:" + w.guild.ID + "/" + w.news.ID
	settings["digests"] = map[string]any{"round": map[string]any{"schedule": "every day at 9",
		"channels": []string{address}, "post": []string{address}}}
	other := w.discord.AddChannel(w.guild, "other")
	say := func(thread simdiscord.Channel, text string) { w.discord.Say(thread.ID, w.anna, text) }
	w.discord.Say(w.news.ID, w.anna, "We agreed on Friday")
	say(w.discord.AddThread(w.news, "garden"), "We decided to plant a tree")
	old := w.discord.AddThread(w.news, "old")
	say(old, "We decided to keep the fence")
	w.discord.Archive(old.ID)
	say(w.discord.AddPrivateThread(w.news, "secret"), "We decided to sell the house")
	say(w.discord.AddThread(other, "elsewhere"), "We decided to buy a boat")
	b := w.run(settings)
	check := func(where, all string) {
		t.Helper()
		for _, want := range []string{"Friday", "plant a tree", "keep the fence", "/" + old.ID + "/"} {
			if !strings.Contains(all, want) {
				t.Errorf("%s does not tell %q: %s", where, want, all)
			}
		}
		for _, bad := range []string{"house", "boat"} {
			if strings.Contains(all, bad) {
				t.Errorf("%s tells of %q: %s", where, bad, all)
			}
		}
	}
	if posted, note := b.digestRun("round"); posted != 3 {
		t.Errorf("the digest posts %d entries: %s", posted, note)
	}
	post := must(w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("plant a tree")))
	check("the digest", post.Content)
	if posted, _ := b.digestRun("round"); posted != 0 {
		t.Errorf("with nothing new %d entries are posted", posted)
	}
	if err := w.discord.WaitCommand(deadline(t), "raven"); err != nil {
		t.Fatal(err)
	}
	call := must(w.discord.Slash(w.news.ID, bob, "raven", "catchup", map[string]any{"since": "3 hours"}))
	answer := must(w.discord.WaitAnswer(deadline(t), call.ID, inDiscord("plant a tree")))
	check("catchup", answer.Content)
}
