package markdown

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
)

// Discord rewrites Markdown in the dialect that Discord shows: tables become
// aligned text in a code block, images links, small headings bold lines. All
// text is kept.
func Discord(src string) string {
	w := discordWriter{src: []byte(src)}
	return strings.TrimSpace(w.blocks(parse(w.src), "\n\n"))
}

// discordWriter writes one document. Blocks are written without their prefix
// (of a quote, of a list), which the block around them puts before each line.
type discordWriter struct{ src []byte }

// blocks returns the blocks in a node, with a text between them; empty ones are left out.
func (w discordWriter) blocks(parent ast.Node, between string) string {
	var out []string
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		if s := w.block(n); strings.TrimSpace(s) != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, between)
}

// block returns one block as Discord shows it: headings below the third are bold, since it knows
// three, and tables are code.
func (w discordWriter) block(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Heading:
		if n.Level > 3 {
			return "**" + w.inline(n) + "**"
		}
		return strings.Repeat("#", n.Level) + " " + w.inline(n)
	case *ast.FencedCodeBlock:
		return codeBlock(string(n.Language(w.src)), string(n.Lines().Value(w.src)))
	case *ast.CodeBlock:
		return codeBlock("", string(n.Lines().Value(w.src)))
	case *ast.HTMLBlock:
		s := string(n.Lines().Value(w.src))
		if n.HasClosure() {
			s += string(n.ClosureLine.Value(w.src))
		}
		return strings.TrimRight(s, "\n")
	case *ast.Blockquote:
		return indent(w.blocks(n, "\n\n"), "> ", "> ")
	case *ast.List:
		return w.list(n)
	case *ast.ThematicBreak:
		return "───"
	case *east.Table:
		return w.table(n)
	}
	if n.Type() == ast.TypeBlock && n.FirstChild() != nil && n.FirstChild().Type() == ast.TypeBlock {
		return w.blocks(n, "\n\n")
	}
	return w.inline(n)
}

// list returns a list whose items are indented by the width of their marks.
func (w discordWriter) list(l *ast.List) string {
	var items []string
	number := l.Start
	for item := l.FirstChild(); item != nil; item = item.NextSibling() {
		mark := "- "
		if l.IsOrdered() {
			mark = fmt.Sprintf("%d. ", number)
			number++
		}
		items = append(items, indent(w.blocks(item, "\n"), mark, strings.Repeat(" ", len(mark))))
	}
	return strings.Join(items, "\n")
}

// indent puts first before the first line and rest before the others.
func indent(s, first, rest string) string {
	return first + strings.ReplaceAll(s, "\n", "\n"+rest)
}

// codeBlock fences code. Three backticks inside would end the block on Discord,
// whatever the fence.
func codeBlock(language, code string) string {
	code = separateBackticks(strings.TrimRight(code, "\n"), 3)
	return "```" + language + "\n" + code + "\n```"
}

// table aligns the columns of a table by their number of characters.
func (w discordWriter) table(t *east.Table) string {
	var rows [][]string
	var widths []int
	for r := t.FirstChild(); r != nil; r = r.NextSibling() {
		var row []string
		for c := r.FirstChild(); c != nil; c = c.NextSibling() {
			cell := w.plain(c)
			if len(row) == len(widths) {
				widths = append(widths, 0)
			}
			widths[len(row)] = max(widths[len(row)], utf8.RuneCountInString(cell))
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	var b strings.Builder
	for i, row := range rows {
		for j, cell := range row {
			if j > 0 {
				b.WriteString(" │ ")
			}
			b.WriteString(cell)
			if j < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell)))
			}
		}
		b.WriteByte('\n')
		if i == 0 {
			for j, width := range widths {
				if j > 0 {
					b.WriteString("─┼─")
				}
				b.WriteString(strings.Repeat("─", width))
			}
			b.WriteByte('\n')
		}
	}
	return codeBlock("", b.String())
}

// plain is the text of a cell, where no marks are shown; links keep their target.
func (w discordWriter) plain(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.WriteString(html.UnescapeString(unescape(string(c.Value(w.src)))))
		case *ast.String:
			b.Write(c.Value)
		case *ast.AutoLink:
			b.Write(c.URL(w.src))
		case *ast.RawHTML:
			b.Write(c.Segments.Value(w.src))
		case *ast.Link:
			b.WriteString(w.plain(c) + " (" + string(c.Destination) + ")")
		case *ast.Image:
			b.WriteString(w.plain(c) + " (" + string(c.Destination) + ")")
		default:
			b.WriteString(w.plain(c))
		}
	}
	return b.String()
}

// unescape drops the backslashes before punctuation.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", s[i+1]) >= 0 {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// inline returns the text in a block, with its markup.
func (w discordWriter) inline(parent ast.Node) string {
	var b strings.Builder
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		b.WriteString(w.span(n))
	}
	return b.String()
}

// span returns one piece of such text. A kind that is not known is returned without its markup.
func (w discordWriter) span(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Text:
		// Discord hides what stands between double bars, which are plain text in Markdown.
		s := strings.ReplaceAll(html.UnescapeString(string(n.Value(w.src))), "||", `\|\|`)
		if n.SoftLineBreak() || n.HardLineBreak() {
			s += "\n"
		}
		return s
	case *ast.String:
		return string(n.Value)
	case *ast.CodeSpan:
		return codeSpan(w.plainCode(n))
	case *ast.Emphasis:
		mark := strings.Repeat("*", n.Level)
		return mark + w.inline(n) + mark
	case *east.Strikethrough:
		return "~~" + w.inline(n) + "~~"
	case *ast.Link:
		return link(w.inline(n), string(n.Destination))
	case *ast.Image:
		return link(w.inline(n), string(n.Destination))
	case *ast.AutoLink:
		return string(n.URL(w.src))
	case *ast.RawHTML:
		return string(n.Segments.Value(w.src))
	case *east.TaskCheckBox:
		if n.IsChecked {
			return "☑ "
		}
		return "☐ "
	}
	return w.inline(n)
}

// plainCode returns the text of a code span on one line.
func (w discordWriter) plainCode(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Value(w.src))
		}
	}
	return strings.ReplaceAll(b.String(), "\n", " ")
}

// codeSpan returns code as a span, with two backticks where it holds one. A fence of more than two would begin a block
// on Discord.
func codeSpan(code string) string {
	if strings.Contains(code, "`") {
		return "`` " + separateBackticks(code, 2) + " ``"
	}
	return "`" + code + "`"
}

// separateBackticks keeps backticks apart, where n or more are in a row, by invisible spaces.
func separateBackticks(code string, n int) string {
	row := strings.Repeat("`", n)
	// What is replaced may stand before a further backtick: "````" has two rows of three.
	for strings.Contains(code, row) {
		code = strings.ReplaceAll(code, row, "`\u200b"+row[1:])
	}
	return code
}

// link writes a masked link; Discord shows one only where the text is not itself
// an address and the target is a web page.
func link(text, dest string) string {
	switch {
	case text == "" || text == dest:
		return dest
	case !strings.HasPrefix(dest, "http://") && !strings.HasPrefix(dest, "https://"):
		return text + " (" + dest + ")"
	case strings.Contains(text, "://"):
		return strings.NewReplacer("[", "(", "]", ")").Replace(text) + " (" + dest + ")"
	}
	return "[" + text + "](" + strings.NewReplacer("(", "%28", ")", "%29", " ", "%20").Replace(dest) + ")"
}
