package app_test

import (
	"net/http"
	"strings"
	"testing"

	simdiscord "ravenbot/internal/testing/sim/discord"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// digestRun runs the digest "round" and returns how many entries it posted, and what the run says.
func (b *bot) digestRun(name string) (posted int, note string) {
	b.t.Helper()
	var run struct {
		Posted int
		Note   string
	}
	if status := b.call(http.MethodPost, "/api/v1/digests/"+name+"/run", nil, &run); status != http.StatusOK {
		b.t.Fatalf("the run of %s is answered %d", name, status)
	}
	return run.Posted, run.Note
}

// A digest tells what was said in channels since its last run, cited to messages, once. It leaves out what not
// everybody may read where it is posted, and its own posts.
func TestDigestOfChannels_OnSlack_TellsEachMessageOnce(t *testing.T) {
	w := newWorld(t)
	carl := w.slack.AddUser("carl")
	secret := w.slack.AddPrivateChannel("secret", carl)
	address := func(c simslack.Channel) string { return "slack:" + simslack.TeamID + "/" + c.ID }
	w.slack.Say(w.channel.ID, carl, "We decided to paint the shed green")
	w.slack.Say(secret.ID, carl, "We decided to buy a boat")
	w.model.SetScript(simmodel.Sequence(
		simmodel.Reply{Text: []string{"DECISION: the shed will be green [1]\nDECISION: no such message [7]\nTOPIC: " +
			"without a number"}},
		simmodel.Reply{Text: []string{"QUESTION: berit asks for a brush [1]"}}))
	settings := w.base()
	settings["digests"] = map[string]any{"round": map[string]any{"schedule": "every day at 9",
		"channels": []string{address(w.channel), address(secret)}, "post": []string{address(w.channel)}}}
	b := w.run(settings)
	if posted, note := b.digestRun("round"); posted != 1 || !strings.Contains(note, "a channel is left out") {
		t.Errorf("the first run posted %d entries: %s", posted, note)
	}
	post := must(w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("shed will be green")))
	all := post.Shown() + string(post.Blocks)
	if !strings.Contains(all, "https://") || strings.Contains(all, "no such message") || strings.Contains(all, "boat") {
		t.Errorf("it says %s", all)
	}
	if posted, _ := b.digestRun("round"); posted != 0 {
		t.Errorf("with nothing new %d entries are posted", posted)
	}
	w.slack.Say(w.channel.ID, w.berit, "Who has a brush?")
	b.stop()
	b = w.run(settings) // what was told is remembered
	if posted, note := b.digestRun("round"); posted != 1 {
		t.Errorf("after a new message %d entries are posted: %s", posted, note)
	}
	must(w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("Open questions")))
	asked := w.model.Asked()
	if got := asked[len(asked)-1].LastUserText(); !strings.Contains(got, "brush") || strings.Contains(got, "shed") ||
		strings.Contains(got, "boat") {
		t.Errorf("the model is given %q", got)
	}
}

// Replies in threads are told once, with what they answer; where a guest reads, only channels that the guest is in.
func TestDigestOfChannels_OnSlack_ThreadsAndGuests(t *testing.T) {
	w := newWorld(t)
	work := w.slack.AddChannel("work")
	w.slack.AddGuest("gina", work)
	address := func(c simslack.Channel) string { return "slack:" + simslack.TeamID + "/" + c.ID }
	settings := w.base()
	settings["models"] = map[string]any{"default": map[string]any{"provider": "offline"}}
	settings["digests"] = map[string]any{
		"inside": map[string]any{"schedule": "every day at 9", "channels": []string{address(w.channel)},
			"post": []string{address(w.channel)}},
		"outside": map[string]any{"schedule": "every day at 9", "channels": []string{address(w.channel)},
			"post": []string{address(work)}},
	}
	question := w.slack.Say(w.channel.ID, w.berit, "Shall we decide about the shed?")
	w.slack.ThreadReply(w.channel.ID, question.TS, w.slack.AddUser("carl"), "We decided to paint it green")
	b := w.run(settings)
	if posted, note := b.digestRun("outside"); posted != 0 || !strings.Contains(note, "a channel is left out") {
		t.Errorf("where a guest reads %d entries are posted: %s", posted, note)
	}
	if posted, note := b.digestRun("inside"); posted != 2 {
		t.Errorf("%d entries are posted: %s", posted, note)
	}
	post := must(w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("paint it green")))
	if all := post.Shown() + string(post.Blocks); !strings.Contains(all, "Shall we decide") {
		t.Errorf("it says %s", all)
	}
}

