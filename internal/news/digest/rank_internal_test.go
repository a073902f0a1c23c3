package digest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ravenbot/internal/news/feed"
	"ravenbot/internal/store"
)

// noon is when the runs of these tests take place.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// near compares numbers to a billionth.
var near = cmpopts.EquateApprox(0, 1e-9)

// A score is the worth of a story with what else counts added, and its text shows each part.
func TestWeighStories(t *testing.T) {
	fresh, old, undated, list := tale("A", "Fresh news of it", ""), tale("A", "Old news of it", ""), tale("B", "Undated news", ""), tale("A",
		"Weekly links", "")
	for _, st := range []story{fresh, list} {
		st.Published = noon.Add(time.Hour) // in the future, as some feeds say
	}
	old.Published = noon.Add(-48 * time.Hour)
	old.feed.Weight, undated.feed.Weight = 2, 1.5
	old.also = []*item{undated.item}
	fresh.worth, fresh.judged = 6, true
	list.Categories = []string{"Bad", "Good"}
	stories := (spec{}).weighStories([]story{list, old, fresh},
		map[string]float64{"topic good": 2, "topic bad": 0.5, "source A": 0.5, "source B": 0.5}, noon)
	got := map[string]float64{}
	for _, st := range stories {
		got[st.Heading()] = st.score.Total
	}
	want := map[string]float64{"Fresh news of it": 6 - 1, "Old news of it": usualWorth + thin + 2 - 1 + 0.5 - 1, "Weekly links": lowWorth}
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Errorf("scores (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Fresh news of it", "Old news of it", "Weekly links"}, headings(stories)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if want := "score 5: worth 6 of 10 as the model judged it, 1 source, 0 days old, liked × 0.71, weight × 1"; stories[0].
		score.String() != want {
		t.Errorf("in words: %s", stories[0].score)
	}
	if got := stories[2].score.String(); !strings.HasSuffix(got, ", it seems to be one of: links") {
		t.Errorf("in words: %s", got)
	}
}

