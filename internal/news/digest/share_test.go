package digest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
)

// unlike returns an item that tells a story of its own.
func unlike(r *rand.Rand, feedName string, n int, at time.Time) feed.Item {
	word := func() string { return fmt.Sprintf("w%x", r.Uint64()) }
	return feed.Item{
		ID:        fmt.Sprint(n),
		Title:     strings.Join([]string{word(), word(), word(), word()}, " "),
		Link:      fmt.Sprintf("https://%s.example/%d", feedName, n),
		Summary:   strings.Join([]string{word(), word(), word(), word(), word(), word(), word(), word()}, " ") + ".",
		Published: at,
	}
}

func feedURL(name string) string { return "https://" + name + ".example/feed/" + name }

// hosts returns how many of the posted entries are from each host.
func postedHosts(p digest.RunVerdicts) map[string]int {
	count := map[string]int{}
	for _, v := range p.Items {
		if v.Verdict == "posted" {
			count[strings.Split(v.Link, "/")[2]]++
		}
	}
	return count
}

func (b *bench) runVerdicts(t *testing.T) digest.RunVerdicts {
	t.Helper()
	if run := b.run(t, b.now); !run.OK {
		t.Fatalf("run %+v", run)
	}
	last, known, err := b.LastVerdicts(t.Context(), "morning")
	if err != nil || !known {
		t.Fatal(known, err)
	}
	return last
}

// plan makes the digest morning one of these feeds.
func (b *bench) plan(t *testing.T, p digest.Plan) {
	t.Helper()
	p.Name, p.Schedule, p.Post = "morning", "0 8 * * *", []string{general.String()}
	b.restart(t, p)
}

func TestRun_BusyAndQuietFeeds_EachGetsAPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var urls []string
	b := service(t, digest.Plan{Feeds: from(a)})
	for n := range 8 {
		name := fmt.Sprintf("%s%d", map[bool]string{true: "busy", false: "blog"}[n < 3], n)
		urls = append(urls, feedURL(name))
		count := 1
		if n < 3 {
			count = 20
		}
		for i := range count {
			age := time.Duration(i) * 5 * time.Minute
			if n >= 3 {
				age = time.Duration(9+n) * time.Hour
			}
			b.feeds[urls[n]] = append(b.feeds[urls[n]], unlike(r, name, i, monday.Add(-age)))
		}
	}
	b.plan(t, digest.Plan{Feeds: from(urls...), MaxItems: 10})
	for day := range 2 {
		b.now = monday.AddDate(0, 0, day)
		if day > 0 { // the same again: new items of the busy feeds, and one of each blog
			for n, url := range urls {
				for i := range map[bool]int{true: 20, false: 1}[n < 3] {
					it := unlike(r, strings.Split(url, ".")[0][8:], 100+i, b.now.Add(-time.Duration(i)*time.Minute))
					b.feeds[url] = append(b.feeds[url], it)
				}
			}
		}
		count := postedHosts(b.runVerdicts(t))
		if len(count) != 8 {
			t.Errorf("day %d: places for %v, want one of each of the 8 feeds", day, count)
		}
		for host, n := range count {
			if n > 2 {
				t.Errorf("day %d: %s got %d places", day, host, n)
			}
		}
	}
}

// What got no place is posted by a later run, also where its feed no longer lists it; and it is dropped, with the
// reason, when it has waited for too long.
func TestRun_Surplus_IsCarriedOverUntilItIsPostedOrTooOld(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	b := service(t, digest.Plan{Feeds: from(a)})
	url := feedURL("one")
	b.plan(t, digest.Plan{Feeds: from(url), MaxItems: 2})
	b.feeds[url] = []feed.Item{unlike(r, "one", 0, monday)}
	b.run(t, monday)
	var want []string
	for n := range 20 {
		it := unlike(r, "one", 1+n, monday.Add(time.Duration(n)*time.Minute))
		b.feeds[url] = append(b.feeds[url], it)
		want = append(want, it.Link)
	}
	slices.Reverse(want) // the newest first, two a day
	want = want[:14]
	for day := range 7 {
		slices.Sort(want[2*day : 2*day+2]) // verdicts are not in the order of the post
	}
	var got []string
	for day := 1; day <= 7; day++ {
		b.now = monday.AddDate(0, 0, day)
		last := b.runVerdicts(t)
		for _, v := range last.Items {
			if v.Verdict == "posted" {
				got = append(got, v.Link)
			}
			if v.Verdict == "carried over" && !strings.Contains(v.Reason, "it waits until 10 Mar 08:00") {
				t.Errorf("day %d: %s waits because of %q", day, v.Link, v.Reason)
			}
		}
		slices.Sort(got[2*day-2:])
		b.feeds[url] = nil // its feed lists only what is newer
		b.restart(t, digest.Plan{Name: "morning", Schedule: "0 8 * * *", Post: []string{general.String()},
			Feeds: from(url), MaxItems: 2})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("posted over the week (-want +got):\n%s", diff)
	}
	b.now = monday.AddDate(0, 0, 9)
	dropped := 0
	for _, v := range b.runVerdicts(t).Items {
		if v.Verdict == "too old" && strings.Contains(v.Reason, "waited for a place since 3 Mar") {
			dropped++
		}
	}
	if dropped != 6 {
		t.Errorf("%d items were dropped for their age, want the 6 that never got a place", dropped)
	}
	b.now = monday.AddDate(0, 0, 10)
	if items := b.runVerdicts(t).Items; len(items) != 0 {
		t.Errorf("what was dropped comes up again: %+v", items)
	}
}

