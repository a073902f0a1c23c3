package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/recall/meaning"
	"ravenbot/internal/recall/search"
)

// The figures below were chosen by trying some values on the questions of testdata, half of them apart, and are
// checked on all of them (recall_internal_test.go).
const (
	maxCandidates = 400              // messages that have words of the question
	maxGap        = 30 * time.Minute // between messages of one discussion
	gapFactor     = 0.3              // of evidence that passes from one discussion to the next
	beforeShare   = 0.3              // of the evidence that messages before one get, beside those after it
	repliesBoost  = 1.6              // of the evidence that what follows a question gets
	answerBoost   = 1.6              // of a message that may answer such a question
	sayerBoost    = 3.0              // of words of the one whose words are asked for
	namedBoost    = 1.2              // of words of one whom the question names
	timeBoost     = 2.5              // of what was said when the question says
	asksFactor    = 0.7              // of a message that asks something itself
	shortFactor   = 0.7              // of a message with one word or none that says something
	// baseEvidence is what a message has by the speaker and time that are asked for, without a word of the question.
	baseEvidence = 0.15
)

// neighbourWeights returns how much of a message's evidence the ones after it get, the next first.
func neighbourWeights() []float64 { return []float64{0.6, 0.6, 0.5, 0.4} }

// corpus is messages in the order of their conversation and time, with an index of their words.
type corpus struct {
	messages []Message
	places   map[string]int        // by key of a message
	words    *search.Index[string] // by key of a message
}

// hit is a message that was found.
type hit struct {
	n     int
	score float64
}

// rank returns the positions of up to k messages that fit a question best, the best first, of those that keep accepts.
// A message counts by its own words and by those around it: an answer seldom repeats the words of what was asked.
func (c corpus) rank(q question, k int, keep func(Message) bool) []int {
	evidence := map[int]float64{}
	found := c.words.Search(search.Query[string]{
		Text:     q.text,
		Limit:    maxCandidates,
		Everyday: true,
		Keep:     func(key string) bool { n, ok := c.places[key]; return ok && keep(c.messages[n]) },
	})
	for _, h := range found {
		evidence[c.places[h.Key]] = h.Evidence
	}
	if len(q.sayers) > 0 || !q.from.IsZero() {
		c.addAskedFor(evidence, q, keep)
	}
	scores := map[int]float64{}
	// In order: the sum of floating-point numbers depends on it, and the same question has to find the same messages.
	for _, n := range slices.Sorted(maps.Keys(evidence)) {
		scores[n] += evidence[n]
		c.spread(scores, n, evidence[n], keep)
	}
	hits := make([]hit, 0, len(scores))
	for n, score := range scores {
		hits = append(hits, hit{n, score * c.boost(q, c.messages[n])})
	}
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.n, a.n)) })
	var list []int
	for _, h := range hits[:min(k, len(hits))] {
		list = append(list, h.n)
	}
	return list
}

// Of the index by meaning.
const (
	meaningKind = "history" // of its groups, one for each channel
	maxFused    = 50        // messages that are found by their words
)

func meaningGroup(channel chat.Address) string { return meaningKind + "/" + channel.String() }

// find is rank by words and meaning. Without a question with a vector it is rank.
func (c corpus) find(asked *meaning.Query, q question, k int, keep func(Message) bool) []int {
	if asked == nil || len(c.messages) == 0 {
		return c.rank(q, k, keep)
	}
	group := meaningGroup(c.messages[0].Conversation.Base())
	var docs []meaning.Doc[int]
	for n, m := range c.messages {
		if q.asksFor(m) && keep(m) {
			docs = append(docs, meaning.Doc[int]{Key: n, Group: group, Text: m.Text})
		}
	}
	found := meaning.Fuse(asked, c.rank(q, max(k, maxFused), keep), docs, meaning.Near)
	return found[:min(k, len(found))]
}

// addAskedFor adds the messages of the speakers and time that a question asks for, whatever their words.
func (c corpus) addAskedFor(evidence map[int]float64, q question, keep func(Message) bool) {
	for n, m := range c.messages {
		if q.asksFor(m) && keep(m) {
			evidence[n] = max(evidence[n], baseEvidence)
		}
	}
}

// asksFor reports whether a message is of the speakers and the time that a question asks for; without any, all are.
func (q question) asksFor(m Message) bool {
	return (len(q.sayers) == 0 || slices.Contains(q.sayers, m.Author)) && (q.from.IsZero() || q.isIn(m.At))
}

// spread gives the messages around one a part of its evidence.
func (c corpus) spread(scores map[int]float64, n int, evidence float64, keep func(Message) bool) {
	after := evidence
	if strings.HasSuffix(c.messages[n].Text, "?") {
		after *= repliesBoost
	}
	c.spreadTo(scores, n, 1, after, keep)
	c.spreadTo(scores, n, -1, evidence*beforeShare, keep)
}

// spreadTo gives the messages behind one (step 1) or before it (step -1) their parts of an evidence.
func (c corpus) spreadTo(scores map[int]float64, n, step int, evidence float64, keep func(Message) bool) {
	last := c.messages[n]
	for i, weight := range neighbourWeights() {
		near := n + step*(i+1)
		if near < 0 || near >= len(c.messages) {
			return
		}
		m := c.messages[near]
		if m.Conversation != last.Conversation || !keep(m) {
			return
		}
		if m.At.Sub(last.At).Abs() > maxGap {
			evidence *= gapFactor
		}
		scores[near] += evidence * weight
		last = m
	}
}

// boost returns by how much more a message counts for what the question asks for beside its words.
func (c corpus) boost(q question, m Message) float64 {
	b := 1.0
	if q.answers(m.Text) {
		b *= answerBoost
	}
	if strings.HasSuffix(m.Text, "?") {
		b *= asksFactor
	}
	if isShort(m.Text) {
		b *= shortFactor
	}
	switch {
	case slices.Contains(q.sayers, m.Author):
		b *= sayerBoost
	case slices.Contains(q.named, m.Author):
		b *= namedBoost
	}
	if q.isIn(m.At) {
		b *= timeBoost
	}
	return b
}

// isShort reports whether a text has one word or none that says something.
func isShort(text string) bool { return search.CountWords(text, 2) < 2 }

// newIndex returns an empty index for messages.
func newIndex() *search.Index[string] {
	return search.New(cmp.Compare[string], search.Field{Weight: 1, LengthEffect: 0.4, UsualLength: 10, MaxWords: 400})
}
