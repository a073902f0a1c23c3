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
	// halfLife is the age at which a story counts half.
	halfLife = 24 * time.Hour
	// undatedAge is the age that is assumed of a story without a date.
	undatedAge = 24 * time.Hour
	// maxSourceShare is the largest part of a digest that one of several sources may fill.
	maxSourceShare = 0.4
	// priorOpinions is how many opinions for and against a source are assumed at first, so that
	// one vote changes little. maxPreference bounds the factor that opinions amount to.
	priorOpinions = 3.0
	maxPreference = 2.0
)

// chooseStories merges items that tell the same story, ranks the stories, and takes as many
// as fit.
func (s *Service) chooseStories(ctx context.Context, d spec, e *edition) error {
	var left []*item
	for _, i := range e.items {
		if i.verdict == "" {
			left = append(left, i)
		}
	}
	if len(left) == 0 { // the usual case of a poll: nothing else has to be read
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
	// The order of a first run depends on the items alone: there is no feedback to read yet.
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

// rankStories sorts stories: first those that many sources tell, that are new, and that
// resemble what people found helpful.
func rankStories(stories []story, like map[string]float64, now time.Time) {
	for n := range stories {
		st := &stories[n]
		// Two items of one feed are no second opinion, so feeds are counted.
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

// preferenceFor returns the factor by which people prefer an item: the geometric mean of
// its source's and its best topic's.
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

// learnPreferences returns the factors of sources and topics that feedback on earlier posts
// amounts to, from 1/maxPreference to maxPreference. Feedback on a post is shared equally by
// its entries.
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
		// A vote is on a whole post: of a long one each entry gets little.
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

// takeStories returns the stories that are posted, at most limit, and sets the verdict of
// all. No source fills more than its share.
func takeStories(stories []story, limit int) []story {
	bySource := map[string]int{}
	for _, st := range stories {
		bySource[st.source]++
	}
	perSource := sourceLimit(bySource, limit)
	var chosen []story
	clear(bySource)
	for _, st := range stories {
		switch {
		case len(chosen) == limit:
			st.verdict, st.reason = overLimit, fmt.Sprintf("%d items are posted at most", limit)
		case bySource[st.source] == perSource:
			st.verdict, st.reason = overLimit, fmt.Sprintf("one source fills at most %d %%", int(100*maxSourceShare))
		default:
			st.verdict = "posted"
			bySource[st.source]++
			chosen = append(chosen, st)
		}
	}
	return chosen
}

// sourceLimit returns how many stories of one source are taken, so that of three or more
// sources none exceeds its share of what is posted in the end. Of two sources one always
// exceeds it; there the share counts of the limit.
func sourceLimit(bySource map[string]int, limit int) int {
	if len(bySource) == 1 {
		return limit
	}
	// A lower limit may leave places empty, which makes the shares smaller in turn: repeat
	// until both agree.
	for total := limit; ; {
		perSource := max(1, int(maxSourceShare*float64(total)))
		fit := 0
		for _, n := range bySource {
			fit += min(n, perSource)
		}
		if fit >= total || perSource == 1 || len(bySource) == 2 {
			return perSource
		}
		total = fit
	}
}
