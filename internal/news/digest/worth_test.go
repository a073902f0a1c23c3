package digest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/news/digest"
)

// Over a month in which each day has more stories of some worth than places, nothing of much worth is missed, hardly a
// place goes to what is worthless, a feed that seldom says anything gets its story shown within a week, and what ends as
// too old was judged before.
func TestMonth_WorthDecides(t *testing.T) {
	const days, busy = 11, 11
	r := rand.New(rand.NewPCG(5, 2026))
	w := &week{r: r}
	for range 400 {
		w.words = append(w.words, w.word())
	}
	f := &dayFeeds{}
	e := &dayEditor{feeds: f}
	b := service(t, digest.Plan{Feeds: from(a)}, func(o *digest.Options) { o.Feeds = f }, e.use)
	sources := []string{"quiet"}
	for n := range busy {
		sources = append(sources, fmt.Sprint("busy", n))
	}
	var urls []string
	for _, s := range sources {
		urls = append(urls, dayAddress(s))
	}
	b.plan(t, digest.Plan{Feeds: from(urls...), MaxItems: 12, Style: digest.Bullets})
	all := map[string]dayItem{} // by link
	posted, judged := map[string]time.Time{}, map[string]bool{}
	places, worthless, unjudged := 0, 0, 0
	add := func(source string, worth int) {
		n := len(all)
		it := w.told(w.tale(), 0, n, b.now.Add(-time.Duration(r.IntN(20*60))*time.Minute))
		it.ID, it.Link = fmt.Sprint(n), fmt.Sprintf("https://%s.example/%d", source, n)
		one := dayItem{it, source, "English", worth, ""}
		all[it.Link] = one
		f.items = append(f.items, one)
	}
	for day := range days {
		b.now = monday.AddDate(0, 0, day)
		f.items = slices.DeleteFunc(f.items, func(i dayItem) bool { return b.now.Sub(i.Published) > 36*time.Hour })
		for n := range busy {
			for k := range 11 {
				worth := []int{8, 6, 6, 5, 4, 2, 2, 1, 1, 0, 0}[k]
				if k == 0 && (n+day)%3 > 0 { // some four main stories a day
					worth = 2
				}
				add(sources[1+n], worth)
			}
		}
		if day%7 == 2 {
			add("quiet", 5)
		}
		p := b.preview(t)
		for _, v := range p.Items {
			judged[v.Link] = judged[v.Link] || v.Judged
			switch {
			case v.Verdict == "posted":
				places++
				posted[v.Link] = b.now
				if all[v.Link].worth < 3 {
					worthless++
				}
			case v.Verdict == "too old" && !judged[v.Link]:
				unjudged++
			}
		}
		b.run(t, b.now)
	}
	missed, late := 0, 0
	for link, i := range all {
		at, ok := posted[link]
		if i.worth >= 8 && !ok {
			missed++
		}
		if since := monday.AddDate(0, 0, days).Sub(i.Published); i.source == "quiet" && (ok && at.Sub(i.Published) > 7*24*time.Hour ||
			!ok && since > 7*24*time.Hour) {
			late++
		}
	}
	longest := 0
	for _, prompt := range e.requests {
		if !strings.Contains(prompt, "2026") { // which the texts have with their dates
			longest = max(longest, len(prompt))
		}
	}
	t.Logf("%d items, %d places, %d worthless, %d of worth 8 missed, %d of the quiet feed late, %d never judged, headlines of %d bytes",
		len(all), places, worthless, missed, late, unjudged, longest)
	if worthless > 0 || missed > 0 || late > 0 || unjudged > 0 || places < 12*(days-1) {
		t.Error("the month was not told as it should be")
	}
}
