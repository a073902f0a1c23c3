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
	// priorOpinions is how many opinions for and against a source are assumed at first, so that
	// one vote changes little. maxPreference bounds the factor that opinions amount to.
	priorOpinions = 3.0
	maxPreference = 2.0
)

// rankStories merges items that tell the same story, and ranks the stories. Of a digest that posts items as they come
// it chooses, too.
func (s *Service) rankStories(ctx context.Context, d spec, e *edition) error {
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
	recent := s.recentEntries(runs)
	stories := mergeStories(left, recent)
	// The order of a first run depends on the items alone: there is no feedback to read yet.
	if !e.firstRun {
		words, err := s.o.Store.Feedback(ctx)
		if err != nil {
			return err
		}
		e.like = learnPreferences(runs, words)
	}
	scoreStories(stories, e.like, s.o.Now())
	if e.firstRun {
		slices.SortStableFunc(stories, func(a, b story) int {
			return cmp.Or(a.compareKind(b), b.Item.Time().Compare(a.Item.Time()))
		})
	}
	if d.quiet {
		return s.chooseInstant(ctx, d, e, stories)
	}
	e.stories, e.lastShown, e.postedTitles = stories, lastShownByFeed(runs), recentTitles(recent)
	return nil
}

// chooseStories gives the places to stories, as a model judges them where there is one. It returns
// what the model wrote, if that is text alone, and the model's name. It cannot fail: without a
// usable answer the scores decide alone.
func (s *Service) chooseStories(ctx context.Context, d spec, e *edition) (a answer, text, model string) {
	if d.Style == Weekly {
		d.chooseWeekly(e)
		return a, "", ""
	}
	places := d.MaxItems
	if d.Style == Deep {
		places = 1
	}
	var rest []story
	if s.editor(d) != nil && d.Style != Titles && d.Style != Deep && len(e.stories) > 0 {
		limit := d.candidateLimit()
		if e.firstRun { // which posts the newest, whatever a model thinks of them
			limit = d.MaxItems
		}
		e.candidates, rest = choosePlaces(e.stories, limit, wholeShare, e.lastShown)
		s.readPages(ctx, d, e.candidates)
		a, text, model = s.judgeCandidates(ctx, d, e)
	}
	var left []story
	if len(a.Items) > 0 {
		e.chosen, left = choosePlaces(d.applyJudgements(e, a), d.MaxItems, maxSourceShare, e.lastShown)
		if rest = append(left, rest...); d.Style == Topics {
			e.groupByTopic(a)
		}
	} else {
		e.chosen, rest = choosePlaces(e.stories, places, maxSourceShare, e.lastShown)
	}
	d.carryOver(e, rest, s.o.Now())
	return a, text, model
}

