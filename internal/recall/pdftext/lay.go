package pdftext

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"ravenbot/internal/core/text"
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
	pieces = sortLines(pieces)
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
	text = logicalOrder(letters.Replace(strings.ToValidUTF8(text, "\uFFFD")))
	// Blanks first: a hyphen ends its line only where nothing follows it.
	text = blanks().ReplaceAllString(text, "\n")
	text = hyphen().ReplaceAllString(text, "$1$2")
	return strings.TrimSpace(gaps().ReplaceAllString(text, "\n\n"))
}

var (
	// rightToLeft matches letters that are written from right to left, and arabicForms the shapes of Arabic ones.
	rightToLeft = text.Pattern(`[\x{590}-\x{8FF}\x{FB1D}-\x{FDFF}\x{FE70}-\x{FEFC}]`)
	arabicForms = text.Pattern(`[\x{FB1D}-\x{FDFF}\x{FE70}-\x{FEFC}]+`)
	// leftToRight matches what is written from left to right in a line that was reversed.
	leftToRight = text.Pattern(`[A-Za-z](?:[\w .,:/%@-]*\w)?|[%°]?\d(?:[\d.,:/-]*\d)?[$€£₪]?`)
	// inserted matches words from right to left in a line from left to right, with what is between them.
	inserted = text.Pattern(`[\x{590}-\x{8FF}\x{FB1D}-\x{FDFF}\x{FE70}-\x{FEFC}]` +
		`(?:[^A-Za-z]*[\x{590}-\x{8FF}\x{FB1D}-\x{FDFF}\x{FE70}-\x{FEFC}])?`)
	latin    = text.Pattern(`[A-Za-z]`)
	brackets = strings.NewReplacer("(", ")", ")", "(", "[", "]", "]", "[", "«", "»", "»", "«")
)

// sortLines returns the pieces of a page with those of lines from right to left as they are seen, from left to right:
// some programs write them so and some from the right.
func sortLines(pieces []piece) []piece {
	sorted := slices.Clone(pieces)
	for len(pieces) > 0 {
		n := 1
		for n < len(pieces) && pieces[n].isBeside(pieces[n-1]) {
			n++
		}
		line := sorted[len(sorted)-len(pieces):][:n]
		if slices.ContainsFunc(line, func(p piece) bool { return rightToLeft().MatchString(p.text) }) {
			slices.SortStableFunc(line, func(p, q piece) int { return cmp.Compare(p.along, q.along) })
		}
		pieces = pieces[n:]
	}
	return sorted
}

// isBeside reports whether two pieces are on one line.
func (p piece) isBeside(q piece) bool {
	return math.Abs(p.turned-q.turned) <= 0.1 && math.Abs(p.across-q.across) <= lineStep*max(p.size, q.size, 1)
}

// logicalOrder returns text of a page, whose lines are as they are seen, from left to right, as it is read: from the first
// letter to the last. Most letters of the page say in which direction its lines run.
func logicalOrder(page string) string {
	all := len(rightToLeft().FindAllString(page, -1))
	if all == 0 {
		return page
	}
	lines, isLeftToRight := strings.Split(page, "\n"), len(latin().FindAllString(page, -1)) > all
	for i, line := range lines {
		switch {
		case isLeftToRight:
			lines[i] = inserted().ReplaceAllStringFunc(line, turn)
		case rightToLeft().MatchString(line):
			lines[i] = turn(line)
		}
	}
	return arabicForms().ReplaceAllStringFunc(strings.Join(lines, "\n"), norm.NFKC.String)
}

// turn reverses a line, but for what runs from left to right in it.
func turn(line string) string {
	return leftToRight().ReplaceAllStringFunc(brackets.Replace(reverse(line)), reverse)
}

// reverse returns the characters of a text from the last to the first.
func reverse(s string) string {
	runes := []rune(s)
	slices.Reverse(runes)
	return string(runes)
}
