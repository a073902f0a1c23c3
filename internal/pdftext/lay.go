package pdftext

import (
	"math"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"ravenbot/internal/text"
)

// Shares of the size of a font: from where on a step down is another line, and a gap a
// blank; and of the usual step between lines, from where on it is a new paragraph.
const (
	lineStep      = 0.5
	wordGap       = 0.15
	paragraphStep = 1.35
)

// lay puts the pieces of a page together in the order in which they are shown.
func lay(pieces []piece) string {
	var b strings.Builder
	// The distance of lines differs from page to page: what is a paragraph is measured against the page's own.
	usual, blank := usualStep(pieces), true
	for i, p := range pieces {
		if i > 0 {
			before := pieces[i-1]
			if sep := between(before, p, usual); sep != "" && !(sep == " " && (blank || strings.HasPrefix(p.text, " "))) {
				b.WriteString(sep)
			}
		}
		b.WriteString(p.text)
		blank = strings.HasSuffix(p.text, " ")
	}
	return mend(b.String())
}

// between returns what stands between two pieces: nothing, a blank, a line end or a blank line. usual is the step
// between lines of the page; 0: it has none.
func between(p, q piece, usual float64) string {
	size := max(p.size, q.size, 1)
	down, gap := p.across-q.across, q.along-(p.along+p.width)
	switch {
	case math.Abs(p.turned-q.turned) > 0.1, down < -lineStep*size:
		return "\n\n" // a page's other direction, or another column
	case down > lineStep*size && down > paragraphStep*min(usual, 2*size): // a single step says nothing
		return "\n\n"
	case down > lineStep*size:
		return "\n"
	case gap > wordGap*size, gap < -2*size:
		return " "
	}
	return ""
}

// usualStep returns the step down between lines that most lines of a page have, in its units; 0 where it has one line.
func usualStep(pieces []piece) float64 {
	counts := map[float64]int{}
	for i := 1; i < len(pieces); i++ {
		p, q := pieces[i-1], pieces[i]
		// Rounded to half a point: the steps of one text differ by what its program rounds.
		if down := p.across - q.across; down > lineStep*max(p.size, q.size, 1) && math.Abs(p.turned-q.turned) < 0.1 {
			counts[math.Round(down*2)/2]++
		}
	}
	best := 0.0
	for step, n := range counts {
		// Of two the smaller one, so that the order of the map does not decide.
		if n > counts[best] || n == counts[best] && step < best {
			best = step
		}
	}
	return best
}

var (
	// hyphen ends a line within a word.
	hyphen = text.Pattern(`(\pL)[-\x{2010}]\n(\p{Ll})`)
	blanks = text.Pattern(`[ \t]*\n[ \t]*`)
	gaps   = text.Pattern(`\n{3,}`)
	// letters are characters that stand for several, and those for none.
	letters = strings.NewReplacer("ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl", "ﬅ", "st", "ﬆ", "st", "\u00ad",
		"", "\u00a0", " ", "\r", "\n", "\x00", "")
)

// mend returns text as it would be typed: without ligatures, hyphens at line ends, and blank lines in a row.
func mend(text string) string {
	text = letters.Replace(strings.ToValidUTF8(text, "\uFFFD"))
	if arabicForms().MatchString(text) {
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			lines[i] = logicalOrder(line)
		}
		text = strings.Join(lines, "\n")
	}
	// Blanks first: a hyphen ends its line only where nothing follows it.
	text = blanks().ReplaceAllString(text, "\n")
	text = hyphen().ReplaceAllString(text, "$1$2")
	return strings.TrimSpace(gaps().ReplaceAllString(text, "\n\n"))
}

var (
	// arabicForms matches the shapes of Arabic letters. Programs that write these write a line as it is seen, from left to
	// right (Chrome, seen 2026-11).
	arabicForms = text.Pattern(`[\x{FB50}-\x{FDFF}\x{FE70}-\x{FEFC}]`)
	// leftToRight matches what is written from left to right within such a line.
	leftToRight = text.Pattern(`[A-Za-z](?:[\w .,:/%@-]*\w)?|\d[\d.,:/%-]*\d`)
	brackets    = strings.NewReplacer("(", ")", ")", "(", "[", "]", "]", "[", "«", "»", "»", "«")
)

// logicalOrder returns a line with shapes of Arabic letters as it is read and searched for: the letters themselves, from
// the first to the last. Other lines stay as they are.
func logicalOrder(line string) string {
	if !arabicForms().MatchString(line) {
		return line
	}
	return norm.NFKC.String(leftToRight().ReplaceAllStringFunc(brackets.Replace(reverse(line)), reverse))
}

// reverse returns the characters of a text from the last to the first.
func reverse(s string) string {
	runes := []rune(s)
	slices.Reverse(runes)
	return string(runes)
}
