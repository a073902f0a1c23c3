package digest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxSourceShare is the largest part of a digest that one of several sources may fill, but for big stories.
const maxSourceShare = 0.4

const (
	// fairShare is the part of the places that goes to feeds which were shown longest ago, where they have a story that
	// is worth it.
	fairShare = 1.0 / 6
	// fairDelay is how long a feed must not have been shown for that.
	fairDelay = 3 * 24 * time.Hour
	// firstRunAge is how old stories may be among which the first run of a digest chooses. Without enough of them it
	// posts the newest.
	firstRunAge = 24 * time.Hour
)

// notWorth is the verdict on what a digest leaves out for good.
const notWorth = "not worth a place"

// keepNewest keeps of a first run the stories of the last day, and older ones as long as places would stay empty without
// them.
func (e *edition) keepNewest(d spec) {
	slices.SortStableFunc(e.stories, func(a, b story) int { return b.Item.Time().Compare(a.Item.Time()) })
	bySource := map[string]int{}
	for _, st := range e.stories {
		bySource[st.source]++
	}
	share := sourceLimit(bySource, d.MaxItems, maxSourceShare)
	clear(bySource)
	n := 0
	for filled := 0; n < len(e.stories) && (filled < d.MaxItems || e.now.Sub(e.stories[n].Item.Time()) < firstRunAge); n++ {
		if st := e.stories[n]; d.mayPost(st) && bySource[st.source] < share {
			bySource[st.source]++
			filled++
		}
	}
	for _, st := range e.stories[n:] {
		st.verdict, st.reason = overLimit, "the first run posts new items"
		if st.event != "" { // it comes once
			st.verdict = carriedOver
			e.waiting = append(e.waiting, st)
		}
	}
	if e.stories = e.stories[:n]; !d.quiet {
		sortByScore(e.stories)
	}
}

// chooseStories gives the places to stories, as a model judges them where there is one. It returns the model's answer
// and name. It cannot fail: without a usable answer the scores decide alone.
func (s *Service) chooseStories(ctx context.Context, d spec, e *edition) (a answer, model string) {
	if d.Style == Weekly {
		d.chooseWeekly(e)
		return a, ""
	}
	places := d.MaxItems
	if d.Style == Deep {
		places = 1
	}
	s.judgeHeadlines(ctx, d, e)
	hasModel := s.writer(d) != nil
	if hasModel && d.Style != Titles && d.Style != Deep && !e.modelFailed && len(e.stories) > 0 {
		e.candidates = d.shortlist(e)
		s.readPages(ctx, d, e.candidates)
		a, model = s.judgeCandidates(ctx, d, e)
	}
	e.choosePlaces(d, places)
	if d.Style == Topics {
		e.groupByTopic(a)
	}
	e.carryOver(d, hasModel, s.o.Now())
	return a, model
}

// shortlist returns the stories that a model reads: the best, as many as fit into a request. Pinned feeds are among them.
func (d spec) shortlist(e *edition) []story {
	list := slices.DeleteFunc(slices.Clone(e.stories), func(st story) bool { return st.score.Judged && !d.mayPost(st) })
	slices.SortStableFunc(list, func(a, b story) int { return cmp.Or(comparePins(a, b), cmp.Compare(e.place(a), e.place(b))) })
	return list[:min(len(list), d.candidateLimit())]
}

// place returns in which order stories are read: those that must not wait any longer first.
func (e *edition) place(st story) float64 {
	if e.isDue(st) {
		return -2 * maxWorth
	}
	return -st.score.Total
}

// isSelective reports whether a digest leaves places empty rather than give them to what is not worth one. Somebody who
// follows a single feed wants what it says.
func (d spec) isSelective() bool { return len(d.Feeds) > 1 || d.Prompt != "" }

// mayPost reports whether a story is worth a place.
func (d spec) mayPost(st story) bool {
	return st.score.Worth >= minWorth || !d.isSelective() || st.feed.Pin || st.event != ""
}