// A story is led by its fullest telling, and by no live blog, correction, thread, tag of a release or comment.
func TestWithBestLead(t *testing.T) {
	full := strings.Repeat("What has happened is told here in many words. ", 9)
	for _, lead := range []story{tale("A", "Live: the storm", full+full), tale("A", "Correction: the storm", full+full),
		tale("A", "v3.0.0", full), tale("A", "Opinion: we need shelters", full+full), tale("A", "A storm", "Short.")} {
		st := lead
		st.also = []*item{tale("B", "Storm hits the coast", full).item, tale("C", "The storm is here", full[:90]).item}
		if got := st.withBestLead(spec{}); got.Heading() != "Storm hits the coast" || len(got.also) != 2 ||
			lead.verdict != "merged into Storm hits the coast" {
			t.Errorf("%q: the lead is %q, and it is %q", lead.Heading(), got.Heading(), lead.verdict)
		}
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

// What is worth a place and got none waits from when it was seen first, as long as the digest takes items, and so does
// what a model has yet to judge; at a first run events alone do. What is not worth a place is left out for good.
func TestCarryOver(t *testing.T) {
	for _, isFirst := range []bool{true, false} {
		first, waited, event, dull, unjudged := tale("A", "1", ""), tale("A", "2", ""), tale("hook", "3", ""),
			tale("A", "4", ""), tale("A", "5", "")
		waited.since, event.event = noon.Add(-24*time.Hour), "build"
		d := spec{zone: time.FixedZone("", 3600), Plan: Plan{MaxAge: Duration(48 * time.Hour), Prompt: "news"}}
		e := &edition{firstRun: isFirst}
		all := []story{first, waited, event, dull, unjudged}
		for n, st := range all {
			st.reason, st.score.Worth, st.score.Judged = "no room", 3, n < 4
		}
		dull.score.Worth, unjudged.score.Worth = 2.9, 1
		e.left = all
		e.carryOver(d, true, noon)
		var got []string
		for _, st := range all {
			got = append(got, st.verdict+": "+st.reason)
		}
		want := []string{"carried over: no room, it waits until 4 Mar 13:00",
			"carried over: no room, it waits until 3 Mar 13:00",
			"carried over: no room, it waits until 4 Mar 13:00", "not worth a place: ",
			"carried over: no room, it waits until 4 Mar 13:00"}
		waiting := []string{"5", "1", "2", "3"}
		if isFirst {
			want[0], want[1], want[4] = "over the limit: no room", "over the limit: no room", "over the limit: no room"
			waiting = []string{"3"}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("first run %v (-want +got):\n%s", isFirst, diff)
		}
		if diff := cmp.Diff(waiting, headings(e.waiting)); diff != "" || len(e.unworthy) != 1 {
			t.Errorf("first run %v: waiting (-want +got):\n%s", isFirst, diff)
		}
	}
	if got := (spec{}).maxWait(); got != 7*24*time.Hour {
		t.Errorf("without an age items wait %v", got)
	}
}

// The worthiest stories get the places; of stories that count the same each feed gets one in turn, pinned feeds first, and
// no source more than its share, but for big stories. What is not worth a place leaves it empty.
func TestChoosePlaces(t *testing.T) {
	type one struct {
		source string
		worth  float64
		change func(*item)
	}
	plain := func(*item) {}
	big := one{"busy", 8, plain}
	for name, c := range map[string]struct {
		stories []one
		places  int
		want    []string
	}{
		"worth first": {[]one{{"a", 5, plain}, {"a", 6, plain}, {"b", 4, plain}, {"c", 3, plain}, {"d", 2, plain}}, 5,
			[]string{"a6", "a5", "b4", "c3"}},
		"each feed": {[]one{{"a", 5, plain}, {"a", 5, plain}, {"a", 5, plain}, {"b", 5, plain}, {"c", 5, plain}}, 3,
			[]string{"a5", "b5", "c5"}},
		"pinned":   {[]one{{"a", 5, plain}, {"b", 3, func(i *item) { i.feed.Pin = true }}, {"c", 5, plain}}, 2, []string{"b3", "a5"}},
		"big":      {[]one{big, big, big, big, {"b", 5, plain}, {"c", 5, plain}}, 5, []string{"busy8", "busy8", "busy8", "busy8", "b5"}},
		"share":    {[]one{{"a", 4, plain}, {"a", 4, plain}, {"a", 4, plain}, {"b", 3, plain}, {"c", 3, plain}}, 5, []string{"a4", "b3", "c3"}},
		"empty":    {[]one{{"a", 6, plain}, {"b", 2, plain}, {"c", 2.9, plain}}, 5, []string{"a6"}},
		"an event": {[]one{{"a", 6, plain}, {"b", 1, func(i *item) { i.event = "build" }}}, 5, []string{"a6", "b1"}},
		"rested":   {[]one{{"shown", 5, plain}, {"b", 5, plain}}, 1, []string{"b5"}},
		"fair place": {[]one{{"shown", 8, plain}, {"shown", 8, plain}, {"shown", 8, plain}, {"shown", 8, plain}, {"shown", 8, plain},
			{"shown", 8, plain}, {"b", 5, plain}, {"c", 4.9, plain}}, 6, []string{"shown8", "shown8", "shown8", "shown8", "shown8", "b5"}},
	} {
		e := &edition{now: noon, lastShown: map[string]time.Time{}}
		for n, o := range c.stories {
			st := tale(o.source, fmt.Sprint(o.source, o.worth), "")
			st.Link += fmt.Sprint(n)
			st.score.Worth, st.score.Judged, st.score.Total = o.worth, true, o.worth
			if o.change(st.item); o.source == "shown" {
				e.lastShown[shortHash(st.feed.URL)] = noon.Add(-24 * time.Hour)
			}
			e.stories = append(e.stories, st)
		}
		e.choosePlaces(spec{Plan: Plan{Prompt: "news"}}, c.places)
		if diff := cmp.Diff(c.want, headings(e.chosen)); diff != "" || len(e.chosen)+len(e.left) != len(c.stories) {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
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

// A page that was posted from another feed is not posted again, nor one that was merged into such a story.
func TestDropKnownPages(t *testing.T) {
	other := "https://example.org/feed/other"
	lead := past(other, "lead")
	lead.Also = []pastEntry{past(other, "merged")}
	fresh, again, also := tale("A", "fresh", ""), tale("A", "lead", ""), tale("A", "merged", "")
	alone, front, own := tale("A", "lead", ""), tale("A", "", ""), tale("other", "lead", "")
	again.Link += "?utm_source=x"
	alone.feed.NoMerge = true
	items := []*item{fresh.item, again.item, also.item, alone.item, front.item, own.item}
	left := dropKnownPages(items, []pastRun{{Entries: []pastEntry{lead, past(other, "")}}})
	if len(left) != 4 || again.verdict != "merged into lead" || again.reason != "same address, posted before" ||
		also.verdict != "merged into lead" {
		t.Errorf("%d are left, the page that was posted is %q because %q, what was merged then %q", len(left),
			again.verdict, again.reason, also.verdict)
	}
}

// Posts of three days are compared with, oldest first, with what was merged into them.
func TestRecentEntries(t *testing.T) {
	s := New(Options{Now: func() time.Time { return noon }})
	with := func(title string) pastEntry {
		e := past("f", title)
		e.Also = []pastEntry{past("g", title+"-also")}
		return e
	}
	runs := []pastRun{
		{Due: noon.Add(-time.Hour), Entries: []pastEntry{with("new")}},
		{Due: noon.Add(-72 * time.Hour), Entries: []pastEntry{with("old")}},
		{Due: noon.Add(-72*time.Hour - 1), Entries: []pastEntry{with("too old")}},
	}
	var got []string
	for _, e := range s.recentEntries(runs) {
		got = append(got, e.Title)
	}
	if diff := cmp.Diff([]string{"old", "old-also", "new", "new-also"}, got); diff != "" {
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
