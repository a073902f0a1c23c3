package digest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/store"
)

const (
	// halfLife is how long it takes until a story counts half.
	halfLife = 24 * time.Hour
	// undatedAge is how old a story without a date counts.
	undatedAge = 24 * time.Hour
	// maxSourceShare is the largest part of a digest that one source may fill, unless it is
	// alone.
	maxSourceShare = 0.4
	// priorOpinions is how many opinions for and against a source are assumed to begin with,
	// boldest how much opinions can do.
	priorOpinions = 3.0
	maxPreference = 2.0
)

// chooseStories merges what tells the same, ranks, and takes as many as fit.
func (s *Service) chooseStories(ctx context.Context, d spec, e *edition) error {
	var left []*item
	for _, i := range e.items {
		if i.verdict == "" {
			left = append(left, i)
		}
	}
	if len(left) == 0 { // as at most looks
		if d.quiet {
			return s.chooseInstant(ctx, d, e, nil)
		}
		return nil
	}
	runs, err := s.pastRuns(ctx, d.Name)
	if err != nil {
		return err
	}
	left = dropKnownPages(left, runs)
	slices.SortStableFunc(left, func(a, b *item) int { return b.Item.Time().Compare(a.Item.Time()) })
	stories := mergeStories(left, s.recentEntries(runs))
	if !e.firstRun {
		words, err := s.o.Store.Feedback(ctx)
		if err != nil {
			return err
		}
		rankStories(stories, learnPreferences(runs, words), s.o.Now())
	}
	if d.quiet {
		return s.chooseInstant(ctx, d, e, stories)
	}
	e.chosen = takeStories(stories, d.MaxItems)
	return nil
}

// rankStories puts first what many sources tell, what is new, and what is like what people
// found helpful.
func rankStories(stories []story, like map[string]float64, now time.Time) {
	for n := range stories {
		st := &stories[n]
		sources := map[string]bool{st.feed: true}
		for _, a := range st.also {
			sources[a.feed] = true
		}
		age := undatedAge
		if t := st.Item.Time(); !t.IsZero() {
			age = max(0, now.Sub(t))
		}
		st.score = float64(len(sources)) * math.Exp2(-age.Hours()/halfLife.Hours()) * preferenceFor(like, st.item)
	}
	slices.SortStableFunc(stories, func(a, b story) int { return cmp.Compare(b.score, a.score) })
}

func sourceKey(source string) string { return "source " + source }
func topicKey(topic string) string   { return "topic " + strings.ToLower(topic) }

// preferenceFor is how much more than others an item is wanted: its source counts as much
// as its best topic.
func preferenceFor(like map[string]float64, i *item) float64 {
	factor := func(key string) float64 {
		if f, ok := like[key]; ok {
			return f
		}
		return 1
	}
	best := 0.0
	for _, topic := range i.Categories {
		best = max(best, factor(topicKey(topic)))
	}
	if best == 0 {
		best = 1
	}
	return math.Sqrt(factor(sourceKey(i.source)) * best)
}

// learnPreferences is what people think of the sources and topics of what they were given,
// from 1/boldest to boldest. Each word counts for the parts of its post.
func learnPreferences(runs []pastRun, words []store.Feedback) map[string]float64 {
	byTurn := map[string]pastRun{}
	for _, p := range runs {
		byTurn[p.Turn] = p
	}
	good, bad := map[string]float64{}, map[string]float64{}
	for _, w := range words {
		p, ok := byTurn[w.Turn]
		if !ok {
			continue
		}
		to := bad
		if w.Good {
			to = good
		}
		share := 1 / float64(max(len(p.Entries), 1))
		for _, e := range p.Entries {
			to[sourceKey(e.Source)] += share
			for _, topic := range e.Topics {
				to[topicKey(topic)] += share
			}
		}
	}
	like := map[string]float64{}
	for _, m := range []map[string]float64{good, bad} {
		for key := range m {
			like[key] = min(maxPreference, max(1/maxPreference, (priorOpinions+good[key])/(priorOpinions+bad[key])))
		}
	}
	return like
}

// takeStories marks the stories that are posted, at most limit, so that no source fills more
// than its part. All others are over the limit.
func takeStories(stories []story, limit int) []story {
	bySource := map[string]int{}
	for _, st := range stories {
		bySource[st.source]++
	}
	most := sourceLimit(bySource, limit)
	var chosen []story
	clear(bySource)
	for _, st := range stories {
		switch {
		case len(chosen) == limit:
			st.verdict, st.reason = overLimit, fmt.Sprintf("%d items are posted at most", limit)
		case bySource[st.source] == most:
			st.verdict, st.reason = overLimit, fmt.Sprintf("one source fills at most %d %%", int(100*maxSourceShare))
		default:
			st.verdict = "posted"
			bySource[st.source]++
			chosen = append(chosen, st)
		}
	}
	return chosen
}

// sourceLimit is how many stories of one source are taken, so that with three sources or
// more none is above its part of what is posted in the end. Of two, one always is;
// there it is the part of the places.
func sourceLimit(bySource map[string]int, limit int) int {
	if len(bySource) == 1 {
		return limit
	}
	for total := limit; ; {
		most := max(1, int(maxSourceShare*float64(total)))
		fit := 0
		for _, n := range bySource {
			fit += min(n, most)
		}
		if fit >= total || most == 1 || len(bySource) == 2 {
			return most
		}
		total = fit
	}
}
