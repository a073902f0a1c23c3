package toolsearch

import (
	"cmp"
	"math"
	"slices"
)

// The fields of a tool.
const (
	inName = iota
	inDescription
	inParameters
	inServer
	fields
)

// The figures below were chosen by measuring, on Seal-Tools' dev split and on one
// half of MetaTool's requests, and are checked on the rest (recall_test.go).
var (
	// weights are what a word in each field counts.
	weights = [fields]float64{3, 1, 0.5, 0.5}
	// lengthEffect says how much a word counts less in a longer field, from 0 to 1.
	// A long description tells more, so it costs nothing.
	lengthEffect = [fields]float64{0.2, 0, 0.4, 0.5}
)

const (
	saturation   = 1.5 // k1 of BM25: the count at which a word reaches half its worth
	politeWeight = 0.4
	// nearWeight is what the best near spelling counts beside the word itself; others
	// count less by the square of their likeness.
	nearWeight = 0.8
	nearEnough = 0.55
	mostNear   = 12
	nearLength = 4 // bytes of the shortest word that may be misspelled or part of another
	// clauseRoot tells how much better a sentence with rare words is heard than one
	// with words that many tools have: 0 not at all, 1 as BM25 would.
	clauseRoot  = 0.4
	wholeWeight = 0.5 // of the request as a whole beside its best sentence

	maxQueryWords = 256
	maxQueryBytes = 16 << 10
	maxNearLength = 64
	maxEditLength = 20
)

// sums are the scores of one search, kept to be used again. All values of the
// slices are zero between uses.
type sums struct {
	clause, whole, best []float64 // by slot
	variants            []float64
	inClause, inWhole   []uint32 // slots that have a score
	inVariants          []uint32
	barred              []bool
}

func (s *sums) fit(n int) {
	if len(s.clause) < n {
		*s = sums{clause: make([]float64, n), whole: make([]float64, n), best: make([]float64, n),
			variants: make([]float64, n), barred: make([]bool, n)}
	}
}

// Search gives the k tools that fit a request in words best, the best first; where
// keep is not nil, of those whose name it accepts. It must be quick and must not
// use the index. What fits in no word is not given.
func (x *Index) Search(query string, k int, keep func(name string) bool) []Hit {
	parts := questions(query)
	if k < 1 || len(parts) == 0 {
		return nil
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.scratch.Get().(*sums)
	defer x.scratch.Put(s)
	s.fit(len(x.slots))
	defer s.clear()
	for at := range x.slots {
		s.barred[at] = keep != nil && !keep(x.slots[at].name)
	}
	for _, terms := range parts {
		for _, t := range terms {
			x.score(s, t)
		}
		s.fuse()
	}
	return x.top(s, k)
}

// asked is a word of a request and what it counts.
type asked struct {
	stem   string
	weight float64
}

// questions takes the words of each clause of a request, each once. A request of
// common words alone is searched for these.
func questions(query string) [][]asked {
	query = query[:min(len(query), maxQueryBytes)]
	if list := questionsOf(query, true); len(list) > 0 {
		return list
	}
	return questionsOf(query, false)
}

func questionsOf(query string, skipCommon bool) [][]asked {
	var list [][]asked
	left := maxQueryWords
	for _, clause := range clauses(query) {
		var terms []asked
		eachWord(clause, func(w string) bool {
			if left <= 0 || skipCommon && common[w] {
				return left > 0
			}
			a := asked{stem(w), 1}
			if polite[w] {
				a.weight = politeWeight
			}
			if !slices.ContainsFunc(terms, func(b asked) bool { return b.stem == a.stem }) {
				terms = append(terms, a)
				left--
			}
			return true
		})
		if len(terms) > 0 {
			list = append(list, terms)
		}
	}
	return list
}

// score adds what a word is worth to the tools that have it or, where none has,
// words spelled like it.
func (x *Index) score(s *sums, a asked) {
	if id, ok := x.words.ids[a.stem]; ok {
		x.eachScore(s, id, a.weight, func(at uint32, score float64) {
			add(s.clause, &s.inClause, at, score)
		})
		return
	}
	for _, v := range x.words.near(a.stem) {
		x.eachScore(s, v.id, a.weight*nearWeight*v.alike*v.alike, func(at uint32, score float64) {
			if score > s.variants[at] {
				add(s.variants, &s.inVariants, at, score-s.variants[at])
			}
		})
	}
	for _, at := range s.inVariants {
		add(s.clause, &s.inClause, at, s.variants[at])
		s.variants[at] = 0
	}
	s.inVariants = s.inVariants[:0]
}

// eachScore gives the BM25F score of each tool that has a word.
func (x *Index) eachScore(s *sums, id uint32, weight float64, yield func(uint32, float64)) {
	posts := x.words.words[id].posts
	n, all := float64(len(posts)), float64(x.size())
	worth := weight * math.Log(1+(all-n+0.5)/(n+0.5))
	for _, p := range posts {
		if s.barred[p.slot] {
			continue
		}
		norm := &x.norms[p.slot]
		count := float64(norm[inName]*float32(p.counts[inName]) + norm[inDescription]*float32(p.counts[inDescription]) +
			norm[inParameters]*float32(p.counts[inParameters]) + norm[inServer]*float32(p.counts[inServer]))
		yield(p.slot, worth*count/(count+saturation))
	}
}

func add(to []float64, touched *[]uint32, at uint32, score float64) {
	if to[at] == 0 {
		*touched = append(*touched, at)
	}
	to[at] += score
}

// fuse takes the scores of a clause into those of the request: each tool keeps its
// best clause, scaled to the clause's best tool, so that a short clause is heard
// beside a long one.
func (s *sums) fuse() {
	most := 0.0
	for _, at := range s.inClause {
		most = max(most, s.clause[at])
	}
	scale := math.Pow(most, clauseRoot) / most
	for _, at := range s.inClause {
		add(s.whole, &s.inWhole, at, s.clause[at])
		s.best[at] = max(s.best[at], s.clause[at]*scale)
		s.clause[at] = 0
	}
	s.inClause = s.inClause[:0]
}

func (s *sums) clear() {
	for _, at := range s.inWhole {
		s.whole[at], s.best[at] = 0, 0
	}
	s.inWhole = s.inWhole[:0]
}

// top picks the k best; the name decides between equals.
func (x *Index) top(s *sums, k int) []Hit {
	most := 0.0
	for _, at := range s.inWhole {
		most = max(most, s.whole[at])
	}
	var list []Hit
	for _, at := range s.inWhole {
		h := Hit{Name: x.slots[at].name, Server: x.slots[at].server, Score: s.best[at] + wholeWeight*s.whole[at]/most}
		if len(list) == k && better(list[k-1], h) < 0 {
			continue
		}
		i, _ := slices.BinarySearchFunc(list, h, better)
		list = slices.Insert(list, i, h)
		list = list[:min(len(list), k)]
	}
	return list
}

func better(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Server, b.Server))
}