// carryOver decides about the stories that got no place: they wait for the next run. At the first run only events of
// webhooks do.
func (d spec) carryOver(e *edition, rest []story, now time.Time) {
	for _, st := range rest {
		// The surplus of feeds is old news at the first run; an event comes once.
		if st.verdict = overLimit; e.firstRun && st.event == "" {
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
}

// Kinds of stories that come after others.
const (
	kindRoundup  = "list of links"
	kindOffer    = "offer"
	kindOffTopic = "off topic"
)

// kindFactor is the factor by which the score of a story counts that is of such a kind.
const kindFactor = 0.1

// Score is how much a story counts, and what it is made of: Total is the product of the others.
type Score struct {
	Total     float64 `json:"total"`
	Sources   int     `json:"sources"`   // how many feeds tell it
	Freshness float64 `json:"freshness"` // halved with each day of its age
	Liked     float64 `json:"liked"`     // by the reactions to posts of its source and topics, from 0.5 to 2
	Weight    float64 `json:"weight"`    // of its feed
	// Relevance is how much a model thinks that the story matters to the readers, 0 to 10; nil: none was asked.
	Relevance *int `json:"relevance,omitempty"`
	// Kind says that it is a list of links, an offer or off topic, which count a tenth.
	Kind string `json:"kind,omitempty"`
}

// String returns a score with its parts.
func (s Score) String() string {
	text := fmt.Sprintf("score %.3g = %s × %.2g freshness × %.2g liked × %g weight",
		s.Total, pluralize(s.Sources, "source"), s.Freshness, s.Liked, s.Weight)
	if s.Relevance != nil {
		text += fmt.Sprintf(" × %.2g relevance (%d of %d)", s.relevanceFactor(), *s.Relevance, maxRelevance)
	}
	if s.Kind != "" {
		text += fmt.Sprintf(" × %g, it seems to be: %s", kindFactor, s.Kind)
	}
	return text
}

// scoreStories sets the scores of stories and sorts them: first those that many sources tell, that are new, and that
// resemble what people found helpful.
func scoreStories(stories []story, like map[string]float64, now time.Time) {
	for _, st := range stories {
		age := undatedAge
		if t := st.Item.Time(); !t.IsZero() {
			age = max(0, now.Sub(t))
		}
		st.score = &Score{
			Sources:   st.sources(),
			Freshness: math.Exp2(-age.Hours() / halfLife.Hours()),
			Liked:     preferenceFor(like, st.item),
			Weight:    st.feed.share(),
			Kind:      kindOf(st.item),
		}
		st.score.setTotal()
	}
	sortByScore(stories)
}

// minLiked is the factor from which on a post says that people here like a source or topic.
const minLiked = 1.15

// why returns for readers in a few words why a story is posted.
func (st story) why() string {
	var why []string
	if st.feed.Pin {
		why = append(why, "pinned")
	}
	if n := st.sources(); n > 1 {
		why = append(why, fmt.Sprintf("told by %d sources", n))
	}
	if st.score != nil && st.score.Liked >= minLiked {
		why = append(why, "liked here")
	}
	if !st.since.IsZero() {
		why = append(why, "carried over")
	}
	if len(why) == 0 {
		why = append(why, "new in its feed")
	}
	return strings.Join(why, ", ")
}

// setTotal computes Total from the other fields, which have to be set.
func (s *Score) setTotal() {
	s.Total = float64(s.Sources) * s.Freshness * s.Liked * s.Weight * s.relevanceFactor()
	if s.Kind != "" {
		s.Total *= kindFactor
	}
}

// relevanceFactor returns 1 for a relevance of 5, four times as much for each 5 more, and 1 where it is unknown: an
// important story of yesterday comes before a trifle of today.
func (s *Score) relevanceFactor() float64 {
	if s.Relevance == nil {
		return 1
	}
	return math.Exp2(float64(*s.Relevance-maxRelevance/2) / 2.5)
}

// sortByScore puts the best stories first; among equal ones the order stays.
func sortByScore(stories []story) {
	slices.SortStableFunc(stories, func(a, b story) int {
		return cmp.Or(a.compareKind(b), cmp.Compare(b.score.Total, a.score.Total))
	})
}

// compareKind puts stories before lists of links, and those before offers and what is off topic.
func (st story) compareKind(other story) int {
	rank := func(kind string) int { return slices.Index([]string{"", kindRoundup, kindOffTopic, kindOffer}, kind) }
	return cmp.Compare(rank(st.score.Kind), rank(other.score.Kind))
}

// sourceKey and topicKey return the keys of preferences. They are also words for a model
// (describeLikes).
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
		best = max(best, factor(topicKey(topic))) // the best: many topics of an item are labels that say little
	}
	if best == 0 {
		best = 1
	}
	return math.Sqrt(factor(sourceKey(i.source)) * best)
}

// learnPreferences returns the factors of sources and topics that feedback on earlier posts amounts
// to, from 1/maxPreference to maxPreference, by sourceKey and topicKey. What is missing counts 1.
// Feedback on a post is shared equally by its entries.
func learnPreferences(runs []pastRun, words []store.Feedback) map[string]float64 {
	byTurn := map[string]pastRun{}
	for _, p := range runs {
		byTurn[p.Turn] = p
	}
	good, bad := map[string]float64{}, map[string]float64{}
	for _, w := range words {
		p := byTurn[w.Turn] // without entries where the feedback is on something else, such as an answer
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
	// What was voted on at all is in one of the two; the factor of the rest is 1.
	for _, m := range []map[string]float64{good, bad} {
		for key := range m {
			like[key] = min(maxPreference, max(1/maxPreference, (priorOpinions+good[key])/(priorOpinions+bad[key])))
		}
	}
	return like
}
