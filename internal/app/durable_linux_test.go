package app_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/sim"
	simmodel "ravenbot/internal/sim/model"
)

// A post that a platform refuses is shown to the operator, counted, and told in
// its channel when that can be reached again.
func TestAPostThatIsRefusedBecomesVisible(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	b := w.run(w.base())
	w.slack.Fail(sim.Fault{Times: 2, Match: sim.To(http.MethodPost, "/chat.postMessage"), Status: http.StatusOK,
		Header: map[string]string{"Content-Type": "application/json"}, Body: `{"ok":false,"error":"is_archived"}`})
	lost := w.slack.Mention(w.channel.ID, w.berit, "lost words")
	within(t, "the post is given up", func() bool { return strings.Contains(b.metrics(), "ravenbot_posts_undelivered 1") })
	var page string
	b.call(http.MethodGet, "/posts", nil, &page)
	for _, want := range []string{"slack:", lost.Channel, "the channel is archived", "not told yet", "you said: lost words"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of posts lacks %q:\n%s", want, page)
		}
	}
	w.slack.Mention(w.channel.ID, w.berit, "and now?")
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("could not be posted here (reference slack/")); err != nil {
		t.Fatal(err)
	}
	within(t, "the loss counts as told", func() bool { return strings.Contains(b.metrics(), "ravenbot_losses_told_total 1") })
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
	said := w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" hullo there")
	first, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("hullo there"))
	if err != nil {
		t.Fatal(err)
	}
	w.discord.Edit(said.ID, w.discord.Mention()+" hello there")
	second, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("hello there"))
	if err != nil {
		t.Fatal(err)
	}
	if first.ID != second.ID || w.discordPosts("you said:") != 1 {
		t.Errorf("the fresh answer is %s and the first was %s, want one post", second.ID, first.ID)
	}
	w.discord.Delete(said.ID)
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" what did I say?")
	if _, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("what did I say?")); err != nil {
		t.Fatal(err)
	}
	asked := w.model.Asked()
	if last := string(asked[len(asked)-1].Raw); strings.Contains(last, "hello there") || strings.Contains(last, "hullo") {
		t.Errorf("the model is still told of the deleted message: %s", last)
	}
}

// A long answer is shown on Discord while it is written, and finished in place
// when the bot was killed meanwhile.
func TestAnAnswerOnDiscordGrowsAndIsFinishedInPlace(t *testing.T) {
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
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" tell me")
	begun, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("writing…"))
	if err != nil {
		t.Fatal(err)
	}
	d.kill()
	d.start()
	whole, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("word79"))
	if err != nil {
		t.Fatal(err)
	}
	d.idle()
	d.end()
	posts := w.discord.Posts(w.news.ID)
	if whole.ID != begun.ID || len(posts) != 1 {
		t.Errorf("begun as %s and finished as %s, with %d messages in the channel, want one", begun.ID, whole.ID, len(posts))
	}
	within(t, "the answer is whole", func() bool {
		posts = w.discord.Posts(w.news.ID)
		return !strings.Contains(posts[len(posts)-1].Content, "writing…")
	})
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
		within(t, "nothing is left to do", func() bool { return strings.Contains(b.metrics(), "ravenbot_conversations_active 0") })
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
