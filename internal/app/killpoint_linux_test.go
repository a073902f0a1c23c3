package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/store/storage"
	"ravenbot/internal/testing/sim"
	simfeeds "ravenbot/internal/testing/sim/feeds"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// Each test here kills the daemon at one point of its work and starts it again.

// discordPosts and slackPosts count the posts with a text.
func (w *world) discordPosts(text string) int {
	n := 0
	for _, p := range w.discord.Posts(w.news.ID) {
		n += min(1, strings.Count(p.Content+embeds(p), text))
	}
	return n
}

func (w *world) slackPosts(text string) int {
	n := 0
	for _, p := range w.slack.Posts(w.channel.ID) {
		n += min(1, strings.Count(p.Shown()+string(p.Blocks), text))
	}
	return n
}

// both asks on both platforms; bothSay waits for a text on both.
func (w *world) both(text string) {
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" "+text)
	w.slack.Mention(w.channel.ID, w.berit, text)
}

func (w *world) bothSay(text string) {
	w.t.Helper()
	if _, err := w.discord.WaitPost(deadline(w.t), w.news.ID, inDiscord(text)); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.slack.WaitPost(deadline(w.t), w.channel.ID, inSlack(text)); err != nil {
		w.t.Fatal(err)
	}
}

// once checks that a text was posted once on each platform.
func (w *world) once(text string) {
	w.t.Helper()
	if d, s := w.discordPosts(text), w.slackPosts(text); d != 1 || s != 1 {
		w.t.Errorf("%q was posted %d times on Discord and %d times on Slack, want once", text, d, s)
	}
}

func (w *world) noneRejected() {
	w.t.Helper()
	for _, r := range w.model.Rejected() {
		w.t.Errorf("the model rejected a request: %s\n%s", r.Problem, r.Raw)
	}
}

func TestKilledWhileTheModelThinks(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(func(simmodel.Request) simmodel.Reply { return simmodel.Reply{Hang: true} })
	d := w.daemon(w.base()).start()
	w.both("are you there?")
	if _, err := w.model.WaitAsked(deadline(t), 2); err != nil {
		t.Fatal(err)
	}
	d.kill()
	w.model.SetScript(echo)
	d.start()
	w.bothSay("are you there?")
	d.idle()
	d.end()
	w.once("you said:")
}

// callOnce calls a tool of the kit for a question, in a run that does not end at
// first, and then quotes what it got.
func callOnce(name, question string) simmodel.Script {
	return func(r simmodel.Request) simmodel.Reply {
		if results := r.Last().Results; len(results) > 0 {
			return simmodel.Say("the tool says: " + results[0].Content)
		}
		return simmodel.Reply{Calls: []simmodel.Call{{Name: name,
			Args: must(json.Marshal(toolArgs{Question: question, Hold: true}))}}}
	}
}

func TestKilledWhileAToolRuns(t *testing.T) {
	for _, c := range []struct {
		tool, says string
		runs       int
	}{
		{"effect", "whether it took effect is unknown", 1},
		{"look", "look done for q", 2},
	} {
		t.Run(c.tool, func(t *testing.T) {
			w := newWorld(t)
			w.model.SetScript(callOnce("kit_"+c.tool, "q"))
			d := w.daemon(w.base()).withTools().start().toolsReady()
			w.slack.Mention(w.channel.ID, w.berit, "use it")
			within(t, "the tool runs", func() bool { return ran(w.tools, c.tool)["q"] == 1 })
			d.kill()
			d.start()
			got, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("the tool says"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got.Shown(), c.says) {
				t.Errorf("answered %q, want %q in it", got.Shown(), c.says)
			}
			d.idle()
			d.end()
			if n := ran(w.tools, c.tool)["q"]; n != c.runs {
				t.Errorf("the tool ran %d times, want %d", n, c.runs)
			}
			if n := w.slackPosts("the tool says"); n != 1 {
				t.Errorf("answered %d times", n)
			}
			w.noneRejected()
		})
	}
}

// platform gives the settings of one platform.
func platform(settings map[string]any, name string) map[string]any {
	return settings["platforms"].(map[string]any)[name].(map[string]any)
}

func isPost(path, body string) bool {
	return strings.HasSuffix(path, "/chat.postMessage") || strings.HasSuffix(path, "/messages") &&
		strings.Contains(body, `"nonce"`)
}

func TestKilledBetweenThePostAndItsAnswer(t *testing.T) {
	const repeated, onDiscord, onSlack = 1300, 6, 2 // and the messages that a story so long is cut into
	w := newWorld(t)
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		var story strings.Builder
		for n := range repeated {
			fmt.Fprintf(&story, " more%04d", n)
		}
		return simmodel.Say("first half" + story.String() + " last half")
	})
	settings := w.base()
	d := w.daemon(settings)
	// Every start gets one message out and is killed before it hears so.
	for n := range onDiscord {
		discord, posted := hold(t, w.discord.URL(), isPost)
		slack, also := hold(t, strings.TrimSuffix(w.slack.APIURL(), "/api/"), isPost)
		platform(settings, "discord")["apiBaseURL"], platform(settings, "slack")["apiBaseURL"] = discord, slack+"/api/"
		d.start()
		if n == 0 {
			w.both("a long story")
		}
		arrives(t, posted)
		if n < onSlack {
			arrives(t, also)
		}
		d.kill()
	}
	platform(settings, "discord")["apiBaseURL"], platform(settings,
		"slack")["apiBaseURL"] = w.discord.URL(), w.slack.APIURL()
	d.start().idle()
	d.end()
	w.once("first half")
	w.once("last half")
	if d, s := len(w.discord.Posts(w.news.ID)), len(w.slack.Posts(w.channel.ID)); d != onDiscord || s != onSlack {
		t.Errorf("%d messages on Discord and %d on Slack, want %d and %d", d, s, onDiscord, onSlack)
	}
	if n := len(w.model.Asked()); n != 2 {
		t.Errorf("the model was asked %d times for two answers", n)
	}
}

