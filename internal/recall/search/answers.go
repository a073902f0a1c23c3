package search

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kinds are what a text may answer, as bits: a text with a time in it may answer a question that begins with "when".
type kinds uint8

const (
	aPerson kinds = 1 << iota
	aPlace
	aTime
	aNumber
)

var (
	// Words by which a text is recognized to name a time, a number, a place or a person, in English.
	timeWords = wordSet(`january february march april may june july august september october november december
		monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays
		sundays today tomorrow yesterday tonight morning evening noon midnight spring summer autumn winter week weekend
		month daily weekly monthly yearly easter christmas am pm hours minutes seconds days weeks months years quarter`)
	numberWords = wordSet(`two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty
		hundred thousand dozen once twice half percent`)
	placeWords  = wordSet(`in at near from to into behind under above beside room floor street`)
	personWords = wordSet(`called named name by with ask dr mr mrs ms`)
)

// answers returns the kinds of question that a text may answer.
func answers(text string) kinds {
	var found kinds
	before, proper := "", 0 // proper counts names in a row
	for i, word := range strings.Fields(text) {
		bare := strings.TrimFunc(word, func(r rune) bool { return !isWordRune(r) })
		lower := strings.ToLower(bare)
		first, _ := utf8.DecodeRuneInString(bare)
		switch {
		case timeWords[lower]:
			found |= aTime
		case numberWords[lower]:
			found |= aNumber
		case strings.ContainsFunc(bare, unicode.IsDigit):
			found |= aNumber
			if strings.ContainsAny(bare, ":-") || len(bare) == 4 {
				found |= aTime
			}
		}
		if !unicode.IsUpper(first) || timeWords[lower] || isCommon(lower) {
			proper = 0
		} else if proper++; i > 0 || proper > 1 {
			if placeWords[before] {
				found |= aPlace
			}
			if proper > 1 || personWords[before] || !placeWords[before] {
				found |= aPerson
			}
		}
		before = lower
	}
	return found
}

// askedFor returns the kinds of answer that a question wants, by its question words.
func askedFor(question string) kinds {
	words := slices.Collect(Words(question))
	for i, w := range words {
		next := ""
		if i+1 < len(words) {
			next = words[i+1]
		}
		switch {
		case w == "who" || w == "whom" || w == "whose":
			return aPerson
		case w == "where":
			return aPlace
		case w == "when", (w == "what" || w == "which") && timeWords[next+"s"], next == "time" && w == "what",
			(w == "what" || w == "which") && (next == "day" || next == "date" || next == "month" || next == "year"):
			return aTime
		case w == "how" && (next == "long" || next == "often"):
			return aTime | aNumber
		case w == "how" && (next == "many" || next == "much" || next == "old" || next == "tall" || next == "fast" ||
			next == "far" || next == "big" || next == "large" || next == "heavy" || next == "high"):
			return aNumber
		}
	}
	return 0
}

// Answers returns a function that reports whether a text may answer a question, by the kind of what it asks for: a
// time for "when", a name for "who". It reports false for all texts where the question does not say what it wants.
func Answers(question string) func(text string) bool {
	wanted := askedFor(question)
	return func(text string) bool { return wanted != 0 && answers(text)&wanted != 0 }
}
