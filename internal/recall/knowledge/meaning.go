package knowledge

import (
	"context"

	"ravenbot/internal/recall/meaning"
	"ravenbot/internal/recall/search"
)

// meaningKind is the kind of the groups of passages in the index by meaning, one for each agent.
const meaningKind = "files"

// search returns up to k passages of an agent's files that fit a query best by their words or their meaning, the best
// first.
func (r *Repository) search(ctx context.Context, agent string, x *passageIndex, query string, k int) []Passage {
	list := r.fuse(ctx, agent, x, x.search(query, max(k, maxCandidates)), query, meaning.Near)
	return list[:min(k, len(list))]
}

// recall is passageIndex.recall by words and meaning.
func (r *Repository) recall(ctx context.Context, agent string, x *passageIndex, q string, earlier []string) []Passage {
	list := x.recall(q, earlier, maxPromptPassages)
	switch n := len(earlier); {
	case n > 0 && isFollowUp(q):
		q = earlier[n-1] + "\n" + q
	case search.IsPolite(q):
		return list
	}
	list = r.fuse(ctx, agent, x, list, q, meaning.Striking)
	return list[:min(maxPromptPassages, len(list))]
}

// fuse merges a ranking of passages by their words with one by their meaning, as meaning.Fuse does.
func (r *Repository) fuse(
	ctx context.Context,
	agent string,
	x *passageIndex,
	byWords []Passage,
	query string,
	deviations float64,
) []Passage {
	q := r.o.Meaning.Query(ctx, query)
	if q == nil {
		return byWords
	}
	var words []int
	for _, p := range byWords {
		words = append(words, p.n)
	}
	var docs []meaning.Doc[int]
	for n, p := range x.passages {
		docs = append(docs, meaning.Doc[int]{Key: n, Group: meaningKind + "/" + agent, Text: p.meaningText()})
	}
	var list []Passage
	for rank, n := range meaning.Fuse(q, words, docs, deviations) {
		list = append(list, x.passage(n, 1/float64(1+rank)))
	}
	return list
}

// meaningText returns what a passage is compared by.
func (p passage) meaningText() string { return p.where + " " + p.file + "\n" + p.text }

// texts returns the passages of an agent's files.
func (r *Repository) texts(ctx context.Context, agent string) (list []string, err error) {
	var named []string
	if r.o.Named != nil {
		named = r.o.Named(agent)
	}
	x, _ := r.refreshed(ctx, agent, named)
	for _, p := range x.passages {
		list = append(list, p.meaningText())
	}
	return list, nil
}
