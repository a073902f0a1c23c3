package feed

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Two texts in different languages have hardly a word in common but names and numbers. Those tell of one event where
// most of them are in both.
const (
	// The limits were chosen on pairs of texts written by hand (see ARCHITECTURE, Decisions).
	maxCommonWords   = 0.2  // share of words in lower case that texts in different languages have in common
	minAnchors       = 4    // names and numbers in common
	minAnchorShare   = 0.5  // of the names and numbers of the text that has fewer
	minNameShare     = 0.75 // the same, where no number is in common
	maxLanguageDelay = 36 * time.Hour
	minNameLength    = 3 // letters
)

// anchors are what a text says in any language: names and numbers, each sorted and once.
type anchors struct{ names, numbers []string }

// findAnchors reads the title and the beginning of a text. It also returns their words in lower case, by which languages
// are told apart, sorted and each once.
func findAnchors(title, lead string) (a anchors, common []string) {
	for word, begins := range leadWords(title, lead) {
		word = trimWord(word)
		first, _ := utf8.DecodeRuneInString(word)
		switch {
		case unicode.IsDigit(first):
			if number := plainNumber(word); len(number) > 1 { // "3" is in every second text
				a.numbers = append(a.numbers, number)
			}
		case utf8.RuneCountInString(word) < minNameLength && strings.ToUpper(word) != word: // and no abbreviation
		case unicode.IsLower(first):
			common = append(common, word)
		case unicode.IsUpper(first) && !begins:
			a.names = append(a.names, strings.ToLower(word))
		}
	}
	for _, list := range []*[]string{&a.names, &a.numbers, &common} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return a, common
}

// leadWords returns the first words of a title and a text, and which of them begin a sentence.
func leadWords(title, lead string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		n := 0
		for _, part := range []string{title, lead} {
			begins := true // a sentence, whose first word is capitalized whatever it is
			for word := range strings.FieldsSeq(part) {
				if n++; n > 2*maxLeadWords {
					return
				}
				if !yield(word, begins) {
					return
				}
				begins = strings.HasSuffix(word, ".") || strings.HasSuffix(word, ":") || strings.HasSuffix(word, "?")
			}
		}
	}
}

// trimWord returns a word without the punctuation around it, and without what is joined to it before an apostrophe or
// behind one: "d'Osnabrück", "Spain's".
func trimWord(word string) string {
	word = strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if before, after, ok := strings.Cut(strings.ReplaceAll(word, "’", "'"), "'"); ok {
		if utf8.RuneCountInString(before) <= 2 {
			return after
		}
		return before
	}
	return word
}

// plainNumber returns a number as it is written without points or commas between thousands, and with a point before
// decimals.
func plainNumber(word string) string {
	var out strings.Builder
	for i, r := range word {
		if r != '.' && r != ',' {
			out.WriteRune(unicode.ToLower(r))
			continue
		}
		digits := len(word[i+1:]) - len(strings.TrimLeft(word[i+1:], "0123456789"))
		if digits != 3 {
			out.WriteByte('.')
		}
	}
	return out.String()
}

// tellSameAbroad reports whether two entries in different languages tell of the same event.
func tellSameAbroad(a, b *groupEntry) bool {
	if a.at.IsZero() || b.at.IsZero() || b.at.Sub(a.at).Abs() > maxLanguageDelay {
		return false
	}
	x, y := a.anchors, b.anchors
	names, numbers := countShared(x.names, y.names), countShared(x.numbers, y.numbers)
	fewer := min(len(x.names)+len(x.numbers), len(y.names)+len(y.numbers))
	share := float64(names+numbers) / float64(max(fewer, 1))
	// The same people are in the news again and again; what is counted is not.
	if numbers == 0 && share < minNameShare {
		return false
	}
	return names > 0 && names+numbers >= minAnchors && share >= minAnchorShare && areForeign(a, b)
}

// areForeign reports whether two entries are in different languages.
func areForeign(a, b *groupEntry) bool {
	x, y := a.common, b.common
	return len(x) > 0 && len(y) > 0 && float64(countShared(x, y)) <= maxCommonWords*float64(min(len(x), len(y)))
}

// countShared returns how many elements two sorted lists have in common.
func countShared[T cmp.Ordered](a, b []T) (n int) {
	for len(a) > 0 && len(b) > 0 {
		switch cmp.Compare(a[0], b[0]) {
		case -1:
			a = a[1:]
		case 1:
			b = b[1:]
		default:
			n++
			a, b = a[1:], b[1:]
		}
	}
	return n
}
