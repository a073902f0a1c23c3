package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

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