// isDue reports whether a story is worth being shown for its feed: the feed was not shown for long, or has not been
// shown since it told the story.
func (e *edition) isDue(st story) bool {
	worth := st.score.Worth
	if !st.score.Judged { // what seems to be a plain report may be worth more
		worth += fairWorth - usualWorth
	}
	return worth >= fairWorth && st.score.Kind == "" && e.now.Sub(e.shownAt(st)) >= fairDelay
}

// choosePlaces shares out the places among the stories. The worthiest come first; a part of the places goes to feeds that
// were shown longest ago. A place stays empty rather than go to what is not worth one.
func (e *edition) choosePlaces(d spec, limit int) {
	var pool []story
	bySource := map[string]int{}
	for _, st := range e.stories {
		if d.mayPost(st) && !e.awaitsJudgement(st) {
			pool = append(pool, st)
			bySource[st.source]++
		}
	}
	p := places{limit: limit, perSource: sourceLimit(bySource, limit, maxSourceShare), taken: map[*item]bool{},
		bySource: map[string]int{}, byFeed: map[string]int{}, shownAt: e.shownAt, now: e.now}
	fair := int(fairShare * float64(limit))
	// Of feeds that come seldom the story that has waited longest comes first.
	due := slices.DeleteFunc(slices.Clone(pool), func(st story) bool { return !e.isDue(st) })
	slices.SortStableFunc(due, func(a, b story) int {
		return cmp.Or(e.shownAt(a).Compare(e.shownAt(b)), waitsSince(a).Compare(waitsSince(b)))
	})
	p.fill(pool, limit-fair)
	before := len(p.chosen)
	for _, st := range due {
		if len(p.chosen)-before < fair && p.byFeed[st.feed.URL] == 0 {
			p.take(st, "its feed was not shown for days")
		}
	}
	p.fill(pool, limit)
	// What takes part for its feed stands where its score belongs.
	slices.SortStableFunc(p.chosen, func(a, b story) int {
		return cmp.Or(comparePins(a, b), cmp.Compare(b.score.Total, a.score.Total))
	})
	e.chosen, e.left = p.chosen, nil
	for _, st := range e.stories {
		if p.taken[st.item] {
			continue
		}
		e.left = append(e.left, st)
		switch st.reason = fmt.Sprintf("%d items are posted at most", limit); {
		case e.awaitsJudgement(st):
			st.reason = "the model did not judge it"
		case len(p.chosen) < limit:
			st.reason = fmt.Sprintf("one source fills at most %d %%", int(100*maxSourceShare))
		}
	}
}

// shownAt returns when the feed of a story was last shown, of several feeds the one that was shown longest ago; the zero
// time: not that is known.
func (e *edition) shownAt(st story) time.Time {
	oldest := e.lastShown[shortHash(st.feed.URL)]
	for _, i := range st.also {
		if at := e.lastShown[shortHash(i.feed.URL)]; at.Before(oldest) {
			oldest = at
		}
	}
	return oldest
}

// waitsSince returns since when a story waits, else when it was published.
func waitsSince(st story) time.Time {
	if st.since.IsZero() {
		return st.Item.Time()
	}
	return st.since
}

// places are the places of a digest while they are shared out.
type places struct {
	limit     int
	perSource int
	chosen    []story
	taken     map[*item]bool
	bySource  map[string]int
	byFeed    map[string]int // by address
	shownAt   func(story) time.Time
	now       time.Time
}

// fill gives places to the best stories until n are taken, as far as their sources have not filled their share.
func (p *places) fill(pool []story, n int) {
	for len(p.chosen) < n {
		best, most := -1, 0.0
		for k, st := range pool {
			if p.taken[st.item] || p.bySource[st.source] >= p.perSource && !st.isBig() {
				continue
			}
			if rank := p.rank(st); best < 0 || rank > most {
				best, most = k, rank
			}
		}
		if best < 0 {
			return
		}
		p.take(pool[best], "")
	}
}

