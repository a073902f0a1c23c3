// Package markdown turns the Markdown that models write into what a platform
// shows, and cuts it to a platform's limits. It promises that cutting loses no
// text, leaves every code fence closed and reopened, repeats the head of a table
// that goes on, and never cuts inside a link, a code span or a mention that fits
// into a piece. It is the only importer of goldmark. Which dialect is wanted and
// how long a piece may be is the adapter's business.
package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"

	"ravenbot/internal/text"
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
	lines := describe(src)
	pieces := splitLines(lines, limit, 0, limit)
	n, shortest := len(pieces), min(minPiece, limit/4)
	if n < 2 || Length(pieces[n-1]) >= shortest {
		return pieces
	}
	// The last two pieces are shared out evenly, and those before stay as they are: people may
	// have seen them while the answer was written.
	for percent := 55; percent < 100; percent += 5 {
		other := splitLines(lines, limit, n-2, limit*percent/100)
		if len(other) == n && Length(other[n-1]) >= shortest {
			return other
		}
	}
	return pieces
}

// splitLines cuts lines into pieces of at most limit, those from the piece lower on of at most last.
func splitLines(lines []line, limit, lower, last int) []string {
	s := splitter{full: limit, lower: lower, last: last}
	for _, l := range lines {
		s.add(l)
	}
	s.flush(len(s.lines))
	return s.pieces
}

// line is one line of source and what it stands in.
type line struct {
	text  string
	open  string // the line that opens the fence this line of code stands in
	close string // what closes that fence
	head  string // the head of the table this row stands in, two lines
	blank bool   // empty, and outside of code
	lead  bool   // opens a fence or table: the next line brings it again when a piece ends here
	tail  bool   // closes what the piece before it closed already when a piece begins here
}

// describe finds out what each line stands in.
func describe(src string) []line {
	texts := strings.Split(src, "\n")
	lines := make([]line, len(texts))
	starts := make([]int, len(texts))
	for i, at := 0, 0; i < len(texts); i++ {
		lines[i] = line{text: texts[i], blank: strings.TrimSpace(texts[i]) == ""}
		starts[i], at = at, at+len(texts[i])+1
	}
	number := func(offset int) int { // the line that holds a byte
		lo, hi := 0, len(starts)
		for hi-lo > 1 {
			if mid := (lo + hi) / 2; starts[mid] <= offset {
				lo = mid
			} else {
				hi = mid
			}
		}
		return lo
	}
	_ = ast.Walk(parse([]byte(src)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.FencedCodeBlock:
			markCode(lines, n, number)
		case *east.Table:
			markTable(lines, n, number)
		}
		return ast.WalkContinue, nil
	})
	return lines
}

var fence = text.Pattern("^(.*?)(`{3,}|~{3,})(.*)$")

// notIndent matches what does not take part in an indentation, which quotes do.
var notIndent = text.Pattern(`[^\s>]`)

// markCode notes with the lines of a code block by which lines a piece that is cut within it has to
// be closed, and the next one opened. number returns the index of the line at a byte.
func markCode(lines []line, n *ast.FencedCodeBlock, number func(int) int) {
	if n.Lines().Len() == 0 {
		return
	}
	first := number(n.Lines().At(0).Start)
	last := number(n.Lines().At(n.Lines().Len() - 1).Start)
	if first == 0 {
		return
	}
	opening := fence().FindStringSubmatch(lines[first-1].text)
	if opening == nil {
		return
	}
	indent := notIndent().ReplaceAllString(opening[1], " ")
	for i := first; i <= last; i++ {
		lines[i].open = indent + opening[2] + opening[3]
		lines[i].close = indent + opening[2]
		// flush drops blank lines at the beginning of a piece, which would change code.
		lines[i].blank = false
	}
	lines[first-1].lead = true
	if last+1 < len(lines) && fence().MatchString(lines[last+1].text) {
		lines[last+1].tail = true
	}
}

// markTable notes with the rows of a table its head, which each piece of it repeats.
func markTable(lines []line, n *east.Table, number func(int) int) {
	first, last := -1, -1
	_ = ast.Walk(n, func(c ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := c.(*ast.Text); ok && entering {
			i := number(t.Segment.Start)
			if first < 0 {
				first = i
			}
			last = max(last, i)
		}
		return ast.WalkContinue, nil
	})
	if first < 0 || first+1 >= len(lines) {
		return
	}
	head := lines[first].text + "\n" + lines[first+1].text
	for i := first + 2; i <= last; i++ {
		lines[i].head = head
		lines[first].lead, lines[first+1].lead, lines[first+1].tail = true, true, true
	}
}

