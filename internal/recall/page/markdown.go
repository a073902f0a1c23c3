package page

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"

	"ravenbot/internal/core/text"
)

// toMarkdown returns a part of a page as Markdown. It changes the part.
func toMarkdown(main *html.Node) string {
	unwrapTables(main)
	removeEmpty(main)
	escapeBars(main)
	// Escaping is off: it takes a time that is the square of the brackets in a page, and models read a text without
	// backslashes as well.
	c := converter.NewConverter(converter.WithEscapeMode(converter.EscapeModeDisabled), converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(commonmark.WithListEndComment(false)),
		table.NewTablePlugin(
			table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal),
			table.WithNewlineBehavior(table.NewlineBehaviorPreserve),
			table.WithSkipEmptyRows(true),
			table.WithSpanCellBehavior(table.SpanBehaviorEmpty),
			table.WithHeaderPromotion(true),
		),
	))
	md, err := c.ConvertNode(main)
	if err != nil || !utf8.Valid(md) {
		return text.OneLine(innerText(main))
	}
	return strings.TrimSpace(string(md))
}

// escapeBars escapes the characters in cells that would end them.
func escapeBars(main *html.Node) {
	for n := range main.Descendants() {
		if n.Type != html.ElementNode || n.Data != "td" && n.Data != "th" {
			continue
		}
		for c := range n.Descendants() {
			if c.Type == html.TextNode && strings.Contains(c.Data, "|") && !strings.Contains(c.Data, `\|`) {
				c.Data = strings.ReplaceAll(c.Data, "|", `\|`)
			}
		}
	}
}

// unwrapTables turns tables that hold others into plain blocks: they are layout, and the converter would write what
// they hold once for every level.
func unwrapTables(main *html.Node) {
	var layout []*html.Node
	for n := range main.Descendants() {
		if n.Type == html.ElementNode && n.Data == "table" && (find(n, "table") != nil || countCells(n) > maxCells) {
			layout = append(layout, n)
		}
	}
	for _, t := range layout {
		unwrapTable(t)
	}
}

// maxCells bounds the cells of a table, those that spans fill included.
const maxCells = 10_000

// countCells returns an upper bound of the cells that a table fills in Markdown.
func countCells(t *html.Node) int {
	rows, extra, columns := 0, 0, 0
	for n := range t.Descendants() {
		switch {
		case n.Type != html.ElementNode:
		case n.Data == "tr":
			rows++
			columns = max(columns, countColumns(n))
		case n.Data == "td" || n.Data == "th":
			extra = max(extra, spanOf(n, "rowspan"))
		}
	}
	return (rows + extra) * columns
}

// countColumns returns how many columns a row fills, spans included.
func countColumns(row *html.Node) (count int) {
	for c := range row.ChildNodes() {
		if c.Type == html.ElementNode {
			count += spanOf(c, "colspan")
		}
	}
	return count
}

// spanOf returns how many rows or columns a cell fills; at most maxCells.
func spanOf(cell *html.Node, key string) int {
	n, err := strconv.Atoi(attribute(cell, key))
	if err != nil && attribute(cell, key) != "" {
		return maxCells // perhaps a number too large to be read
	}
	return min(max(n, 1), maxCells)
}

// unwrapTable turns a table, but not those within it, into plain blocks.
func unwrapTable(t *html.Node) {
	t.Data, t.DataAtom = "div", 0
	var visit func(n *html.Node)
	visit = func(n *html.Node) {
		for c := range n.ChildNodes() {
			switch c.Data {
			case "table":
				continue
			case "thead", "tbody", "tfoot", "tr", "td", "th", "caption":
				c.Data, c.DataAtom = "div", 0
			}
			visit(c)
		}
	}
	visit(t)
}

// removeEmpty removes images and links that say nothing to whoever cannot see them.
func removeEmpty(main *html.Node) {
	// Removed after the walk, which goes on from the nodes that it yields.
	var empty []*html.Node
	for n := range main.Descendants() {
		if n.Type == html.ElementNode && (n.Data == "img" &&
			(strings.TrimSpace(attribute(n, "alt")) == "" || attribute(n, "src") == "") ||
			n.Data == "a" && find(n, "img") == nil && strings.TrimSpace(innerText(n)) == "") {
			empty = append(empty, n)
		}
	}
	for _, n := range empty {
		n.Parent.RemoveChild(n)
	}
}

// markCodeLanguages gives every code block the class by which the converter knows its language. Generators of pages
// write it in several ways: highlight-python (Sphinx), highlight-source-go (GitHub), brush: js (MDN), language-x
// (HTML's own).
func markCodeLanguages(doc *html.Node) {
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode || n.Data != "pre" {
			continue
		}
		around := []*html.Node{n.FirstChild, n, n.Parent}
		if n.Parent != nil {
			around = append(around, n.Parent.Parent)
		}
		for _, at := range around {
			if language := codeLanguage(at); language != "" {
				setAttribute(n, "class", "language-"+language)
				break
			}
		}
	}
}

// codeLanguage returns the language that an element around a code block names.
func codeLanguage(n *html.Node) string {
	if n == nil || n.Type != html.ElementNode {
		return ""
	}
	classes := strings.Fields(attribute(n, "class"))
	for i, class := range classes {
		for _, prefix := range []string{"language-", "lang-", "highlight-source-", "highlight-text-", "highlight-"} {
			if language, ok := strings.CutPrefix(class, prefix); ok && isLanguage(language) {
				return language
			}
		}
		if class == "brush:" && i+1 < len(classes) && isLanguage(strings.TrimSuffix(classes[i+1], ";")) {
			return strings.TrimSuffix(classes[i+1], ";")
		}
	}
	return ""
}

// isLanguage reports whether a part of a class may be the name of a language.
func isLanguage(s string) bool {
	return s != "" && len(s) <= 20 && s != "default" && s != "none" && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("+#-_.", r))
	})
}

// setAttribute sets an attribute of a node, in the place of the value that it has.
func setAttribute(n *html.Node, key, value string) {
	for i := range n.Attr {
		if n.Attr[i].Key == key {
			n.Attr[i].Val = value
			return
		}
	}
	n.Attr = append(n.Attr, html.Attribute{Key: key, Val: value})
}
