package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	simslack "ravenbot/internal/testing/sim/slack"
)

// feedsEach is how many feeds each digest of the load test has.
const feedsEach = 4

// TestLoad_ManyDigestsInOneMinute has as many digests due in one minute as RAVENBOT_DIGESTS says, each with feeds of
// its own on one server and a place of its own on Discord, Slack or the page. It measures chat before and meanwhile.
func TestLoad_ManyDigestsInOneMinute(t *testing.T) {
	digests, err := strconv.Atoi(os.Getenv("RAVENBOT_DIGESTS"))
	if err != nil {
		t.Skip("RAVENBOT_DIGESTS does not say how many digests: it takes minutes")
	}
	w := newWorld(t)
	q := quietChannels(w)
	address, asked := serveManyFeeds(t)
	// Time to start, and to measure chat while no digest runs.
	due := time.Now().UTC().Truncate(time.Minute).Add(2 * time.Minute)
	settings := w.base()
	settings["models"] = map[string]any{"default": map[string]any{"provider": "offline"}}
	settings["digests"] = manyPlans(w, address, digests, due)
	settings["limits"] = map[string]any{"userDailyMessages": 0}
	d := w.daemon(settings).start()
	c := &child{cmd: d.cmd}
	t.Logf("ready with %d digests: %.0f MiB", digests, c.resident())
	q.ask(t, 3) // warms up
	idle := q.ask(t, 20)
	if !time.Now().Before(due) {
		t.Fatal("the digests were due before chat was measured without them: repeat it on a quieter machine")
	}
	<-time.After(time.Until(due))
	began, cpu := time.Now(), c.cpu()
	var during []time.Duration
	for asked.Load() < int64(digests*feedsEach) && time.Since(began) < time.Hour {
		during = append(during, q.ask(t, 1)...)
	}
	read := time.Since(began)
	d.idle()
	posted, failed := 0, 0
	within(t, "all digests have run", func() bool {
		posted, failed = countRuns(t, d)
		return posted+failed == digests
	})
	t.Logf("%d digests of %d feeds: read within %s, %s of processor time, %d posted, %d failed, %.0f MiB at most (now "+
		"%.0f MiB, %.0f of them of files)",
		digests, feedsEach, read.Round(time.Second), (c.cpu() - cpu).Round(time.Second), posted, failed, c.peak(),
		c.resident(), c.memory("RssFile:"))
	info, _ := os.Stat(w.path("data/ravenbot.db"))
	t.Logf("store %d MiB", info.Size()>>20)
	t.Logf("chat without them: %s; meanwhile: %s", distribution(idle), distribution(during))
	if posted != digests || failed > 0 {
		t.Errorf("%d of %d digests were posted, %d failed or did not read a feed", posted, digests, failed)
	}
	if p95(during) > 2*p95(idle) {
		t.Error("chat takes more than twice the time meanwhile")
	}
	if c.peak() > 200 {
		t.Error("more than 200 MiB were in use")
	}
}

// serveManyFeeds serves a feed of 20 entries at every path, and counts the requests.
func serveManyFeeds(t *testing.T) (address string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	text := strings.Repeat("Some words of the entry that say what happened. ", 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/rss+xml")
		fmt.Fprintf(w, `<rss version="2.0"><channel><title>Feed %s</title>`, r.URL.Path)
		for n := range 20 {
			fmt.Fprintf(w, `<item><guid>%[1]s-%[2]d</guid><title>Entry %[2]d of feed `+
				`%[1]s</title><link>https://example.org%[1]s/%[2]d</link>`+
				`<description>%[3]s</description></item>`, r.URL.Path, n, text)
		}
		fmt.Fprint(w, `</channel></rss>`)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

// manyPlans returns digests for the configuration, which are all due at the same time.
func manyPlans(w *world, address string, digests int, due time.Time) map[string]any {
	plans := map[string]any{}
	for n := range digests {
		var feeds []string
		for f := range feedsEach {
			feeds = append(feeds, fmt.Sprintf("%s/%d/%d", address, n, f))
		}
		name := fmt.Sprintf("d%d", n)
		post := "web:/" + name
		switch n % 3 {
		case 1:
			post = "slack:" + simslack.TeamID + "/" + w.slack.AddChannel(name).ID
		case 2:
			post = "discord:" + w.guild.ID + "/" + w.discord.AddChannel(w.guild, name).ID
		}
		plans[name] = map[string]any{"schedule": due.Format("4 15 * * *"), "feeds": feeds,
			"post": []string{post}, "maxItems": 5}
	}
	return plans
}

// countRuns returns how many digests were posted as a whole, and how many were not.
func countRuns(t *testing.T, d *daemon) (posted, failed int) {
	t.Helper()
	for next := "0"; next != ""; {
		var list struct {
			Next  string
			Items []struct {
				Last *struct {
					OK     bool
					Posted int
					Note   string
				}
			}
		}
		if err := d.api(http.MethodGet, "/api/v1/digests?limit=1000&cursor="+next, &list); err != nil {
			t.Fatal(err)
		}
		for _, i := range list.Items {
			switch {
			case i.Last == nil:
			case i.Last.OK && i.Last.Posted > 0 && i.Last.Note == "":
				posted++
			default:
				failed++
			}
		}
		next = list.Next
	}
	return posted, failed
}

// distribution returns the median and the 95th percentile of times.
func distribution(list []time.Duration) string {
	slices.Sort(list)
	at := func(percent int) time.Duration { return list[len(list)*percent/100].Round(100 * time.Microsecond) }
	return fmt.Sprintf("median %s, 95th percentile %s (%d questions)", at(50), at(95), len(list))
}
