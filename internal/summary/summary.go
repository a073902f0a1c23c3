// Package summary shortens texts without a language model, by choosing whole
// sentences: those near the centre of what the text is about, near its top and
// near its title, and not saying again what is already chosen. (On news, graph
// methods such as TextRank were measured to do worse than the first three
// sentences, and this method to do better; our own weights were compared with the
// first three sentences on a handful of reports alone.)
//
// It promises the same answer for the same input, sentences in their own order
// and wording, and a bounded amount of work for any input. It is written for
// plain text; taking markup off is left to the caller.
package summary

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxBytes     = 200_000 // of text; the rest is not looked at
	maxSentences = 2_000   // that compete; news puts what matters first
	maxChosen    = 100

	positionWeight     = 1.0
	titleWeight        = 0.5
	minUsualWords      = 8   // words; fewer is a heading, a caption or a quip
	maxUsualWords      = 80  // words; more is a list or a table
	oddLengthFactor    = 0.5 // factor for both
	maxSimilarity      = 0.6 // cosine with a chosen sentence
	maxTitleSimilarity = 0.9 // cosine with the title
)

// Summarize chooses up to the given number of sentences (at most 100) that stand
// for the text, in the order of the text. A text of no more sentences than that
// comes back whole. The title, which may be empty, says what matters; it is not
// part of the answer.
func Summarize(title, text string, sentences int) []string {
	all := Sentences(text)
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

// candidate is a sentence and how well it would stand for the text.
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

// choose takes the best, skips what repeats, and fills up with repeats only
// where nothing else is left.
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

// Keywords are up to n words that the text uses most, the most used first, in
// the form of their first use. Common English words and short ones do not count.
func Keywords(text string, n int) []string {
	space := newSpace()
	counted := space.count(clip(text))
	var kept []count
	for _, c := range counted.counts {
		if utf8.RuneCountInString(space.shown[c.id]) > 2 || isIdeograph(firstRune(space.shown[c.id])) {
			kept = append(kept, c)
		}
	}
	slices.SortFunc(kept, func(a, b count) int {
		return cmp.Or(cmp.Compare(b.times, a.times), cmp.Compare(a.id, b.id))
	})
	var out []string
	for _, c := range kept[:min(max(n, 0), len(kept))] {
		out = append(out, space.shown[c.id])
	}
	return out
}

// clip bounds the text at a rune and repairs it where it is not UTF-8.
func clip(text string) string {
	if len(text) > maxBytes {
		end := maxBytes
		for end > maxBytes-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
