package toolsearch

import (
	"cmp"
	"math"
	"slices"

	"ravenbot/internal/lexicon"
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
	// usualLength is the number of words in a field at which length makes no
	// difference.
	usualLength = [fields]float64{3, 10, 20, 2}
)

const (
	saturation   = 1.5 // k1 of BM25: the count at which a word reaches half its worth
	politeWeight = 0.4
	// nearWeight is what the best near spelling counts beside the word itself; others
	// count less by the square of their likeness.
	nearWeight = 0.8
	// relatedWeight is what a word that says much the same counts beside the word
	// itself, where no tool has a word of the clause.
	relatedWeight = 0.7
	nearEnough    = 0.55
	mostNear      = 12
	nearLength    = 4 // bytes of the shortest word that may be misspelled or part of another
	// clauseRoot tells how much better a sentence with rare words is heard than one
	// with words that many tools have: 0 not at all, 1 as BM25 would.
	clauseRoot  = 0.4
	wholeWeight = 0.5 // of the request as a whole beside its best sentence

	maxQueryWords = 256
	maxQueryBytes = 16 << 10
	maxUnknown    = 24 // words of a request that are looked for by their spelling
	maxNearLength = 64
	maxEditLength = 20
)

// sums are the scores of one search, by slot, kept to be used again. All are zero
// between uses.
type sums struct {
	clause, whole, best []float32
	variant             []float32 // of one word
	varied              []uint32  // slots that have a variant's score
	shared              []uint16  // by word, how many trigrams it shares with one
	unknown             int       // words for which near ones were looked for
}

