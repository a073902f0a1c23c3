package memory

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"ravenbot/internal/recall/search"
	"ravenbot/internal/store"
)

// relation says how a new note stands to one that is there.
type relation int

const (
	unrelated relation = iota
	repeats            // the old note says all that the new one says
	conflicts          // both speak of the same thing, and say something else of it
)

// minShared is the share of the words of the shorter note that both must have to speak of the same thing.
const minShared = 0.5

// additive are verbs, as stems, with which two notes may both be true: who likes tea may like coffee, too.
var additive = stemSet("likes loves enjoys hates dislikes speaks knows visited reads watched owns has bought wants")

// negations turn a note into its opposite.
var negations = map[string]bool{"not": true, "no": true, "never": true, "t": true, "without": true, "stopped": true}

// findRelated returns the stored note that a new one repeats or conflicts with, the newest first.
func findRelated(notes []store.Memory, text string) (store.Memory, relation) {
	var conflict store.Memory
	found := unrelated
	for i := len(notes) - 1; i >= 0; i-- {
		switch compare(notes[i].Text, text) {
		case repeats:
			return notes[i], repeats
		case conflicts:
			if found == unrelated {
				conflict, found = notes[i], conflicts
			}
		}
	}
	return conflict, found
}

// compare says how a new note stands to an old one, by their words.
func compare(old, text string) relation {
	before, now := content(old), content(text)
	shared, verbs := 0, 0
	for w := range now {
		if before[w] {
			shared++
			if additive[w] {
				verbs++
			}
		}
	}
	smaller := min(len(before), len(now))
	if smaller > 0 && shared < len(now) && name(old) != "" && name(old) == name(text) {
		return conflicts
	}
	if smaller == 0 || float64(shared) < minShared*float64(smaller) {
		return unrelated
	}
	sameSense := isNegated(old) == isNegated(text)
	switch {
	// Nothing new in it, and most of the old note.
	case shared == len(now) && sameSense && 2*shared > len(before):
		return repeats
	case !sameSense && shared == smaller:
		return conflicts
	// One note only adds to the other.
	case shared == len(now) || shared == len(before):
		return unrelated
	// All that they share is a verb such as "likes".
	case shared == verbs:
		return unrelated
	}
	return conflicts
}

// name returns the last word before "is" of a note that says what something is called or how much it is, such as
// "the landlord is Per Lunde": two such notes about a landlord cannot both be true. It returns "" for others.
func name(note string) string {
	subject, value, found := strings.Cut(note, " is ")
	first, _ := utf8.DecodeRuneInString(value)
	if !found || !unicode.IsUpper(first) && !unicode.IsDigit(first) {
		return ""
	}
	return strings.ToLower(subject[strings.LastIndexByte(subject, ' ')+1:])
}

// content returns the stems of the words of a note that say something.
func content(text string) map[string]bool {
	words := map[string]bool{}
	for w := range search.Stems(text) {
		words[w] = true
	}
	return words
}

// isNegated reports whether a text holds an odd number of negations: two take each other back.
func isNegated(text string) bool {
	negated := false
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		negated = negated != negations[w]
	}
	return negated
}

// stemSet returns the stems of a text's words as a set.
func stemSet(words string) map[string]bool {
	m := map[string]bool{}
	for w := range search.Stems(words) {
		m[w] = true
	}
	return m
}
