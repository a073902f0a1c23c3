package search

import (
	"cmp"
	"math"
	"slices"
)

// The figures below were chosen by measuring how well tools are found, on Seal-Tools' dev split and on one half of
// MetaTool's requests, and are checked on the rest (recall_test.go of toolsearch).
const (
	saturation   = 1.5 // k1 of BM25: the weighted count at which a word reaches half its weight
	politeWeight = 0.4
	// nearWeight is what the most similar spelling counts beside the word itself; others count less by the square
	// of their likeness.
	nearWeight = 0.8
	// relatedWeight is what a related word counts beside the word itself, where no document has a word of the clause.
	relatedWeight = 0.7
	// everydayWeight is the same where Query.Everyday is set, whatever the documents have.
	everydayWeight = 0.8
	// clauseRoot says how much better a clause of rare words scores than one of words that many documents have:
	// 0 not at all, 1 as in BM25.
	clauseRoot   = 0.4
	answerFactor = 1.35 // of a document that may answer such a question, where Query.Everyday is set
	wholeWeight  = 0.5  // of the question as a whole beside its best clause

	maxQueryWords = 256
	maxQueryBytes = 16 << 10
	maxUnknown    = 24 // words of a question that are looked up by their spelling
)

// Query is a question in words.
type Query[K comparable] struct {
	Text    string
	Limit   int  // most hits that are returned
	Related bool // words of much the same meaning count where the words themselves are missing
	// Everyday is for what people say, which is short and seldom has the words of the question: words related in
	// everyday life count beside the words themselves, words that carry a sentence count little, and a document that
	// has what the question asks for, such as a time for "when", counts more.
	Everyday bool
	// Keep reports whether a document may be found; nil: all may. It must be quick and must not use the index.
	Keep func(K) bool
}

// Hit is a document that was found. Scores are comparable within one search only.
type Hit[K comparable] struct {
	Key   K
	Score float64
	// Evidence is how much the words say that the document shares with the best clause of the question. 1 is a word
	// that no other document has, once in a text of usual length; thanks and other polite words say little. It is
	// comparable between searches of one index.
	Evidence float64
}

