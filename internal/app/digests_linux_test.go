package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/testing/failpoint"
	simfeeds "ravenbot/internal/testing/sim/feeds"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// own serves a feed with one story.
func (w *world) own() (url string) {
	w.feeds.AddFeed("/own.xml", "Our own", simfeeds.RSS)
	w.story("1")
	return w.feeds.URL() + "/own.xml"
}

func (w *world) story(n string) {
	titles := map[string]string{"1": "The harbour gets a new crane", "2": "Library opens on Sundays again",
		"3": "Choir wins a prize in Vienna"}
	w.feeds.AddItem("/own.xml", simfeeds.Item{ID: n, Title: titles[n], Link: "https://own.example/" + n,
		Published: time.Now()})
}

func TestADigestIsMadeAndFollowedInSlack(t *testing.T) {
	w := newWorld(t)
	url := w.own()
	args := string(must(json.Marshal(map[string]any{"name": "harbour", "feeds": []string{url},
		"schedule": "weekdays at 9:00", "timezone": "Europe/Oslo"})))
	w.model.SetScript(simmodel.CallTool("digest_create", args))
	settings := w.base()
	b := w.run(settings)
	w.slack.Mention(w.channel.ID, w.berit, "every weekday at nine post our own feed here")
	asked, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("May I make the digest"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(asked.Shown(), "weekdays at 9:00 (Europe/Oslo)") || !strings.Contains(asked.Shown(), "Our own") {
		t.Errorf("the plan says %q", asked.Shown())
	}
	w.slack.ThreadReply(w.channel.ID, asked.ThreadTS, w.berit, "yes")
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("is created. Its first run is on")); err != nil {
		t.Fatal(err)
	}
	b.stop()
	w.model.SetScript(echo)
	b = w.run(settings)
	var list struct {
		Items []struct{ Name, Source, Next, By string }
	}
	if b.call(http.MethodGet, "/api/v1/digests", nil, &list); len(list.Items) != 1 || list.Items[0].Source != "chat" ||
		list.Items[0].Next == "" {
		t.Fatalf("after a restart there are %+v", list)
	}
	if status := b.call(http.MethodPost, "/api/v1/digests/harbour/run", nil, nil); status != http.StatusOK {
		t.Fatalf("the run: status %d", status)
	}
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("https://own.example/1")); err != nil {
		t.Error(err)
	}
}

func TestADigestPostsItemsAsTheyCome(t *testing.T) {
	w := newWorld(t)
	url := w.own()
	settings := w.base()
	settings["feeds"] = map[string]any{"allowPrivateHosts": []string{"127.0.0.1"}, "pollInterval": "1s"}
	settings["digests"] = map[string]any{"live": map[string]any{"schedule": "on-new", "feeds": []string{url},
		"post": []string{"slack:" + simslack.TeamID + "/" + w.channel.ID}}}
	w.model.SetScript(echo)
	b := w.run(settings)
	ran := func() bool {
		var list struct {
			Items []struct{ Last *struct{ Posted int } }
		}
		b.call(http.MethodGet, "/api/v1/digests", nil, &list)
		return list.Items[0].Last != nil
	}
	within(t, "it has looked once", ran)
	w.story("2")
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("https://own.example/2")); err != nil {
		t.Fatal(err)
	}
	b.stop()
	b = w.run(settings)
	w.story("3")
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("https://own.example/3")); err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, p := range w.slack.Posts(w.channel.ID) {
		all += string(p.Blocks)
	}
	for n, want := range map[string]int{"1": 0, "2": 1, "3": 1} {
		if got := strings.Count(all, "https://own.example/"+n); got != want {
			t.Errorf("item %s was posted %d times, want %d", n, got, want)
		}
	}
}