const (
	// crowdStep is what each place of its feed takes from a story, at most crowdMost, if it is not a big one. Where no
	// model has judged it, its worth is not known as well, and other feeds count more.
	crowdStep, crowdMost   = 0.4, 1.2
	guessedStep, guessMost = 1.0, 3.0
	// restStep is what each day adds that its feed was not shown, for a week.
	restStep = 0.04
	restMost = 7
	pinned   = 100 // adds this to the first story of a feed
)

// rank returns how much a story counts beside those that have got a place.
func (p *places) rank(st story) float64 {
	rank := st.score.Total
	if st.feed.Pin && p.byFeed[st.feed.URL] == 0 {
		rank += pinned
	}
	rank += restStep * min(p.now.Sub(p.shownAt(st)).Hours()/24, restMost)
	places := float64(p.byFeed[st.feed.URL]) / st.feed.share()
	switch {
	case st.score.Worth >= bigWorth:
		return rank
	case st.score.Judged:
		return rank - min(crowdStep*places, crowdMost)
	}
	return rank - min(guessedStep*places, guessMost)
}

// take gives a story a place, and says why.
func (p *places) take(st story, why string) {
	if p.taken[st.item] {
		return
	}
	p.taken[st.item] = true
	p.bySource[st.source]++
	p.byFeed[st.feed.URL]++
	p.chosen = append(p.chosen, st)
	reasons := nonEmpty(why)
	if st.feed.Pin {
		reasons = append(reasons, "its feed is pinned")
	}
	if len(st.also) > 0 {
		reasons = append(reasons, pluralize(st.sources(), "source"))
	}
	if !st.since.IsZero() {
		reasons = append(reasons, "it has waited since "+st.since.UTC().Format("2 Jan"))
	}
	st.verdict, st.reason = posted, strings.Join(reasons, ", ")
}

// carryOver decides about the stories that got no place. What is worth one waits for the next run, and what no model has
// judged if one may yet. At the first run only events of webhooks wait.
func (e *edition) carryOver(d spec, hasModel bool, now time.Time) {
	for _, st := range e.left {
		unjudged := hasModel && !st.score.Judged && st.skips < maxSkips && d.Style != Titles || e.awaitsJudgement(st)
		switch {
		case !d.mayPost(st) && !unjudged:
			st.verdict, st.reason = notWorth, ""
			e.unworthy = append(e.unworthy, st)
			continue
		case e.firstRun && st.event == "": // the surplus of feeds is old news at the first run; an event comes once
			st.verdict = overLimit
			continue
		}
		e.waiting = append(e.waiting, st)
		since := st.since
		if since.IsZero() {
			since = now
		}
		st.verdict = carriedOver
		st.reason += ", it waits until " + since.Add(d.maxWait()).In(d.zone).Format("2 Jan 15:04")
	}
	// Only so many are stored: those that nobody has judged yet must be among them.
	slices.SortStableFunc(e.waiting, func(a, b story) int {
		return map[bool]int{true: 1}[a.score.Judged] - map[bool]int{true: 1}[b.score.Judged]
	})
}

// isBig reports whether a story matters so much that its source may fill more than its share.
func (st story) isBig() bool {
	return st.score.Worth >= bigWorth || st.score.Judged && st.score.Worth >= fairWorth
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

// sources returns how many feeds tell a story: two items of one feed are no second opinion.
func (st story) sources() int {
	feeds := map[string]bool{}
	for _, i := range st.members() {
		feeds[i.feed.URL] = true
	}
	return len(feeds)
}

// sourceLimit returns how many stories of one source are taken, so that of three or more sources none exceeds its share
// of what is posted in the end. Of two sources one always exceeds it; there the share counts of the limit.
func sourceLimit(bySource map[string]int, limit int, share float64) int {
	if len(bySource) == 1 {
		return limit
	}
	// A lower limit may leave places empty, which makes the shares smaller in turn: repeat until both agree.
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
			for _, one := range append([]pastEntry{e}, e.Also...) {
				if p.Due.After(at[one.Feed]) {
					at[one.Feed] = p.Due
				}
			}
		}
	}
	return at
}
