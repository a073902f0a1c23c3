// Package lexicon takes texts apart into words, and words to their stems, for search.
// It promises that every text gives the same words wherever it stands, also names such
// as getHTTPStatus, and languages that are written without spaces. What words are worth
// is left to the indexes that hold them.
package lexicon

import (
	"strings"
	"unicode"
)

// Common reports that a word is an English one that says nothing about what a text is
// about.
func Common(word string) bool { return common[word] }

// common are English words that say nothing about what somebody wants done.
var common = set(`a about above after again against all also am an and any are aren as at be because been before being below
	between both but by can cannot could couldn d did didn do does doesn doing don down during each few for from further had
	hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself let ll m may
	me might more most must mustn my myself no nor not of off on once only or other ought our ours ourselves out over own re s
	same shall shan she should shouldn so some such t than that the their theirs them themselves then there these they this
	those through to too under until up us ve very was wasn we were weren what when where which while who whom whose why will
	with won would wouldn you your yours yourself yourselves`)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// Each yields the words of a text in lower case, until yield says false. Names
// are split where lower case turns to upper case; where words are written without
// spaces, pairs of neighbouring characters stand for them.
func Each(text string, yield func(string) bool) {
	runes := []rune(strings.ToValidUTF8(text, " "))
	for i := 0; i < len(runes); {
		if !inWord(runes[i]) {
			i++
			continue
		}
		end := wordEnd(runes, i)
		word := strings.ToLower(string(runes[i:end]))
		if !yield(word) {
			return
		}
		if isIdeograph(runes[i]) && end-i == 2 && end < len(runes) && isIdeograph(runes[end]) {
			end-- // pairs overlap
		}
		i = end
	}
}

func wordEnd(runes []rune, start int) int {
	if isIdeograph(runes[start]) {
		if start+1 < len(runes) && isIdeograph(runes[start+1]) {
			return start + 2
		}
		return start + 1
	}
	i := start + 1
	for i < len(runes) && inWord(runes[i]) && !isIdeograph(runes[i]) {
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

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

func isIdeograph(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
