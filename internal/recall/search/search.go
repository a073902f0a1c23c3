// Package search is the full-text index of the program: tools, passages of files, notes and messages are documents of
// a few named fields, found by the words of a question.
//
// It promises that a search sees the documents before or after an update, never in between; that the same documents
// and question give the same order, whatever was indexed or removed before; and that no text makes a search slow. The
// cost of an update is proportional to the change, not to the size of the index.
//
// Ranking is BM25 over weighted fields (BM25F, Robertson and Zaragoza 2009) on English stems. Words that no document
// has are replaced by similar spellings, missing words by related words, and each sentence of a long question is
// scored separately. The caller decides who can see a document (Query.Keep).
package search

import (
	"sync"
)

// Field says how the words of one field of a document are indexed.
type Field struct {
	Weight float64 // what a word in this field counts
	// LengthEffect says how much less a word counts in a longer text, from 0 to 1.
	LengthEffect float64
	// UsualLength is the number of words at which length makes no difference. It must be positive where LengthEffect
	// is. It is fixed, so that documents which come and go do not change the rank of others.
	UsualLength float64
	MaxWords    int  // further words are not indexed; 0: all are
	KeepCommon  bool // common words, such as "what" and "the", are indexed too
}

// Doc is a document: a key of its own and one text for each field of the index.
type Doc[K comparable] struct {
	Key   K
	Texts []string
}

// Index holds documents and finds them by words. It is safe for concurrent use. New makes one.
type Index[K comparable] struct {
	fields  []Field
	compare func(a, b K) int
	stems   *stemmer

	mu      sync.RWMutex
	docs    []entry[K]
	removed []bool       // of each of docs: it is stale or free
	numbers map[K]uint32 // places in docs by key
	stale   []uint32     // removed, but still named in the vocabulary
	free    []uint32     // places in docs to be used again
	words   vocabulary
	scratch sync.Pool // of *scores
}

// entry is a document in the index.
type entry[K comparable] struct {
	key     K
	words   []uint32 // numbers of its words in the vocabulary
	answers kinds    // of questions that its first text may answer
}

// New returns an empty index over fields. compare orders documents of equal score.
func New[K comparable](compare func(a, b K) int, fields ...Field) *Index[K] {
	return &Index[K]{
		fields:  fields,
		compare: compare,
		stems:   newStemmer(),
		numbers: map[K]uint32{},
		words:   newVocabulary(),
		scratch: sync.Pool{New: func() any { return &scores{} }},
	}
}

// Update removes documents by key and adds others, which replace those of the same keys. Searches see all of the
// change or nothing of it. A key that is not in the index is ignored.
func (x *Index[K]) Update(remove []K, add []Doc[K]) {
	// Reading the texts takes most of the time, so it is done before the lock.
	weights := make([]map[string]float32, len(add))
	for i, d := range add {
		weights[i] = x.weigh(d.Texts)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, key := range remove {
		x.drop(key)
	}
	for i, d := range add {
		x.drop(d.Key)
		x.put(d.Key, weights[i], answers(d.Texts[0]))
	}
	if 4*len(x.stale) > len(x.numbers) {
		x.compact()
	}
}

// weigh returns what each word counts in a document, from 0 to 1: BM25F without the rarity of the word.
func (x *Index[K]) weigh(texts []string) map[string]float32 {
	sums := map[string]float64{}
	for i, f := range x.fields {
		words := x.fieldStems(texts[i], f)
		length := 1 - f.LengthEffect
		if f.LengthEffect > 0 {
			length += f.LengthEffect * float64(len(words)) / f.UsualLength
		}
		for _, w := range words {
			sums[w] += f.Weight / length
		}
	}
	weights := make(map[string]float32, len(sums))
	for w, sum := range sums {
		weights[w] = float32(sum / (sum + saturation))
	}
	return weights
}

// fieldStems returns the stems of the words of a text that are indexed in a field.
func (x *Index[K]) fieldStems(text string, f Field) []string {
	var list []string
	for w := range Words(text) {
		if isCommon(w) && !f.KeepCommon {
			continue
		}
		if f.MaxWords > 0 && len(list) == f.MaxWords {
			break
		}
		list = append(list, x.stems.stem(w))
	}
	return list
}

// put adds a document. x.mu is held.
func (x *Index[K]) put(key K, weights map[string]float32, kinds kinds) {
	n := uint32(len(x.docs))
	if last := len(x.free) - 1; last >= 0 {
		n, x.free = x.free[last], x.free[:last]
	} else {
		x.docs = append(x.docs, entry[K]{})
		x.removed = append(x.removed, false)
	}
	words := make([]uint32, 0, len(weights))
	for w, weight := range weights {
		words = append(words, x.words.post(w, posting{doc: n, weight: weight}))
	}
	x.docs[n], x.removed[n], x.numbers[key] = entry[K]{key, words, kinds}, false, n
}

// drop removes a document. Its postings stay until the next compaction, since taking one out costs a walk through
// all documents that have the word. x.mu is held.
func (x *Index[K]) drop(key K) {
	n, ok := x.numbers[key]
	if !ok {
		return
	}
	for _, id := range x.docs[n].words {
		x.words.list[id].docs--
	}
	x.docs[n], x.removed[n] = entry[K]{}, true
	x.stale = append(x.stale, n)
	delete(x.numbers, key)
}

// compact takes the postings of removed documents out. x.mu is held.
func (x *Index[K]) compact() {
	x.words.compact(x.removed)
	// Only now may the numbers be used again: until here postings named the removed documents by them.
	x.free = append(x.free, x.stale...)
	x.stale = nil
}
