package search

import (
	"iter"
	"strings"
	"sync"

	"github.com/kljensen/snowball/english"
)

// maxStems is how many stems are remembered: most of a text is made of a few thousand words.
const maxStems = 8192

// stemmer remembers the stems of words, since finding one takes some microseconds. It is safe for concurrent use.
type stemmer struct {
	mu    sync.Mutex
	stems map[string]string
}

func newStemmer() *stemmer { return &stemmer{stems: map[string]string{}} }

// stem returns the stem of a word.
func (s *stemmer) stem(word string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.stems[word]
	if !ok {
		if len(s.stems) >= maxStems {
			clear(s.stems) // the frequent words are soon there again
		}
		found = stem(word)
		s.stems[word] = found
	}
	return found
}

// stem returns the stem of an English word by the rules of Snowball's English stemmer
// (https://snowballstem.org/algorithms/english/stemmer.html). Words of other letters than a to z are returned as
// they are.
func stem(word string) string {
	if !isLatin(word) {
		return word
	}
	return english.Stem(word, true)
}

// isLatin reports whether a word is made of a to z alone.
func isLatin(word string) bool {
	return !strings.ContainsFunc(word, func(c rune) bool { return c < 'a' || c > 'z' })
}

// Stems yields the stems of the words of a text, common words left out.
func Stems(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for w := range Words(text) {
			if !isCommon(w) && !yield(stem(w)) {
				return
			}
		}
	}
}
