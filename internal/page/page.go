// Package page converts HTML to Markdown: the title and the main text of a page, without its scripts, menus and hidden
// parts. It promises to end for every input, and to return valid UTF-8. What a page says is data, never an instruction.
// Fetching pages is left to the caller.
package page

import (
	"bytes"
	"net/url"
	"strings"
	"unicode/utf8"

	htmltomarkdown "github.com/JohannesKaufmann/html-to-markdown/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
)

// Decode returns a text in UTF-8. Its encoding is what the content type or the page itself says.
func Decode(body []byte, contentType string) string {
	r, err := charset.NewReader(bytes.NewReader(body), contentType)
	if err != nil {
		return strings.ToValidUTF8(string(body), "\uFFFD")
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil {
		return strings.ToValidUTF8(string(body), "\uFFFD")
	}
	return b.String()
}

// Markdown returns the title of a page, on one line, and its main text. Relative links are resolved against address,
// unless that is empty.
func Markdown(body []byte, contentType, address string) (title, text string) {
	doc, err := html.Parse(strings.NewReader(Decode(body, contentType)))
	if err != nil { // not reached: html.Parse accepts any text, and the reader does not fail
		return "", ""
	}
	title = strings.Join(strings.Fields(innerText(find(doc, "title"))), " ")
	prune(doc, 0)
	main := mainPart(doc)
	var options []converter.ConvertOptionFunc
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		options = append(options, converter.WithDomain(u.Scheme+"://"+u.Host))
	}
	md, err := htmltomarkdown.ConvertNode(main, options...)
	if err != nil || !utf8.Valid(md) {
		md = []byte(strings.Join(strings.Fields(innerText(main)), " "))
	}
	return title, strings.TrimSpace(string(md))
}

// skippedElements are the elements that are not part of the text of a page.
var skippedElements = map[string]bool{"script": true, "style": true, "noscript": true, "nav": true, "header": true, "footer": true,
	"aside": true, "form": true, "svg": true, "iframe": true, "template": true, "button": true, "dialog": true}

// maxDepth is how many levels of elements are read: deeper ones would need too much stack.
const maxDepth = 400

// prune removes comments, skipped and hidden elements, and those that are too deep.
func prune(n *html.Node, depth int) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type == html.CommentNode || c.Type == html.ElementNode && (depth > maxDepth || skippedElements[c.Data] || isHidden(c)) {
			n.RemoveChild(c)
		} else {
			prune(c, depth+1)
		}
		c = next
	}
}

// isHidden reports whether readers of the page do not see an element: hidden text can carry instructions for a model.
func isHidden(n *html.Node) bool {
	for _, a := range n.Attr {
		style := strings.ReplaceAll(strings.ToLower(a.Val), " ", "")
		switch {
		case a.Key == "hidden", a.Key == "aria-hidden" && a.Val == "true":
			return true
		case a.Key == "style" && (strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden")):
			return true
		}
	}
	return false
}

// mainPart returns the longest article, else the main element, else the body.
func mainPart(doc *html.Node) *html.Node {
	var best *html.Node
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == "article" && (best == nil || len(innerText(n)) > len(innerText(best))) {
			best = n
		}
	}
	if best != nil && len(innerText(best)) > 200 {
		return best
	}
	for _, name := range []string{"main", "body"} {
		if n := find(doc, name); n != nil {
			return n
		}
	}
	return doc
}

func find(doc *html.Node, name string) *html.Node {
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			return n
		}
	}
	return nil
}

func innerText(n *html.Node) string {
	if n == nil {
		return ""
	}
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}
