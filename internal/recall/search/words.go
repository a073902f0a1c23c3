package search

import (
	"iter"
	"strings"
	"unicode"
)

// isCommon reports whether a word is an English one that says nothing about the subject of a text.
func isCommon(word string) bool { return common[word] }

var common = wordSet(`a about above after again against all also am an and any are aren as at be because been before being below
	between both but by can cannot could couldn d did didn do does doesn doing don down during each few for from
	further had hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn
	it its itself let ll m may me might more most must mustn my myself no nor not of off on once only or other
	ought our ours ourselves out over own re s same shall shan she should shouldn so some such t than that the
	their theirs them themselves then there these they this those through to too under until up us ve very was
	wasn we were weren what when where which while who whom whose why will with won would wouldn you your yours
	yourself yourselves`)

// CountWords returns how many words of a text are not common, limit at most.
func CountWords(text string, limit int) int {
	n := 0
	for w := range Words(text) {
		if n == limit {
			break
		}
		if !isCommon(w) {
			n++
		}
	}
	return n
}

// IsPolite reports whether a text has common and polite words only, such as thanks.
func IsPolite(text string) bool {
	for w := range Words(text) {
		if !isCommon(w) && !polite[w] {
			return false
		}
	}
	return true
}

// wordSet returns the words of a text as a set.
func wordSet(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// polite are words that people wrap a request in. They may also be its subject, so they count, but little.
var polite = wordSet(`able additionally anyone anything ask asking assist assistance finally find first furthermore
	get give hello help hey hi interested kindly know lastly like look looking making moreover need next please possible
	provide see show someone something tell thank thanks thing things use using want way wondering
	bye cheers cool fine goodbye good great nice ok okay perfect sorry sure welcome yeah yep yes`)

// light are words that carry a sentence and seldom its subject. They count little in what people say.
var light = wordSet(`be become begin bring call come did do does doing done else ever every everybody everyone
	everything exactly far feel get gets getting go goes going gone got happen happened happens hold holds keep keeps
	kept kind let long made make makes many much name names nobody old one ones own owns put puts really right said say
	says seem set sort spend still take taken takes tell tells thing think time told took type used usual usually well
	went whole without yet`)

// Words yields the words of a text in lower case. Names such as getHTTPStatus are split where lower case turns to
// upper case. Where words are written without spaces, as in Chinese and Thai, every pair of neighbouring characters
// is yielded.
func Words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		runes := []rune(strings.ToValidUTF8(text, " "))
		for i := 0; i < len(runes); {
			if !isWordRune(runes[i]) {
				i++
				continue
			}
			end := wordEnd(runes, i)
			if !yield(strings.ToLower(string(runes[i:end]))) {
				return
			}
			if isIdeograph(runes[i]) && end-i == 2 && end < len(runes) && isIdeograph(runes[end]) {
				end-- // pairs overlap
			}
			i = end
		}
	}
}

// wordEnd returns where the word that begins at start ends. Ideographs are read in overlapping pairs, since their
// words have no spaces between them; words that are joined by capitals are split.
func wordEnd(runes []rune, start int) int {
	if isIdeograph(runes[start]) {
		if start+1 < len(runes) && isIdeograph(runes[start+1]) {
			return start + 2
		}
		return start + 1
	}
	i := start + 1
	for i < len(runes) && isWordRune(runes[i]) && !isIdeograph(runes[i]) {
		before, r := runes[i-1], runes[i]
		if unicode.IsLower(before) && unicode.IsUpper(r) {
			break
		}
		if !unicode.IsLower(before) && unicode.IsUpper(r) && i+1 < len(runes) && unicode.IsLower(runes[i+1]) {
			break // as in HTTPServer and v2Users
		}
		i++
	}
	return i
}

// isWordRune reports whether a character is part of a word. Marks are, since they combine with the letter before them.
func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// isIdeograph reports whether a character belongs to a script that puts no blanks between words.
func isIdeograph(r rune) bool {
	// No script of these begins below U+0E00, and looking in the tables costs time.
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// clauses splits a question at its sentences and lines, each of which may ask for something else.
func clauses(query string) []string {
	var list []string
	start := 0
	runes := []rune(query)
	for i, r := range runes {
		ends := strings.ContainsRune("\n;。！？；", r)
		if strings.ContainsRune(".!?", r) {
			ends = i+1 == len(runes) || unicode.IsSpace(runes[i+1])
		}
		if ends {
			list = append(list, string(runes[start:i]))
			start = i + 1
		}
	}
	return append(list, string(runes[start:]))
}
