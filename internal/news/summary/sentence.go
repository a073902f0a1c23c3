package summary

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"

	"ravenbot/internal/core/text"
)

// inner never ends a sentence: what follows belongs to it.
var inner = set(`mr mrs ms dr prof rev hon pres gov sen rep gen adm col maj capt lt cmdr sgt st mt ft
	no nos vol pp fig eq vs cf approx dept est ed eds eg e.g ie i.e jan feb aug sept oct nov dec messrs mme bros`)

// ambiguous ends one when the next word is among the starters.
var ambiguous = set(`u.s u.k u.n u.s.a e.u d.c inc corp co ltd plc jr sr etc a.m p.m ph.d al`)

// starters often begin a sentence.
var starters = set(`a an and as at after all although an but by for from he her his how however i if in it its
	last many more most mr mrs ms my no not now on one or our she since so some that the their then there these they this
	those to two under until we what when where which while who why with would you your`)

// set returns the words of a text as a set.
func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// Sentences splits a text by the rules of Unicode, mended for abbreviations and
// initials. A blank line ends a sentence; a single line break does so only where
// the line was not merely wrapped. White space is collapsed, nothing else is
// changed. At most 200 kB are read.
func Sentences(text string) []string {
	var out []string
	for _, paragraph := range paragraphs(clip(text)) {
		out = append(out, split(paragraph)...)
	}
	return out
}

// address matches a web or mail address. Question marks and dots inside of one end no sentence.
var address = text.Pattern(`(?i)\b(?:[a-z][a-z0-9+.-]*://|www\.|mailto:)[^\s<>"“”«»]+`)

// listItem matches the beginning of an entry of a list in plain text or Markdown.
var listItem = text.Pattern(`^(?:[-*•‣▪–] |\d{1,3}[.)] )\S`)

// maskAddresses returns a text of the same length in which addresses hold nothing that could end a sentence. What
// follows an address, such as a full stop, stays.
func maskAddresses(text string) string {
	return address().ReplaceAllStringFunc(text, func(found string) string {
		body := strings.TrimRight(found, ".,;:!?)]}'…")
		return strings.Repeat("x", len(body)) + found[len(body):]
	})
}

// split returns the sentences of a paragraph. Pieces without a word, and such as go on a sentence,
// belong to the one before.
func split(paragraph string) []string {
	masked := maskAddresses(paragraph)
	var out []string
	start, end := 0, 0 // the sentence being put together
	flush := func() {
		if end > start {
			out = append(out, paragraph[start:end])
		}
	}
	for it := sentences.FromString(masked); it.Next(); {
		piece := strings.TrimSpace(it.Value())
		switch {
		case piece == "":
			continue
		case end > start && (!hasWord(piece) || goesOn(masked[start:end], piece)):
		default:
			flush()
			start = it.Start()
		}
		end = it.Start() + strings.Index(it.Value(), piece) + len(piece)
	}
	flush()
	return out
}

// hasWord reports whether a text holds a letter or a digit.
func hasWord(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) >= 0
}

// goesOn says whether a piece belongs to the sentence before it, because that one
// only stopped for an abbreviation.
func goesOn(before, piece string) bool {
	word := lastWord(before)
	if inner[word] {
		return true
	}
	if !ambiguous[word] && !isInitial(before) {
		return false
	}
	first, _, _ := strings.Cut(piece, " ")
	return !starters[strings.ToLower(strings.TrimFunc(first, unicode.IsPunct))]
}

// lastWord is the word before the final full stop, lower case; empty when the
// text does not end in one.
func lastWord(s string) string {
	s, ok := strings.CutSuffix(s, ".")
	if !ok {
		return ""
	}
	word := s[strings.LastIndexByte(s, ' ')+1:]
	return strings.ToLower(strings.TrimLeftFunc(word, unicode.IsPunct))
}

// isInitial says whether the text ends like "George W.".
func isInitial(s string) bool {
	s, ok := strings.CutSuffix(s, ".")
	r, size := utf8.DecodeLastRuneInString(s)
	if !ok || !unicode.IsUpper(r) || r == 'I' {
		return false
	}
	return len(s) == size || s[len(s)-size-1] == ' '
}

// paragraphs joins wrapped lines and collapses white space.
func paragraphs(text string) []string {
	var out []string
	var open strings.Builder
	last := ""
	flush := func() {
		if open.Len() > 0 {
			out = append(out, open.String())
			open.Reset()
		}
	}
	for line := range strings.Lines(text) {
		line = strings.Join(strings.Fields(line), " ")
		if line == "" || !isWrapped(last, line) || listItem().MatchString(line) {
			flush()
		}
		if open.Len() > 0 {
			open.WriteByte(' ')
		}
		open.WriteString(line)
		last = line
	}
	flush()
	return out
}

// isWrapped says whether a line runs on from the one before it: that one was
// long, or this one starts in the middle of something.
func isWrapped(before, line string) bool {
	first, _ := utf8.DecodeRuneInString(line)
	return utf8.RuneCountInString(before) >= 50 || before != "" && unicode.IsLower(first)
}