// Without a language model the messages themselves are listed. On Discord the readers of the place decide, too.
func TestDigestOfChannels_OnDiscordWithoutAModel_ListsMessages(t *testing.T) {
	w := newWorldWith(t, simslack.Options{}, simdiscord.Options{Privileged: simdiscord.IntentMessageContent})
	settings := w.base()
	settings["models"] = map[string]any{"default": map[string]any{"provider": "offline"}}
	settings["channels"] = []map[string]any{{"match": "discord:*/*", "respondTo": "all", "allowUsers": []string{}}}
	board := w.discord.AddChannel(w.guild, "board")
	w.discord.LimitReaders(board.ID, w.anna)
	address := func(c simdiscord.Channel) string { return "discord:" + w.guild.ID + "/" + c.ID }
	settings["digests"] = map[string]any{
		"wide": map[string]any{"schedule": "every day at 9", "channels": []string{address(board)},
			"post": []string{address(w.news)}},
		"narrow": map[string]any{"schedule": "every day at 9", "channels": []string{address(w.news)},
			"post": []string{address(board)}},
	}
	b := w.run(settings)
	w.discord.Say(w.news.ID, w.anna, "We agreed on *Friday*, see https://plan.example/a")
	w.discord.Say(board.ID, w.anna, "We decided to sell")
	if posted, note := b.digestRun("wide"); posted != 0 || !strings.Contains(note, "a channel is left out") {
		t.Errorf("a place with more readers is told %d entries: %s", posted, note)
	}
	if posted, note := b.digestRun("narrow"); posted != 2 { // the decision, and its link
		t.Errorf("a place with fewer readers is told %d entries: %s", posted, note)
	}
	post := must(w.discord.WaitPost(deadline(t), board.ID, inDiscord("Perhaps decisions")))
	if !strings.Contains(post.Content, "https://discord.com/channels/"+w.guild.ID+"/"+w.news.ID+"/") ||
		!strings.Contains(post.Content, "plan.example") {
		t.Errorf("it says %s", post.Content)
	}
}

// In chat the channel at hand is a source, and one that others may not read is refused when the digest is made.
func TestDigestOfChannels_InChatAndOverTheAPI(t *testing.T) {
	w := newWorld(t)
	carl := w.slack.AddUser("carl")
	secret := w.slack.AddPrivateChannel("secret", carl)
	b := w.run(w.base())
	w.slack.Slash(w.channel.ID, w.berit, "/raven", "digest create weekdays at 9 here")
	plan := must(w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("May I make the digest")))
	if !strings.Contains(plan.Shown(), "decisions, questions and links of") {
		t.Errorf("the plan says %s", plan.Shown())
	}
	entry := func(channel string) map[string]any {
		return map[string]any{"name": "bad", "schedule": "weekdays at 9", "channels": []string{channel},
			"post": []string{"slack:" + simslack.TeamID + "/" + w.channel.ID}}
	}
	for channel, want := range map[string]string{
		"slack:" + simslack.TeamID + "/" + secret.ID: "not everybody",
		"slack:T9/" + w.channel.ID:                   "is in another",
		"discord:1/2":                                "is in another",
	} {
		var fault struct{ Error struct{ Message string } }
		if status := b.call(http.MethodPost, "/api/v1/digests", entry(channel), &fault); status != http.StatusBadRequest ||
			!strings.Contains(fault.Error.Message, want) {
			t.Errorf("%s is answered %d: %s", channel, status, fault.Error.Message)
		}
	}
}

// A channel that the bot is not in is named with what to do, and does not pass for a quiet one.
func TestDigestOfChannels_OneThatCannotBeRead_IsSaid(t *testing.T) {
	w := newWorld(t)
	other := w.slack.AddOtherChannel("other")
	w.model.SetScript(simmodel.Sequence(simmodel.Reply{Text: []string{"TOPIC: tea [1]"}}))
	settings := w.base()
	settings["digests"] = map[string]any{"round": map[string]any{"schedule": "every day at 9",
		"post":     []string{"slack:" + simslack.TeamID + "/" + w.channel.ID},
		"channels": []string{"slack:" + simslack.TeamID + "/" + w.channel.ID, "slack:" + simslack.TeamID + "/" + other.ID}}}
	b := w.run(settings)
	w.slack.Say(w.channel.ID, w.berit, "There is tea")
	if posted, note := b.digestRun("round"); posted != 1 ||
		!strings.Contains(note, "I cannot read 1 channel: invite me there") {
		t.Errorf("%d entries are posted: %s", posted, note)
	}
	must(w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("I cannot read 1 channel")))
}