// A task without feeds is worked on by an agent with its tools, and posted once for
// each due instant.
func TestADigestWithoutFeedsIsAnAgentsTask(t *testing.T) {
	w := newWorld(t)
	url := w.own()
	w.model.SetScript(simmodel.CallTool("feeds_fetch", string(must(json.Marshal(map[string]string{"url": url})))))
	settings := w.base()
	settings["digests"] = map[string]any{"task": map[string]any{"schedule": "0 3 1 1 *",
		"prompt": "Look what our feed holds.", "maxTokens": 100000,
		"post": []string{"slack:" + simslack.TeamID + "/" + w.channel.ID}}}
	b := w.run(settings)
	if status := b.call(http.MethodPost, "/api/v1/digests/task/run", nil, nil); status != http.StatusOK {
		t.Fatalf("the run: status %d", status)
	}
	post, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("new crane"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(post.Blocks), "feeds_fetch") || !strings.Contains(post.Shown(), "task") {
		t.Errorf("the post is %s", post.Blocks)
	}
	if asked := w.model.Asked(); !strings.Contains(asked[0].System, "carried out on a schedule") {
		t.Errorf("the agent was told %q", asked[0].System)
	}
}

// A call that somebody would have to approve is refused at once: nobody is there.
func TestATaskHasNobodyToAsk(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(simmodel.CallTool("feeds_fetch", string(must(json.Marshal(map[string]string{"url": w.own()})))))
	settings := w.base()
	settings["tools"] = map[string]any{"policy": []any{map[string]any{"tools": []string{"feeds_fetch"},
		"decision": "ask"}}}
	settings["digests"] = map[string]any{"task": map[string]any{"schedule": "0 3 1 1 *",
		"prompt": "Look what our feed holds.", "post": []string{"slack:" + simslack.TeamID + "/" + w.channel.ID}}}
	b := w.run(settings)
	if status := b.call(http.MethodPost, "/api/v1/digests/task/run", nil, nil); status != http.StatusOK {
		t.Fatalf("the run: status %d", status)
	}
	post, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("nobody to ask"))
	if err != nil || strings.Contains(string(post.Blocks), "crane") {
		t.Errorf("the post is %s, %v", post.Blocks, err)
	}
}

func TestDigestsFollowTheConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	url := w.own()
	w.model.SetScript(echo)
	settings := w.base()
	one := map[string]any{"schedule": "0 3 1 1 *", "feeds": []any{url}, "post": []string{"web:/general"}}
	settings["digests"] = map[string]any{"one": one}
	d := w.daemon(settings).start()
	var list struct {
		Items []struct{ Name, Schedule string }
	}
	names := func() string {
		var all []string
		if d.api(http.MethodGet, "/api/v1/digests", &list) == nil {
			for _, i := range list.Items {
				all = append(all, i.Name+" "+i.Schedule)
			}
		}
		return strings.Join(all, ", ")
	}
	within(t, "one digest is there", func() bool { return names() == "one 0 3 1 1 *" })
	d.settings["digests"] = map[string]any{"two": map[string]any{"schedule": "* * * * *",
		"feeds": []any{map[string]any{"url": url, "mergeDuplicates": false}}, "post": []string{"web:/general"}}}
	d.write()
	within(t, "the other has taken its place", func() bool { return names() == "two * * * * *" })
	if !testing.Short() {
		within(t, "and it runs when it is due", func() bool {
			var got struct {
				Lines []struct{ Cards []struct{ URL string } }
			}
			return d.api(http.MethodGet, "/api/v1/conversations/web%3A%2Fgeneral", &got) == nil && len(got.Lines) > 0
		})
	}
	if err := os.WriteFile(w.path("config.json"),
		[]byte(`{"digests": {"two": {"schedule": "never ever", "feeds": ["x"], "post": ["web:/general"]}}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	within(t, "a broken file is refused", func() bool {
		return strings.Contains(d.out.String(), "configuration not reloaded")
	})
	if got := names(); got != "two * * * * *" {
		t.Errorf("after a broken file there are %s", got)
	}
	d.end()
}

// many serves a feed with so many stories, each of which is told nowhere else.
func (w *world) many(n int) (url string) {
	w.feeds.AddFeed("/many.xml", "Many", simfeeds.RSS)
	for i := range n {
		word := strings.Repeat(string(rune('a'+i)), 12)
		w.feeds.AddItem("/many.xml", simfeeds.Item{ID: word, Title: word + " is in the news",
			Link: "https://many.example/" + word, Published: time.Now().Add(-time.Duration(i) * time.Minute)})
	}
	return w.feeds.URL() + "/many.xml"
}

// everywhere gives the settings of a digest that is posted to Slack and to Discord.
func (w *world) everywhere(url string) map[string]any {
	settings := w.base()
	settings["digests"] = map[string]any{"many": map[string]any{"schedule": "0 3 * * *", "feeds": []string{url},
		"post": []string{"slack:" + simslack.TeamID + "/" + w.channel.ID, "discord:" + w.guild.ID + "/" + w.news.ID}}}
	return settings
}

// folded gives the texts and links of the bot's posts in the channel and in the thread
// below the first of them.
func (w *world) folded() (slackHead, slackRest, discordHead, discordRest string) {
	root := ""
	for _, p := range w.slack.Posts(w.channel.ID) {
		if p.ThreadTS == "" || p.ThreadTS == p.TS {
			slackHead, root = slackHead+string(p.Blocks), p.TS
		} else if p.ThreadTS == root {
			slackRest += string(p.Blocks)
		}
	}
	for _, p := range w.discord.Posts(w.news.ID) {
		discordHead += p.Content + embeds(p)
		for _, below := range w.discord.Posts(p.ID) {
			discordRest += below.Content + embeds(below)
		}
	}
	return slackHead, slackRest, discordHead, discordRest
}

func (w *world) foldedOnce() {
	w.t.Helper()
	slackHead, slackRest, discordHead, discordRest := w.folded()
	for where, text := range map[string]string{"Slack": slackHead, "Slack's thread": slackRest, "Discord": discordHead,
		"Discord's thread": discordRest} {
		want := 3
		if strings.Contains(where, "thread") {
			want = 6
		}
		got := 0
		for i := range 9 {
			switch n := strings.Count(text, `"https://many.example/`+strings.Repeat(string(rune('a'+i)),
				12)) + strings.Count(text, `*`+fmt.Sprint(i+1)+`. <https://many.example/`) +
				strings.Count(text, `*`+fmt.Sprint(i+1)+`. \u003chttps://many.example/`); n {
			case 0:
			case 1:
				got++
			default:
				w.t.Errorf("%s shows story %d %d times:\n%s", where, i+1, n, text)
			}
		}
		if got != want {
			w.t.Errorf("%s shows %d stories, want %d:\n%s", where, got, want, text)
		}
	}
}

func TestALongDigestIsAHeadAndAThreadEverywhere(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(func(simmodel.Request) simmodel.Reply { return simmodel.Say("Much is in the news [1][9].") })
	b := w.run(w.everywhere(w.many(9)))
	if status := b.call(http.MethodPost, "/api/v1/digests/many/run", nil, nil); status != http.StatusOK {
		t.Fatalf("the run: status %d", status)
	}
	w.foldedOnce()
	w.slack.Click(w.channel.ID, w.slack.Posts(w.channel.ID)[0].TS, w.berit, "ravenbot-0")
	within(t, "somebody found it helpful", func() bool {
		var page string
		b.call(http.MethodGet, "/posts", nil, &page)
		return strings.Contains(page, ": 1 helpful")
	})
}

