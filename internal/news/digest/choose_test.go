package digest_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/store"
)

func verdicts(p digest.Preview) map[string]string {
	all := map[string]string{}
	for _, v := range p.Items {
		all[v.Link] = v.Verdict
	}
	return all
}

func (b *bench) preview(t *testing.T) digest.Preview {
	t.Helper()
	p, err := b.Preview(t.Context(), "morning")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEveryItemHasOneVerdictAndARunDecidesAsItsPreview(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a, b2, "https://example.org/feed/gone"), MaxItems: 3,
		MaxAge: digest.Duration(48 * time.Hour), Filters: []string{"-/sp[ae]m/", "mute:council until 2026-03-04"}})
	b.feeds[a] = []feed.Item{story(1)}
	b.now = monday.AddDate(0, 0, -1)
	b.run(t, b.now)
	b.now = monday.AddDate(0, 0, 3) // the mute is over
	twin, old, spam := story(73), story(-100), story(74)
	twin.Link += "?utm_medium=rss"
	spam.Title = "Spom is fine, and spem is not"
	b.feeds[a] = []feed.Item{story(1), story(72), story(73), story(71), story(70)}
	b.feeds[b2] = []feed.Item{twin, old, spam}
	p := b.preview(t)
	run := b.run(t, b.now)
	last, known, err := b.LastVerdicts(t.Context(), "morning")
	if err != nil || !known || last.More != 0 || !last.Due.Equal(b.now) {
		t.Fatalf("verdicts of %v, %d left out, known %v, %v", last.Due, last.More, known, err)
	}
	if diff := cmp.Diff(verdicts(p), verdicts(digest.Preview{Items: last.Items})); diff != "" {
		t.Errorf("the run decided otherwise than its preview (-preview +run):\n%s", diff)
	}
	want := map[string]string{
		"https://example.org/1": "already seen", twin.Link: "merged into Story number 73 of a long series",
		"https://example.org/73": "posted",
		"https://example.org/72": "posted", "https://example.org/71": "posted", "https://example.org/70": "carried over",
		old.Link:  "too old",
		spam.Link: "filtered by -/sp[ae]m/",
		"":        "feed failed: https://example.org/feed/gone could not be fetched: the connection failed",
	}
	if diff := cmp.Diff(want, verdicts(p)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if run.Posted != 3 || len(p.Items) != 9 {
		t.Errorf("%d items posted, %d verdicts", run.Posted, len(p.Items))
	}
}

func TestFilters(t *testing.T) {
	it := feed.Item{Title: "Raspberry Pi 7 announced", Link: "https://example.org/1",
		Summary: "<p>A small <b>computer</b>.</p>", Categories: []string{"Hardware"}}
	for _, c := range []struct {
		filters []string
		want    string
	}{
		{nil, "posted"},
		{[]string{"raspberry"}, "posted"}, {[]string{"computer", "nothing"}, "posted"}, {[]string{"HARDWARE"}, "posted"},
		{[]string{"banana", "apple"}, "filtered by banana, apple"},
		{[]string{"-computer"}, "filtered by -computer"}, {[]string{"raspberry", "-pi 7"}, "filtered by -pi 7"},
		{[]string{"/pi \\d/"}, "posted"}, {[]string{"/^pi/"}, "filtered by /^pi/"}, {[]string{"-/^rasp/"}, "filtered by -/^rasp/"},
		{[]string{"mute:computer until 2026-03-03"}, "filtered by mute:computer until 2026-03-03"}, {[]string{"mute:computer until 2026-03-02"}, "posted"},
		{[]string{"mute:/comp.ter/ until 2027-01-01"}, "filtered by mute:/comp.ter/ until 2027-01-01"},
	} {
		b := service(t, digest.Plan{Feeds: from(a), Filters: c.filters})
		b.feeds[a] = []feed.Item{it}
		if got := b.preview(t).Items[0].Verdict; got != c.want {
			t.Errorf("%q: %q, want %q", c.filters, got, c.want)
		}
	}
	for _, bad := range []string{"", "-", "/(/", "mute:x", "mute:x until tomorrow", "mute: until 2026-01-01"} {
		if err := digest.CheckFilter(bad); err == nil {
			t.Errorf("%q passes as a filter", bad)
		}
	}
}

