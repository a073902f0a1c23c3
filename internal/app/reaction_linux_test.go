package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/store/storage"
	simfeeds "ravenbot/internal/testing/sim/feeds"
	simslack "ravenbot/internal/testing/sim/slack"
)

// onSlack and onDiscord react to the first post with a text, and take that back.
func (w *world) onSlack(text string) (to string, react, unreact func(sign string)) {
	ts := func() string {
		p, err := w.slack.WaitPost(deadline(w.t), w.channel.ID, inSlack(text))
		if err != nil {
			w.t.Fatal(err)
		}
		return p.TS
	}
	names := map[string]string{"👍": "+1", "👎": "-1", "👀": "eyes"}
	return "slack:" + simslack.TeamID + "/" + w.channel.ID,
		func(sign string) { w.slack.React(w.channel.ID, ts(), w.berit, names[sign]) },
		func(sign string) { w.slack.Unreact(w.channel.ID, ts(), w.berit, names[sign]) }
}

func (w *world) onDiscord(text string) (to string, react, unreact func(sign string)) {
	id := func() string {
		p, err := w.discord.WaitPost(deadline(w.t), w.news.ID, inDiscord(text))
		if err != nil {
			w.t.Fatal(err)
		}
		return p.ID
	}
	return "discord:" + w.guild.ID + "/" + w.news.ID,
		func(sign string) { w.discord.React(id(), w.anna, sign) },
		func(sign string) { w.discord.Unreact(id(), w.anna, sign) }
}

// A reaction below a digest moves the feeds of its items in the next one, also after a
// restart, until it is taken back. Nothing is said about it.
func TestReactionsRankTheNextDigest(t *testing.T) {
	for name, on := range map[string]func(*world, string) (string, func(string), func(string)){"slack": (*world).onSlack,
		"discord": (*world).onDiscord} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			to, react, unreact := on(w, "https://liked.example/1")
			story := func(feed, n, title string, age time.Duration) {
				w.feeds.AddItem("/"+feed+".xml", simfeeds.Item{ID: feed + n, Title: title,
					Link: "https://" + feed + ".example/" + n, Published: time.Now().Add(-age)})
			}
			w.feeds.AddFeed("/liked.xml", "Liked", simfeeds.RSS)
			w.feeds.AddFeed("/other.xml", "Other", simfeeds.RSS)
			story("liked", "1", "The harbour gets a new crane", time.Hour)
			story("other", "1", "Library opens on Sundays again", 10*time.Hour)
			settings := w.base()
			settings["digests"] = map[string]any{"news": map[string]any{"schedule": "0 3 1 1 *",
				"feeds": []string{w.feeds.URL() + "/liked.xml", w.feeds.URL() + "/other.xml"}, "post": []string{to}, "maxItems": 1}}
			w.model.SetScript(echo)
			b := w.run(settings)
			run := func() {
				if status := b.call(http.MethodPost, "/api/v1/digests/news/run", nil, nil); status != http.StatusOK {
					t.Fatalf("the run: status %d", status)
				}
			}
			run()
			story("liked", "2", "Choir wins a prize in Vienna", 3*time.Hour)
			story("other", "2", "Bakery sells its thousandth loaf", time.Hour)
			next := func() string {
				var got struct {
					Draft struct{ Cards []struct{ URL string } }
				}
				if b.call(http.MethodPost, "/api/v1/digests/news/preview", nil, &got); len(got.Draft.Cards) != 1 {
					t.Fatalf("the preview has %+v", got)
				}
				return got.Draft.Cards[0].URL
			}
			if got := next(); got != "https://other.example/2" {
				t.Fatalf("before anybody said anything %s comes first", got)
			}
			react("👍")
			within(t, "the one that is liked comes first", func() bool { return next() == "https://liked.example/2" })
			react("👎")
			within(t, "a later word counts", func() bool { return next() == "https://other.example/2" })
			b.stop()

			b = w.run(settings)
			unreact("👎")
			within(t, "the word before it stands again", func() bool { return next() == "https://liked.example/2" })
			unreact("👍")
			within(t, "nothing stands any more", func() bool { return next() == "https://other.example/2" })
			var page string
			if b.call(http.MethodGet, "/api/v1/conversations", nil, &page); strings.Contains(page, w.channel.ID) ||
				strings.Contains(page, w.news.ID) {
				t.Errorf("a reaction began a conversation: %s", page)
			}
			react("👍")
			within(t, "the one that is liked comes first again", func() bool { return next() == "https://liked.example/2" })
			run()
			if posts := len(w.slack.Posts(w.channel.ID)) + len(w.discord.Posts(w.news.ID)); posts != 2 {
				t.Errorf("there are %d posts, want the two digests", posts)
			}
		})
	}
}

// What is in the thread below a digest belongs to it, and answers are reacted to as
// digests are. A bot that has just been started knows them all.
func TestReactionsInThreadsCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings := w.everywhere(w.many(9))
	w.model.SetScript(echo)
	b := w.run(settings)
	if status := b.call(http.MethodPost, "/api/v1/digests/many/run", nil, nil); status != http.StatusOK {
		t.Fatalf("the run: status %d", status)
	}
	w.slack.Mention(w.channel.ID, w.berit, "a question on slack")
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" a question on discord")
	answer, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("a question on slack"))
	if err != nil {
		t.Fatal(err)
	}
	said, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("a question on discord"))
	if err != nil {
		t.Fatal(err)
	}
	within(t, "the threads are there", func() bool {
		_, slack, _, discord := w.folded()
		return slack != "" && discord != ""
	})
	b.stop()
	b = w.run(settings)
	for _, p := range w.slack.Posts(w.channel.ID) {
		if p.ThreadTS != "" && p.ThreadTS != p.TS && p.TS != answer.TS {
			w.slack.React(w.channel.ID, p.TS, w.berit, "tada")
		}
	}
	for _, p := range w.discord.Posts(w.news.ID) {
		for _, below := range w.discord.Posts(p.ID) {
			w.discord.React(below.ID, w.anna, "🔥")
		}
	}
	w.slack.React(w.channel.ID, answer.TS, w.berit, "-1")
	w.discord.React(said.ID, w.anna, "👎")
	within(t, "all four are counted", func() bool {
		var page string
		b.call(http.MethodGet, "/posts", nil, &page)
		return strings.Contains(page, "2 helpful, 2 not helpful")
	})
	b.stop()
	db := must(storage.OpenFile(w.path("data/ravenbot.db"), time.Now))
	defer db.Close()
	got := map[string]int{}
	for _, f := range must(db.Feedback(t.Context())) {
		kind, _, _ := strings.Cut(f.Turn, "/")
		got[fmt.Sprint(kind, " ", f.Good)]++
	}
	if diff := cmp.Diff(map[string]int{"digest true": 2, "slack false": 1, "discord false": 1}, got); diff != "" {
		t.Error(diff)
	}
}
