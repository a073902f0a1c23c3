package digest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
)

// week is a week of news that was made up: stories that several feeds tell in words
// of their own, some of them again on later days.
type week struct {
	r     *rand.Rand
	words []string
}

// word is made of syllables, so that stories share few.
func (w *week) word() string {
	const consonants, vowels = "bdfgklmnprstv", "aeiou"
	var b strings.Builder
	for range 2 + w.r.IntN(2) {
		b.WriteByte(consonants[w.r.IntN(len(consonants))])
		b.WriteByte(vowels[w.r.IntN(len(vowels))])
	}
	return b.String() + "n"
}

// tale is what happened.
type tale struct {
	own       []string // its words
	sentences []string
}

func (w *week) tale() tale {
	var t tale
	for range 14 {
		t.own = append(t.own, w.word())
	}
	for range 8 {
		var s []string
		for range 10 {
			if w.r.IntN(3) > 0 {
				s = append(s, t.own[w.r.IntN(len(t.own))])
			} else {
				s = append(s, w.words[w.r.IntN(len(w.words))])
			}
		}
		t.sentences = append(t.sentences, strings.Join(s, " ")+".")
	}
	return t
}

// told is how a feed tells a tale: another order, a word of the title taken from the
// text, some sentences left out.
func (w *week) told(t tale, feedNumber, n int, at time.Time) feed.Item {
	title := slices.Clone(t.own[:6])
	i, j := w.r.IntN(len(title)), w.r.IntN(len(title))
	title[i], title[j] = title[j], title[i]
	if w.r.IntN(2) == 0 {
		title[w.r.IntN(len(title))] = t.own[6+w.r.IntN(8)]
	}
	var text []string
	for _, s := range t.sentences {
		if w.r.IntN(5) > 0 {
			text = append(text, s)
		}
	}
	return feed.Item{ID: fmt.Sprint(feedNumber, "/", n), Title: strings.Join(title, " "),
		Link:    fmt.Sprintf("https://feed%d.example/story/%d", feedNumber, n),
		Summary: strings.Join(text, " "), Published: at}
}

// Over a week no address is posted twice and hardly a story, and what several feeds
// tell is one entry.
func TestAWeekOfNewsIsToldOnce(t *testing.T) {
	w := &week{r: rand.New(rand.NewPCG(7, 2026))}
	for range 300 {
		w.words = append(w.words, w.word())
	}
	const feeds, aDay = 8, 25
	var plans []string
	for n := range feeds {
		plans = append(plans, fmt.Sprintf("https://feed%d.example/feed", n))
	}
	b := service(t, digest.Plan{Feeds: from(a)})
	b.restart(t, digest.Plan{Name: "morning", Schedule: "0 8 * * *", Feeds: from(plans...), MaxItems: 400,
		Post: []string{general.String()}, Style: digest.Titles})
	tales := map[string]int{} // by address: which it tells
	var stories []tale
	silent := map[int]int{} // a feed that did not tell a tale
	many, together := 0, 0
	posted, again := map[int]int{}, 0
	addresses := map[string]int{}
	for day := range 7 {
		b.now = monday.AddDate(0, 0, day)
		tellers := map[int]int{} // of the tales of this day
		for range aDay {
			number, story := len(stories), w.tale()
			stories = append(stories, story)
			tellers[number] = 1 + w.r.IntN(4)
			order := w.r.Perm(feeds)
			silent[number] = order[feeds-1]
			for _, n := range order[:tellers[number]] {
				it := w.told(story, n, number, b.now.Add(-time.Duration(w.r.IntN(20))*time.Hour))
				tales[it.Link] = number
				b.feeds[plans[n]] = append(b.feeds[plans[n]], it)
				if n == order[0] && w.r.IntN(3) == 0 { // another feed lists the same page
					it.ID, it.Link = "relisted "+it.ID, it.Link+"?utm_source=x"
					tales[it.Link] = number
					b.feeds[plans[order[feeds-2]]] = append(b.feeds[plans[order[feeds-2]]], it)
				}
			}
		}
		if day > 0 { // a late report of a story of the day before, by a feed that had not told it
			for number := len(stories) - 2*aDay; number < len(stories)-aDay; number += 6 {
				late := silent[number]
				it := w.told(stories[number], late, 10_000+number, b.now.Add(-time.Hour))
				tales[it.Link] = number
				b.feeds[plans[late]] = append(b.feeds[plans[late]], it)
			}
		}
		run := b.run(t, b.now)
		p, known, err := b.LastVerdicts(t.Context(), "morning")
		if err != nil || !known || !run.OK {
			t.Fatal(run, known, err)
		}
		for _, v := range p.Items {
			if v.Verdict != "posted" {
				continue
			}
			page := feed.CanonicalURL(v.Link)
			if addresses[page]++; addresses[page] > 1 {
				t.Errorf("day %d: %s was posted again", day, page)
			}
			if posted[tales[v.Link]]++; posted[tales[v.Link]] > 1 {
				again++
			}
		}
		for number, n := range tellers {
			if n < 2 {
				continue
			}
			if many++; posted[number] <= 1 {
				together++
			}
		}
	}
	all := 0
	for _, n := range posted {
		all += n
	}
	t.Logf("%d of %d entries tell a story again; %d of %d stories of several feeds are one entry; %d stories", again, all,
		together, many, len(stories))
	if float64(again) > 0.02*float64(all) || float64(together) < 0.95*float64(many) || all < len(stories)*9/10 {
		t.Error("too much is told twice, or left out")
	}
}