// Whatever the feeds hold, no source fills more than its part, and what is posted is
// as much as that allows.
func TestNoSourceFillsMoreThanItsPart(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		var urls []string
		limit, sources := 1+r.IntN(25), 1+r.IntN(8)
		b := service(t, digest.Plan{Feeds: from(a)})
		for n := range sources {
			url := fmt.Sprintf("https://example.org/feed/%c", 'a'+n)
			urls = append(urls, url)
			for range 1 + r.IntN(30) {
				it := story(r.IntN(1_000_000))
				it.Title, it.Summary = fmt.Sprintf("%x %x %x %x", r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()), ""
				b.feeds[url] = append(b.feeds[url], it)
			}
		}
		if err := b.Configure([]digest.Plan{{
			Name:     "morning",
			Schedule: "0 8 * * *",
			Post:     []string{"web:/x"},
			Feeds:    from(urls...),
			MaxItems: limit,
		}}); err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		cards := b.preview(t).Draft.Cards
		for _, c := range cards {
			count[c.Source]++
		}
		for source, n := range count {
			if n > 1 && sources > 2 && float64(n) > 0.4*float64(len(cards)) || sources == 2 && n > max(1, limit*4/10) {
				t.Errorf("seed %d: %s has %d of %d (at most %d of %d sources)", seed, source, n, len(cards), limit, sources)
			}
		}
		if len(cards) == 0 || len(cards) > limit || sources == 1 && len(cards) != min(limit, len(b.feeds[urls[0]])) {
			t.Errorf("seed %d: %d cards of at most %d from %d sources", seed, len(cards), limit, sources)
		}
	}
}

func TestWhatManyTellAndWhatHelpedComesFirst(t *testing.T) {
	c, d := "https://example.org/feed/c", "https://example.org/feed/d"
	b := service(t, digest.Plan{Feeds: from(a, b2, c, d), MaxItems: 10})
	for n, url := range []string{a, b2, c, d} {
		it := story(n)
		it.Title = strings.Repeat(string(rune('p'+n)), 25)
		it.Summary = ""
		b.feeds[url] = []feed.Item{it}
	}
	run := b.run(t, monday)
	press := b.sent[0].Draft.Buttons[1].Value
	if !strings.HasPrefix(press, chat.PressBad) || len(press) > 90 {
		t.Fatalf("the button says %q", press)
	}
	b.now = monday.Add(30 * time.Hour)
	shared := story(20)
	other := shared
	other.Link += "?utm_source=b"
	b.feeds[a], b.feeds[b2] = []feed.Item{shared}, []feed.Item{other}
	newer := story(26)
	newer.Title, newer.Summary = "Something else that only the third feed tells", ""
	b.feeds[c], b.feeds[d] = []feed.Item{newer}, nil
	if got := urls(b.preview(t).Draft); got[0] != "20" {
		t.Errorf("order %q, want first what two sources tell", got)
	}
	_ = run
	for n := range 30 {
		f := store.Feedback{Turn: strings.TrimPrefix(press, chat.PressBad), User: fmt.Sprint(n), At: b.now}
		if err := b.db.SaveFeedback(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	b.feeds[b2] = nil
	unknown := story(19)
	unknown.Title, unknown.Summary = "A feed of which nobody has an opinion says so", "It says so in a text of a few words, as others do."
	b.feeds["https://example.org/feed/e"] = []feed.Item{unknown}
	plan := digest.Plan{Name: "morning", Schedule: "0 8 * * *", Post: []string{"web:/general"},
		Feeds: from(c, "https://example.org/feed/e", a), MaxItems: 10}
	if err := b.Configure([]digest.Plan{plan}); err != nil {
		t.Fatal(err)
	}
	if got := urls(b.preview(t).Draft); got[0] != "19" {
		t.Errorf("order %q, want last the sources that people did not find helpful", got)
	}
}

func TestTheSameStoryOfAnEarlierRunIsNotPostedAgain(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a, b2), MaxItems: 10})
	b.feeds[a] = []feed.Item{story(1)}
	b.feeds[b2] = nil
	b.run(t, monday)
	twin := story(1)
	twin.Link = "https://elsewhere.example/other-address"
	b.feeds[b2] = []feed.Item{twin, story(2)}
	for n, c := range []struct {
		after time.Duration
		apart bool
		want  string
	}{{24 * time.Hour, false, "merged into Story number 1 of a long series"}, {80 * time.Hour, false,
		"posted"}, {24 * time.Hour, true, "posted"}} {
		feeds := from(a, b2)
		feeds[1].NoMerge = c.apart
		b.now = monday.Add(c.after)
		b.restart(t, digest.Plan{Name: "morning", Schedule: "0 8 * * *", Post: []string{"web:/general"}, Feeds: feeds})
		p := b.preview(t)
		if got := verdicts(p)[twin.Link]; got != c.want {
			t.Errorf("case %d: %q, want %q", n, got, c.want)
		}
	}
}

// An address is posted once, however long ago that was and whichever feed names it.
func TestAnAddressIsPostedOnce(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a, b2), MaxItems: 10})
	b.feeds[a], b.feeds[b2] = []feed.Item{story(1)}, nil
	b.run(t, monday)
	again := story(1)
	again.ID, again.Title, again.Link = "other", "Something else entirely is its title here", again.Link+"?utm_source=b"
	b.feeds[b2] = []feed.Item{again}
	b.now = monday.AddDate(0, 0, 6)
	if got := verdicts(b.preview(t))[again.Link]; got != "merged into Story number 1 of a long series" {
		t.Errorf("six days later it is %q", got)
	}
	update := story(1) // of the feed that had it
	update.ID, update.Title = "update", "A feed may have one address for everything it says"
	b.feeds[a] = append(b.feeds[a], update)
	if p := b.preview(t); len(p.Draft.Cards) != 1 {
		t.Errorf("%d cards, want the update", len(p.Draft.Cards))
	}
	b.feeds[a] = b.feeds[a][:1]
	feeds := from(a, b2)
	feeds[1].NoMerge = true
	b.restart(t, digest.Plan{Name: "morning", Schedule: "0 8 * * *", Post: []string{general.String()}, Feeds: feeds})
	if got := verdicts(b.preview(t))[again.Link]; got != "posted" {
		t.Errorf("of a feed whose items are put together with none it is %q", got)
	}
}

