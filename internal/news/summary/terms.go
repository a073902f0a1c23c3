package summary

import (
	"math"
	"slices"

	"ravenbot/internal/core/text"
)

// space numbers the terms of one text in the order of their first use, so that no sum depends on the order of a map.
type space struct{ ids map[string]int }

// bag is the terms of one sentence.
type bag struct {
	counts []count // ascending by id
	words  int     // all words, common ones too
}

type count struct{ id, times int }

// vector has unit length, or none.
type (
	vector = text.Vector[int]
	entry  = text.Weighted[int]
)

// newSpace returns a space without terms.
func newSpace() *space { return &space{ids: map[string]int{}} }

// count returns how often each term is in a text, by its number in the space. Common words count as
// words and not as terms.
func (s *space) count(sentence string) bag {
	var ids []int
	words := 0
	for term := range text.Terms(sentence) {
		words++
		if text.IsCommon(term) {
			continue
		}
		term = text.Singular(term)
		id, ok := s.ids[term]
		if !ok {
			id = len(s.ids)
			s.ids[term] = id
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	b := bag{words: words}
	for _, id := range ids {
		if n := len(b.counts); n > 0 && b.counts[n-1].id == id {
			b.counts[n-1].times++
		} else {
			b.counts = append(b.counts, count{id, 1})
		}
	}
	return b
}

// frequencies returns in how many sentences every term is.
func (s *space) frequencies(sentences []bag) []int {
	in := make([]int, len(s.ids))
	for _, b := range sentences {
		for _, c := range b.counts {
			in[c.id]++
		}
	}
	return in
}

// rarity returns the weight of every term: its inverse sentence frequency.
func rarity(in []int, sentences int) []float64 {
	weights := make([]float64, len(in))
	for id, n := range in {
		weights[id] = math.Log(float64(sentences+1) / float64(n+1))
	}
	return weights
}

// weighted returns the terms with their weights as a vector of unit length, or one without terms.
func (b bag) weighted(weights []float64) vector {
	v := make(vector, 0, len(b.counts))
	var square float64
	for _, c := range b.counts {
		w := (1 + math.Log(float64(c.times))) * weights[c.id]
		v = append(v, entry{Term: c.id, Weight: w})
		square += w * w
	}
	if square > 0 {
		for i := range v {
			v[i].Weight /= math.Sqrt(square)
		}
	}
	return v
}