// splitter fills pieces with lines.
type splitter struct {
	full, last int    // limits of pieces, and of those from lower on
	lower      int    // index of a piece
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
	overhead := s.length([]line{{open: l.open, close: l.close, head: l.head}})
	if overhead > s.limit(0)/2 { // a fence or head that leaves no room is not repeated
		l.open, l.close, l.head, overhead = "", "", "", 0
	}
	limit := func(n int) int {
		if n == 0 {
			return s.limit(0) - overhead - taken
		}
		return s.limit(n) - overhead
	}
	parts := fill(atoms(l.text), limit)
	// In code, what looks like a link or a span is plain text and may be cut.
	if l.open != "" {
		parts = fill(words(l.text), limit)
	}
	for i, part := range parts {
		l.text = part
		s.lines = append(s.lines, l)
		if i < len(parts)-1 {
			s.flush(len(s.lines))
		}
	}
}

// border finds where the piece is best cut: at the last empty line in its second
// half, else before the last line that begins a block of code or a table, else
// at its end.
func (s *splitter) border() int {
	total := s.length(s.lines)
	for i := len(s.lines) - 1; i > 0; i-- {
		if s.lines[i].blank && s.length(s.lines[:i]) >= total/2 {
			return i
		}
	}
	for i := len(s.lines) - 1; i > 0 && s.length(s.lines[:i]) >= total/2; i-- {
		if s.lines[i].open == "" && s.lines[i].head == "" && s.lines[i-1].open == "" && s.lines[i-1].head == "" {
			return i
		}
	}
	return len(s.lines)
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
		}
		b.WriteString(l.text)
	}
	if last := lines[len(lines)-1]; last.close != "" {
		b.WriteString("\n" + last.close)
	}
	return b.String()
}

// fill joins atoms to parts of at most limit(n) for part n, cutting the atoms that are longer.
func fill(atoms []string, limit func(n int) int) []string {
	var parts []string
	part := ""
	for _, a := range atoms {
		if Length(part)+Length(a) > limit(len(parts)) {
			if strings.TrimSpace(part) != "" {
				parts = append(parts, strings.TrimRight(part, " "))
			}
			part = ""
			a = strings.TrimLeft(a, " ")
		}
		// What fits into a whole piece is not cut for the sake of a piece that has begun.
		if len(parts) == 0 && limit(0) < Length(a) && Length(a) <= limit(1) {
			parts = append(parts, "")
		}
		for Length(a) > limit(len(parts)) {
			cut := prefix(a, limit(len(parts)))
			parts = append(parts, cut)
			a = a[len(cut):]
		}
		part += a
	}
	if part != "" {
		parts = append(parts, part)
	}
	return parts
}

// prefix returns the longest beginning of s of at most limit that ends between two grapheme
// clusters. Where the first cluster is longer, it returns as much of that as fits, at least one rune.
func prefix(s string, limit int) string {
	n, end := 0, 0
	for clusters := graphemes.FromString(s); clusters.Next(); {
		if n += Length(clusters.Value()); n > limit {
			break
		}
		end += len(clusters.Value())
	}
	if end > 0 {
		return s[:end]
	}
	n = 0
	// Without at least one rune fill would not end.
	for i, c := range s {
		if n += Length(string(c)); n > limit && i > 0 {
			return s[:i]
		}
	}
	return s
}

var (
	word = text.Pattern(`\s+|\S+`)
	// atom is what must not be cut: a code span, a link or image, a bold or struck
	// span, anything in angle brackets, an escape, a word.
	atom = text.Pattern("`[^`]+`|``.+?``|!?\\[(?:[^\\[\\]]|\\[[^\\]]*\\])*\\]\\([^()\\s]*(?:\\([^()\\s]*\\)[^()\\s]*)*(?:\\s+\"[^\"]*\")?\\)|" +
		`\*\*[^*]+\*\*|~~[^~]+~~|\|\|[^|]+\|\||<[^<>\s][^<>]*>|\\.|[ \t]+|[^\s` + "`" + `!\[<*~|\\]+|.`)
)

// joins reports whether the end of one text and the beginning of another are one character to
// readers: a combining mark, or what a zero-width joiner holds together.
func joins(before, after string) bool {
	const joiner = '\u200d'
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(after)
	return last == joiner || first == joiner || unicode.Is(unicode.M, first)
}

// words returns the words of a text and the white space between them.
func words(s string) []string { return word().FindAllString(s, -1) }

// atoms cuts a line where it may be broken; a word holds together what touches.
func atoms(s string) []string {
	var out []string
	for _, a := range atom().FindAllString(s, -1) {
		n := len(out)
		if n > 0 && (joins(out[n-1], a) ||
			strings.TrimSpace(a) != "" && strings.TrimSpace(out[n-1]) != "" && len(out[n-1])+len(a) < 200) {
			out[n-1] += a
			continue
		}
		out = append(out, a)
	}
	return out
}
