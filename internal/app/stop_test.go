package app_test

import (
	"testing"

	simdiscord "ravenbot/internal/testing/sim/discord"
	simmodel "ravenbot/internal/testing/sim/model"
)

// A failed answer is tried again for whoever asked and for administrators, and for nobody else.
func TestTryAgain_IsForWhoeverAskedAndAdministrators(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(func(simmodel.Request) simmodel.Reply { return simmodel.Reply{Status: 400, Message: "no"} })
	w.run(w.base())
	bob, boss := w.discord.AddUser("bob"), w.discord.AddManager("boss")
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" what is tea?")
	failed := must(w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("reference")))
	w.model.SetScript(echo)
	press := func(by simdiscord.User, want string) {
		t.Helper()
		in := w.discord.Click(failed.ID, by, buttonID(t, failed.Components, "Try again", "custom_id"))
		if want == "" {
			return
		}
		if p := must(w.discord.WaitAnswer(deadline(t), in.ID, inDiscord(want))); !p.Ephemeral() {
			t.Errorf("everybody sees %q", p.Content)
		}
	}
	press(bob, "Only the asker or an administrator can try this again.")
	press(boss, "")
	must(w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("you said: what is tea?")))
}
