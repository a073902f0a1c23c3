package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// reads has the model ask for the channel's history, and answer with what it is given.
func reads(args string) simmodel.Script { return simmodel.CallTool("channel_history", args) }

func TestWhatWasSaidIsReadBack(t *testing.T) {
	w := newWorld(t)
	carl := w.slack.AddUser("carl")
	for n := range 5 {
		w.slack.Say(w.channel.ID, carl, fmt.Sprintf("we meet at %d", n))
	}
	w.model.SetScript(reads(`{"messages":4}`))
	b := w.run(w.base())

	w.slack.Mention(w.channel.ID, w.berit, "what was said?")
	post, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("we meet at"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"4 messages, oldest first", "carl: we meet at 2", "carl: we meet at 4",
		"berit: @ravenbot what was said?", "There may be earlier ones"} {
		if !strings.Contains(post.Shown(), want) {
			t.Errorf("Slack: the answer lacks %q: %s", want, post.Shown())
		}
	}
	if strings.Contains(post.Shown(), "we meet at 1") {
		t.Errorf("Slack: more is read than was asked for: %s", post.Shown())
	}

	w.model.SetScript(reads(`{"where":"thread"}`))
	w.slack.ThreadReply(w.channel.ID, post.ThreadTS, carl, "and here?")
	if post, err = w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("carl: and here?")); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(post.Shown(), "carl: we meet at 3\n") ||
		!strings.Contains(post.Shown(), "berit: @ravenbot what was said?") {
		t.Errorf("Slack: a thread gives %s", post.Shown())
	}

	w.model.SetScript(reads(`{}`))
	b.ask("a", "a word of mine")
	if got := answerIn(t, b.ask("a", "what did I say?")); !strings.Contains(got, "a word of mine") ||
		strings.Contains(got, "we meet") {
		t.Errorf("the web room gives %q", got)
	}

	w.discord.Say(w.news.ID, w.anna, "nobody asked the bot")
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" what was said?")
	answer, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("anna: @ravenbot what was said?"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(answer.Content, "nobody asked") ||
		!strings.Contains(answer.Content, "1 message of somebody else is not shown to me") {
		// Discord hides it from bots without the intent
		t.Errorf("Discord gives %q", answer.Content)
	}
}

// A task on a schedule reads the one channel that it posts to, and none where it posts
// to several.
func TestATaskReadsBackTheChannelItPostsTo(t *testing.T) {
	w := newWorld(t)
	w.slack.Say(w.channel.ID, w.berit, "the bridge is closed on Monday")
	here := "slack:" + simslack.TeamID + "/" + w.channel.ID
	settings := w.base()
	settings["digests"] = map[string]any{
		"recap": map[string]any{"schedule": "0 3 1 1 *", "prompt": "Sum up what was said.", "post": []string{here}},
		"both": map[string]any{"schedule": "0 3 1 1 *", "prompt": "Sum up what was said.",
			"post": []string{here, "web:/general"}},
	}
	w.model.SetScript(reads(`{}`))
	b := w.run(settings)
	for name, want := range map[string]string{"recap": "berit: the bridge is closed on Monday",
		"both": "comes from no channel"} {
		if status := b.call(http.MethodPost, "/api/v1/digests/"+name+"/run", nil, nil); status != http.StatusOK {
			t.Fatalf("the run of %s: status %d", name, status)
		}
		if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, func(p simslack.Post) bool {
			return strings.Contains(string(p.Blocks)+p.Text, want)
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