func arrives(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was posted")
	}
}

func TestKilledAfterALostAnswer(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	d := w.daemon(w.base()).start()
	lost := sim.Fault{Times: 1, Accept: true, Drop: true}
	lost.Match = sim.MatchPath(http.MethodPost, "/messages")
	w.discord.Fail(lost)
	lost.Match = sim.MatchPath(http.MethodPost, "/chat.postMessage")
	w.slack.Fail(lost)
	w.both("hello")
	w.bothSay("you said")
	d.kill()
	d.start()
	d.idle()
	d.end()
	w.once("you said")
}

// A thread may be longer than what is looked through for an earlier attempt.
func TestKilledInALongThread(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	settings := w.base()
	d := w.daemon(settings).start()
	root := w.slack.Mention(w.channel.ID, w.berit, "to begin with")
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("to begin with")); err != nil {
		t.Fatal(err)
	}
	d.idle()
	d.kill()
	carl := w.slack.AddUser("carl")
	for n := range 150 {
		w.slack.ThreadReply(w.channel.ID, root.TS, carl, fmt.Sprintf("<@%s> chatter %d", w.berit.ID, n))
	}
	slack, taken := hold(t, strings.TrimSuffix(w.slack.APIURL(), "/api/"), isPost)
	platform(settings, "slack")["apiBaseURL"] = slack + "/api/"
	d.start()
	w.slack.ThreadReply(w.channel.ID, root.TS, w.berit, simslack.BotMention+" in the end")
	arrives(t, taken)
	d.kill()
	platform(settings, "slack")["apiBaseURL"] = w.slack.APIURL()
	d.start()
	d.idle()
	d.end()
	if n := w.slackPosts("in the end"); n != 1 {
		t.Errorf("answered %d times, want once", n)
	}
}

func TestKilledWhileACommandIsAnswered(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(func(simmodel.Request) simmodel.Reply { return simmodel.Reply{Hang: true} })
	d := w.daemon(w.base()).start()
	if err := w.discord.WaitCommand(deadline(t), "raven"); err != nil {
		t.Fatal(err)
	}
	slash := must(w.discord.Slash(w.news.ID, w.anna, "raven", "ask", map[string]any{"text": "by command"}))
	if _, err := w.model.WaitAsked(deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	must(w.discord.WaitCallback(deadline(t), slash.ID)) // only what is stored is acknowledged; the model is asked before
	d.kill()
	w.model.SetScript(echo)
	d.start()
	if _, err := w.discord.WaitAnswer(deadline(t), slash.ID, inDiscord("by command")); err != nil {
		t.Error(err)
	}
	d.idle()
	d.end()
	if n := w.discordPosts("you said: "); n != 1 {
		t.Errorf("answered %d times, want once", n)
	}
}

func TestKilledWhileADigestIsPosted(t *testing.T) {
	w := newWorld(t)
	w.feeds.AddFeed("/own.xml", "Our own", simfeeds.RSS)
	w.feeds.AddItem("/own.xml", simfeeds.Item{ID: "1", Title: "The first story of our own feed",
		Link: "https://own.example/1", Published: time.Now()})
	w.model.SetScript(func(simmodel.Request) simmodel.Reply { return simmodel.Say("There is a first story [1].") })
	settings := w.base()
	settings["digests"] = map[string]any{"morning": map[string]any{"schedule": "0 3 1 1 *",
		"feeds": []string{w.feeds.URL() + "/own.xml"},
		"post": []string{"web:/general", "slack:" + simslack.TeamID + "/" + w.channel.ID,
			"discord:" + w.guild.ID + "/" + w.news.ID}}}
	slack, taken := hold(t, strings.TrimSuffix(w.slack.APIURL(), "/api/"), isPost)
	platform(settings, "slack")["apiBaseURL"] = slack + "/api/"
	off := w.discord.RateLimit(sim.MatchPath(http.MethodPost, "/messages"), 0, time.Minute, "shared")
	d := w.daemon(settings).start()
	asked := make(chan error, 1)
	go func() { asked <- d.api(http.MethodPost, "/api/v1/digests/morning/run", &struct{}{}) }()
	arrives(t, taken) // on Slack, which the daemon never hears; Discord has not taken it yet
	d.kill()
	<-asked
	off()
	platform(settings, "slack")["apiBaseURL"] = w.slack.APIURL()
	d.start()
	w.bothSay("https://own.example/1")
	d.idle()
	d.end()
	w.once("https://own.example/1")
	db := must(storage.OpenFile(w.path("data/ravenbot.db"), time.Now))
	defer db.Close()
	entries, err := db.Entries(t.Context(), "general", 0, 100)
	if err != nil || len(entries) != 1 {
		t.Errorf("the web room has %d lines (%v), want the digest once", len(entries), err)
	}
	if runs := must(db.LastRuns(t.Context(), "morning", 10)); len(runs) != 1 {
		t.Errorf("%d runs are recorded, want one", len(runs))
	}
}

// Wherever a first start is cut off, the next one works.
func TestKilledWhileTheStoreIsMade(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	for n := range 12 {
		d := w.daemon(w.base())
		d.launch()
		<-time.After(time.Duration(n*3) * time.Millisecond)
		d.kill()
	}
	d := w.daemon(w.base()).start()
	w.both("good morning")
	w.bothSay("good morning")
	d.idle()
	d.end()
}
