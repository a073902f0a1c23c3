package app_test

import (
	"strings"
	"testing"

	simdiscord "ravenbot/internal/sim/discord"
	simslack "ravenbot/internal/sim/slack"
)

// A member is sent what fits directly, and nothing after they have left the channel.
func TestDigestFilter_OnDiscordAndSlack(t *testing.T) {
	w := newWorld(t)
	url := w.own()
	team := w.slack.AddPrivateChannel("team", w.berit)
	settings := w.base()
	settings["digests"] = map[string]any{"harbour": map[string]any{"schedule": "0 8 * * *", "feeds": []string{url},
		"post": []string{"discord:" + w.guild.ID + "/" + w.news.ID, "slack:" + simslack.TeamID + "/" + team.ID}}}
	b := w.run(settings)
	if err := w.discord.WaitCommand(deadline(t), "raven"); err != nil {
		t.Fatal(err)
	}
	in := must(w.discord.Slash(w.news.ID, w.anna, "raven", "digest",
		map[string]any{"action": "filter", "name": "harbour", "more": "crane, choir"}))
	must(w.discord.WaitAnswer(deadline(t), in.ID, inDiscord("I send you directly what fits")))
	call := w.slack.Slash(team.ID, w.berit, "/raven", "digest filter harbour crane, choir")
	must(w.slack.WaitAnswer(deadline(t), call, func(a simslack.Answer) bool {
		return strings.Contains(a.Text, "I send you directly what fits")
	}))
	b.digestRun("harbour")
	direct := w.discord.AddDM(w.anna)
	post := must(w.discord.WaitPost(deadline(t), direct.ID, func(p simdiscord.Post) bool {
		return strings.Contains(embeds(p)+p.Content, "harbour gets a new crane")
	}))
	if !strings.Contains(embeds(post)+post.Content, "https://own.example/1") {
		t.Errorf("anna is sent %s %s", post.Content, embeds(post))
	}
	dm := w.slack.AddDM(w.berit)
	must(w.slack.WaitPost(deadline(t), dm.ID, func(p simslack.Post) bool {
		return strings.Contains(p.Shown()+string(p.Blocks), "harbour gets a new crane")
	}))
	w.slack.RemoveMember(team.ID, w.berit)
	w.discord.LimitReaders(w.news.ID)
	w.story("2")
	w.story("3")
	b.digestRun("harbour")
	must(w.slack.WaitPost(deadline(t), team.ID, func(p simslack.Post) bool {
		return strings.Contains(p.Shown()+string(p.Blocks), "Choir wins")
	}))
	for _, p := range w.slack.Posts(dm.ID) {
		if strings.Contains(p.Shown()+string(p.Blocks), "Choir") {
			t.Error("somebody who left the channel on Slack is sent what it says")
		}
	}
	for _, p := range w.discord.Posts(direct.ID) {
		if strings.Contains(embeds(p)+p.Content, "Choir") {
			t.Error("somebody who left the channel on Discord is sent what it says")
		}
	}
	if !strings.Contains(b.log.String(), "member gets nothing of a digest") {
		t.Error("the log does not say why")
	}
}
