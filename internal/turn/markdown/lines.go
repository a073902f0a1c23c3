package markdown

import (
	"cmp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"

	"ravenbot/internal/core/text"
)

// line is one line of source and what it stands in.
type line struct {
	text  string
	open  string // the line that opens the fence this line of code stands in
	close string // what closes that fence
	head  string // the head of the table this row stands in, two lines
	start int    // where it begins in the source
	// marks of bold and the like that are open at its beginning and at its end
	reopen, reclose []string
	blank           bool // empty, and outside of code
	lead            bool // opens a fence or table: the next line brings it again when a piece ends here
	tail            bool // closes what the piece before it closed already when a piece begins here
}

// span is a part of the source between two marks. The marks are not part of it.
type span struct {
	start, stop int
	mark        string
}

// openAt returns the marks that are open at a place, the outermost first.
func openAt(spans []span, at int) []string {
	var open []string
	for _, s := range spans {
		if s.start < at && at < s.stop && !slices.Contains(open, s.mark) {
			open = append(open, s.mark)
		}
	}
	return open
}

// closing returns marks in the order in which they are closed.
func closing(marks []string) string {
	s := ""
	for _, m := range marks {
		s = m + s
	}
	return s
}

// describe finds out what each line stands in, and the spans in which a cut must close and open marks.
func describe(src string) ([]line, []span) {
	texts := strings.Split(src, "\n")
	lines := make([]line, len(texts))
	starts := make([]int, len(texts))
	for i, at := 0, 0; i < len(texts); i++ {
		lines[i] = line{text: texts[i], start: at, blank: strings.Trim(texts[i], " \t>") == ""}
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
	var spans []span
	for _, at := range barSpan().FindAllStringIndex(src, -1) {
		spans = append(spans, span{at[0] + 1, at[1] - 1, "||"})
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
		case *ast.Emphasis:
			spans = append(spans, spanOf(n, strings.Repeat(src[n.Pos():n.Pos()+1], n.Level)))
		case *east.Strikethrough:
			spans = append(spans, spanOf(n, "~~"))
		}
		return ast.WalkContinue, nil
	})
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	for i := range lines {
		if lines[i].open == "" && lines[i].head == "" {
			lines[i].reopen = openAt(spans, lines[i].start)
			lines[i].reclose = openAt(spans, lines[i].start+len(lines[i].text))
		}
	}
	return lines, spans
}

// barSpan matches what Discord hides.
var barSpan = text.Pattern(`\|\|[^\s|](?:[^|\n]*[^\s|])?\|\|`)

// spanOf returns the span of the text in a node.
func spanOf(n ast.Node, mark string) span {
	s := span{mark: mark}
	_ = ast.Walk(n, func(c ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := c.(*ast.Text); ok && entering {
			if s.stop == 0 {
				s.start = t.Segment.Start
			}
			s.stop = t.Segment.Stop
		}
		return ast.WalkContinue, nil
	})
	return s
}

// maxInfo is how long the words behind a fence may be that each piece of the code repeats.
const maxInfo = 100

// moveLongInfo makes longer words behind a fence the first line of the code: they are no name of a language.
func moveLongInfo(src string) string {
	var edits []edit
	_ = ast.Walk(parse([]byte(src)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if code, ok := n.(*ast.FencedCodeBlock); ok && entering && code.Info != nil && code.Info.Segment.Len() > maxInfo {
			at := code.Info.Segment.Start
			line := src[strings.LastIndexByte(src[:at], '\n')+1 : at]
			indent := strings.TrimRight(notIndent().ReplaceAllString(line, " "), " ")
			if strings.ContainsRune(indent, '>') {
				indent += " "
			}
			edits = append(edits, edit{at, at, "\n" + indent})
		}
		return ast.WalkContinue, nil
	})
	return apply(src, edits)
}

var fence = text.Pattern("^(.*?)(`{3,}|~{3,})(.*)$")

// tableRule matches what stands below the head of a table in a code block.
var tableRule = text.Pattern(`^─+(?:┼─+|─)+$`)

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
	if first+1 < last && tableRule().MatchString(strings.TrimLeft(lines[first+1].text, " >")) { // of Discord's writer
		for i := first + 2; i <= last; i++ {
			lines[i].open += "\n" + lines[first].text + "\n" + lines[first+1].text
		}
		lines[first].lead, lines[first+1].lead, lines[first+1].tail = true, true, true
	}
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