// A digest that fell due while the bot was away is made good once, and posted once,
// head and thread, however often the bot is killed over it.
func TestKilledAgainAndAgainWhileADigestIsMade(t *testing.T) {
	const kills = 10
	w := newWorld(t)
	w.model.SetScript(func(simmodel.Request) simmodel.Reply {
		return simmodel.Reply{Text: []string{"Much is in the news [1][9]."}, Delay: 50 * time.Millisecond}
	})
	d := w.daemon(w.everywhere(w.many(9)))
	d.binary = fragileBinary()
	d.start()
	d.kill()
	long := time.Now().AddDate(0, 0, -3).UTC()
	db := must(storage.OpenFile(w.path("data/ravenbot.db"), time.Now))
	if _, err := db.FinishRun(t.Context(), store.Run{
		Digest: "many",
		Due:    long,
		Began:  long,
		Ended:  long,
		OK:     true,
	}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for n := range kills {
		if d.place = ""; n%2 == 0 {
			d.place = failpoint.PostSent + ":1"
		}
		d.launch()
		select {
		case <-d.gone:
		case <-time.After(time.Duration(150+n*37%500) * time.Millisecond):
		}
		d.kill()
	}
	d.place = ""
	d.start()
	within(t, "both have their threads", func() bool {
		_, slackRest, _, discordRest := w.folded()
		return slackRest != "" && discordRest != ""
	})
	d.idle()
	d.end()
	w.foldedOnce()
	db = must(storage.OpenFile(w.path("data/ravenbot.db"), time.Now))
	defer db.Close()
	if runs := must(db.LastRuns(t.Context(), "many", 10)); len(runs) != 2 || !runs[0].OK || runs[0].Posted != 9 {
		t.Errorf("the runs on record are %+v", runs)
	}
}

// What the API makes is an entry as config.json has it, kept over a restart.
func TestDigestsAreKeptOverTheAPI(t *testing.T) {
	w := newWorld(t)
	url := w.own()
	w.model.SetScript(echo)
	settings := w.base()
	b := w.run(settings)
	entry := map[string]any{"name": "own", "schedule": "weekdays at 9", "timezone": "Europe/Oslo", "feeds": []any{url},
		"post": []string{"web:/general"}, "articles": false, "style": "titles"}
	for _, c := range []struct {
		key  string
		v    any
		want string
	}{
		{"schedule", "now and then", "schedule"}, {"agent", "nobody", "no agent"}, {"colour", "red", "unknown key"}, {"post", []string{"irc:x/y"}, "post"}, {"feeds", []string{"ftp://x"}, "not the address of a feed"},
		{"name", "a b", "will not do"},
	} {
		bad := maps.Clone(entry)
		bad[c.key] = c.v
		var answer string
		if status := b.call(http.MethodPost, "/api/v1/digests", bad, &answer); status != http.StatusBadRequest ||
			!strings.Contains(answer, c.want) {
			t.Errorf("with %s %v: status %d, %s", c.key, c.v, status, answer)
		}
	}
	var made struct {
		Source, Next string
		Plan         struct {
			Style   string
			Teasers bool
		}
	}
	if status := b.call(http.MethodPost, "/api/v1/digests", entry, &made); status != http.StatusCreated ||
		made.Source != "api" || made.Next == "" {
		t.Fatalf("status %d, %+v", status, made)
	}
	if status := b.call(http.MethodPost, "/api/v1/digests", entry, nil); status != http.StatusConflict {
		t.Errorf("made again: status %d", status)
	}
	entry["style"] = "bullets"
	if status := b.call(http.MethodPut, "/api/v1/digests/own", entry, nil); status != http.StatusOK {
		t.Errorf("changed: status %d", status)
	}
	b.stop()
	b = w.run(settings)
	if status := b.call(http.MethodGet, "/api/v1/digests/own", nil, &made); status != http.StatusOK ||
		made.Plan.Style != "bullets" || !made.Plan.Teasers {
		t.Errorf("after a restart: status %d, %+v", status, made)
	}
	b.call(http.MethodPost, "/api/v1/digests/own/run", nil, nil)
	var feeds struct {
		Items []struct {
			Name, Title, LastFetch string
			UsedBy                 []string
		}
	}
	if b.call(http.MethodGet, "/api/v1/feeds", nil, &feeds); len(feeds.Items) != 1 || feeds.Items[0].Title != "Our own" ||
		feeds.Items[0].LastFetch == "" || feeds.Items[0].UsedBy[0] != "own" {
		t.Errorf("the feeds are %+v", feeds)
	}
	var explained struct {
		Items []struct{ Verdict, Title string }
	}
	if b.call(http.MethodGet, "/api/v1/digests/own/explain", nil, &explained); len(explained.Items) != 1 ||
		explained.Items[0].Verdict != "posted" {
		t.Errorf("explained as %+v", explained)
	}
	if status := b.call(http.MethodDelete, "/api/v1/digests/own", nil, nil); status != http.StatusNoContent {
		t.Errorf("removed: status %d", status)
	}
}
