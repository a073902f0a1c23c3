package app_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	simfeeds "ravenbot/internal/sim/feeds"
	simmodel "ravenbot/internal/sim/model"
	simslack "ravenbot/internal/sim/slack"
)

// own serves a feed with one story.
func (w *world) own() (url string) {
	w.feeds.AddFeed("/own.xml", "Our own", simfeeds.RSS)
	w.story("1")
	return w.feeds.URL() + "/own.xml"
}

func (w *world) story(n string) {
	titles := map[string]string{"1": "The harbour gets a new crane", "2": "Library opens on Sundays again", "3": "Choir wins a prize in Vienna"}
	w.feeds.AddItem("/own.xml", simfeeds.Item{ID: n, Title: titles[n], Link: "https://own.example/" + n, Published: time.Now()})
}

func TestADigestIsMadeAndFollowedInSlack(t *testing.T) {
	w := newWorld(t)
	url := w.own()
	args := string(must(json.Marshal(map[string]any{"name": "harbour", "feeds": []string{url}, "schedule": "weekdays at 9:00", "timezone": "Europe/Oslo"})))
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
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("is made. Its first run is on")); err != nil {
		t.Fatal(err)
	}
	b.stop()
	w.model.SetScript(echo)
	b = w.run(settings)
	var list struct {
		Items []struct{ Name, Source, Next, By string }
	}
	if b.call(http.MethodGet, "/api/v1/digests", nil, &list); len(list.Items) != 1 || list.Items[0].Source != "chat" || list.Items[0].Next == "" {
		t.Fatalf("after a restart there are %+v", list)
	}
	if status := b.call(http.MethodPost, "/api/v1/digests/harbour/run", nil, nil); status != http.StatusOK {
		t.Fatalf("the run: status %d", status)
	}
	post, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("https://own.example/1"))
	if err != nil {
		t.Fatal(err)
	}
	w.slack.ThreadReply(w.channel.ID, post.TS, w.berit, "more on 1")
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("Entry 1 of")); err != nil {
		t.Error(err)
	}
	w.slack.Mention(w.channel.ID, w.berit, "more on 7")
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("has 1 entries")); err != nil {
		t.Error(err)
	}
}

func TestADigestPostsItemsAsTheyCome(t *testing.T) {
	w := newWorld(t)
	url := w.own()
	settings := w.base()
	settings["feeds"] = map[string]any{"allowPrivateHosts": []string{"127.0.0.1"}, "pollInterval": "1s"}
	settings["digests"] = map[string]any{"live": map[string]any{"schedule": "on-new", "feeds": []string{url}, "post": []string{"slack:" + simslack.TeamID + "/" + w.channel.ID}}}
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
	settings["digests"] = map[string]any{"task": map[string]any{"schedule": "0 3 1 1 *", "prompt": "Look what our feed holds.", "maxTokens": 100000,
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

func TestDigestsFollowTheConfiguration(t *testing.T) {
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
	d.settings["digests"] = map[string]any{"two": map[string]any{"schedule": "* * * * *", "feeds": []any{map[string]any{"url": url, "mergeDuplicates": false}}, "post": []string{"web:/general"}}}
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
	if err := os.WriteFile(w.path("config.json"), []byte(`{"digests": {"two": {"schedule": "never ever", "feeds": ["x"], "post": ["web:/general"]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	within(t, "a broken file is refused", func() bool { return strings.Contains(d.out.String(), "configuration not taken up") })
	if got := names(); got != "two * * * * *" {
		t.Errorf("after a broken file there are %s", got)
	}
	d.end()
}
