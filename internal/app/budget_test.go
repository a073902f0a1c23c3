package app_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	simfeeds "ravenbot/internal/testing/sim/feeds"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// priced has every answer of the model cost two cents.
func (w *world) priced(budget map[string]any) map[string]any {
	settings := w.base()
	settings["models"].(map[string]any)["default"].(map[string]any)["price"] = map[string]any{"inputPerM": 1000,
		"outputPerM": 1000}
	settings["budget"] = budget
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		reply := simmodel.Echo(r)
		reply.Usage = &simmodel.Usage{Prompt: 12, Output: 8}
		return reply
	})
	return settings
}

func TestABudgetEndsAndOutlivesARestart(t *testing.T) {
	w := newWorld(t)
	settings := w.priced(map[string]any{"channelDailyUSD": 0.05})
	b := w.run(settings)
	for n := range 3 { // the third is asked when four cents are spent
		if got := answerIn(t, b.ask("a", "hello")); got != "hello" {
			t.Fatalf("answer %d is %q", n, got)
		}
	}
	over := func() {
		t.Helper()
		before := len(w.model.Asked())
		if got := answerIn(t, b.ask("a", "hello")); !strings.Contains(got,
			"The budget of this channel for today, $0.05, is used up; it starts again at midnight UTC, in ") {
			t.Errorf("over the budget it says %q", got)
		}
		if after := len(w.model.Asked()); after != before {
			t.Errorf("the model was asked %d times over the budget", after-before)
		}
	}
	over()
	b.stop()
	b = w.run(settings)
	over()
	if got := answerIn(t, b.ask("b", "hello")); got != "hello" {
		t.Errorf("another channel hears %q", got)
	}
	if got := answerIn(t, b.ask("a", "/usage")); !strings.Contains(got,
		"budget of today for this channel: $0.0600 of $0.0500") {
		t.Errorf("the usage says %q", got)
	}
}

// Many at once do not pass together what each of them alone may use.
func TestABudgetHoldsForManyAtOnce(t *testing.T) {
	w := newWorld(t)
	settings := w.priced(map[string]any{"instanceDailyUSD": 0.05})
	b := w.run(settings)
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() { b.ask(string(rune('a'+n)), "hello") })
	}
	all.Wait()
	if got := len(w.model.Asked()); got != 3 {
		t.Errorf("the model was asked %d times for five cents, want 3", got)
	}
}

func TestADigestOverItsBudgetIsMadeWithoutAModel(t *testing.T) {
	w := newWorld(t)
	w.feeds.AddFeed("/priced.xml", "Priced", simfeeds.RSS)
	settings := w.priced(map[string]any{"digestDailyUSD": 0.01})
	settings["digests"] = map[string]any{"d": map[string]any{"schedule": "0 3 1 1 *",
		"feeds": []string{w.feeds.URL() + "/priced.xml"}, "whenEmpty": "say",
		"post": []string{"slack:" + simslack.TeamID + "/" + w.channel.ID}}}
	b := w.run(settings)
	run := func(story string) simslack.Post {
		t.Helper()
		w.feeds.AddItem("/priced.xml", simfeeds.Item{ID: story, Title: story + " happens in town",
			Link: "https://own.example/" + story, Published: time.Now()})
		if status := b.call(http.MethodPost, "/api/v1/digests/d/run", nil, nil); status != http.StatusOK {
			t.Fatalf("the run: status %d", status)
		}
		post, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("https://own.example/"+story))
		if err != nil {
			t.Fatal(err)
		}
		return post
	}
	run("fair")
	asked := len(w.model.Asked())
	if asked == 0 {
		t.Fatal("the model was not asked for the first run")
	}
	if post := run("flood"); !strings.Contains(post.Shown(), "the budget of this digest for today, $0.01, is used up") {
		t.Errorf("the second post is %q", post.Shown())
	}
	if again := len(w.model.Asked()); again != asked {
		t.Errorf("the model was asked %d times over the budget", again-asked)
	}
}

// What is over one person's limits is refused with the reason, counts over a restart, and hinders nobody else.
func TestOnePersonsLimitsHold(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(simmodel.Echo)
	settings := w.base()
	settings["limits"] = map[string]any{"messageChars": 1000, "userDailyMessages": 2}
	b := w.run(settings)
	anna := w.slack.AddUser("anna")
	say := func(who simslack.User, words, want string) {
		t.Helper()
		said := w.slack.Mention(w.channel.ID, who, words)
		within(t, "the bot says "+want, func() bool {
			for _, p := range append(w.slack.Posts(w.channel.ID), w.slack.Ephemerals()...) {
				if (p.ThreadTS == said.TS || p.EphemeralTo == who.ID) && strings.Contains(p.Shown(), want) {
					return true
				}
			}
			return false
		})
	}
	say(w.berit, strings.Repeat("long ", 300), "characters, and I read up to 1,000")
	say(w.berit, "first", "first")
	say(w.berit, "second", "second")
	say(w.berit, "third", "You have asked me 2 times today, which is the limit for one person. It starts again at "+
		"midnight UTC")
	say(anna, "also first", "also first")
	asked := len(w.model.Asked())
	b.stop()
	w.run(settings)
	say(w.berit, "fourth", "You have asked me 2 times today")
	if again := len(w.model.Asked()); again != asked {
		t.Errorf("the model was asked %d times more", again-asked)
	}
	usage := w.slack.Slash(w.channel.ID, w.berit, "/raven", "usage")
	within(t, "the usage names the limit", func() bool {
		answers := w.slack.Answers(usage)
		return len(answers) > 0 && strings.Contains(answers[0].Text, "your messages of today: 2 of 2")
	})
}
