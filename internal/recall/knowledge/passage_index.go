package knowledge

import (
	"cmp"
	"slices"
	"strings"

	"ravenbot/internal/recall/search"
)

const (
	// minShare is the score, as a share of the best one, below which a passage is not worth showing.
	minShare = 0.35
	// minEvidence is the least that a passage must share with a question (search.Hit) to be shown unasked. Thanks and
	// greetings stay below it; a word that one passage in twenty has reaches it.
	minEvidence = 0.45
	// earlierShare is what the question before a follow-up counts beside it, and its square the one before that.
	earlierShare = 0.6
	// maxFollowUp is the number of words that say something in a question that may lean on those before it.
	maxFollowUp = 5
	// maxCandidates is how many passages of each question are compared.
	maxCandidates = 50
)

// passageIndex finds passages by their words. It is not changed after it was made.
type passageIndex struct {
	passages []passage
	words    *search.Index[int] // by position in passages
}

// newPassageIndex returns an index of passages, whose positions in the list are their names.
func newPassageIndex(list []passage) *passageIndex {
	x := &passageIndex{passages: list, words: search.New(cmp.Compare[int],
		search.Field{Weight: 1, LengthEffect: 0.75, UsualLength: 100}, // the text; 100 words are about passageBytes
		search.Field{Weight: 2, MaxWords: 64},                         // the heading and the name of the file
	)}
	docs := make([]search.Doc[int], len(list))
	for i, p := range list {
		docs[i] = search.Doc[int]{Key: i, Texts: []string{p.text, p.where + " " + p.file}}
	}
	x.words.Update(nil, docs)
	return x
}

// search returns up to k passages that fit a query best, the best first.
func (x *passageIndex) search(query string, k int) []Passage {
	hits := x.words.Search(search.Query[int]{Text: query, Limit: k, Related: true})
	var list []Passage
	for _, h := range hits {
		if h.Score >= minShare*hits[0].Score {
			list = append(list, x.passage(h.Key, h.Score))
		}
	}
	return list
}

// passage returns a passage by its position.
func (x *passageIndex) passage(n int, score float64) Passage {
	p := x.passages[n]
	return Passage{File: p.file, Line: p.line, Text: p.text, Score: score, n: n, citation: citation(p)}
}

// recall returns up to k passages that belong to a question after those before it, the best first. None is returned
// whose words have nothing to do with them.
func (x *passageIndex) recall(question string, earlier []string, k int) []Passage {
	scores := map[int]float64{}
	add := func(text string, weight float64) {
		hits := x.words.Search(search.Query[int]{Text: text, Limit: maxCandidates, Related: true})
		for _, h := range hits {
			// Scores of two searches are comparable as shares of the best of each.
			if h.Evidence >= minEvidence {
				scores[h.Key] += weight * h.Score / hits[0].Score
			}
		}
	}
	add(question, 1)
	if isFollowUp(question) {
		weight := earlierShare
		for _, before := range slices.Backward(earlier) {
			add(before, weight)
			weight *= earlierShare
		}
	}
	var list []Passage
	for n, score := range scores {
		list = append(list, x.passage(n, score))
	}
	slices.SortFunc(list, func(a, b Passage) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			strings.Compare(a.Text, b.Text))
	})
	list = list[:min(k, len(list))]
	return slices.DeleteFunc(list, func(p Passage) bool { return p.Score < minShare*list[0].Score })
}

// followWords are words by which a question leans on what was said before it.
var followWords = []string{"it", "its", "that", "this", "they", "them", "their", "these", "those",
	"there", "then", "he",
	"she", "his", "her", "him", "and", "why", "how", "when", "where", "else", "again", "instead", "one", "ones", "same"}

// isFollowUp reports whether a text asks something and is too short to say what about, or leans on what was said
// before it.
func isFollowUp(text string) bool {
	asks := strings.ContainsAny(text, "?？")
	n, leans := search.CountWords(text, maxFollowUp+1), false
	for w := range search.Words(text) {
		leans = leans || slices.Contains(followWords, w)
	}
	return n <= maxFollowUp && (asks || leans && n > 0) && (leans || n < 3)
}
