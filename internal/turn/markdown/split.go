// Package markdown turns the Markdown that models write into a platform's dialect, and cuts it to a platform's limits.
// It promises that cutting loses no text, closes and reopens code fences, bold, italic, spoilers and quotes, repeats
// the head of a split table, and never cuts inside a link, a code span or a mention that fits into a piece. It is the
// only importer of goldmark. The adapter chooses the dialect and the length of a piece.
package markdown

import (
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

// Length is how platforms count a text: in UTF-16 code units, which is never
// less than its characters.
func Length(s string) int {
	n := 0
	for _, c := range s {
		n++
		if c > 0xFFFF {
			n++
		}
	}
	return n
}

// minPiece is how long each piece of a text is that is cut, where its blocks allow it: a message of
// a few characters behind a long one looks like a mistake.
const minPiece = 200

// Split cuts Markdown into pieces of at most limit (see Length), between blocks
// where it can, else between lines, else between words, and never within what readers see as one
// character. Pieces are not empty; a text without content gives none.
func Split(src string, limit int) []string {
	src = strings.TrimRight(src, " \t\n")
	if strings.TrimSpace(src) == "" {
		return nil
	}
	if Length(src) <= limit {
		return []string{src}
	}
	lines, spans := describe(moveLongInfo(src))
	pieces := splitLines(lines, spans, limit, 0, limit)
	n, shortest := len(pieces), min(minPiece, limit/4)
	if n < 2 || Length(pieces[n-1]) >= shortest {
		return pieces
	}
	// The last two pieces are shared out evenly, and those before stay as they are: people may
	// have seen them while the answer was written.
	for percent := 55; percent < 100; percent += 5 {
		other := splitLines(lines, spans, limit, n-2, limit*percent/100)
		if len(other) == n && Length(other[n-1]) >= shortest {
			return other
		}
	}
	return pieces
}

// splitLines cuts lines into pieces of at most limit, those from the piece lower on of at most last.
func splitLines(lines []line, spans []span, limit, lower, last int) []string {
	s := splitter{full: limit, lower: lower, last: last, spans: spans}
	for _, l := range lines {
		s.add(l)
	}
	s.flush(len(s.lines))
	return s.pieces
}

// splitter fills pieces with lines.
type splitter struct {
	full, last int    // limits of pieces, and of those from lower on
	lower      int    // index of a piece
	spans      []span // of the source
	lines      []line // of the piece being filled
	pieces     []string
}

// limit returns the limit of the piece that is n pieces behind the one being filled.
func (s *splitter) limit(n int) int {
	if len(s.pieces)+n >= s.lower {
		return s.last
	}
	return s.full
}

// isShort reports whether the piece being filled is too short to end before a line of plain text.
func (s *splitter) isShort(l line) bool {
	if len(s.lines) == 0 || l.open != "" || l.head != "" || l.lead || s.lines[len(s.lines)-1].open != "" {
		return false
	}
	return s.length(s.lines) < min(minPiece, s.limit(0)/4)
}

// add puts a line into the piece, or what fits of it.
func (s *splitter) add(l line) {
	// Without spare capacity append copies: a line that is only measured must not end up in the array of s.lines.
	if s.length(append(s.lines[:len(s.lines):len(s.lines)], l)) <= s.limit(0) {
		s.lines = append(s.lines, l)
		return
	}
	if s.length([]line{l}) > s.limit(0) || s.isShort(l) {
		s.addLong(l)
		return
	}
	s.flush(s.border())
	for len(s.lines) > 0 && s.length(append(s.lines[:len(s.lines):len(s.lines)], l)) > s.limit(0) {
		if s.isShort(l) {
			s.addLong(l)
			return
		}
		s.flush(len(s.lines))
	}
	s.lines = append(s.lines, l)
}

// addLong cuts a line that does not fit into the piece as a whole. It begins in the piece being
// filled where that would be too short otherwise.
func (s *splitter) addLong(l line) {
	taken := 0
	if s.isShort(l) {
		taken = s.length(s.lines) + 1
	} else {
		s.flush(len(s.lines))
	}
	quote := quotePrefix().FindString(l.text) // each part stands in the quote
	if l.open != "" && !quotePrefix().MatchString(l.open) {
		quote = ""
	}
	body := l.text[len(quote):]
	overhead := s.length([]line{{open: l.open, close: l.close, head: l.head}}) + Length(quote)
	var marks []string // at most all of them are open at once
	for _, m := range s.spans {
		if m.start < l.start+len(l.text) && l.start < m.stop && !slices.Contains(marks, m.mark) {
			marks = append(marks, m.mark)
		}
	}
	overhead += 2 * len(closing(marks))
	if overhead > s.limit(0)/2 { // a fence or head that leaves no room is not repeated
		l, quote, body, overhead = line{text: l.text, start: l.start}, "", l.text, 0
	}
	limit := func(n int) int {
		if n == 0 {
			return s.limit(0) - overhead - taken
		}
		return s.limit(n) - overhead
	}
	parts := fill(atoms(body), limit)
	// In code, what looks like a link or a span is plain text and may be cut.
	if l.open != "" {
		parts = fill(words(body), limit)
	}
	at := len(l.text) - len(body)
	for i, part := range parts {
		one := l
		if one.text = quote + part; part == "" { // what came before is too short for a piece, and this part for its rest
			one = line{}
		}
		at += strings.Index(l.text[at:], part)
		if i > 0 && overhead > 0 && l.open == "" {
			one.reopen = openAt(s.spans, l.start+at)
		}
		at += len(part)
		if i < len(parts)-1 && overhead > 0 && l.open == "" {
			one.reclose = openAt(s.spans, l.start+at)
		}
		s.lines = append(s.lines, one)
		if i < len(parts)-1 {
			s.flush(len(s.lines))
		}
	}
}

// border finds where the piece is best cut: at the last empty line in its second
// half that is not below a heading, else before the last line that begins a block of code or a table, else
// at its end.
func (s *splitter) border() int {
	total := s.length(s.lines)
	for i := len(s.lines) - 1; i > 0; i-- {
		if s.lines[i].blank && s.length(s.lines[:i]) >= total/2 && !isHeading(s.lines[i-1].text) {
			return i // no marks are open there, so that the piece does not grow
		}
	}
	for i := len(s.lines) - 1; i > 0 && s.length(s.lines[:i]) >= total/2; i-- {
		if s.lines[i].open == "" && s.lines[i].head == "" && s.lines[i-1].open == "" && s.lines[i-1].head == "" &&
			s.length(s.lines[:i]) <= s.limit(0) {
			return i
		}
	}
	return len(s.lines)
}

// isHeading reports whether a line is a heading, or all bold, so that it must not be parted from what is below it.
func isHeading(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "#") || len(line) > 4 && strings.HasPrefix(line, "**") && strings.HasSuffix(line, "**")
}

