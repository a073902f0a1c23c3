package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/testing/sim"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// A post that a platform refuses is shown to the operator, counted, and told in
// its channel when that can be reached again.
func TestAPostThatIsRefusedBecomesVisible(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	b := w.run(w.base())
	w.slack.Fail(sim.Fault{Times: 2, Match: sim.MatchPath(http.MethodPost, "/chat.postMessage"), Status: http.StatusOK,
		Header: map[string]string{"Content-Type": "application/json"}, Body: `{"ok":false,"error":"is_archived"}`})
	lost := w.slack.Mention(w.channel.ID, w.berit, "lost words")
	within(t, "the post is given up", func() bool { return strings.Contains(b.metrics(), "ravenbot_posts_undelivered 1") })
	var page string
	b.call(http.MethodGet, "/posts", nil, &page)
	for _, want := range []string{"slack:", lost.Channel, "the channel is archived", "place not notified yet",
		"you said: lost words"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of posts lacks %q:\n%s", want, page)
		}
	}
	w.slack.Mention(w.channel.ID, w.berit, "and now?")
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID,
		inSlack("could not be posted here (reference slack/")); err != nil {
		t.Fatal(err)
	}
	within(t, "the loss counts as told", func() bool {
		return strings.Contains(b.metrics(), "ravenbot_losses_told_total 1")
	})
	for _, want := range []string{`ravenbot_posts_total{outcome="given_up"} 1`, `ravenbot_posts_total{outcome="posted"} 1`,
		`ravenbot_platform_connected{platform="slack"} 1`, "ravenbot_build_info"} {
		if !strings.Contains(b.metrics(), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

func (b *bot) metrics() string {
	var all string
	b.call(http.MethodGet, "/metrics", nil, &all)
	return all
}

// What is said while an answer is being made is answered together, and stop ends
// the work.
func TestMessagesThatWaitAreAnsweredTogether(t *testing.T) {
	w := newWorld(t)
	hang := make(chan struct{})
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		switch {
		case strings.Contains(r.Asked(), "never ends"):
			return simmodel.Reply{Hang: true}
		case strings.Contains(r.Asked(), "first"):
			<-hang
		}
		return echo(r)
	})
	b := w.run(w.base())
	say := func(text string) { w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" "+text) }
	say("the first")
	if _, err := w.model.WaitAsked(deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		say(fmt.Sprint("waiting ", n))
	}
	within(t, "the others wait", func() bool { return strings.Contains(b.metrics(), "ravenbot_work_waiting 3") })
	close(hang)
	got, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("waiting 2"))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if !strings.Contains(got.Content, fmt.Sprint("waiting ", n)) {
			t.Errorf("the one answer is %q", got.Content)
		}
	}
	if n := len(w.model.Asked()); n != 2 {
		t.Errorf("the model was asked %d times for four messages, want twice", n)
	}
	say("something that never ends")
	if _, err := w.model.WaitAsked(deadline(t), 3); err != nil {
		t.Fatal(err)
	}
	say("stop")
	if _, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("Stopped.")); err != nil {
		t.Fatal(err)
	}
	say("are you there?")
	if _, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("are you there?")); err != nil {
		t.Fatal(err)
	}
	w.noneRejected()
}

// What was said while the bot was away is answered once, with a word on the delay.
func TestWhatWasSaidMeanwhileIsAnsweredOnce(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	d := w.daemon(w.base()).start()
	w.both("before")
	w.bothSay("before")
	d.idle()
	d.kill()
	w.both("in between")
	d.start()
	w.bothSay("in between")
	w.both("after")
	w.bothSay("after")
	d.idle()
	d.end()
	for _, text := range []string{"before", "in between", "after"} {
		w.once(text)
	}
}

// Edits and deletions reach an answer that was given, on both platforms.
func TestAnEditedMessageIsAnsweredAnewInPlace(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	w.run(w.base())
	onDiscord := w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" hullo there")
	onSlack := w.slack.Mention(w.channel.ID, w.berit, "hullo there")
	w.bothSay("hullo there")
	w.discord.Edit(onDiscord.ID, w.discord.Mention()+" hello there")
	w.slack.Edit(w.channel.ID, onSlack.TS, simslack.BotMention+" hello there")
	w.bothSay("hello there")
	w.once("you said:")
	w.discord.Delete(onDiscord.ID)
	w.slack.Delete(w.channel.ID, onSlack.TS)
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" what did I say?")
	w.slack.ThreadReply(w.channel.ID, onSlack.TS, w.berit, simslack.BotMention+" what did I say?")
	w.bothSay("what did I say?")
	for _, r := range w.model.Asked() {
		if raw := string(r.Raw); strings.Contains(raw, "what did I say?") &&
			(strings.Contains(raw, "hello there") || strings.Contains(raw, "hullo")) {
			t.Errorf("the model is still told of the deleted message: %s", raw)
		}
	}
}

// People forget the mention and edit it in: then the message is a question, which is answered once.
func TestEdit_AddsTheMention_AnsweredOnceAlsoAcrossRestart(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	d := w.daemon(w.base()).start()
	onDiscord := w.discord.Say(w.news.ID, w.anna, "what is tea?")
	onSlack := w.slack.Say(w.channel.ID, w.berit, "what is tea?")
	edit := func() {
		w.discord.Edit(onDiscord.ID, w.discord.Mention()+" what is tea?")
		w.slack.Edit(w.channel.ID, onSlack.TS, simslack.BotMention+" what is tea?")
	}
	edit()
	w.bothSay("what is tea?")
	d.idle()
	d.kill()
	d.start()
	edit() // nothing that the bot reads has changed
	w.both("after")
	w.bothSay("after")
	d.idle()
	d.end()
	w.once("what is tea?")
}

