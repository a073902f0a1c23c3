package digest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"ravenbot/internal/core/text"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/store"
)

const (
	// priorOpinions is how many opinions for and against a source are assumed at first, so that
	// one vote changes little. maxPreference bounds the factor that opinions amount to.
	priorOpinions = 3.0
	maxPreference = 2.0

	maxWorth = 10
	// minWorth is the worth from which on a story may be posted, fairWorth that from which on the feed of a story counts
	// as well, and bigWorth that of the main stories of a day.
	minWorth  = 3
	fairWorth = 5
	bigWorth  = 7
	// lowWorth is what a story of a kind that is seldom news is worth without a model, lowStep what one is worth less with.
	lowWorth = 1.5
	lowStep  = 2
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
			d.chooseInstant(e, nil)
		}
		return nil
	}
	runs, err := s.pastRuns(ctx, d)
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
	e.kinds = e.usualKinds(d)
	d.Kinds = e.kinds
	if !d.quiet { // which posts each item as it comes
		stories = foldSeries(stories)
	}
	e.stories = d.weighStories(stories, e.like, s.o.Now())
	if e.firstRun {
		e.keepNewest(d)
	}
	if d.quiet {
		d.chooseInstant(e, e.stories)
	}
	e.lastShown, e.postedTitles = lastShownByFeed(runs), recentTitles(recent)
	return nil
}

// Score is how much a story counts, and what it is made of.
type Score struct {
	Total   float64 `json:"total"`
	Worth   float64 `json:"worth"`   // 0 to 10: how much it matters, as a model judged it, else as it seems
	Judged  bool    `json:"judged"`  // a model judged it
	Sources int     `json:"sources"` // how many feeds tell it
	Days    float64 `json:"days"`    // its age
	Liked   float64 `json:"liked"`   // by the reactions to posts of its source and topics, from 0.5 to 2
	Weight  float64 `json:"weight"`  // of its feed
	// Kind says that it seems to be of a kind that is seldom news, such as offers.
	Kind string `json:"kind,omitempty"`
}

const (
	dayStep = 0.5 // what each day of its age takes from the total of a story
	maxDays = 4
)

// setTotal computes Total from the other fields, which have to be set.
func (s *Score) setTotal() {
	s.Total = s.Worth + 2*math.Log2(s.Liked) + math.Log2(s.Weight)/2 - dayStep*min(s.Days, maxDays)
}

// String returns a score with its parts.
func (s Score) String() string {
	by := "as it seems"
	if s.Judged {
		by = "as the model judged it"
	}
	text := fmt.Sprintf("score %.3g: worth %.3g of %d %s, %s, %.2g days old, liked × %.2g, weight × %g",
		s.Total, s.Worth, maxWorth, by, pluralize(s.Sources, "source"), s.Days, s.Liked, s.Weight)
	if s.Kind != "" {
		text += ", it seems to be one of: " + s.Kind
	}
	return text
}

// weighStories sets the scores of stories and sorts them, the best first. What a model said of those that wait counts
// still. Stories of kinds that the digest drops are left out.
func (d spec) weighStories(stories []story, like map[string]float64, now time.Time) []story {
	var left []story
	for n := range stories {
		st := stories[n].withBestLead(d)
		kind := d.findKind(st.item)
		if d.Kinds[kind] == dropKind {
			for _, i := range st.members() {
				i.verdict, i.reason = "left out: "+countKind(kind, 1), "kinds."+kind+" is drop"
			}
			continue
		}
		st.score = &Score{Sources: st.sources(), Liked: preferenceFor(like, st.item), Weight: st.feed.share(), Kind: kind}
		st.score.Days = 1 // of a story without a date
		if t := st.Item.Time(); !t.IsZero() {
			st.score.Days = max(0, now.Sub(t).Hours()/24)
		} else if st.old {
			st.score.Days = maxDays
		}
		judged := -1.0 // by an earlier run
		for _, i := range st.members() {
			if i.judged {
				judged = max(judged, i.worth)
			}
		}
		if st.score.Judged = judged >= 0; st.score.Judged {
			st.score.Worth = judged
		} else {
			st.score.Worth = d.guessWorth(st)
		}
		st.noteWorth()
		st.score.setTotal()
		left = append(left, st)
	}
	sortByScore(left)
	return left
}

// guessWorth returns how much a story seems to matter, without a model: the most that one of its tellings does, and the
// more the more feeds tell it.
func (d spec) guessWorth(st story) float64 {
	best := 0.0
	for _, i := range st.members() {
		worth := i.guessWorth()
		if d.findKind(i) != "" {
			worth = min(worth, lowWorth)
		}
		best = max(best, worth)
	}
	best += 2 * math.Log2(float64(st.sources()))
	// In steps of a half: a name more or less does not count as much as which came first.
	return math.Round(2*min(max(best, 0), maxWorth)) / 2
}