// flush makes the first n lines a piece and keeps the rest.
func (s *splitter) flush(n int) {
	piece := strings.Trim(render(s.lines[:n]), "\n")
	if strings.TrimSpace(piece) != "" {
		s.pieces = append(s.pieces, piece)
	}
	s.lines = append([]line(nil), s.lines[n:]...)
	for len(s.lines) > 0 && s.lines[0].blank {
		s.lines = s.lines[1:]
	}
}

// length returns how long a piece of these lines is for the platform.
func (s *splitter) length(lines []line) int { return Length(render(lines)) }

// render writes the lines of a piece. Where it begins or ends inside of a fence,
// that is opened or closed; a table that goes on gets its head again.
func render(lines []line) string {
	for len(lines) > 0 && lines[0].tail {
		lines = lines[1:]
	}
	for len(lines) > 0 && lines[len(lines)-1].lead {
		lines = lines[:len(lines)-1]
	}
	if len(lines) == 0 {
		return ""
	}
	var b strings.Builder
	if first := lines[0]; first.open != "" {
		b.WriteString(first.open + "\n")
	} else if first.head != "" {
		b.WriteString(first.head + "\n")
	}
	for i, l := range lines {
		if i > 0 {
			b.WriteByte('\n')
		} else if len(l.reopen) > 0 {
			indent := lineStart().FindString(l.text)
			b.WriteString(indent + strings.Join(l.reopen, ""))
			l.text = l.text[len(indent):]
		}
		b.WriteString(l.text)
	}
	b.WriteString(closing(lines[len(lines)-1].reclose))
	if last := lines[len(lines)-1]; last.close != "" {
		b.WriteString("\n" + last.close)
	}
	return b.String()
}

// lineStart matches what stands before the text of a line that continues a paragraph.
var lineStart = text.Pattern(`^[ \t>]*`)
