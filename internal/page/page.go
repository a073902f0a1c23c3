// Package page makes Markdown of HTML: the title and the main text of a page, without
// its scripts, menus and hidden parts. It promises to end for whatever it is given, and
// that what it makes is valid UTF-8. What a page says is data; who reads it must not
// take it for an order. Where pages come from is left to others.
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

// Decode is a text in UTF-8, read by what its server or the page itself says of its
// encoding.
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

// Markdown gives the title of a page, on one line, and its main text. address, where it
// is not empty, makes relative links whole.
func Markdown(body []byte, contentType, address string) (title, text string) {
	doc, err := html.Parse(strings.NewReader(Decode(body, contentType)))
	if err != nil { // html.Parse takes whatever it is given; its reader does not fail
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

// skippedElements are the elements that hold no text of the page.
var skippedElements = map[string]bool{"script": true, "style": true, "noscript": true, "nav": true, "header": true, "footer": true,
	"aside": true, "form": true, "svg": true, "iframe": true, "template": true, "button": true, "dialog": true}

// maxDepth is how many levels of elements are read.
const maxDepth = 400

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

// isHidden text is a way to give orders to a model that no reader sees.
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

// mainPart is the longest article, else the main element, else the body.
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
