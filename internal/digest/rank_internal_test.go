package digest

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ravenbot/internal/feed"
	"ravenbot/internal/store"
)

// noon is when the runs of these tests take place.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// near compares numbers to a billionth.
var near = cmpopts.EquateApprox(0, 1e-9)

// A score is the product of what it is made of, and its text shows each factor.
func TestScoreStories_IsAProduct(t *testing.T) {
	fresh, old, undated, list := tale("A", "Fresh", ""), tale("A", "Old", ""), tale("B", "Undated", ""), tale("A",
		"Weekly links", "")
	for _, st := range []story{fresh, list} {
		st.Published = noon.Add(time.Hour) // in the future, as some feeds say
	}
	old.Published = noon.Add(-48 * time.Hour)
	old.feed.Weight = 2
	old.also = []*item{undated.item}
	list.Categories = []string{"Bad", "Good"}
	stories := []story{list, undated, old, fresh}
	scoreStories(stories, map[string]float64{"topic good": 2, "topic bad": 0.5, "source A": 0.5, "source B": 0.5}, noon)
	got := map[string]float64{}
	for _, st := range stories {
		got[st.Heading()] = st.score.Total
	}
	root := math.Sqrt(0.5)
	want := map[string]float64{"Fresh": root, "Old": 2 * 0.25 * root * 2, "Undated": 0.5 * root, "Weekly links": 0.1}
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Old", "Fresh", "Undated", "Weekly links"}, headings(stories)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	relevance := 10
	score := *stories[0].score
	score.Relevance = &relevance
	score.setTotal()
	if diff := cmp.Diff(4*root, score.Total, near); diff != "" {
		t.Errorf("with the highest relevance (-want +got):\n%s", diff)
	}
	if want := "score 2.83 = 2 sources × 0.25 freshness × 0.71 liked × 2 weight × 4 relevance (10 of 10)"; score.String() != want {
		t.Errorf("in words: %s", score)
	}
	if got := stories[3].score.String(); !strings.HasSuffix(got, " × 0.1, it seems to be: list of links") {
		t.Errorf("in words: %s", got)
	}
}

