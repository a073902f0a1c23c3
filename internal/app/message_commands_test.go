package app_test

import (
	"strings"
	"testing"

	simdiscord "ravenbot/internal/testing/sim/discord"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// Somebody has themselves reminded of a message from its menu: the reminder repeats it, leads to it, and notifies them.
func TestMessageCommand_RemindMe_OnDiscord(t *testing.T) {
	w := newWorld(t)
	b := w.run(w.base())
	if err := w.discord.WaitCommand(deadline(t), "Remind me"); err != nil {
		t.Fatal(err)
	}
	said := w.discord.Say(w.news.ID, w.discord.AddUser("carl"), "Send the *offer* to @everyone")
	open := func() string {
		in := must(w.discord.Use(said.ID, w.anna, "Remind me"))
		back := must(w.discord.WaitCallback(deadline(t), in.ID))
		if back.Type != simdiscord.CallbackModal || !strings.Contains(string(back.Data), "Send the *offer*") {
			t.Fatalf("the menu answers %d %s", back.Type, back.Data)
		}
		return in.ID
	}
	sent := must(w.discord.Fill(open(), map[string][]string{"words": {"friday or so"}}))
	if p := must(w.discord.WaitAnswer(deadline(t), sent.ID, inDiscord("That does not work"))); !p.Ephemeral() {
		t.Errorf("everybody sees %q", p.Content)
	}
	sent = must(w.discord.Fill(open(), map[string][]string{"when": {"tomorrow at 9"}}))
	if p := must(w.discord.WaitAnswer(deadline(t), sent.ID,
		inDiscord("I will remind you here on"))); !strings.Contains(p.Content, "09:00") {
		t.Errorf("it says %q", p.Content)
	}
	sent = must(w.discord.Fill(open(), map[string][]string{"words": {"in 1 second"}}))
	must(w.discord.WaitAnswer(deadline(t), sent.ID, inDiscord("I will remind you here on")))
	post := must(w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("⏰ Send the")))
	link := "https://discord.com/channels/" + w.guild.ID + "/" + w.news.ID + "/" + said.ID
	if post.Pings.Everyone || len(post.Pings.Users) != 1 || post.Pings.Users[0] != w.anna.ID ||
		!strings.Contains(post.Content, link) {
		t.Errorf("%q notifies %+v", post.Content, post.Pings)
	}
	b.stop()
}

func TestMessageCommand_RemindMe_OnSlack(t *testing.T) {
	w := newWorld(t)
	w.run(w.base())
	said := w.slack.Say(w.channel.ID, w.slack.AddUser("carl"), "Send the offer")
	call := w.slack.Shortcut(w.channel.ID, said.TS, w.berit, "remind-about")
	within(t, "the form is there", func() bool { return len(w.slack.Views()) == 1 })
	view := w.slack.Views()[0]
	// A time that is not understood is told inside of the form.
	bad := must(w.slack.FillView(view, w.berit, map[string][]string{"words": {"friday or so"}}))
	if d := must(w.slack.WaitAck(deadline(t), bad.EventID)); !strings.Contains(string(d.Answer),
		`"words":"That does not work`) {
		t.Errorf("the form is told %s", d.Answer)
	}
	must(w.slack.FillView(view, w.berit, map[string][]string{"words": {"in 1 second"}}))
	answer := must(w.slack.WaitAnswer(deadline(t), call, func(a simslack.Answer) bool {
		return strings.Contains(a.Text, "I will remind you here")
	}))
	if answer.InChannel {
		t.Error("everybody sees the answer")
	}
	post := must(w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("⏰ Send the offer")))
	all := string(post.Blocks) + post.Shown()
	if !strings.Contains(all, "@"+w.berit.ID) || !strings.Contains(all,
		"/archives/"+w.channel.ID+"/p"+strings.Replace(said.TS, ".", "", 1)) {
		t.Errorf("the reminder is %s", all)
	}
}

// What came from a message on is summarised for whoever asks, and a question about a message brings it along, also
// where the bot may not read what others say.
func TestMessageCommand_SummariseAndAsk(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		if strings.Contains(r.System, "You tell somebody what they missed") {
			return simmodel.Say("DECISION: the shed will be green [1]")
		}
		return simmodel.Say("asked: " + r.Asked() + ", about: " + r.LastUserText())
	})
	w.run(w.base())
	carl := w.slack.AddUser("carl")
	w.slack.Say(w.channel.ID, carl, "We decided to buy a boat")
	from := w.slack.Say(w.channel.ID, carl, "We decided to paint the shed green")
	call := w.slack.Shortcut(w.channel.ID, from.TS, w.berit, "summarise-from")
	answer := must(w.slack.WaitAnswer(deadline(t), call, func(a simslack.Answer) bool {
		return strings.Contains(a.Text, "shed will be green")
	}))
	asked := w.model.Asked()
	if got := asked[len(asked)-1].LastUserText(); answer.InChannel || !strings.Contains(got, "paint the shed") ||
		strings.Contains(got, "boat") {
		t.Errorf("the model is given %q", got)
	}
	call = w.slack.Shortcut(w.channel.ID, from.TS, w.berit, "ask-about")
	within(t, "the form is there", func() bool { return len(w.slack.Views()) == 1 })
	must(w.slack.FillView(w.slack.Views()[0], w.berit, map[string][]string{"question": {"Which green?"}}))
	must(w.slack.WaitAnswer(deadline(t), call, func(a simslack.Answer) bool {
		return strings.Contains(a.Text, "Which green?") && strings.Contains(a.Text, "paint the shed")
	}))
	if err := w.discord.WaitCommand(deadline(t), "Ask about this"); err != nil {
		t.Fatal(err)
	}
	said := w.discord.Say(w.news.ID, w.discord.AddUser("dora"), "The kettle is on")
	in := must(w.discord.Use(said.ID, w.anna, "Ask about this"))
	must(w.discord.WaitCallback(deadline(t), in.ID))
	sent := must(w.discord.Fill(in.ID, map[string][]string{"question": {"Whose kettle?"}}))
	must(w.discord.WaitAnswer(deadline(t), sent.ID, func(p simdiscord.Post) bool {
		return strings.Contains(p.Content, "Whose kettle?") && strings.Contains(p.Content, "The kettle is on")
	}))
}
