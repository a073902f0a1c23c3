package markdown

import (
	"html"
	"strings"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"

	"ravenbot/internal/core/text"
)

// maxTableWidth is how many columns a table may take in a code block. Discord breaks the lines of wider ones: at about
// 90 characters on a desktop, and 40 on a phone.
const maxTableWidth = 64

// table returns a table as aligned text, or a paragraph a row if it is too wide for that.
func (w discordWriter) table(t *east.Table) string {
	var rows [][]string
	widths := make([]int, len(t.Alignments))
	total := 3 * (len(widths) - 1)
	for r := t.FirstChild(); r != nil; r = r.NextSibling() {
		row := make([]string, len(widths))
		for i, c := 0, r.FirstChild(); c != nil && i < len(row); i, c = i+1, c.NextSibling() {
			row[i] = strings.TrimSpace(w.plain(c))
			grown := max(widths[i], displayWidth(row[i]))
			widths[i], total = grown, total+grown-widths[i]
		}
		rows = append(rows, row)
	}
	if total > maxTableWidth {
		return w.tableRows(t)
	}
	var b strings.Builder
	for i, row := range rows {
		for j := range row {
			row[j] = pad(row[j], widths[j], t.Alignments[j])
		}
		b.WriteString(strings.TrimRight(strings.Join(row, " │ "), " ") + "\n")
		if i == 0 {
			for j := range row {
				row[j] = strings.Repeat("─", widths[j])
			}
			b.WriteString(strings.Join(row, "─┼─") + "\n")
		}
	}
	return codeBlock("", b.String())
}

// pad fills a cell to the width of its column.
func pad(cell string, width int, side east.Alignment) string {
	room := width - displayWidth(cell)
	left := 0
	switch side {
	case east.AlignRight:
		left = room
	case east.AlignCenter:
		left = room / 2
	}
	return strings.Repeat(" ", left) + cell + strings.Repeat(" ", room-left)
}

// tableRows returns the rows of a table as paragraphs: the first cell in bold, the others behind the heads of their
// columns. The head of the first column stands above them.
func (w discordWriter) tableRows(t *east.Table) string {
	var heads, out []string
	for r := t.FirstChild(); r != nil; r = r.NextSibling() {
		var first string
		var others []string
		for i, c := 0, r.FirstChild(); c != nil; i, c = i+1, c.NextSibling() {
			cell := strings.TrimSpace(w.inline(c))
			switch {
			case r == t.FirstChild():
				heads = append(heads, cell)
			case cell == "":
			case i == 0:
				first = emphasize(cell, "**")
			case i < len(heads) && heads[i] != "":
				others = append(others, heads[i]+": "+cell)
			default:
				others = append(others, cell)
			}
		}
		row := strings.Join(others, "; ")
		if first != "" && row != "" {
			first += " – "
		}
		if row = first + row; row != "" {
			out = append(out, row)
		}
	}
	switch {
	case len(out) == 0:
		return strings.Join(heads, "; ")
	case heads[0] != "":
		out[0] = emphasize(heads[0], "*") + "\n" + out[0]
	}
	return strings.Join(out, "\n\n")
}

// emphasize puts marks around a text that has none of its own.
func emphasize(s, mark string) string {
	if strings.Contains(s, "*") {
		return s
	}
	return mark + s + mark
}

// plain is the text of a cell, where no marks are shown; links keep their target.
func (w discordWriter) plain(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.WriteString(plainText(c, w.src))
		case *ast.String:
			b.Write(c.Value)
		case *ast.AutoLink:
			b.Write(c.Label(w.src))
		case *ast.RawHTML, *east.TaskCheckBox:
			b.WriteString(w.span(c))
		case *ast.Link:
			b.WriteString(linkAsText(w.plain(c), string(c.Destination)))
		case *ast.Image:
			if isWithin[*ast.Link](c) {
				b.WriteString(w.plain(c))
				continue
			}
			b.WriteString(linkAsText(w.plain(c), string(c.Destination)))
		default:
			b.WriteString(w.plain(c))
		}
	}
	return b.String()
}

// escapes matches escaped characters and entities.
var escapes = text.Pattern("\\\\[!-/:-@\\[-`{-~]|&#?\\w+;")

// plainText returns a text without escapes and entities, which code has none of.
func plainText(n *ast.Text, src []byte) string {
	s := string(n.Value(src))
	if n.IsRaw() {
		return s
	}
	return escapes().ReplaceAllStringFunc(s, func(s string) string {
		if s[0] == '\\' {
			return s[1:]
		}
		return html.UnescapeString(s)
	})
}