// Search returns the documents that fit a question best, the best first. A document that has none of its words, nor one
// that stands for them, is not returned; nor is anything for a question without words, or a limit below 1. It may be
// called concurrently, also beside changes, which wait for it.
func (x *Index[K]) Search(q Query[K]) []Hit[K] {
	clauses := x.parse(q.Text, q.Everyday)
	if q.Limit < 1 || len(clauses) == 0 {
		return nil
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if len(x.numbers) == 0 {
		return nil
	}
	s := x.scratch.Get().(*scores)
	s.fit(len(x.docs), len(x.words.list))
	// Before anything is scored: a document that must not be found must not set the scale of a clause, either.
	copy(s.barred, x.removed)
	if q.Keep != nil {
		for n := range x.docs {
			s.barred[n] = x.removed[n] || !q.Keep(x.docs[n].key)
		}
	}
	s.unknown = 0
	for _, terms := range clauses {
		x.scoreClause(s, terms, q)
		s.addClause()
	}
	hits := x.best(s, q)
	x.scratch.Put(s)
	return hits
}

// term is a word of a question and what it counts.
type term struct {
	stem   string
	weight float64
}

// parse returns the words of each clause of a question, each once. Common words are left out, unless the question
// has no others.
func (x *Index[K]) parse(question string, everyday bool) [][]term {
	// What people paste may be a whole file, of which the beginning says enough.
	question = question[:min(len(question), maxQueryBytes)]
	if list := x.parseClauses(question, true, everyday); len(list) > 0 {
		return list
	}
	return x.parseClauses(question, false, everyday)
}

// parseClauses returns the terms of each clause of a question, without those that have none. The words of all clauses
// together are limited. everyday makes light words count as little as polite ones.
func (x *Index[K]) parseClauses(question string, skipCommon, everyday bool) [][]term {
	var list [][]term
	left := maxQueryWords
	for _, clause := range clauses(question) {
		var terms []term
		for w := range Words(clause) {
			if left <= 0 {
				break
			}
			if skipCommon && isCommon(w) {
				continue
			}
			t := term{x.stems.stem(w), 1}
			if polite[w] || everyday && light[w] {
				t.weight = politeWeight
			}
			if !slices.ContainsFunc(terms, func(other term) bool { return other.stem == t.stem }) {
				terms = append(terms, t)
				left--
			}
		}
		if len(terms) > 0 {
			list = append(list, terms)
		}
	}
	return list
}

// scores are those of one search, by document, kept to be used again. All are zero between uses.
type scores struct {
	clause, whole, best []float32
	raw                 []float32 // of the best clause, before it is scaled
	substitute          []float32 // of one word, by words that stand for it
	substituted         []uint32  // documents with a score in substitute
	barred              []bool    // documents that must not be found
	shared              []uint16  // by word of the vocabulary, how many trigrams it shares with one word
	unknown             int       // words that were looked up by their spelling
}

// fit makes the buffers large enough for as many documents and words. Buffers of a larger search are used as they are:
// all of them were cleared behind it, and barred is written as a whole.
func (s *scores) fit(docs, words int) {
	if len(s.clause) < docs {
		s.clause, s.whole, s.best = make([]float32, docs), make([]float32, docs), make([]float32, docs)
		s.raw, s.substitute, s.barred = make([]float32, docs), make([]float32, docs), make([]bool, docs)
	}
	if len(s.shared) < words {
		s.shared = make([]uint16, words)
	}
}

// scoreClause scores the words of a clause. The less of them the best document has, the more related words count.
func (x *Index[K]) scoreClause(s *scores, terms []term, q Query[K]) {
	all := 0.0
	for _, t := range terms {
		// A word of the table of related words is spelled as it was meant, even where no document has it.
		isWord := q.Everyday && everyday()[t.stem] != nil
		all += t.weight * x.scoreTerm(s, t, isWord)
	}
	switch {
	case q.Everyday:
		for _, t := range terms {
			x.scoreRelated(s, t, everyday()[t.stem], everydayWeight*t.weight)
		}
	case q.Related:
		// Squared below: related words help where the best document lacks most of the clause, and hardly elsewhere.
		missing := max(0, 1-float64(s.clauseMax())/all)
		for _, t := range terms {
			if t.weight == 1 {
				x.scoreRelated(s, t, related()[t.stem], relatedWeight*missing*missing)
			}
		}
	}
}

// scoreTerm adds what a word counts to the documents that have it or, where none has and isWord does not say that
// it is spelled as meant, that have words spelled like it. It returns the rarity of the word.
func (x *Index[K]) scoreTerm(s *scores, t term, isWord bool) float64 {
	if w := x.words.find(t.stem); w != nil {
		rarity := x.rarity(w.docs)
		worth := float32(t.weight * rarity)
		for _, p := range w.postings {
			s.clause[p.doc] += worth * p.weight
		}
		return rarity
	}
	if isWord {
		return x.rarity(0)
	}
	// Comparing spellings costs much more than a known word, so it is done for a few words only.
	if s.unknown++; s.unknown > maxUnknown {
		return x.rarity(0)
	}
	for _, v := range x.words.similar(t.stem, s.shared) {
		w := x.words.list[v.id]
		s.substituteWith(w.postings, float32(t.weight*nearWeight*v.alike*v.alike*x.rarity(w.docs)))
	}
	s.addSubstitutes()
	return x.rarity(0)
}

// substituteWith notes the documents that have a word which stands for another. Of several such words the best
// counts.
func (s *scores) substituteWith(postings []posting, worth float32) {
	for _, p := range postings {
		if s.substitute[p.doc] == 0 {
			s.substituted = append(s.substituted, p.doc)
		}
		s.substitute[p.doc] = max(s.substitute[p.doc], worth*p.weight)
	}
}

// addSubstitutes adds what substituteWith noted to the clause.
func (s *scores) addSubstitutes() {
	for _, n := range s.substituted {
		s.clause[n] += s.substitute[n]
		s.substitute[n] = 0
	}
	s.substituted = s.substituted[:0]
}

// scoreRelated adds what the words related to one count to the documents that have these instead. Together they are
// one subject, which is as rare as all of them: one word of a subject that many documents are about says little.
func (x *Index[K]) scoreRelated(s *scores, t term, stems []string, weight float64) {
	own := x.words.find(t.stem)
	about := 0
	if own != nil {
		about = own.docs
	}
	var others []*word
	for _, stem := range stems {
		if w := x.words.find(stem); w != nil {
			others = append(others, w)
			about += w.docs
		}
	}
	if len(others) == 0 {
		return
	}
	subject := x.rarity(min(about, len(x.numbers)))
	for _, w := range others {
		s.substituteWith(w.postings, float32(weight*min(subject, x.rarity(w.docs))))
	}
	if own != nil { // scoreTerm has given the documents with the word itself its full weight
		worth := float32(x.rarity(own.docs))
		for _, p := range own.postings {
			s.substitute[p.doc] = max(0, s.substitute[p.doc]-worth*p.weight)
		}
	}
	s.addSubstitutes()
}

// rarity returns BM25's inverse document frequency of a word that docs documents have; 0 documents is the highest.
func (x *Index[K]) rarity(docs int) float64 {
	n, all := float64(docs), float64(len(x.numbers))
	return math.Log(1 + (all-n+0.5)/(n+0.5))
}

// addClause adds the scores of a clause to those of the question: each document keeps its best clause, scaled to the
// best document of the clause, so that a short clause counts beside a long one.
func (s *scores) addClause() {
	highest := s.clauseMax()
	if highest == 0 {
		return
	}
	scale := float32(math.Pow(float64(highest), clauseRoot)) / highest
	for n, score := range s.clause {
		s.whole[n] += score
		s.best[n] = max(s.best[n], score*scale)
		s.raw[n] = max(s.raw[n], score)
	}
	// The next clause begins at zero.
	clear(s.clause)
}

// clauseMax returns the best score of the clause. It clears the scores of documents that must not be found.
func (s *scores) clauseMax() float32 {
	highest := float32(0)
	for n, score := range s.clause {
		switch {
		case score == 0:
		case s.barred[n]:
			s.clause[n] = 0
		case score > highest:
			highest = score
		}
	}
	return highest
}

// best returns the best documents, and clears the scores.
func (x *Index[K]) best(s *scores, q Query[K]) []Hit[K] {
	highest := slices.Max(s.whole)
	if highest == 0 {
		return nil
	}
	// Scaled to its best document, as each clause is, so that the two can be added.
	part, limit := wholeWeight/highest, q.Limit
	// A word once, in a text of usual length, counts 1/(1+saturation) of its rarity.
	unit := (1 + saturation) / x.rarity(1)
	var wanted kinds
	if q.Everyday {
		wanted = askedFor(q.Text)
	}
	var list []Hit[K]
	for n := range x.docs {
		score := float64(s.best[n] + part*s.whole[n])
		if x.docs[n].answers&wanted != 0 {
			score *= answerFactor
		}
		if score == 0 || len(list) == limit && score < list[limit-1].Score {
			continue
		}
		// The list stays as short as the limit: sorting all documents would cost more than scoring them.
		hit := Hit[K]{x.docs[n].key, score, float64(s.raw[n]) * unit}
		if i, _ := slices.BinarySearchFunc(list, hit, x.order); i < limit {
			list = slices.Insert(list[:min(len(list), limit-1)], i, hit)
		}
	}
	clear(s.whole)
	clear(s.best)
	clear(s.raw)
	return list
}

// order sorts hits by score, and those of one score by key, so that a search is the same each time.
func (x *Index[K]) order(a, b Hit[K]) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), x.compare(a.Key, b.Key))
}
