package memory

import (
	"cmp"

	"ravenbot/internal/origin"
	"ravenbot/internal/search"
	"ravenbot/internal/store"
)

// hit is a note that a search found.
type hit struct {
	store.Memory
	of       scope
	evidence float64 // as search.Hit says
}

// origin returns whose words the note holds: of those of older versions all that is known is who had it stored.
func (h hit) origin() origin.Origin {
	if h.User == "" {
		return h.Origin
	}
	return h.Origin.With(origin.Origin{Authors: []string{h.User}})
}

// usualWords is the number of words of a usual note.
const usualWords = 6

// rank returns the notes that fit a query, the best first; of equal ones, the first of notes. A scope holds so few
// notes that making an index of them for one search takes about a millisecond.
func rank(notes []hit, query string) []hit {
	index := search.New(cmp.Compare[int], search.Field{Weight: 1, LengthEffect: 0.4, UsualLength: usualWords})
	docs := make([]search.Doc[int], len(notes))
	for i, n := range notes {
		docs[i] = search.Doc[int]{Key: i, Texts: []string{n.Text}}
	}
	index.Update(nil, docs)
	var list []hit
	for _, h := range index.Search(search.Query[int]{Text: query, Limit: len(notes), Everyday: true}) {
		n := notes[h.Key]
		n.evidence = h.Evidence
		list = append(list, n)
	}
	return list
}
