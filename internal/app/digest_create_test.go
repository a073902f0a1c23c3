package app_test

import (
	"slices"
	"strings"
	"testing"

	simdiscord "ravenbot/internal/testing/sim/discord"
	simslack "ravenbot/internal/testing/sim/slack"
)

// A digest that is asked for with a command is answered once on every platform, with the plan, which everybody there
// sees. The decision takes the place of that answer.
func TestDigestCreate_IsAnsweredWithThePlanAlone(t *testing.T) {
	const words, plan = "weekdays at 9 bundled:mcp-primer", "May I make the digest"
	w := newWorld(t)
	b := w.run(w.base())

	stream := b.ask("room", "/digest create "+words)
	if got := answerIn(t, stream); !strings.Contains(got, plan) || strings.Count(stream, plan) != 1 {
		t.Errorf("in the web room the answer is %q, in %s", got, stream)
	}
	if got := answerIn(t, b.ask("room", "yes")); !strings.Contains(got, "is created") {
		t.Errorf("to a yes the web room is told %q", got)
	}

	call := w.slack.Slash(w.channel.ID, w.berit, "/raven", "digest create "+words)
	post := must(w.slack.WaitPost(deadline(t), w.channel.ID, inSlack(plan)))
	w.slack.Click(w.channel.ID, post.TS, w.berit, buttonID(t, post.Blocks, "Make it", "action_id"))
	decided := must(w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("confirmed by")))
	if list := w.slack.Posts(w.channel.ID); decided.TS != post.TS || len(list) != 1 {
		t.Errorf("on Slack the decision is post %s, the plan was %s, of %+v", decided.TS, post.TS, list)
	}
	if n := len(w.slack.Answers(call)); n != 0 {
		t.Errorf("on Slack there are %d answers beside the plan", n)
	}

	// Where the bot is no member Slack lets it answer, but not post the digest.
	elsewhere := w.slack.AddOtherChannel("elsewhere")
	call = w.slack.Slash(elsewhere.ID, w.berit, "/raven", "digest create "+words)
	must(w.slack.WaitAnswer(deadline(t), call, func(a simslack.Answer) bool { return strings.Contains(a.Text, "invite") }))

	if err := w.discord.WaitCommand(deadline(t), "raven"); err != nil {
		t.Fatal(err)
	}
	in := must(w.discord.Slash(w.news.ID, w.anna, "raven", "digest", map[string]any{"action": "create", "more": words}))
	shown := must(w.discord.WaitAnswer(deadline(t), in.ID, inDiscord(plan)))
	if shown.Ephemeral() || shown.Interaction != in.ID {
		t.Errorf("on Discord the plan is %+v", shown)
	}
	w.discord.Click(shown.ID, w.anna, buttonID(t, shown.Components, "Make it", "custom_id"))
	onDiscord := must(w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("confirmed by")))
	if onDiscord.ID != shown.ID {
		t.Errorf("on Discord the decision is post %s, the plan was %s", onDiscord.ID, shown.ID)
	}
	list := slices.DeleteFunc(w.discord.Posts(w.news.ID), simdiscord.Post.Ephemeral) // the press is answered to anna alone
	if len(list) != 1 {
		t.Errorf("on Discord there are %d posts: %+v", len(list), list)
	}
}
