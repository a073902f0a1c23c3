package toolsearch

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"ravenbot/internal/lexicon"
)

// posting says what a word counts in a tool that has it.
type posting struct {
	slot   uint32
	weight float32
}

// vocabulary is every word of the index with the tools that have it, and the words
// by their trigrams.
type vocabulary struct {
	ids   map[string]uint32
	words []word
	free  []uint32
	grams map[gram][]uint32
}

type word struct {
	text  string
	grams int // how many different ones
	posts []posting
}

// gram is three characters in a row, a zero standing for the word's edge.
type gram [3]rune

func newVocabulary() vocabulary {
	return vocabulary{ids: map[string]uint32{}, grams: map[gram][]uint32{}}
}

// post notes that a tool has a word, and gives the word's number.
func (v *vocabulary) post(text string, p posting) uint32 {
	id, ok := v.ids[text]
	if !ok {
		id = v.add(strings.Clone(text))
	}
	v.words[id].posts = append(v.words[id].posts, p)
	return id
}

func (v *vocabulary) add(text string) uint32 {
	id := uint32(len(v.words))
	if n := len(v.free); n > 0 {
		id, v.free = v.free[n-1], v.free[:n-1]
	} else {
		v.words = append(v.words, word{})
	}
	grams := trigrams(text)
	v.words[id], v.ids[text] = word{text: text, grams: len(grams)}, id
	for _, g := range grams {
		v.grams[g] = append(v.grams[g], id)
	}
	return id
}

// unpost takes tools out of a word's list, and the word out when it was in none
// but these.
func (v *vocabulary) unpost(id uint32, gone []bool) {
	w := &v.words[id]
	w.posts = slices.DeleteFunc(w.posts, func(p posting) bool { return gone[p.slot] })
	if len(w.posts) > 0 {
		return
	}
	for _, g := range trigrams(w.text) {
		list := v.grams[g]
		if i := slices.Index(list, id); i >= 0 {
			list[i] = list[len(list)-1]
			v.grams[g] = list[:len(list)-1]
		}
		if len(v.grams[g]) == 0 {
			delete(v.grams, g)
		}
	}
	delete(v.ids, w.text)
	*w = word{}
	v.free = append(v.free, id)
}

// variant is a word that may be meant by another, and how alike they are, in (0,1].
type variant struct {
	id    uint32
	alike float64
}

// near gives the words that are spelled most like one that is not in the index:
// typing errors, other forms, and what it is a part of or is put together from.
// shared has a zero for every word, and has them again afterwards.
func (v *vocabulary) near(text string, shared []uint16) []variant {
	if len(text) < nearLength || len(text) > maxNearLength {
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
		if alike := v.alike(text, id, len(grams), int(shared[id])); alike >= nearEnough {
			list = append(list, variant{id, alike})
		}
		shared[id] = 0
	}
	v.eachEdit(text, func(id uint32) { list = append(list, variant{id, 1 - 1/float64(len(text))}) })
	slices.SortFunc(list, func(a, b variant) int {
		return cmp.Or(cmp.Compare(b.alike, a.alike), cmp.Compare(v.words[a.id].text, v.words[b.id].text))
	})
	var best []variant
	for _, a := range list {
		if len(best) < mostNear && !slices.ContainsFunc(best, func(b variant) bool { return b.id == a.id }) {
			best = append(best, a)
		}
	}
	return best
}

// alike tells how alike a word is to a text by the trigrams that they share, and
// by what they share at all where one is a part of the other.
func (v *vocabulary) alike(text string, id uint32, grams, shared int) float64 {
	w := &v.words[id]
	dice := 2 * float64(shared) / float64(grams+w.grams)
	if shared < min(grams, w.grams)-2 {
		return dice // a part shares all its trigrams but the two at its edges
	}
	return max(dice, within(text, w.text), within(w.text, text))
}

// eachEdit yields the words that are one slip of the keys away: a letter too many,
// too few or wrong, or two in the wrong order. Trigrams miss these in short words.
func (v *vocabulary) eachEdit(text string, yield func(uint32)) {
	if len(text) > maxEditLength || !lexicon.Latin(text) {
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

// within says how much of the longer word the shorter one is, where it is in it.
func within(short, long string) float64 {
	if len(short) < nearLength || len(short) >= len(long) || !strings.Contains(long, short) {
		return 0
	}
	return math.Sqrt(float64(len(short)) / float64(len(long)))
}

// trigrams gives the different trigrams of a word.
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
