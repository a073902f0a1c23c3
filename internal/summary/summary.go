// Package summary shortens texts without a language model by choosing whole sentences: those with the words that the
// text uses most, near its beginning and similar to its title, and not similar to one that is already chosen. (On news,
// graph methods such as TextRank do worse than the first three sentences, and this method does better; the weights here
// were compared with the first three sentences on a few reports only.)
//
// It promises the same result for the same input, sentences in their own order and wording, and a limited amount of
// work for any input. It expects plain text; removing markup is left to the caller.
package summary

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"ravenbot/internal/text"
)

const (
	maxBytes     = 200_000 // of text; the rest is ignored
	maxSentences = 2_000   // that are compared; news puts what matters first
	maxChosen    = 100

	positionWeight     = 1.0
	titleWeight        = 0.5
	minUsualWords      = 8   // words; fewer is a heading, a caption or a quip
	maxUsualWords      = 80  // words; more is a list or a table
	oddLengthFactor    = 0.5 // factor for both
	maxSimilarity      = 0.6 // cosine with a chosen sentence
	maxTitleSimilarity = 0.9 // cosine with the title
)

// Summarize returns up to the given number of sentences (at most 100) that represent the text, in the order of the
// text. A text of no more sentences is returned whole. The title, which may be empty, says what matters; it is not part
// of the result.
func Summarize(title, text string, sentences int) []string {
	all := dropPlugs(Sentences(text))
	if sentences <= 0 || len(all) == 0 {
		return nil
	}
	if len(all) <= sentences {
		return all
	}
	all = all[:min(len(all), maxSentences)]
	chosen := choose(score(title, all), min(sentences, maxChosen))
	out := make([]string, len(chosen))
	for i, index := range chosen {
		out[i] = all[index]
	}
	return out
}

// plug matches a sentence that asks the reader to do something for the publisher, or says where the text is from.
var plug = text.Pattern(`(?i)^(?:read (?:more|on|the (?:rest|full)\b)|continue reading|keep reading|click here|check out\b` +
	`|subscribe\b|sign up\b|follow (?:us|me)\b|like and subscribe|support (?:us|me|the (?:show|channel))\b|become a (?:member|patron)\b` +
	`|join our\b|this (?:post|article) .{0,200}first appeared on|the post .{0,200}appeared first on|submitted by\b` +
	`|weiterlesen\b|hier klicken|jetzt abonnieren|lire la suite|leer más|les mer\b)`)

// maxPlugLength bounds a sentence that is taken for a plug, in bytes: a long one says something besides.
const maxPlugLength = 300

// dropPlugs returns the sentences without those that are plugs or hold nothing but an address, unless none is left.
func dropPlugs(all []string) []string {
	kept := make([]string, 0, len(all))
	for _, s := range all {
		isPlug := len(s) <= maxPlugLength && plug().MatchString(s)
		if !isPlug && hasWord(address().ReplaceAllString(s, "")) {
			kept = append(kept, s)
		}
	}
	if len(kept) == 0 {
		return all
	}
	return kept
}

// candidate is a sentence and how well it represents the text.
type candidate struct {
	index int
	score float64
	terms vector
	title float64
}

func score(title string, sentences []string) []candidate {
	space := newSpace()
	counted := make([]bag, len(sentences))
	for i, s := range sentences {
		counted[i] = space.count(s)
	}
	titleBag := space.count(title)
	weights := space.weights(counted)
	titleVector := titleBag.weighted(weights)

	list := make([]candidate, len(sentences))
	centre := make([]float64, len(weights))
	for i, b := range counted {
		list[i] = candidate{index: i, terms: b.weighted(weights)}
		for _, t := range list[i].terms {
			centre[t.id] += t.weight
		}
	}
	var best float64
	for i := range list {
		list[i].score = list[i].terms.dot(centre)
		best = max(best, list[i].score)
	}
	for i := range list {
		c := &list[i]
		if best > 0 {
			c.score /= best
		}
		c.title = c.terms.cosine(titleVector)
		c.score += positionWeight/math.Sqrt(float64(i+1)) + titleWeight*c.title
		if words := counted[i].words; words < minUsualWords || words > maxUsualWords {
			c.score *= oddLengthFactor
		}
	}
	return list
}

// choose returns the best sentences. It skips those that repeat a chosen one, unless there are no others.
func choose(list []candidate, want int) []int {
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	var chosen, spare []candidate
	for _, c := range list {
		if len(chosen) == want {
			break
		}
		repeats := func(other candidate) bool { return c.terms.cosine(other.terms) >= maxSimilarity }
		if c.title >= maxTitleSimilarity || slices.ContainsFunc(chosen, repeats) {
			spare = append(spare, c)
			continue
		}
		chosen = append(chosen, c)
	}
	if len(chosen) == 0 {
		chosen = spare[:1]
	}
	indexes := make([]int, len(chosen))
	for i, c := range chosen {
		indexes[i] = c.index
	}
	slices.Sort(indexes)
	return indexes
}

// clip returns the text cut to maxBytes, as valid UTF-8.
func clip(s string) string {
	return strings.ToValidUTF8(text.Cut(s, maxBytes), "\uFFFD")
}
