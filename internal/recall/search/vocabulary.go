package search

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of comparing spellings.
const (
	minLikeness   = 0.55
	maxSimilar    = 12 // spellings that stand for one word
	minNearLength = 4  // bytes of the shortest word that may be misspelled or part of another
	maxNearLength = 64
	maxEditLength = 20
)

// posting says what a word counts in a document.
type posting struct {
	doc    uint32
	weight float32
}

// vocabulary is every word of an index with the documents that have it, and the words by their trigrams.
type vocabulary struct {
	ids   map[string]uint32
	list  []word
	free  []uint32
	grams map[gram][]uint32
}

// word is a stem with the documents that have it.
type word struct {
	text     string
	grams    int // how many different ones
	docs     int // that have it; fewer than postings until the next compaction
	postings []posting
}

// gram is three characters in a row; a zero stands for the edge of the word.
type gram [3]rune

func newVocabulary() vocabulary {
	return vocabulary{ids: map[string]uint32{}, grams: map[gram][]uint32{}}
}

// find returns a word that at least one document has, or nil. Its postings may name removed documents, too.
func (v *vocabulary) find(text string) *word {
	if id, ok := v.ids[text]; ok && v.list[id].docs > 0 {
		return &v.list[id]
	}
	return nil
}

// post adds a posting to a word, and returns the number of the word.
func (v *vocabulary) post(text string, p posting) uint32 {
	id, ok := v.ids[text]
	if !ok {
		id = v.add(strings.Clone(text)) // the text may be part of a whole document, which would be kept in memory
	}
	w := &v.list[id]
	w.postings = append(w.postings, p)
	w.docs++
	return id
}

// add adds a word that is not there yet, and returns its number: one that a removed word has left, so that numbers
// stay small.
func (v *vocabulary) add(text string) uint32 {
	id := uint32(len(v.list))
	if last := len(v.free) - 1; last >= 0 {
		id, v.free = v.free[last], v.free[:last]
	} else {
		v.list = append(v.list, word{})
	}
	grams := trigrams(text)
	v.list[id], v.ids[text] = word{text: text, grams: len(grams)}, id
	for _, g := range grams {
		v.grams[g] = append(v.grams[g], id)
	}
	return id
}

// compact takes removed documents out of the postings, and words that no document has out of the vocabulary.
func (v *vocabulary) compact(removed []bool) {
	for id := range v.list {
		w := &v.list[id]
		if w.docs < len(w.postings) {
			w.postings = slices.DeleteFunc(w.postings, func(p posting) bool { return removed[p.doc] })
		}
		if w.docs == 0 && w.text != "" {
			v.remove(uint32(id))
		}
	}
}

// remove removes a word, and frees its number for another one: no posting may refer to it any more.
func (v *vocabulary) remove(id uint32) {
	for _, g := range trigrams(v.list[id].text) {
		ids := v.grams[g]
		if i := slices.Index(ids, id); i >= 0 {
			ids[i] = ids[len(ids)-1]
			v.grams[g] = ids[:len(ids)-1]
		}
		if len(v.grams[g]) == 0 {
			delete(v.grams, g)
		}
	}
	delete(v.ids, v.list[id].text)
	v.list[id] = word{}
	v.free = append(v.free, id)
}

// variant is a word that may stand for another, and how alike they are, from 0 to 1.
type variant struct {
	id    uint32
	alike float64
}

// similar returns the words that are spelled most like one that no document has: typing errors, other forms, parts
// of it and words that it is a part of. shared has a zero for every word of the vocabulary, and has them again
// afterwards.
func (v *vocabulary) similar(text string, shared []uint16) []variant {
	if c, size := utf8.DecodeRuneInString(text); isIdeograph(c) && size == len(text) {
		return v.containing(text)
	}
	if len(text) < minNearLength || len(text) > maxNearLength {
		return nil
	}
	grams := trigrams(text)
	var seen []uint32
	for _, g := range grams {
		for _, id := range v.grams[g] {
			if shared[id] == 0 {
				seen = append(seen, id)
			}
			shared[id]++
		}
	}
	var list []variant
	for _, id := range seen {
		if alike := v.likeness(text, id, len(grams), int(shared[id])); alike >= minLikeness {
			list = append(list, variant{id, alike})
		}
		shared[id] = 0
	}
	v.eachEdit(text, func(id uint32) { list = append(list, variant{id, 1 - 1/float64(len(text))}) })
	slices.SortFunc(list, func(a, b variant) int {
		return cmp.Or(cmp.Compare(b.alike, a.alike), cmp.Compare(v.list[a.id].text, v.list[b.id].text))
	})
	var best []variant
	for _, a := range list {
		isNew := !slices.ContainsFunc(best, func(b variant) bool { return b.id == a.id })
		if len(best) < maxSimilar && isNew && v.list[a.id].docs > 0 {
			best = append(best, a)
		}
	}
	return best
}

// containing returns the words with a character in them. Where words are written without spaces, pairs of
// characters are indexed, and a word of one character is not among them.
func (v *vocabulary) containing(char string) []variant {
	var list []variant
	for id, w := range v.list {
		if w.docs > 0 && strings.Contains(w.text, char) {
			list = append(list, variant{uint32(id), 1})
		}
	}
	return list
}

// likeness returns how alike a word is to a text by the trigrams that they share, and by their lengths where one is
// a part of the other.
func (v *vocabulary) likeness(text string, id uint32, grams, shared int) float64 {
	w := &v.list[id]
	dice := 2 * float64(shared) / float64(grams+w.grams)
	if shared < min(grams, w.grams)-2 {
		return dice // a part shares all its trigrams but the two at its edges
	}
	return max(dice, partOf(text, w.text), partOf(w.text, text))
}

// partOf returns how much of the longer word the shorter one is, or 0 where it is not part of it.
func partOf(short, long string) float64 {
	if len(short) < minNearLength || len(short) >= len(long) || !strings.Contains(long, short) {
		return 0
	}
	return math.Sqrt(float64(len(short)) / float64(len(long)))
}

// eachEdit yields the words that are one typing error away: a letter too many, too few or wrong, or two in the wrong
// order. In short words such an error changes nearly all trigrams.
func (v *vocabulary) eachEdit(text string, yield func(uint32)) {
	if len(text) > maxEditLength || !isLatin(text) {
		return
	}
	try := func(candidate []byte) {
		if id, ok := v.ids[string(candidate)]; ok {
			yield(id)
		}
	}
	buf := make([]byte, 0, len(text)+1)
	for i := range len(text) + 1 {
		for c := byte('a'); c <= 'z'; c++ {
			try(append(append(append(buf, text[:i]...), c), text[i:]...))
			if i < len(text) {
				try(append(append(append(buf, text[:i]...), c), text[i+1:]...))
			}
		}
		if i < len(text) {
			try(append(append(buf, text[:i]...), text[i+1:]...))
		}
		if i+1 < len(text) {
			try(append(append(append(buf, text[:i]...), text[i+1], text[i]), text[i+2:]...))
		}
	}
}

// trigrams returns the different trigrams of a word.
func trigrams(text string) []gram {
	runes := append(append([]rune{0}, []rune(text)...), 0)
	var list []gram
	for i := 0; i+3 <= len(runes); i++ {
		if g := gram(runes[i : i+3]); !slices.Contains(list, g) {
			list = append(list, g)
		}
	}
	return list
}
