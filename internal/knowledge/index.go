package knowledge

import (
	"cmp"
	"math"
	"slices"

	"ravenbot/internal/lexicon"
)

// The figures of BM25, as they are used most.
const (
	saturation   = 1.2
	lengthEffect = 0.75
	headWeight   = 2 // of a word in the heading or the file's name
	// relatedWeight is what a word counts that says much the same as one that no passage
	// has.
	relatedWeight = 0.4
	goodEnough    = 0.35 // of the best score, to be told of
	mostAsked     = 128  // words of a question
)

// index finds passages by the stems of their words. It is not changed once it was
// made.
type index struct {
	passages []passage
	posts    map[string][]post
	lengths  []float64
	mean     float64
}

type post struct {
	at    int
	count float64
}

func newIndex(list []passage) *index {
	x := &index{passages: list, posts: map[string][]post{}, lengths: make([]float64, len(list))}
	total := 0.0
	for at, p := range list {
		counts := map[string]float64{}
		stems(p.text, math.MaxInt, func(s string) { counts[s]++; x.lengths[at]++ })
		stems(p.where+" "+p.file, 64, func(s string) { counts[s] += headWeight })
		for s, n := range counts {
			x.posts[s] = append(x.posts[s], post{at, n})
		}
		total += x.lengths[at]
	}
	x.mean = max(total/float64(max(len(list), 1)), 1)
	return x
}

func stems(text string, most int, yield func(string)) {
	n := 0
	lexicon.Each(text, func(w string) bool {
		if !lexicon.Common(w) {
			yield(lexicon.Stem(w))
			n++
		}
		return n < most
	})
}

// search gives the passages that fit a question best, the best first.
func (x *index) search(question string, k int) []passage {
	asked := map[string]float64{}
	stems(question, mostAsked, func(s string) {
		if asked[s] = 1; len(x.posts[s]) > 0 {
			return
		}
		for _, other := range lexicon.Related(s) {
			asked[other] = max(asked[other], relatedWeight)
		}
	})
	scores := map[int]float64{}
	for s, weight := range asked {
		posts := x.posts[s]
		n := float64(len(posts))
		rarity := math.Log(1 + (float64(len(x.passages))-n+0.5)/(n+0.5))
		for _, p := range posts {
			longer := 1 - lengthEffect + lengthEffect*x.lengths[p.at]/x.mean
			scores[p.at] += weight * rarity * p.count * (saturation + 1) / (p.count + saturation*longer)
		}
	}
	hits := make([]int, 0, len(scores))
	for at := range scores {
		hits = append(hits, at)
	}
	slices.SortFunc(hits, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
	var list []passage
	for _, at := range hits[:min(len(hits), k)] {
		if scores[at] >= goodEnough*scores[hits[0]] {
			list = append(list, x.passages[at])
		}
	}
	return list
}
