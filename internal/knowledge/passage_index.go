package knowledge

import (
	"cmp"

	"ravenbot/internal/search"
)

// minShare is the score, as a share of the best one, below which a passage is not worth showing.
const minShare = 0.35

// passageIndex finds passages by their words. It is not changed after it was made.
type passageIndex struct {
	passages []passage
	words    *search.Index[int] // by position in passages
}

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

// search returns up to k passages that fit a question best, the best first.
func (x *passageIndex) search(question string, k int) []passage {
	hits := x.words.Search(search.Query[int]{Text: question, Limit: k, Related: true})
	var list []passage
	for _, h := range hits {
		if h.Score >= minShare*hits[0].Score {
			list = append(list, x.passages[h.Key])
		}
	}
	return list
}