// A run that was cut off before it was on record leaves nothing behind that would
// keep its items from the next.
func TestAnUnfinishedRunHidesNothing(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a, b2), MaxItems: 10})
	b.feeds[a], b.feeds[b2] = []feed.Item{story(1)}, nil
	b.run(t, monday)
	items, err := b.db.Items(t.Context(), "digest run/morning")
	if err != nil || len(items) != 1 {
		t.Fatal(items, err)
	}
	for key, raw := range items { // as if the run had not been recorded
		raw = []byte(strings.ReplaceAll(string(raw), key, "2026-03-02T07:00:00Z"))
		if err := b.db.DeleteItem(t.Context(), "digest run/morning", key); err != nil {
			t.Fatal(err)
		}
		if err := b.db.SaveItem(t.Context(), "digest run/morning", "2026-03-02T07:00:00Z", raw, true); err != nil {
			t.Fatal(err)
		}
	}
	twin := story(1)
	twin.Link += "?utm_source=b"
	b.feeds[b2] = []feed.Item{twin}
	if got := verdicts(b.preview(t))[twin.Link]; got != "posted" {
		t.Errorf("the twin of what was never posted is %q", got)
	}
}

// A site that moves names all of its items anew, and a headline that is edited may change what names its item: neither is
// posted again. A new report of the same words is.
func TestAnItemIsKnownAgainUnderAnotherName(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a), MaxItems: 10})
	b.feeds[a] = []feed.Item{story(1), story(2), story(3)}
	b.run(t, monday)
	b.now = monday.Add(24 * time.Hour)
	text := "<p>The harbour office closes the old bridge for two years because its cables have rusted through.</p>"
	for n := range b.feeds[a] {
		it := &b.feeds[a][n]
		it.ID, it.Link = fmt.Sprint("new ", n), fmt.Sprintf("https://www.moved.example/posts/%d/", n)
	}
	first := feed.Item{ID: "old-bridge", Title: "Old bridge closes", Link: "https://example.org/old-bridge", Summary: text,
		Published: b.now.Add(-2 * time.Hour)}
	status := feed.Item{ID: "up", Title: "All systems are up again", Link: "https://example.org/up", Published: b.now}
	b.feeds[a] = append(b.feeds[a], first, status)
	if run := b.run(t, b.now); run.Posted != 2 {
		t.Fatalf("%d items were posted, want the two new ones: %+v", run.Posted, b.sent[len(b.sent)-1])
	}
	edited := first
	edited.ID, edited.Link, edited.Title = "rusty-bridge", "https://example.org/rusty", "Rust closes a bridge for two years"
	edited.Published = first.Published.Add(time.Hour)
	edited.Summary += "<p>Ferries run meanwhile.</p>"
	again := status
	again.ID, again.Link, again.Published = "up2", "https://example.org/up2", b.now.Add(20*time.Hour)
	b.feeds[a] = append(b.feeds[a], edited, again)
	b.now = b.now.Add(24 * time.Hour)
	got := verdicts(b.preview(t))
	if got[edited.Link] != "merged into Old bridge closes" || got[again.Link] != "posted" {
		t.Errorf("the edited one is %q, the new report %q", got[edited.Link], got[again.Link])
	}
}

// An item that is dated in the future is not fresher than what came today, and shows no date; one that names its feed of
// origin is of that source.
func TestRun_FutureDatesAndOrigins(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a), MaxItems: 2})
	b.feeds[a] = nil
	b.run(t, b.now)
	b.now = b.now.Add(24 * time.Hour)
	ahead, today, soon := topical(1, "The harbour gets a crane", "It is tall."), topical(2, "The library opens at night", "Books."),
		topical(3, "The trains are full again", "Six a week.")
	ahead.Published, today.Published, soon.Published = b.now.AddDate(100, 0, 0), b.now.Add(-time.Hour), b.now.Add(time.Hour)
	today.Origin = "Town Library"
	b.feeds[a] = []feed.Item{ahead, today, soon}
	p := b.preview(t)
	if diff := cmp.Diff([]string{"3", "2"}, urls(p.Draft)); diff != "" {
		t.Fatalf("entries (-want +got):\n%s", diff)
	}
	if got := p.Draft.Cards[1].Source; got != "Town Library" {
		t.Errorf("the source is %q", got)
	}
	b.feeds[a] = []feed.Item{ahead}
	if got := b.preview(t).Draft.Cards[0].Time; !got.IsZero() {
		t.Errorf("the date is %v", got)
	}
}