func (s *sums) fit(slots, words int) {
	if len(s.clause) < slots {
		s.clause, s.whole, s.best, s.variant = make([]float32, slots), make([]float32, slots), make([]float32, slots), make([]float32, slots)
	}
	if len(s.shared) < words {
		s.shared = make([]uint16, words)
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
	if x.size() == 0 {
		return nil
	}
	s := x.scratch.Get().(*sums)
	defer x.scratch.Put(s)
	s.fit(len(x.slots), len(x.words.words))
	var barred []bool
	if keep != nil {
		barred = make([]bool, len(x.slots))
		for at := range x.slots {
			barred[at] = !keep(x.slots[at].name)
		}
	}
	s.unknown = 0
	for _, terms := range parts {
		x.hear(s, terms, barred)
		s.fuse(barred)
	}
	return x.top(s, k)
}

// hear scores the words of a clause. The less of it the best tool has, the more words
// that say much the same count, too.
func (x *Index) hear(s *sums, terms []asked, barred []bool) {
	all := 0.0
	for _, t := range terms {
		x.score(s, t)
		all += t.weight * x.rarity(x.tools(t.stem))
	}
	missing := max(0, 1-float64(s.most(barred))/all)
	for _, t := range terms {
		if t.weight == 1 {
			x.relate(s, t, relatedWeight*missing*missing)
		}
	}
}

// tools is how many tools have a word.
func (x *Index) tools(stem string) int {
	id, ok := x.words.ids[stem]
	if !ok {
		return 0
	}
	return len(x.words.words[id].posts)
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
		lexicon.Each(clause, func(w string) bool {
			if left <= 0 || skipCommon && lexicon.Common(w) {
				return left > 0
			}
			a := asked{lexicon.Stem(w), 1}
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
		posts := x.words.words[id].posts
		worth := float32(a.weight * x.rarity(len(posts)))
		for _, p := range posts {
			s.clause[p.slot] += worth * p.weight
		}
		return
	}
	if s.unknown++; s.unknown > maxUnknown {
		return
	}
	for _, v := range x.words.near(a.stem, s.shared) {
		posts := x.words.words[v.id].posts
		s.vary(posts, float32(a.weight*nearWeight*v.alike*v.alike*x.rarity(len(posts))))
	}
	s.settle()
}

// vary notes what tools have for another word in the place of one: the best counts.
func (s *sums) vary(posts []posting, worth float32) {
	for _, p := range posts {
		if s.variant[p.slot] == 0 {
			s.varied = append(s.varied, p.slot)
		}
		s.variant[p.slot] = max(s.variant[p.slot], worth*p.weight)
	}
}

// settle adds what was noted.
func (s *sums) settle() {
	for _, at := range s.varied {
		s.clause[at] += s.variant[at]
		s.variant[at] = 0
	}
	s.varied = s.varied[:0]
}

// relate adds what words that say much the same as one are worth to tools that have
// these instead. Together they are one matter, which is as rare as all of them: one
// word of a matter that many tools are about tells little.
func (x *Index) relate(s *sums, a asked, weight float64) {
	related := lexicon.Related(a.stem)
	about := x.tools(a.stem)
	for _, stem := range related {
		about += x.tools(stem)
	}
	if len(related) == 0 || about == 0 {
		return
	}
	matter := x.rarity(min(about, x.size()))
	for _, stem := range related {
		if id, ok := x.words.ids[stem]; ok {
			posts := x.words.words[id].posts
			s.vary(posts, float32(weight*min(matter, x.rarity(len(posts)))))
		}
	}
	if id, ok := x.words.ids[a.stem]; ok { // what has the word itself was given its worth
		posts := x.words.words[id].posts
		worth := float32(x.rarity(len(posts)))
		for _, p := range posts {
			s.variant[p.slot] = max(0, s.variant[p.slot]-worth*p.weight)
		}
	}
	s.settle()
}

// rarity is BM25's inverse document frequency of what some tools have.
func (x *Index) rarity(tools int) float64 {
	n, all := float64(tools), float64(x.size())
	return math.Log(1 + (all-n+0.5)/(n+0.5))
}

// fuse takes the scores of a clause into those of the request: each tool keeps its
// best clause, scaled to the clause's best tool, so that a short clause is heard
// beside a long one.
func (s *sums) fuse(barred []bool) {
	most := s.most(barred)
	if most == 0 {
		return
	}
	scale := float32(math.Pow(float64(most), clauseRoot)) / most
	for at, score := range s.clause {
		s.whole[at] += score
		s.best[at] = max(s.best[at], score*scale)
	}
	clear(s.clause)
}

// most is the best score of a clause; what may not be used is taken out.
func (s *sums) most(barred []bool) float32 {
	most := float32(0)
	for at, score := range s.clause {
		if barred != nil && at < len(barred) && barred[at] {
			s.clause[at] = 0
		} else if score > most {
			most = score
		}
	}
	return most
}

// top picks the k best, and clears the sums; the name decides between equals.
func (x *Index) top(s *sums, k int) []Hit {
	most := slices.Max(s.whole)
	if most == 0 {
		return nil
	}
	part := wholeWeight / most
	var list []Hit
	for at := range x.slots {
		score := float64(s.best[at] + part*s.whole[at])
		if score == 0 || len(list) == k && score < list[k-1].Score {
			continue
		}
		h := Hit{Name: x.slots[at].name, Server: x.slots[at].server, Score: score}
		if i, _ := slices.BinarySearchFunc(list, h, better); i < k {
			list = slices.Insert(list[:min(len(list), k-1)], i, h)
		}
	}
	clear(s.whole)
	clear(s.best)
	return list
}

func better(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Server, b.Server))
}

// worth is what a word counts in a tool, from 0 to 1, by how often it is in each
// field: BM25F without the word's rarity. It depends on nothing but the tool, so
// that servers that come and go change no other's rank among equals.
func worth(counts, lengths [fields]int) float32 {
	sum := 0.0
	for f, n := range counts {
		if n > 0 {
			longer := float64(lengths[f]) / usualLength[f]
			sum += weights[f] * float64(n) / (1 - lengthEffect[f] + lengthEffect[f]*longer)
		}
	}
	return float32(sum / (sum + saturation))
}
