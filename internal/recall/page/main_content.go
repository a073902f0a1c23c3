package page

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"codeberg.org/readeck/go-readability"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"ravenbot/internal/core/text"
)

const (
	// maxElements bounds the pages whose main content is searched for: the search reads the page several times over. Of
	// larger ones everything but menus is returned. The largest of 130 pages of Mozilla's collection has 11,000.
	maxElements = 30_000
	// minShare is the share of a page's own words that an article must have. Below it, the page is taken for one that is
	// no article: a listing, a forum or a reference, of which the search finds one part.
	minShare = 0.35
	// minLetters is what an article has at least, where the page has more than that.
	minLetters = 100
	// maxLinkShare is the share of words in links above which the rest of a page is taken for menus.
	maxLinkShare = 0.5
)

// readMain returns what a page says of itself, and its main content. It changes doc.
func readMain(doc *html.Node) (Page, *html.Node) {
	tables := replaceTables(doc)
	about, article := findArticle(doc)
	for _, n := range []*html.Node{doc, article} {
		restoreTables(n, tables)
	}
	isDeclared := declaresArticle(doc)
	// After the search for the article, which reads the author and the date from scripts.
	removeBoilerplate(doc)
	whole := wholeContent(doc)
	switch {
	case article == nil, countLetters(article) < minLetters && countLetters(whole) > minLetters:
		return about, whole
	case !isDeclared && isPartOfMore(article, whole):
		return about, whole
	}
	return about, article
}

// tableMark stands in the place of a table of links while the article is searched for: the search takes what consists of
// links for a menu, and would leave the table out.
const tableMark = "This paragraph stands for a table, which is table "

// replaceTables puts marks in the place of the tables of links of a page, and returns the tables by their marks.
func replaceTables(doc *html.Node) map[string]*html.Node {
	tables := map[string]*html.Node{}
	for _, t := range linkTables(doc) {
		mark := tableMark + strconv.Itoa(len(tables)) + "."
		p := &html.Node{Type: html.ElementNode, Data: "p", DataAtom: atom.P}
		p.AppendChild(&html.Node{Type: html.TextNode, Data: mark})
		t.Parent.InsertBefore(p, t)
		t.Parent.RemoveChild(t)
		tables[mark] = t
	}
	return tables
}

// restoreTables puts tables in the place of their marks in a part of a page.
func restoreTables(part *html.Node, tables map[string]*html.Node) {
	if part == nil || len(tables) == 0 {
		return
	}
	marks := map[string]*html.Node{} // one each: a page may have the words of a mark as well
	for n := range part.Descendants() {
		if mark := strings.TrimSpace(n.Data); n.Type == html.TextNode && tables[mark] != nil {
			marks[mark] = n
		}
	}
	for mark, n := range marks {
		n.Parent.InsertBefore(copyNode(tables[mark]), n)
		n.Parent.RemoveChild(n)
	}
}

// copyNode returns a copy of an element and all that is in it.
func copyNode(n *html.Node) *html.Node {
	c := &html.Node{Type: n.Type, Data: n.Data, DataAtom: n.DataAtom, Namespace: n.Namespace, Attr: slices.Clone(n.Attr)}
	for child := range n.ChildNodes() {
		c.AppendChild(copyNode(child))
	}
	return c
}

// linkTables returns the tables with several rows and columns that hold links and are no layout and in no menu.
func linkTables(n *html.Node) (tables []*html.Node) {
	for c := range n.ChildNodes() {
		switch {
		case c.Type != html.ElementNode || slices.Contains([]string{"nav", "header", "footer", "aside"}, c.Data):
		case c.Data != "table" || find(c, "table") != nil:
			tables = append(tables, linkTables(c)...)
		case attribute(c, "role") != "presentation" && find(c, "a") != nil && hasGrid(c):
			tables = append(tables, c)
		}
	}
	return tables
}

// hasGrid reports whether a table has at least two rows with two or more cells.
func hasGrid(table *html.Node) bool {
	rows := 0
	for n := range table.Descendants() {
		if n.Type == html.ElementNode && n.Data == "tr" && countColumns(n) > 1 {
			rows++
		}
	}
	return rows > 1
}

// declaresArticle reports whether a page says that it is an article, as nearly all that newspapers and blogs publish do
// (https://ogp.me).
func declaresArticle(doc *html.Node) bool {
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == "meta" && attribute(n, "property") == "og:type" {
			return attribute(n, "content") == "article"
		}
	}
	return false
}

// findArticle returns the article of a page and what the page says of it; the node is nil if none was found.
func findArticle(doc *html.Node) (p Page, node *html.Node) {
	p.Language = declaredLanguage(doc)
	if countElements(doc) > maxElements {
		return p, nil
	}
	// The pages are of strangers: what the parser does not expect must not end the bot.
	defer func() {
		if recover() != nil {
			p, node = Page{Language: p.Language}, nil
		}
	}()
	parser := readability.NewParser()
	parser.KeepClasses = true // they hold the languages of code blocks
	found, err := parser.ParseDocument(doc, nil)
	if err != nil {
		return p, nil
	}
	p.Title, p.Byline = text.OneLine(found.Title), text.OneLine(found.Byline)
	if found.PublishedTime != nil {
		p.Published = found.PublishedTime.Format(time.RFC3339)
	}
	return p, found.Node
}

// declaredLanguage returns the language that a page declares.
func declaredLanguage(doc *html.Node) string {
	if root := find(doc, "html"); root != nil {
		return text.OneLine(attribute(root, "lang"))
	}
	return ""
}

// countElements returns the number of elements of a page.
func countElements(doc *html.Node) (count int) {
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			count++
		}
	}
	return count
}

// wholeContent returns the main element of a page or, without one, its body.
func wholeContent(doc *html.Node) *html.Node {
	body := find(doc, "body")
	if main := find(doc, "main"); main != nil && 2*countLetters(main) > countLetters(body) {
		return main
	}
	if body != nil {
		return body
	}
	return doc
}

// isPartOfMore reports whether an article is only a part of what a page has to say.
func isPartOfMore(article, whole *html.Node) bool {
	letters := countLetters(whole)
	if float64(countLetters(article)) >= minShare*float64(letters) {
		return false
	}
	inLinks := 0
	for n := range whole.Descendants() {
		if n.Type == html.ElementNode && n.Data == "a" {
			inLinks += countLetters(n)
		}
	}
	return float64(inLinks) <= maxLinkShare*float64(letters)
}

// countLetters returns the number of letters and digits in a part of a page. Words would not do: not every language
// has blanks between them.
func countLetters(n *html.Node) (count int) {
	if n == nil {
		return 0
	}
	for c := range n.Descendants() {
		if c.Type != html.TextNode {
			continue
		}
		for _, r := range c.Data {
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				count++
			}
		}
	}
	return count
}
