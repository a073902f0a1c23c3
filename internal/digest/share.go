package digest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// maxSourceShare is the largest part of a digest that one of several sources may fill. What a model chooses from has no
// such limit.
const (
	maxSourceShare = 0.4
	wholeShare     = 1.0
)

// topShare is the part of the places that goes to the best stories where there are more feeds than places. The others
// go to the feeds that were shown longest ago.
const topShare = 1.0 / 3

// tier is how readily a story is given a place: all of a tier come before the next.
type tier int

const (
	ordinary tier = iota
	last          // offers, and what has nothing to do with the digest's subject
)

// places shares out the places of a digest: in turns, one of each feed at a time.
type places struct {
	limit     int
	perSource int
	lastShown map[string]time.Time // when each feed was last shown, by its address

	bySource map[string]int
	byFeed   map[string]int // by address
	crowded  bool           // there are more feeds than places
}

// choosePlaces returns the stories that get a place, in the order of stories, and those that get none. It sets the
// reasons of all. stories are sorted, the best first; share is how much of the places one of several
// sources may fill, lastShown when each feed was last shown, by the hash of its address.
func choosePlaces(
	stories []story,
	limit int,
	share float64,
	lastShown map[string]time.Time,
) (chosen, left []story) {
	p := &places{limit: limit, lastShown: map[string]time.Time{}, bySource: map[string]int{}, byFeed: map[string]int{}}
	for _, st := range stories {
		p.bySource[st.source]++
		if _, known := p.lastShown[st.feed.URL]; !known {
			p.lastShown[st.feed.URL] = lastShown[shortHash(st.feed.URL)]
		}
	}
	p.perSource, p.crowded = sourceLimit(p.bySource, limit, share), len(p.lastShown) > limit
	clear(p.bySource)
	taken := map[int]bool{}
	for len(taken) < limit {
		at := p.next(stories, taken)
		if at < 0 {
			break
		}
		st := stories[at]
		taken[at] = true
		p.bySource[st.source]++
		p.byFeed[st.feed.URL]++
		st.verdict, st.reason = posted, p.reasonFor(st)
	}
	for n, st := range stories {
		if taken[n] {
			chosen = append(chosen, st)
			continue
		}
		left = append(left, st)
		if st.reason = fmt.Sprintf("%d items are posted at most", limit); len(taken) < limit {
			st.reason = fmt.Sprintf("one source fills at most %d %%", int(100*maxSourceShare))
		}
	}
	// Pinned feeds come first in the post, too.
	slices.SortStableFunc(chosen, func(a, b story) int { return comparePins(a, b) })
	return chosen, left
}

// next returns the index of the story that gets the next place, or -1: the sources of all others
// have their share.
func (p *places) next(stories []story, taken map[int]bool) int {
	best := -1
	for n, st := range stories {
		if taken[n] || p.bySource[st.source] >= p.perSource {
			continue
		}
		if best < 0 || p.compare(st, stories[best], len(taken)) < 0 {
			best = n
		}
	}
	return best
}

// compare returns a negative number where a gets its place before b, and 0 where their order decides. done is the
// number of places that are taken.
func (p *places) compare(a, b story, done int) int {
	order := cmp.Or(
		cmp.Compare(a.tier(), b.tier()),
		cmp.Compare(p.turn(a), p.turn(b)),
		// In a round, feeds of more weight get their second place after all others have their first.
		cmp.Compare(p.byFeed[a.feed.URL], p.byFeed[b.feed.URL]),
		comparePins(a, b),
	)
	if order != 0 || !p.crowded || float64(done) < topShare*float64(p.limit) {
		return order
	}
	return p.shownAt(a).Compare(p.shownAt(b))
}

// shownAt returns when the feed of a story was last shown; the zero time: not that is known.
func (p *places) shownAt(st story) time.Time { return p.lastShown[st.feed.URL] }

// turn returns the round in which a story is given a place. A list of links comes a round later than other stories.
func (p *places) turn(st story) int {
	// Without the small number a weight such as 0.1 would cost a round by rounding.
	turn := int(math.Ceil(float64(p.byFeed[st.feed.URL]+1)/st.feed.share() - 1e-9))
	if st.score != nil && st.score.Kind == kindRoundup {
		turn++
	}
	return turn
}

// comparePins puts stories of pinned feeds first.
func comparePins(a, b story) int {
	switch {
	case a.feed.Pin == b.feed.Pin:
		return 0
	case a.feed.Pin:
		return -1
	}
	return 1
}

// reasonFor returns why a story has got the place that it was just given.
func (p *places) reasonFor(st story) string {
	var why []string
	if st.feed.Pin {
		why = append(why, "its feed is pinned")
	}
	if n := p.byFeed[st.feed.URL]; n == 1 {
		why = append(why, "the first of its feed")
	} else {
		why = append(why, fmt.Sprintf("number %d of its feed", n))
	}
	if len(st.also) > 0 {
		why = append(why, fmt.Sprintf("%d sources", st.sources()))
	}
	if !st.since.IsZero() {
		why = append(why, "it has waited since "+st.since.UTC().Format("2 Jan"))
	}
	return strings.Join(why, ", ")
}

// tier returns how readily a story is given a place.
func (st story) tier() tier {
	if st.score != nil && (st.score.Kind == kindOffer || st.score.Kind == kindOffTopic) {
		return last
	}
	return ordinary
}

// sources returns how many feeds tell a story: two items of one feed are no second opinion.
func (st story) sources() int {
	feeds := map[string]bool{}
	for _, i := range st.members() {
		feeds[i.feed.URL] = true
	}
	return len(feeds)
}

// sourceLimit returns how many stories of one source are taken, so that of three or more
// sources none exceeds its share of what is posted in the end. Of two sources one always
// exceeds it; there the share counts of the limit.
func sourceLimit(bySource map[string]int, limit int, share float64) int {
	if len(bySource) == 1 {
		return limit
	}
	// A lower limit may leave places empty, which makes the shares smaller in turn: repeat
	// until both agree.
	for total := limit; ; {
		perSource := max(1, int(share*float64(total)))
		fit := 0
		for n := range maps.Values(bySource) {
			fit += min(n, perSource)
		}
		if fit >= total || perSource == 1 || len(bySource) == 2 {
			return perSource
		}
		total = fit
	}
}

// lastShownByFeed returns when each feed was last shown, by the hash of its address.
func lastShownByFeed(runs []pastRun) map[string]time.Time {
	at := map[string]time.Time{}
	for _, p := range runs {
		for _, e := range p.Entries {
			if p.Due.After(at[e.Feed]) {
				at[e.Feed] = p.Due
			}
		}
	}
	return at
}
