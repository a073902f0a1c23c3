// Package markdown turns the Markdown that models write into what a platform
// shows, and cuts it to a platform's limits. It promises that cutting loses no
// text, leaves every code fence closed and reopened, repeats the head of a table
// that goes on, and never cuts inside a link, a code span or a mention that fits
// into a piece. It is the only importer of goldmark. Which dialect is wanted and
// how long a piece may be is the adapter's business.
package markdown

import (
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
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

// Split cuts Markdown into pieces of at most limit (see Length), between blocks
// where it can, else between lines, else between words. Pieces are not empty;
// a text without content gives none.
func Split(src string, limit int) []string {
	src = strings.TrimRight(src, " \t\n")
	if strings.TrimSpace(src) == "" {
		return nil
	}
	if Length(src) <= limit {
		return []string{src}
	}
	s := splitter{limit: limit}
	for _, l := range describe(src) {
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

var fence = regexp.MustCompile("^(.*?)(`{3,}|~{3,})(.*)$")

func markCode(lines []line, n *ast.FencedCodeBlock, number func(int) int) {
	if n.Lines().Len() == 0 {
		return
	}
	first := number(n.Lines().At(0).Start)
	last := number(n.Lines().At(n.Lines().Len() - 1).Start)
	if first == 0 {
		return
	}
	opening := fence.FindStringSubmatch(lines[first-1].text)
	if opening == nil {
		return
	}
	indent := regexp.MustCompile(`[^\s>]`).ReplaceAllString(opening[1], " ")
	for i := first; i <= last; i++ {
		lines[i].open = indent + opening[2] + opening[3]
		lines[i].close = indent + opening[2]
		lines[i].blank = false
	}
	lines[first-1].lead = true
	if last+1 < len(lines) && fence.MatchString(lines[last+1].text) {
		lines[last+1].tail = true
	}
}

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
	limit  int
	lines  []line // of the piece being filled
	pieces []string
}

// add puts a line into the piece, or what fits of it.
func (s *splitter) add(l line) {
	if s.length(append(s.lines[:len(s.lines):len(s.lines)], l)) <= s.limit {
		s.lines = append(s.lines, l)
		return
	}
	if s.length([]line{l}) > s.limit {
		s.addLong(l)
		return
	}
	s.flush(s.border())
	for len(s.lines) > 0 && s.length(append(s.lines[:len(s.lines):len(s.lines)], l)) > s.limit {
		s.flush(len(s.lines))
	}
	s.lines = append(s.lines, l)
}

// addLong cuts a line that no piece can hold.
func (s *splitter) addLong(l line) {
	s.flush(len(s.lines))
	overhead := s.length([]line{{open: l.open, close: l.close, head: l.head}})
	if overhead > s.limit/2 { // a fence or head that leaves no room is not repeated
		l.open, l.close, l.head, overhead = "", "", "", 0
	}
	var parts []string
	if l.open != "" {
		parts = fill(words(l.text), s.limit-overhead)
	} else {
		parts = fill(atoms(l.text), s.limit-overhead)
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

// fill joins atoms to parts of at most limit, cutting the atoms that are longer.
func fill(atoms []string, limit int) []string {
	var parts []string
	part := ""
	for _, a := range atoms {
		if Length(part)+Length(a) > limit {
			if strings.TrimSpace(part) != "" {
				parts = append(parts, strings.TrimRight(part, " "))
			}
			part = ""
			a = strings.TrimLeft(a, " ")
		}
		for Length(a) > limit {
			cut := prefix(a, limit)
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

// prefix is the longest beginning of s of at most limit, but at least one rune.
func prefix(s string, limit int) string {
	n := 0
	for i, c := range s {
		if n += Length(string(c)); n > limit && i > 0 {
			return s[:i]
		}
	}
	return s
}

var (
	word = regexp.MustCompile(`\s+|\S+`)
	// atom is what must not be cut: a code span, a link or image, a bold or struck
	// span, anything in angle brackets, an escape, a word.
	atom = regexp.MustCompile("`[^`]+`|``.+?``|!?\\[(?:[^\\[\\]]|\\[[^\\]]*\\])*\\]\\([^()\\s]*(?:\\([^()\\s]*\\)[^()\\s]*)*(?:\\s+\"[^\"]*\")?\\)|" +
		`\*\*[^*]+\*\*|~~[^~]+~~|\|\|[^|]+\|\||<[^<>\s][^<>]*>|\\.|[ \t]+|[^\s` + "`" + `!\[<*~|\\]+|.`)
)

func words(s string) []string { return word.FindAllString(s, -1) }

// atoms cuts a line where it may be broken; a word holds together what touches.
func atoms(s string) []string {
	var out []string
	for _, a := range atom.FindAllString(s, -1) {
		if n := len(out); n > 0 && strings.TrimSpace(a) != "" && strings.TrimSpace(out[n-1]) != "" && len(out[n-1])+len(a) < 200 {
			out[n-1] += a
			continue
		}
		out = append(out, a)
	}
	return out
}
