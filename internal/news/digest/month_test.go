package digest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
)

// month is a made-up month: feeds of very different rates, stories that several tell in their own words, late reports,
// advertisements, and days on which feeds cannot be read.
type month struct {
	*week
	rates  []int // items a day of each feed; a negative one: one item in so many days
	limit  int   // items that a feed lists
	listed [][]feed.Item
	tales  map[string]int // by address: which story an item tells
	ads    map[string]bool
	recent []tale
	quiet  []int          // stories of feeds with few items
	newest []time.Time    // when each feed last published
	titles map[string]int // by title: which story an item tells
	// languages is in how many languages feeds write. No two share a word.
	languages int
}

func newMonth(seed uint64, languages int) *month {
	m := &month{
		languages: languages,
		titles:    map[string]int{},
		week:      &week{r: rand.New(rand.NewPCG(seed, 2026))},
		rates:     []int{200, 120, 40, 20, 10, 5, 3, 2, 1, 1, 1, -2, -3, -7, -15, -28},
		limit:     10,
		tales:     map[string]int{},
		ads:       map[string]bool{},
	}
	for range 400 {
		m.words = append(m.words, m.word())
	}
	m.listed, m.newest = make([][]feed.Item, len(m.rates)), make([]time.Time, len(m.rates))
	return m
}

// day publishes a day's items in the hours before now.
func (m *month) day(day int, now time.Time) {
	for f, rate := range m.rates {
		n := rate
		if rate < 0 {
			n = 0
			if (day+f)%-rate == 0 {
				n = 1
			}
		}
		for range n {
			m.newest[f] = now
			m.publish(f, now.Add(-time.Duration(m.r.IntN(24*60))*time.Minute))
		}
	}
}

func (m *month) publish(f int, at time.Time) {
	number := len(m.tales)
	it := m.told(m.pick(), f, number, at)
	story := len(m.recent) - 1
	switch {
	case m.rates[f] > 4 && m.r.IntN(20) == 0:
		label := []string{"Sponsored: ", "[Ad] ", "Anzeige: ", "Advertorial: "}[m.r.IntN(4)]
		it.Title = label + it.Title
		m.ads[it.Link] = true
	// A story that another feed told before, within a day or two: quiet feeds, which are posted most, repeat one another.
	case m.rates[f] > 4 && m.r.IntN(8) == 0 && len(m.recent) > 20:
		story = len(m.recent) - 2 - m.r.IntN(15)
		it = m.told(m.recent[story], f, number, at)
	case m.rates[f] <= 4 && m.r.IntN(3) == 0 && len(m.quiet) > 6:
		story = m.quiet[len(m.quiet)-1-m.r.IntN(6)]
		it = m.told(m.recent[story], f, number, at)
	}
	if m.rates[f] <= 4 {
		m.quiet = append(m.quiet, story)
	}
	if f%m.languages == 1 {
		it = translate(it)
	}
	m.tales[it.Link], m.titles[it.Title] = story, story
	m.listed[f] = append(m.listed[f], it)
	m.listed[f] = m.listed[f][max(0, len(m.listed[f])-m.limit):]
}

// translate writes an item in other words; the labels of advertisements stay.
func translate(it feed.Item) feed.Item {
	other := func(text string) string {
		words := strings.Fields(text)
		for n, w := range words {
			if letters := strings.TrimSuffix(w, "."); !strings.ContainsAny(w, ":[]|") && letters != "Ad" {
				words[n] = letters[1:] + "ung" + letters[:1] + w[len(letters):]
			}
		}
		return strings.Join(words, " ")
	}
	it.Title, it.Summary = other(it.Title), other(it.Summary)
	return it
}

// pick returns a new story.
func (m *month) pick() tale {
	m.recent = append(m.recent, m.tale())
	return m.recent[len(m.recent)-1]
}

// edit answers as a model that understands both languages, and invents something each time.
func (m *month) edit(_ context.Context, _, prompt string, _ json.RawMessage) (string, string, error) {
	items, before, _ := strings.Cut(prompt, "Posted before:\n")
	posts := map[int]json.Number{}
	for _, p := range listedPost.FindAllStringSubmatch(before, -1) {
		posts[m.titles[p[2]]] = json.Number(p[1])
	}
	first := map[int]json.Number{}
	out := []map[string]any{}
	opening := []string{"Aliens landed."}
	for _, i := range listedItem.FindAllStringSubmatch(items, -1) {
		story, n := m.titles[i[2]], json.Number(i[1])
		one := map[string]any{"n": n, "relevance": story % 11, "kind": "news", "sameAs": 0, "told": 0, "topic": "news",
			"text": "It is about " + i[2] + " [" + i[1] + "]. Nobody knows why."}
		if same, ok := first[story]; ok {
			one["sameAs"] = same
		} else {
			first[story] = n
		}
		if told, ok := posts[story]; ok {
			one["told"] = told
		}
		if out = append(out, one); len(out) <= 3 {
			opening = append(opening, "Something happened with "+i[2]+" ["+i[1]+"].")
		}
	}
	raw, err := json.Marshal(map[string]any{"opening": opening, "items": out})
	return string(raw), "gemini/test", err
}

// TestMonth_NoFeedIsStarved runs a digest on the first mornings of a month: without a model, and with one in a month in which
// half of the feeds write in another language. It prints what the promises of docs/digests.md come to.
func TestMonth_NoFeedIsStarved(t *testing.T) {
	t.Run("without a model", func(t *testing.T) { runMonth(t, newMonth(11, 1), 20) })
	t.Run("two languages and a model", func(t *testing.T) { runMonth(t, newMonth(11, 2), 14) })
}

