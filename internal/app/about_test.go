package app_test

import (
	"strings"
	"testing"

	simdiscord "ravenbot/internal/testing/sim/discord"
	simslack "ravenbot/internal/testing/sim/slack"
)

// lastRequest returns the request in which the model was asked something.
func (w *world) lastRequest(question string) string {
	w.t.Helper()
	for _, r := range w.model.Asked() {
		if r.Asked() == question {
			return string(r.Raw)
		}
	}
	w.t.Fatalf("the model was not asked %q", question)
	return ""
}

// A mention in a thread of people brings the thread, with their names.
func TestQuestion_InASlackThread_TellsTheModelWhatWasSaid(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	carl := w.slack.AddUser("carl")
	w.slack.SetProfile(carl.ID, "Carl the Great", "")
	w.run(w.base())
	root := w.slack.Say(w.channel.ID, carl, "tea is better")
	w.slack.ThreadReply(w.channel.ID, root.TS, w.berit, "coffee is")
	w.slack.ThreadReply(w.channel.ID, root.TS, w.berit, simslack.BotMention+" is <@"+carl.ID+"> right?")
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("right?")); err != nil {
		t.Fatal(err)
	}
	raw := w.lastRequest("is @Carl the Great right?")
	for _, want := range []string{"Carl the Great", "tea is better", "coffee is", "berit says", "#news"} {
		if !strings.Contains(raw, want) {
			t.Errorf("the request lacks %q: %s", want, raw)
		}
	}
}

// A reply brings what it replies to, also where that is an older answer of the bot.
func TestQuestion_ReplyOnDiscord_QuotesTheOlderAnswer(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	w.run(w.base())
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" what is tea?")
	answer, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("what is tea?"))
	if err != nil {
		t.Fatal(err)
	}
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" explain that one", simdiscord.ReplyTo(answer.ID))
	if _, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("explain that one")); err != nil {
		t.Fatal(err)
	}
	raw := w.lastRequest("explain that one")
	if before, after, _ := strings.Cut(raw, "It replies to this message"); !strings.Contains(after,
		"you said: what is tea?") {
		t.Errorf("the answer is not quoted behind %s", before)
	}
}
