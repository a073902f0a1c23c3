package markdown

import (
	"cmp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"

	"ravenbot/internal/core/text"
)

// marks are the HTML tags that models mix into Markdown, and what they are in Markdown. Those without a mark are
// dropped, because nothing of the kind can be shown. Others, such as <String>, are text.
var marks = map[string]string{"b": "**", "strong": "**", "summary": "**", "i": "*", "em": "*", "s": "~~", "del": "~~",
	"strike": "~~", "code": "`", "br": "", "hr": "***", "u": "", "ins": "", "kbd": "", "samp": "", "var": "", "mark": "",
	"small": "", "big": "", "font": "", "span": "", "abbr": "", "cite": "", "center": "", "details": "", "div": "", "p": "",
	"section": "", "sub": "", "sup": ""}

// raised and lowered have the characters of Unicode for what <sup> and <sub> hold most often.
var (
	raised  = pairs("0123456789+-−=()abcdefghijklmnoprstuvwxyz", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ")
	lowered = pairs("0123456789+-−=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ")
)

// pairs returns a map from the characters of one text to those of another.
func pairs(from, to string) map[rune]rune {
	all := map[rune]rune{}
	values := []rune(to)
	for i, c := range []rune(from) {
		all[c] = values[i]
	}
	return all
}

var (
	// htmlToken matches a comment or a tag: whether it is an end tag, and its name.
	htmlToken = text.Pattern(`(?s)<!--.*?-->|<(/?)([A-Za-z][A-Za-z0-9]*)(?:\s[^<>]*)?/?>`)
	// overrides are the characters that show text in another order than it is written. Isolates, which right-to-left
	// text needs, are not among them.
	overrides = text.Pattern("[\u202a-\u202e]+")
	lineBreak = text.Pattern(`(?i)^<br\s*/?>$`)
)

// isLineBreak reports whether raw HTML is a line break. normalize leaves them, because only HTML has some in tables.
func isLineBreak(raw []byte) bool { return lineBreak().Match(raw) }

// isWithin reports whether a node is below one of type T.
func isWithin[T ast.Node](n ast.Node) bool {
	for n = n.Parent(); n != nil; n = n.Parent() {
		if _, ok := n.(T); ok {
			return true
		}
	}
	return false
}

// edit replaces a part of a text.
type edit struct {
	start, stop int
	by          string
}

// apply makes edits in a text. The first of several that overlap counts.
func apply(src string, edits []edit) string {
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	var b strings.Builder
	at := 0
	for _, e := range edits {
		if e.start >= at {
			b.WriteString(src[at:e.start] + e.by)
			at = e.stop
		}
	}
	return b.String() + src[at:]
}

// tag is one HTML tag in a text, with its place.
type tag struct {
	start, stop int
	name        string
	block       ast.Node // that it stands in
}

// normalize returns Markdown without the HTML that models mix into it: known tags become marks or are dropped, comments
// and characters that reverse the direction of text are dropped. Code is not changed.
func normalize(src string) string {
	n := normalizer{src: src, open: map[string][]tag{}}
	if strings.ContainsAny(src, "<\u202a\u202b\u202c\u202d\u202e") {
		_ = ast.Walk(parse([]byte(src)), n.visit)
	}
	if len(n.edits) == 0 {
		return src
	}
	return strings.Trim(apply(src, n.edits), "\n")
}

type normalizer struct {
	src   string
	open  map[string][]tag // by names: start tags whose end tag has not been seen
	edits []edit
}

// visit collects the edits of one node.
func (z *normalizer) visit(node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	switch n := node.(type) {
	case *ast.Text:
		for _, at := range overrides().FindAllStringIndex(string(n.Value([]byte(z.src))), -1) {
			if !n.IsRaw() {
				z.edits = append(z.edits, edit{n.Segment.Start + at[0], n.Segment.Start + at[1], ""})
			}
		}
	case *ast.RawHTML:
		last := n.Segments.At(n.Segments.Len() - 1)
		z.addTokens(n.Segments.At(0).Start, last.Stop, n.Parent())
	case *ast.HTMLBlock:
		z.addBlock(n)
	}
	return ast.WalkContinue, nil
}

// addBlock collects the edits of a block of HTML. It is left as it is if it has a tag that is not known: it may be a
// page, which should have been code.
func (z *normalizer) addBlock(n *ast.HTMLBlock) {
	if n.Lines().Len() == 0 {
		return
	}
	start, stop := n.Lines().At(0).Start, n.Lines().At(n.Lines().Len()-1).Stop
	if n.HasClosure() {
		stop = n.ClosureLine.Stop
	}
	for _, m := range htmlToken().FindAllStringSubmatch(z.src[start:stop], -1) {
		if _, known := marks[strings.ToLower(m[2])]; !known && m[2] != "" {
			return
		}
	}
	z.addTokens(start, stop, n)
	if n.HTMLBlockType < ast.HTMLBlockType6 {
		return
	}
	for _, s := range n.Lines().Sliced(0, n.Lines().Len()) {
		line := z.src[s.Start:s.Stop] // indented by four, it would become code
		z.edits = append(z.edits, edit{s.Start, s.Stop - len(strings.TrimLeft(line, " \t")), ""})
	}
}

// addTokens collects the edits of the comments and tags in a part of the source.
func (z *normalizer) addTokens(start, stop int, block ast.Node) {
	for _, m := range htmlToken().FindAllStringSubmatchIndex(z.src[start:stop], -1) {
		t := tag{start: start + m[0], stop: start + m[1], block: block}
		if m[4] < 0 {
			z.edits = append(z.edits, edit{t.start, t.stop, ""})
			continue
		}
		t.name = strings.ToLower(z.src[start+m[4] : start+m[5]])
		_, isBlock := block.(*ast.HTMLBlock)
		switch _, known := marks[t.name]; {
		case !known || (t.name == "br" || t.name == "hr") && !isBlock:
		case t.name == "hr" || t.name == "br":
			z.edits = append(z.edits, edit{t.start, t.stop, marks[t.name]})
		case m[2] == m[3]:
			z.open[t.name] = append(z.open[t.name], t)
		case len(z.open[t.name]) > 0:
			last := len(z.open[t.name]) - 1
			if first := z.open[t.name][last]; first.stop <= t.start { // the cells of a table are not visited in order
				z.addPair(first, t)
			}
			z.open[t.name] = z.open[t.name][:last]
		}
	}
}

// addPair collects the edits of a start tag and its end tag.
func (z *normalizer) addPair(first, second tag) {
	mark, inner := marks[first.name], z.src[first.stop:second.start]
	if first.block != second.block || inner == "" || strings.TrimSpace(inner) != inner ||
		mark == "`" && strings.ContainsAny(inner, "`<&\n") {
		mark = ""
	}
	after := mark
	switch first.name {
	case "sup":
		z.edits = append(z.edits, edit{first.stop, second.start, shift(inner, raised, "^")})
	case "sub":
		z.edits = append(z.edits, edit{first.stop, second.start, shift(inner, lowered, "_")})
	case "p", "div", "summary", "section", "center":
		if !strings.HasPrefix(z.src[second.stop:], "\n") {
			after += "\n"
		}
	}
	z.edits = append(z.edits, edit{first.start, first.stop, mark}, edit{second.start, second.stop, after})
}

// shift returns raised or lowered text in the characters that Unicode has for it, or else behind a sign.
func shift(s string, characters map[rune]rune, sign string) string {
	var b strings.Builder
	for _, c := range s {
		shifted, ok := characters[c]
		switch {
		case ok:
			b.WriteRune(shifted)
		case strings.ContainsAny(s, "<>[]*`\\") || s == "":
			return s
		default:
			return sign + "(" + s + ")"
		}
	}
	return b.String()
}