// Parts of what an item seems to be worth. A plain report of one feed is worth usualWorth; names and numbers make it
// more concrete, and its own form may take away from that.
const (
	usualWorth   = 3.5
	perName      = 0.15
	perNumber    = 0.25
	maxConcrete  = 1.5
	longText     = 600 // characters of a text that is a report
	longWorth    = 0.5
	majorRelease = 1.0
	patchRelease = -1.5
	titleless    = -1.5 // a short post
	lesserForm   = -2.0 // a question, a listicle, an episode, a comment
	thin         = -0.5 // hardly a text
	thinWords    = 8
)

var (
	releaseTitle = text.Pattern(`(?i)^(?:[\w./@-]+ ){0,3}(?:version |release |v)?(\d+)\.(\d+)(?:\.(\d+))?(?:\.\d+)*(?:$|[ :,–-])`)
	lesserTitle  = text.Pattern(`(?i)\?$|^\W*\w+ (?:\w+ ){0,2}(?:ways|tips|things|reasons|tricks|ideas|best|beste\w*|tipps|dinge|gründe|ting|grunner|choses|façons|cosas)\b` +
		`|^\W*(?:ep(?:isode|\.)?|folge|épisode|episodio|#) ?#?\d+\b|^(?:my|mein\w*|mon|ma|min|mitt) |^(?:how to|wie man|slik|comment|cómo) `)
)

// guessWorth returns how much an item seems to matter by its form alone.
func (i *item) guessWorth() float64 {
	title, body := i.Heading(), i.text()
	worth := usualWorth + min(concreteness(title+". "+shorten(body, severityText)), maxConcrete)
	if utf8.RuneCountInString(body) >= longText {
		worth += longWorth
	}
	_, severity := i.severity()
	worth += severity
	if m := releaseTitle().FindStringSubmatch(title); m != nil {
		switch patch := m[3]; {
		case m[2] == "0" && (patch == "" || patch == "0"):
			worth += majorRelease
		case patch != "" && patch != "0" && severity <= 0:
			worth += patchRelease
		}
	}
	if title == "" {
		worth += titleless
	} else if len(strings.Fields(i.feedWords())) < thinWords {
		worth += thin
	}
	if lesserTitle().MatchString(i.label()) || i.isOpinion() {
		worth += lesserForm
	}
	return worth
}

// concreteness returns what the names and numbers of a text add to its worth.
func concreteness(text string) float64 {
	known := map[string]bool{}
	worth, begins := 0.0, true
	for _, word := range strings.Fields(text) {
		plain := strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		first, _ := utf8.DecodeRuneInString(plain)
		switch {
		case plain == "" || known[plain]:
		case unicode.IsDigit(first):
			worth += perNumber
		case unicode.IsUpper(first) && !begins && len(plain) > 2:
			worth += perName
		}
		known[plain] = true
		begins = strings.ContainsAny(word[len(word)-1:], ".!?:")
	}
	return worth
}

// withBestLead returns a story whose entry links to its fullest telling: no live blog, correction, thread, release tag or
// comment if there is another one.
func (st story) withBestLead(d spec) story {
	members := append([]*item{st.item}, st.also...)
	rank := func(i *item) float64 {
		rank := math.Log2(float64(2+min(len(i.text()), maxPageBytes))) + 2*math.Log2(i.feed.share())
		if d.findKind(i) != "" || i.isOpinion() {
			rank -= 100
		}
		if i.Heading() == "" || releaseTitle().MatchString(i.Heading()) {
			rank -= 10
		}
		if i.feed.Pin {
			rank += 20
		}
		return rank
	}
	slices.SortStableFunc(members, func(a, b *item) int { return cmp.Compare(rank(b), rank(a)) })
	best := story{item: members[0], also: members[1:], series: st.series, updateOf: st.updateOf}
	best.score = st.score
	for _, i := range best.also {
		i.score, i.verdict, i.reason = nil, "merged into "+best.Heading(), string(cmp.Or(i.mergeReason, feed.SameStory))
	}
	best.verdict, best.reason = "", ""
	return best
}

// minLiked is the factor from which on a post says that people here like a source or topic.
const minLiked = 1.15

// sortByScore puts the best stories first; those that count the same in the order of their age.
func sortByScore(stories []story) {
	slices.SortStableFunc(stories, func(a, b story) int {
		return cmp.Or(
			cmp.Compare(b.score.Total, a.score.Total),
			cmp.Compare(b.score.Sources, a.score.Sources),
			b.Item.Time().Compare(a.Item.Time()),
		)
	})
}

// sourceKey and topicKey return the keys of preferences. They are also words for a model (describeLikes).
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
