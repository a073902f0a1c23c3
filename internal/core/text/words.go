package text

import (
	"cmp"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// common are English words without information about a text. Other languages rely on weights that discount words of
// every text.
var common = func() map[string]bool {
	in := map[string]bool{}
	for word := range strings.FieldsSeq(
		`a about after all also am an and any are as at be because been before being but by can could did do does
		down during each for from had has have he her here hers him his how i if in into is it its just like made me
		more most my new no not now of off on once one only or other our out over own said same say says she should so
		some such than that the their them then there these they this those through to too under until up us very was
		we were what when where which while who whom why will with would you your`,
	) {
		in[word] = true
	}
	return in
}()

// IsCommon reports whether a lower-case word is a common English word without information about a text.
func IsCommon(word string) bool { return common[word] }

// IsIdeograph reports whether a character is of a script that is written without spaces between words.
func IsIdeograph(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar)
}

// Singular removes the endings that most often differ between two mentions of the same thing in English.
func Singular(word string) string {
	word = strings.TrimSuffix(strings.TrimSuffix(word, "'s"), "’s")
	switch n := len(word); {
	case n > 4 && strings.HasSuffix(word, "ies"):
		return word[:n-3] + "y"
	case n > 3 && strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss"):
		return word[:n-1]
	}
	return word
}

// Terms returns the words of a text in lower case. In scripts without spaces, pairs of neighbouring characters replace
// words.
func Terms(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for run := range strings.FieldsFuncSeq(strings.ToLower(s), isNoWordRune) {
			run = strings.Trim(run, "'’")
			from := 0 // start of the text that is not yielded yet
			for at, r := range run {
				if !IsIdeograph(r) {
					continue
				}
				if from < at && !yield(run[from:at]) {
					return
				}
				from = at + utf8.RuneLen(r)
				next, size := utf8.DecodeRuneInString(run[from:])
				before, _ := utf8.DecodeLastRuneInString(run[:at])
				if IsIdeograph(next) {
					if !yield(run[at : from+size]) {
						return
					}
				} else if !IsIdeograph(before) && !yield(run[at:from]) {
					return
				}
			}
			if from < len(run) && !yield(run[from:]) {
				return
			}
		}
	}
}

// isNoWordRune reports whether a character cannot belong to a word.
func isNoWordRune(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '\'' && r != '’'
}

// Vector is a list of weighted terms, ascending by term.
type Vector[K cmp.Ordered] []Weighted[K]

// Weighted is a term with its weight.
type Weighted[K cmp.Ordered] struct {
	Term   K
	Weight float64
}

// Cosine returns the cosine of the angle between two vectors of unit length.
func (v Vector[K]) Cosine(w Vector[K]) (sum float64) {
	for len(v) > 0 && len(w) > 0 {
		switch cmp.Compare(v[0].Term, w[0].Term) {
		case -1:
			v = v[1:]
		case 1:
			w = w[1:]
		default:
			sum += v[0].Weight * w[0].Weight
			v, w = v[1:], w[1:]
		}
	}
	return sum
}