// A post that no place takes leaves its items to the next run, even when their feed has dropped them meanwhile.
func TestRun_PostRefused_ItemsAreNotLost(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	b := service(t, digest.Plan{Feeds: from(a)})
	url := feedURL("one")
	b.plan(t, digest.Plan{Feeds: from(url), MaxItems: 5})
	b.feeds[url] = []feed.Item{unlike(r, "one", 1, monday)}
	b.refuse = func(chat.Address) string { return "unknown channel" }
	if _, err := b.Run(t.Context(), "morning", monday, true); err == nil {
		t.Fatal("a run that no place took succeeded")
	}
	b.refuse, b.feeds[url], b.now = nil, nil, monday.Add(time.Hour)
	if run := b.run(t, b.now); run.Posted != 1 {
		t.Errorf("%d items were posted after the failure, want the one that nobody got", run.Posted)
	}
}

// With more feeds than places each is shown in turn.
func TestRun_MoreFeedsThanPlaces_AllAreShownWithinDays(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var urls []string
	for n := range 30 {
		urls = append(urls, feedURL(fmt.Sprintf("f%d", n)))
	}
	b := service(t, digest.Plan{Feeds: from(a)})
	b.plan(t, digest.Plan{Feeds: from(urls...), MaxItems: 6})
	shown := map[string]int{}
	for day := range 8 {
		b.now = monday.AddDate(0, 0, day)
		for n, url := range urls {
			// The first feeds are always the newest.
			b.feeds[url] = []feed.Item{unlike(r, fmt.Sprintf("f%d", n), day, b.now.Add(-time.Duration(n)*20*time.Minute))}
		}
		count := postedHosts(b.runVerdicts(t))
		for host := range count {
			shown[host]++
		}
		if len(count) != 6 {
			t.Errorf("day %d: %v", day, count)
		}
	}
	if len(shown) != 30 {
		t.Errorf("%d of 30 feeds were shown in 8 days of 6 places", len(shown))
	}
}

func TestRun_WeightPinAndMute(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	names := []string{"plain", "heavy", "light", "pinned", "muted", "other"}
	b := service(t, digest.Plan{Feeds: from(a)})
	var list []digest.Feed
	for _, name := range names {
		f := digest.Feed{URL: feedURL(name), Pin: name == "pinned", Mute: name == "muted"}
		f.Weight = map[string]float64{"heavy": 2, "light": 0.5}[name]
		list = append(list, f)
		b.feeds[f.URL] = nil
	}
	b.plan(t, digest.Plan{Feeds: list, MaxItems: 10})
	b.run(t, monday.AddDate(0, 0, -1)) // the first run has an order of its own
	for k, f := range list {
		for n := range 10 {
			age := time.Duration(10*n+k) * time.Minute
			b.feeds[f.URL] = append(b.feeds[f.URL], unlike(r, names[k], n, monday.Add(-age)))
		}
	}
	b.now = monday
	p := b.preview(t)
	count := map[string]int{}
	for _, v := range p.Items {
		host := strings.TrimSuffix(strings.Split(v.Link, "/")[2], ".example")
		if v.Verdict == "posted" {
			count[host]++
		}
		if host == "muted" && v.Verdict != "muted" {
			t.Errorf("an item of a muted feed is %q", v.Verdict)
		}
	}
	want := map[string]int{"plain": 2, "heavy": 3, "light": 1, "pinned": 2, "other": 2}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	for n, c := range p.Draft.Cards[:2] {
		if !strings.Contains(c.URL, "pinned.example") {
			t.Errorf("card %d is %s, want the pinned feed's first", n, c.URL)
		}
	}
}

func TestPreview_ExplainsTheScoreAndItsParts(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a, b2), MaxItems: 1})
	b.feeds[a], b.feeds[b2] = nil, nil
	b.run(t, monday.AddDate(0, 0, -3))
	twin := story(0)
	twin.Link += "?utm_source=b"
	twin.Published = monday.Add(-24 * time.Hour)
	b.feeds[a] = []feed.Item{story(0), unlike(rand.New(rand.NewPCG(1, 1)), "x", 1, monday.Add(-48*time.Hour))}
	b.feeds[b2] = []feed.Item{twin}
	p := b.preview(t)
	if p.Items[0].Verdict != "posted" || p.Items[1].Verdict != "carried over" {
		t.Fatalf("verdicts %+v", p.Items)
	}
	want := digest.Score{Total: 6, Worth: 6, Sources: 2, Liked: 1, Weight: 1}
	if diff := cmp.Diff(&want, p.Items[0].Score); diff != "" {
		t.Errorf("score (-want +got):\n%s", diff)
	}
	for n, want := range []string{
		"2 sources; score 6: worth 6 of 10 as it seems, 2 sources, 0 days old, liked × 1, weight × 1",
		"1 items are posted at most, it waits until 9 Mar 08:00; score 2.5: worth 3.5 of 10 as it seems, 1 source, 2 days old, liked × 1, weight × 1",
	} {
		if got := p.Items[n].Why(); got != want {
			t.Errorf("item %d is explained as %q, want %q", n, got, want)
		}
	}
}