func runMonth(t *testing.T, m *month, days int) {
	b := service(t, digest.Plan{Feeds: from(a)}, func(o *digest.Options) {
		if m.languages > 1 {
			o.Writer = func(digest.Plan) digest.Writer { return m.edit }
		}
	})
	var urls []string
	for n := range m.rates {
		urls = append(urls, feedURL(fmt.Sprintf("f%d", n)))
	}
	b.plan(t, digest.Plan{Feeds: from(urls...), MaxItems: 12, Style: digest.Bullets})
	var s monthCount
	s.begin(len(m.rates))
	for day := range days {
		b.now = monday.AddDate(0, 0, day)
		m.day(day, b.now)
		for n, url := range urls {
			delete(b.feeds, url)
			// Each feed fails for two days of the month, and all do on the twelfth.
			if out := day == 12 || day == 4+n || day == 5+n; !out {
				b.feeds[url] = m.listed[n]
			}
		}
		run, err := b.Run(t.Context(), "morning", b.now, false)
		if day == 12 {
			if err == nil || run.OK {
				t.Errorf("a day without any feed: %+v, %v", run, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		last, _, err := b.LastVerdicts(t.Context(), "morning")
		if err != nil {
			t.Fatal(err)
		}
		at := len(b.sent) - 1
		for ; b.sent[at].Turn == ""; at-- { // a notice about a feed
		}
		post := b.sent[at].Draft
		s.count(m, last.Items, post, urls, b.now)
		s.ungrounded += countUngrounded(post, m, m.languages > 1)
	}
	t.Logf("%-34s %6s %s", "measure", "value", "bar")
	for _, row := range []struct {
		what   string
		value  float64
		atMost float64
	}{
		{"feeds starved for over 7 days", float64(s.starved), 0},
		{"longest wait of a feed, in days", s.longest.Hours() / 24, 7},
		{"stories told twice, in percent", 100 * float64(s.twice) / float64(s.posted), 1},
		{"advertisements posted", float64(s.ads), 0},
		{"sentences without an item", float64(s.ungrounded), 0},
		{"runs that posted less than 12", float64(s.short), 0},
	} {
		t.Logf("%-34s %6.2f at most %g", row.what, row.value, row.atMost)
		if row.value > row.atMost {
			t.Errorf("%s: %.2f, at most %g", row.what, row.value, row.atMost)
		}
	}
	t.Logf("%d items published, %d posted; by feed %v", len(m.tales), s.posted, s.byFeed)
	if want := 12 * (days - 1); s.posted != want {
		t.Errorf("%d items were posted, want 12 on each day but one, %d", s.posted, want)
	}
}

// monthCount counts what the runs of a month did.
type monthCount struct {
	posted, twice, ads, short, starved, ungrounded int
	byFeed                                         []int
	longest                                        time.Duration
	waiting                                        map[int]time.Time // since when a feed has something new and is not shown
	shown                                          map[int]time.Time
	told                                           map[int]bool
}

func (s *monthCount) begin(feeds int) {
	s.byFeed, s.told = make([]int, feeds), map[int]bool{}
	s.waiting, s.shown = map[int]time.Time{}, map[int]time.Time{}
}

func (s *monthCount) count(m *month, verdicts []digest.Verdict, post chat.Draft, urls []string, now time.Time) {
	hosts := map[string]int{}
	for n, url := range urls {
		hosts["feed"+strings.TrimPrefix(strings.Split(url, ".")[0], "https://f")] = n
	}
	shown := map[int]bool{}
	posted := 0
	for _, v := range verdicts {
		if v.Link == "" { // a feed that failed
			continue
		}
		f := hosts[strings.Split(strings.Split(v.Link, "/")[2], ".")[0]]
		switch v.Verdict {
		case "posted":
			posted++
			s.byFeed[f]++
			shown[f] = true
			if m.ads[v.Link] {
				s.ads++
			}
			if story := m.tales[v.Link]; s.told[story] {
				s.twice++
			} else {
				s.told[story] = true
			}
		}
	}
	// What another feed leads is shown as well.
	for _, link := range links.FindAllStringSubmatch(post.Text, -1) {
		if part := strings.Split(link[1], "/"); len(part) > 2 {
			shown[hosts[strings.Split(part[2], ".")[0]]] = true
		}
	}
	if s.posted += posted; posted < 12 {
		s.short++
	}
	for f, at := range m.newest {
		if s.waiting[f].IsZero() && at.After(s.shown[f]) {
			s.waiting[f] = at
		}
		if shown[f] {
			delete(s.waiting, f)
			s.shown[f] = now
		}
	}
	for _, since := range s.waiting {
		if s.longest = max(s.longest, now.Sub(since)); now.Sub(since) > 7*24*time.Hour {
			s.starved++
		}
	}
}

// countUngrounded returns how many sentences of a post rest on none of its items: those of a model that cite none,
// those that are in no item's text, and links that are no item's.
func countUngrounded(d chat.Draft, m *month, byModel bool) int {
	bad := strings.Count(d.Text, "Aliens") + strings.Count(d.Text, "Nobody knows")
	for _, row := range strings.Split(d.Text, "\n- ")[1:] {
		for _, link := range links.FindAllStringSubmatch(row, -1) {
			if _, ours := m.tales[link[1]]; link[1] != "" && !ours {
				bad++
			}
		}
		row, _, _ = strings.Cut(row, "\n")
		title, said, ok := strings.Cut(row, "): ")
		if byModel && ok && !strings.Contains(title, strings.TrimSuffix(strings.TrimPrefix(said, "It is about "), ".")) {
			bad++
		}
	}
	return bad
}
