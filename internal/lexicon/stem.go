package lexicon

import "strings"

// Stem takes an English word to its stem by the rules of Snowball's English
// stemmer, known as Porter2 (https://snowballstem.org/algorithms/english/stemmer.html).
// Words that hold anything but a to z are given back as they are.
func Stem(word string) string {
	if len(word) < 3 || !Latin(word) {
		return word
	}
	if s, ok := stemException(word); ok {
		return s
	}
	s := stemmer{w: []byte(word)}
	s.markY()
	s.markRegions()
	s.plural()
	if invariant(string(s.w)) {
		return string(s.w)
	}
	s.past()
	s.finalY()
	s.derivation()
	s.adjective()
	s.ending()
	s.finalEL()
	return strings.ToLower(string(s.w))
}

// Latin reports that a word holds a to z and nothing else.
func Latin(word string) bool {
	return !strings.ContainsFunc(word, func(c rune) bool { return c < 'a' || c > 'z' })
}

// stemException are words that the rules would take to the stem of another.
func stemException(word string) (string, bool) {
	switch word {
	case "skis":
		return "ski", true
	case "skies":
		return "sky", true
	case "dying", "lying", "tying":
		return word[:1] + "ie", true
	case "idly", "gently", "singly":
		return word[:len(word)-1], true
	case "ugly", "early", "only":
		return word[:len(word)-1] + "i", true
	case "sky", "news", "howe", "atlas", "cosmos", "bias", "andes":
		return word, true
	}
	return "", false
}

// invariant are words that only look like inflected ones.
func invariant(word string) bool {
	switch word {
	case "inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed":
		return true
	}
	return false
}

// stemmer is a word while it is being stemmed. A y that stands for a consonant is
// written Y. r1 and r2 are where the regions begin in which endings may be taken off.
type stemmer struct {
	w      []byte
	r1, r2 int
}

// swap is an ending and what takes its place.
type swap struct{ from, to string }

func isVowel(c byte) bool { return strings.IndexByte("aeiouy", c) >= 0 }

func (s *stemmer) markY() {
	for i, c := range s.w {
		if c == 'y' && (i == 0 || isVowel(s.w[i-1])) {
			s.w[i] = 'Y'
		}
	}
}

func (s *stemmer) markRegions() {
	s.r1 = s.regionAfter(0)
	for _, start := range []string{"gener", "commun", "arsen"} {
		if strings.HasPrefix(string(s.w), start) {
			s.r1 = len(start)
		}
	}
	s.r2 = s.regionAfter(s.r1)
}

// regionAfter is where the first consonant behind a vowel ends.
func (s *stemmer) regionAfter(from int) int {
	for i := from + 1; i < len(s.w); i++ {
		if isVowel(s.w[i-1]) && !isVowel(s.w[i]) {
			return i + 1
		}
	}
	return len(s.w)
}

func (s *stemmer) ends(suffix string) bool {
	n := len(s.w) - len(suffix)
	return n >= 0 && s.w[len(s.w)-1] == suffix[len(suffix)-1] && string(s.w[n:]) == suffix
}

// in reports that an ending of n bytes lies in a region.
func (s *stemmer) in(region, n int) bool { return len(s.w)-n >= region }

func (s *stemmer) cut(n int) { s.w = s.w[:len(s.w)-n] }

func (s *stemmer) replace(n int, by string) { s.w = append(s.w[:len(s.w)-n], by...) }

func (s *stemmer) hasVowel(end int) bool {
	for _, c := range s.w[:end] {
		if isVowel(c) {
			return true
		}
	}
	return false
}

// shortEnd reports that the first n bytes end in a short syllable.
func (s *stemmer) shortEnd(n int) bool {
	if n == 2 {
		return isVowel(s.w[0]) && !isVowel(s.w[1])
	}
	return n > 2 && !isVowel(s.w[n-1]) && strings.IndexByte("wxY", s.w[n-1]) < 0 &&
		isVowel(s.w[n-2]) && !isVowel(s.w[n-3])
}

func (s *stemmer) plural() {
	n := len(s.w)
	switch {
	case s.ends("sses"):
		s.cut(2)
	case s.ends("ied"), s.ends("ies"):
		if n > 4 {
			s.cut(2)
		} else {
			s.cut(1)
		}
	case s.ends("us"), s.ends("ss"):
	case s.ends("s") && n > 2 && s.hasVowel(n-2):
		s.cut(1)
	}
}

