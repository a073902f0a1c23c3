package memory

import (
	"cmp"
	"context"

	"ravenbot/internal/core/origin"
	"ravenbot/internal/recall/meaning"
	"ravenbot/internal/recall/search"
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

// meaningKind is the kind of the groups of notes in the index by meaning, one for each scope.
const meaningKind = "notes"

// find returns the notes that fit a query by their words or their meaning, the best first.
func (p *Pack) find(ctx context.Context, notes []hit, query string) []hit {
	return p.fuse(ctx, rank(notes, query), notes, query, meaning.Near)
}

// fuse merges a ranking of notes by their words with one by their meaning, as meaning.Fuse does.
func (p *Pack) fuse(ctx context.Context, byWords, notes []hit, query string, deviations float64) []hit {
	if len(notes) == 0 {
		return nil
	}
	q := p.o.Meaning.Query(ctx, query)
	if q == nil {
		return byWords
	}
	type key struct {
		scope string
		n     uint64
	}
	keyOf := func(h hit) key { return key{h.of.key, h.N} }
	var words []key
	for _, h := range byWords {
		words = append(words, keyOf(h))
	}
	found := map[key]hit{}
	var docs []meaning.Doc[key]
	for _, h := range notes {
		found[keyOf(h)] = h
		docs = append(docs, meaning.Doc[key]{Key: keyOf(h), Group: meaningKind + "/" + h.of.key, Text: h.Text})
	}
	var list []hit
	for _, k := range meaning.Fuse(q, words, docs, deviations) {
		list = append(list, found[k])
	}
	return list
}

// texts returns the notes of a scope by its key.
func (p *Pack) texts(ctx context.Context, scope string) (list []string, err error) {
	notes, err := p.o.Store.Memories(ctx, scope)
	for _, n := range notes {
		list = append(list, n.Text)
	}
	return list, err
}

// forget deletes what the index by meaning has of notes that were deleted or changed, unless that failed.
func (p *Pack) forget(ctx context.Context, of scope, err error) error {
	if err == nil {
		p.o.Meaning.Forget(ctx, meaningKind+"/"+of.key)
	}
	return err
}