// A long answer is shown while it is written, and finished in place when the bot
// was killed meanwhile.
func TestAnAnswerGrowsAndIsFinishedInPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow := func(simmodel.Request) simmodel.Reply {
		reply := simmodel.Reply{ChunkDelay: 100 * time.Millisecond}
		for n := range 80 {
			reply.Text = append(reply.Text, fmt.Sprint("word", n, " "))
		}
		return reply
	}
	w.model.SetScript(slow)
	d := w.daemon(w.base()).start()
	w.both("tell me")
	w.bothSay("word3")
	d.kill()
	d.start()
	w.bothSay("word79")
	d.idle()
	d.end()
	w.once("word0")
	if d, s := w.discordPosts("writing…"), w.slackPosts("writing…"); d+s > 0 || len(w.discord.Posts(w.news.ID)) != 1 ||
		len(w.slack.Posts(w.channel.ID)) != 1 {
		t.Errorf("%d messages on Discord and %d on Slack, want one whole answer on each", len(w.discord.Posts(w.news.ID)),
			len(w.slack.Posts(w.channel.ID)))
	}
}

// A turn without tools is at most three transactions: accepted; answer and intent
// to post; posted. Each is shared with whatever else commits then.
func TestATurnIsAtMostThreeTransactions(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	b := w.run(w.base())
	commits := func() int {
		_, rest, _ := strings.Cut(b.metrics(), "\nravenbot_store_commits_total ")
		value, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	settled := func() int {
		within(t, "nothing is left to do", func() bool {
			return strings.Contains(b.metrics(), "ravenbot_conversations_active 0")
		})
		last, since := -1, time.Now()
		within(t, "the outcomes are stored", func() bool {
			if now := commits(); now != last {
				last, since = now, time.Now()
			}
			return time.Since(since) > 100*time.Millisecond
		})
		return last
	}
	const turns = 20
	before := settled()
	for n := range turns {
		text := fmt.Sprint("question ", n)
		w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" "+text)
		if _, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord(text)); err != nil {
			t.Fatal(err)
		}
	}
	if made := settled() - before; made > 3*turns {
		t.Errorf("%d turns took %d transactions, want at most three each", turns, made)
	} else {
		t.Logf("%d turns took %d transactions", turns, made)
	}
}

// What is set over the API, in chat and on the page holds from the next message on,
// and what was used is counted.
func TestSettingsHoldAndUsageIsCounted(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		return simmodel.Say(fmt.Sprint("tools: ", len(r.Tools), "; ", r.System))
	})
	b := w.run(w.base())
	if text := answerIn(t, b.ask("general", "one")); strings.Contains(text, "Norwegian") ||
		strings.Contains(text, "tools: 0;") {
		t.Fatalf("before anything was set: %s", text)
	}
	var got struct {
		Instance struct{ Language string }
		Users    map[string]struct{ Language string }
		Error    struct{ Message string }
	}
	body := json.RawMessage(`{"instance":{"language":"Norwegian","tools":{"enabled":false,"systemPrompt":"No tools ` +
		`today."}}}`)
	if status := b.call(http.MethodPut, "/api/v1/settings", body, &got); status != http.StatusOK ||
		got.Instance.Language != "Norwegian" {
		t.Fatalf("setting gave %d %+v", status, got)
	}
	if text := answerIn(t, b.ask("general", "two")); !strings.Contains(text, "Norwegian") ||
		!strings.Contains(text, "tools: 0;") || !strings.Contains(text, "No tools today.") {
		t.Errorf("after it was set: %s", text)
	}
	if text := answerIn(t, b.ask("general", "/settings language German")); !strings.Contains(text, "German (set by you)") {
		t.Errorf("the command was answered %s", text)
	}
	if text := answerIn(t, b.ask("general", "three")); !strings.Contains(text, "German") ||
		strings.Contains(text, "Norwegian") {
		t.Errorf("after a user set their own: %s", text)
	}
	for _, bad := range []string{`{"instance":{"model":"nonesuch"}}`, `{"instance":{"tools":{"maxSteps":0}}}`,
		`{"instance":{"colour":"red"}}`, `{"channels":{"nowhere":{}}}`} {
		if status := b.call(http.MethodPut, "/api/v1/settings",
			json.RawMessage(bad), &got); status != http.StatusBadRequest || got.Error.Message == "" {
			t.Errorf("%s gave %d %+v", bad, status, got)
		}
	}
	if text := answerIn(t, b.ask("general", "/usage")); !strings.Contains(text, "you, today: 3 answers") {
		t.Errorf("usage: %s", text)
	}
	var used struct {
		Items []struct {
			Model, Channel string
			Turns          int
			USD            float64 `json:"usd"`
		}
	}
	b.call(http.MethodGet, "/api/v1/usage", nil, &used)
	if len(used.Items) != 1 || used.Items[0].Model != "default" || used.Items[0].Channel != "web:/general" ||
		used.Items[0].Turns != 3 {
		t.Errorf("usage over the API: %+v", used)
	}
	if text := answerIn(t, b.ask("general", "/forget")); !strings.Contains(text, "Forgotten") {
		t.Errorf("forget: %s", text)
	}
	b.ask("general", "what did I say?")
	asked := w.model.Asked()
	if n := len(asked[len(asked)-1].Messages); n != 1 {
		t.Errorf("after forgetting the model is told %d messages", n)
	}
}