func (s *stemmer) past() {
	for _, e := range []string{"eedly", "eed"} {
		if s.ends(e) {
			if s.in(s.r1, len(e)) {
				s.replace(len(e), "ee")
			}
			return
		}
	}
	for _, e := range []string{"ingly", "edly", "ing", "ed"} {
		if !s.ends(e) {
			continue
		}
		if s.hasVowel(len(s.w) - len(e)) {
			s.cut(len(e))
			s.mendPast()
		}
		return
	}
}

// mendPast gives back or takes off the letter that an ending changed.
func (s *stemmer) mendPast() {
	n := len(s.w)
	switch {
	case s.ends("at"), s.ends("bl"), s.ends("iz"):
		s.w = append(s.w, 'e')
	case n > 1 && s.w[n-1] == s.w[n-2] && strings.IndexByte("bdfgmnprt", s.w[n-1]) >= 0:
		s.cut(1)
	case s.r1 >= n && s.shortEnd(n):
		s.w = append(s.w, 'e')
	}
}

func (s *stemmer) finalY() {
	n := len(s.w)
	if n > 2 && (s.w[n-1] == 'y' || s.w[n-1] == 'Y') && !isVowel(s.w[n-2]) {
		s.w[n-1] = 'i'
	}
}

// first applies the swap whose ending is the longest that the word has, where the
// ending lies in the region. The list goes from longer endings to shorter ones.
func (s *stemmer) first(region int, swaps []swap) {
	for _, c := range swaps {
		if s.ends(c.from) {
			if s.in(region, len(c.from)) {
				s.replace(len(c.from), c.to)
			}
			return
		}
	}
}

func (s *stemmer) derivation() {
	n := len(s.w)
	switch {
	case s.ends("ogi"):
		if s.in(s.r1, 3) && n > 3 && s.w[n-4] == 'l' {
			s.cut(1)
		}
		return
	case s.ends("li") && !s.endsLongerLi():
		if s.in(s.r1, 2) && n > 2 && strings.IndexByte("cdeghkmnrt", s.w[n-3]) >= 0 {
			s.cut(2)
		}
		return
	}
	s.first(s.r1, []swap{{"ational", "ate"}, {"ization", "ize"}, {"fulness", "ful"}, {"ousness", "ous"}, {"iveness", "ive"},
		{"tional", "tion"}, {"biliti", "ble"}, {"lessli", "less"}, {"entli", "ent"}, {"ation", "ate"}, {"alism", "al"},
		{"aliti", "al"}, {"ousli", "ous"}, {"iviti", "ive"}, {"fulli", "ful"}, {"enci", "ence"}, {"anci", "ance"},
		{"abli", "able"}, {"izer", "ize"}, {"ator", "ate"}, {"alli", "al"}, {"bli", "ble"}})
}

func (s *stemmer) endsLongerLi() bool {
	for _, e := range []string{"lessli", "entli", "ousli", "fulli", "abli", "alli", "bli"} {
		if s.ends(e) {
			return true
		}
	}
	return false
}

func (s *stemmer) adjective() {
	if s.ends("ative") {
		if s.in(s.r2, 5) {
			s.cut(5)
		}
		return
	}
	s.first(s.r1, []swap{{"ational", "ate"}, {"tional", "tion"}, {"alize", "al"}, {"icate", "ic"}, {"iciti", "ic"},
		{"ical", "ic"}, {"ness", ""}, {"ful", ""}})
}

func (s *stemmer) ending() {
	if s.ends("ion") {
		if n := len(s.w); s.in(s.r2, 3) && n > 3 && (s.w[n-4] == 's' || s.w[n-4] == 't') {
			s.cut(3)
		}
		return
	}
	s.first(s.r2, []swap{{"ement", ""}, {"ance", ""}, {"ence", ""}, {"able", ""}, {"ible", ""}, {"ment", ""},
		{"ant", ""}, {"ent", ""}, {"ism", ""}, {"ate", ""}, {"iti", ""}, {"ous", ""}, {"ive", ""}, {"ize", ""},
		{"al", ""}, {"er", ""}, {"ic", ""}})
}

func (s *stemmer) finalEL() {
	n := len(s.w)
	switch {
	case s.ends("e"):
		if s.in(s.r2, 1) || s.in(s.r1, 1) && !s.shortEnd(n-1) {
			s.cut(1)
		}
	case s.ends("ll"):
		if s.in(s.r2, 1) {
			s.cut(1)
		}
	}
}