// Stories come before lists of links, those before what is off topic, and offers last, whatever their scores.
func TestSortByScore_KindsComeFirst(t *testing.T) {
	var stories []story
	for n, kind := range []string{kindOffer, kindOffTopic, kindRoundup, "", ""} {
		st := tale("A", fmt.Sprint(n, kind), "")
		st.score = &Score{Kind: kind, Total: 10 - float64(n/4)*3}
		stories = append(stories, st)
	}
	sortByScore(stories)
	want := []string{"3", "4", "2list of links", "1off topic", "0offer"}
	if diff := cmp.Diff(want, headings(stories)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// A vote on a post is shared by its entries, three opinions of each kind are assumed at first, and the factor is
// between a half and two. Feedback on something else counts for nothing.
func TestLearnPreferences(t *testing.T) {
	runs := []pastRun{
		{Turn: "one", Entries: []pastEntry{{Source: "A", Topics: []string{"Sea"}}}},
		{Turn: "two", Entries: []pastEntry{{Source: "B", Topics: []string{"sea", "Land"}}, {Source: "C"}}},
	}
	words := []store.Feedback{{Turn: "one", Good: true}, {Turn: "two"}, {Turn: "answer"}}
	for range 20 {
		words = append(words, store.Feedback{Turn: "two"})
	}
	want := map[string]float64{"source A": 4.0 / 3, "topic sea": 0.5, "topic land": 0.5, "source B": 0.5,
		"source C": 0.5}
	if diff := cmp.Diff(want, learnPreferences(runs, words), near); diff != "" {
		t.Errorf("after many votes (-want +got):\n%s", diff)
	}
	want = map[string]float64{"source A": 4.0 / 3, "topic sea": 4 / 3.5, "topic land": 3 / 3.5, "source B": 3 / 3.5,
		"source C": 3 / 3.5}
	if diff := cmp.Diff(want, learnPreferences(runs, words[:3]), near); diff != "" {
		t.Errorf("after two votes (-want +got):\n%s", diff)
	}
}

// Readers are told in a few words why a story is posted.
func TestWhy(t *testing.T) {
	pinned, told, liked, waited, plain := tale("A", "1", ""), tale("A", "2", ""), tale("A", "3", ""), tale("A", "4",
		""), tale("A", "5", "")
	pinned.feed.Pin = true
	told.also = []*item{tale("B", "2", "").item, tale("B", "2b", "").item}
	liked.score.Liked, waited.score.Liked = 1.15, 1.14
	waited.since = noon
	pinned.since = noon
	plain.score = nil
	var got []string
	for _, st := range []story{pinned, told, liked, waited, plain} {
		got = append(got, st.why())
	}
	want := []string{"pinned, carried over", "told by 2 sources", "liked here", "carried over", "new in its feed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("why (-want +got):\n%s", diff)
	}
}

// What got no place waits from when it was seen first, as long as the digest takes items; at a first run events alone
// do.
func TestCarryOver(t *testing.T) {
	first, waited, event := tale("A", "1", ""), tale("A", "2", ""), tale("hook", "3", "")
	waited.since, event.event = noon.Add(-24*time.Hour), "build"
	d := spec{zone: time.FixedZone("", 3600), Plan: Plan{MaxAge: Duration(48 * time.Hour)}}
	for _, isFirst := range []bool{true, false} {
		e := &edition{firstRun: isFirst}
		for _, st := range []story{first, waited, event} {
			st.reason = "no room"
		}
		d.carryOver(e, []story{first, waited, event}, noon)
		var got []string
		for _, st := range []story{first, waited, event} {
			got = append(got, st.verdict+": "+st.reason)
		}
		want := []string{"carried over: no room, it waits until 4 Mar 13:00",
			"carried over: no room, it waits until 3 Mar 13:00",
			"carried over: no room, it waits until 4 Mar 13:00"}
		waiting := 3
		if isFirst {
			want[0], want[1], waiting = "over the limit: no room", "over the limit: no room", 1
		}
		if diff := cmp.Diff(want, got); diff != "" || len(e.waiting) != waiting {
			t.Errorf("first run %v: %d wait (-want +got):\n%s", isFirst, len(e.waiting), diff)
		}
	}
	if got := (spec{}).maxWait(); got != 7*24*time.Hour {
		t.Errorf("without an age items wait %v", got)
	}
}

// One turn gives a place to each feed: pinned feeds first, feeds of more weight twice before others, lists of links a
// round later, offers last. No source has more than its share, and the reason says why.
func TestChoosePlaces(t *testing.T) {
	var stories []story
	add := func(source string, n int, change func(*item)) {
		for k := range n {
			st := tale(source, fmt.Sprint(source, k+1), "")
			change(st.item)
			stories = append(stories, st)
		}
	}
	add("offer", 1, func(i *item) { i.score.Kind = kindOffer })
	add("links", 1, func(i *item) { i.score.Kind = kindRoundup })
	add("busy", 4, func(*item) {})
	add("heavy", 3, func(i *item) { i.feed.Weight = 2 })
	add("quiet", 1, func(*item) {})
	add("light", 1, func(i *item) { i.feed.Weight = 0.5 })
	add("pinned", 1, func(i *item) { i.feed.Pin, i.since = true, noon })
	chosen, left := choosePlaces(stories, 8, maxSourceShare, nil)
	var got []string
	for _, st := range append(chosen, left...) {
		got = append(got, st.Heading()+": "+st.reason)
	}
	want := []string{
		"pinned1: its feed is pinned, the first of its feed, it has waited since 2 Mar", "links1: the first of its feed",
		"busy1: the first of its feed", "busy2: number 2 of its feed", "heavy1: the first of its feed",
		"heavy2: number 2 of its feed", "quiet1: the first of its feed", "light1: the first of its feed",
		"offer1: 8 items are posted at most", "busy3: 8 items are posted at most", "busy4: 8 items are posted at most",
		"heavy3: 8 items are posted at most",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	_, left = choosePlaces(stories, 20, maxSourceShare, nil)
	if len(left) != 0 {
		t.Errorf("with room for all %v got none", headings(left))
	}
	three := []story{tale("A", "1", ""), tale("A", "2", ""), tale("A", "3", ""), tale("A", "4", ""), tale("B", "5", ""),
		tale("C", "6", "")}
	chosen, left = choosePlaces(three, 6, maxSourceShare, nil)
	if diff := cmp.Diff([]string{"1", "5", "6"}, headings(chosen)); diff != "" ||
		left[0].reason != "one source fills at most 40 %" {
		t.Errorf("of a busy source, left because %s (-want +got):\n%s", left[0].reason, diff)
	}
	if chosen, _ = choosePlaces(three, 6, wholeShare, nil); len(chosen) != 6 {
		t.Errorf("a model chooses from %v", headings(chosen))
	}
}

// Where there are more feeds than places, a third of them goes to the best stories, and the others to the feeds that
// were shown longest ago.
func TestChoosePlaces_MoreFeedsThanPlaces(t *testing.T) {
	var stories []story
	shown := map[string]time.Time{}
	for n := range 8 {
		st := tale(fmt.Sprint("S", n), fmt.Sprint(n), "")
		stories = append(stories, st)
		shown[shortHash(st.feed.URL)] = noon.Add(-time.Duration(n) * time.Hour)
	}
	delete(shown, shortHash(stories[3].feed.URL)) // was never shown
	chosen, _ := choosePlaces(stories, 6, maxSourceShare, shown)
	if diff := cmp.Diff([]string{"0", "1", "3", "5", "6", "7"}, headings(chosen)); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
	// As many places as feeds are room for all: their order decides alone.
	chosen, _ = choosePlaces(stories[:6], 6, maxSourceShare, shown)
	if diff := cmp.Diff([]string{"0", "1", "2", "3", "4", "5"}, headings(chosen)); diff != "" {
		t.Errorf("with places for all (-want +got):\n%s", diff)
	}
}

// A story has as many sources as feeds tell it.
func TestSources_AreFeeds(t *testing.T) {
	st := tale("A", "1", "")
	st.also = []*item{tale("A", "2", "").item, tale("B", "3", "").item}
	if n := st.sources(); n != 2 {
		t.Errorf("two feeds count as %d", n)
	}
}

// A feed was shown last by the newest run that has an entry of it, in whatever order the runs are.
func TestLastShownByFeed_IsTheNewest(t *testing.T) {
	run := func(hours int, feeds ...string) pastRun {
		p := pastRun{Due: noon.Add(time.Duration(hours) * time.Hour)}
		for _, f := range feeds {
			p.Entries = append(p.Entries, pastEntry{Feed: f})
		}
		return p
	}
	want := map[string]time.Time{"a": noon.Add(2 * time.Hour), "b": noon.Add(3 * time.Hour)}
	for _, runs := range [][]pastRun{{run(1, "a"), run(3, "b"), run(2, "a", "b")}, {run(2, "a", "b"), run(3, "b"),
		run(1, "a")}} {
		if diff := cmp.Diff(want, lastShownByFeed(runs)); diff != "" {
			t.Errorf("shown at (-want +got):\n%s", diff)
		}
	}
}

// past returns what was posted of a feed.
func past(address, title string) pastEntry {
	return pastEntry{ID: title, Title: title, Link: "https://example.org/" + title, Feed: shortHash(address)}
}

// A page that was posted from another feed is not posted again, nor one that was merged into such a story, unless
// somebody wants the merged ones as entries of their own.
func TestDropKnownPages(t *testing.T) {
	other := "https://example.org/feed/other"
	lead, merged := past(other, "lead"), past(other, "merged")
	lead.Also = []pastEntry{merged}
	for _, isUnmerged := range []bool{false, true} {
		fresh, again, also, alone, front := tale("A", "fresh", ""), tale("A", "lead", ""), tale("A", "merged", ""),
			tale("A", "lead", ""),
			tale("A", "", "")
		again.Link += "?utm_source=x"
		alone.feed.NoMerge = true
		own := tale("other", "lead", "")
		items := []*item{fresh.item, again.item, also.item, alone.item, front.item, own.item}
		left := dropKnownPages(items, []pastRun{{Entries: []pastEntry{lead, past(other, "")}, Unmerged: isUnmerged}})
		want := 4
		if isUnmerged {
			want = 5
		}
		if len(left) != want || again.verdict != "merged into lead" || again.postedBefore != "lead" ||
			again.reason != "same address, posted before" {
			t.Errorf("unmerged %v: %d are left, the page that was posted is %q because %q", isUnmerged, len(left),
				again.verdict,
				again.reason)
		}
		if isDropped := also.verdict == "merged into lead"; isDropped == isUnmerged {
			t.Errorf("unmerged %v: what was merged then is %q", isUnmerged, also.verdict)
		}
	}
}

// Posts of three days are compared with, oldest first, with what was merged into them, but for what is unmerged.
func TestRecentEntries(t *testing.T) {
	s := New(Options{Now: func() time.Time { return noon }})
	with := func(title string) pastEntry {
		e := past("f", title)
		e.Also = []pastEntry{past("g", title+"-also")}
		return e
	}
	runs := []pastRun{
		{Due: noon.Add(-time.Hour), Entries: []pastEntry{with("new")}},
		{Due: noon.Add(-2 * time.Hour), Entries: []pastEntry{with("unmerged")}, Unmerged: true},
		{Due: noon.Add(-72 * time.Hour), Entries: []pastEntry{with("old")}},
		{Due: noon.Add(-72*time.Hour - 1), Entries: []pastEntry{with("too old")}},
	}
	var got []string
	for _, e := range s.recentEntries(runs) {
		got = append(got, e.Title)
	}
	if diff := cmp.Diff([]string{"old", "old-also", "unmerged", "new", "new-also"}, got); diff != "" {
		t.Errorf("compared with (-want +got):\n%s", diff)
	}
}

// What is kept of an item comes back as the same item.
func TestPastEntry_KeepsTheItem(t *testing.T) {
	st := tale("A", "Tea & biscuits", "Some <b>text</b>")
	st.Published, st.Image = noon, "https://example.org/a.png"
	for n := range 12 {
		st.Categories = append(st.Categories, fmt.Sprint("t", n))
	}
	kept := newPastEntry(st.item)
	if kept.Title != "Tea & biscuits" || kept.Text != "Some text" || kept.Image != st.Image || len(kept.Topics) != 10 ||
		kept.Source != "A" || kept.Feed != shortHash(st.feed.URL) || kept.ID != st.id || !kept.Time.Equal(noon) {
		t.Errorf("kept as %+v", kept)
	}
	back := kept.feedItem()
	if got := (&item{Item: back}); got.Heading() != "Tea & biscuits" || got.text() != "Some text" ||
		back.Link != st.Link ||
		!back.Time().Equal(noon) || back.Image != st.Image || len(back.Categories) != 10 {
		t.Errorf("comes back as %+v", back)
	}
	long := tale("A", "T", strings.Repeat("word ", 400))
	if n := len([]rune(newPastEntry(long.item).Text)); n > 1501 || n < 1490 {
		t.Errorf("of a long text %d characters are kept", n)
	}
}

// The picture of an item is its own, else that of an enclosure.
func TestImageURL(t *testing.T) {
	png := feed.Enclosure{Type: "image/png", URL: "https://example.org/b.png"}
	for name, c := range map[string]struct {
		item feed.Item
		want string
	}{
		"its own": {feed.Item{Image: "https://example.org/a.png", Enclosures: []feed.Enclosure{png}},
			"https://example.org/a.png"},
		"an enclosure": {feed.Item{Image: "data:x", Enclosures: []feed.Enclosure{{Type: "audio/mp3",
			URL: "https://a.example/x"}, png}}, png.URL},
		"no web page":   {feed.Item{Enclosures: []feed.Enclosure{{Type: "image/png", URL: "file:///etc/passwd"}}}, ""},
		"another thing": {feed.Item{Enclosures: []feed.Enclosure{{Type: "audio/mp3", URL: "https://a.example/x"}}}, ""},
	} {
		if got := (&item{Item: c.item}).imageURL(); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
