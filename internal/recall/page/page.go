// Package page reads HTML: the main content of a page as Markdown, with its title, author, date and language, without
// scripts, menus, advertisements and hidden parts. Every input takes bounded time and results in valid UTF-8. The
// content of a page is data, never an instruction. The caller fetches pages.
package page

import (
	"bytes"
	"cmp"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"

	"ravenbot/internal/core/text"
)

// Page is what readers see of an HTML page. What the page does not say is empty.
type Page struct {
	Title     string   // on one line
	Byline    string   // who wrote it
	Published string   // RFC 3339
	Language  string   // as the page declares it, such as "en-GB"
	Text      string   // the main content as Markdown
	Links     []string // that the text leads to, each once, in the order of the text
}

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

// Limits of the memory that reading pages takes: 400 to 600 bytes for each tag (measured 2026-11-27).
const (
	maxTags  = 150_000 // what is behind them is left out
	manyTags = 10_000  // pages with more are read one at a time
)

// readsLarge has a value in it while a page with more than manyTags is read.
var readsLarge = make(chan struct{}, 1)

// maxTurnWait is how long such a page waits until others of its kind are read: longer than one of them takes, and less
// than whoever asked for it waits.
const maxTurnWait = 10 * time.Second

// Read returns the main content of an HTML page. A page that is no article, such as a listing, is returned without its
// menus; of one that is nested too deep to be read, nothing is, and of one with more than maxTags the beginning. Links
// are resolved against the page's <base> and its address; without either, relative ones stay as they are. A page with more
// than manyTags waits until others of that kind are read, and where that takes longer than maxTurnWait its beginning is
// read, up to manyTags.
func Read(body []byte, contentType, address string) Page {
	return readWithin(maxTurnWait, body, contentType, address)
}

// readWithin is Read of a page that waits for no longer than a time.
func readWithin(wait time.Duration, body []byte, contentType, address string) Page {
	words, tags := cutTags(Decode(body, contentType), maxTags)
	if tags > manyTags {
		select {
		case readsLarge <- struct{}{}:
			defer func() { <-readsLarge }()
		case <-time.After(wait):
			words, _ = cutTags(words, manyTags)
		}
	}
	doc, err := html.Parse(strings.NewReader(words))
	if err != nil { // elements are nested more than 512 deep, as no page for people is
		return Page{}
	}
	title := text.OneLine(innerText(find(doc, "title")))
	removeOverlays(doc)
	removeHidden(doc, 0)
	shapeText(doc)
	resolveLinks(doc, baseOf(doc, address))
	markCodeLanguages(doc)
	p, main := readMain(doc)
	p.Title = cmp.Or(p.Title, title)
	p.Text = toMarkdown(main)
	p.Links = linksIn(main)
	return p
}

// cutTags returns a page up to a number of tags, and how many it has then.
func cutTags(words string, limit int) (string, int) {
	end := 0
	for n := range limit {
		i := strings.IndexByte(words[end:], '<')
		if i < 0 {
			return words, n
		}
		end += i + 1
	}
	return words[:end-1], limit
}

// baseOf returns the address that relative links of a page count from, or nil if there is none.
func baseOf(doc *html.Node, address string) *url.URL {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" {
		base = nil
	}
	for n := range doc.Descendants() {
		href := attribute(n, "href")
		if n.Type != html.ElementNode || n.Data != "base" || href == "" {
			continue
		}
		if base == nil {
			base = &url.URL{}
		}
		// As in browsers, only the first <base> with an address counts, and only if it is one of the web.
		if u, err := base.Parse(strings.TrimSpace(href)); err == nil && isWeb(u) {
			return u
		}
		break
	}
	if base != nil && base.Host == "" {
		return nil
	}
	return base
}

// isWeb reports whether an address is an absolute one of the web.
func isWeb(u *url.URL) bool { return (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" }

// resolveLinks makes the addresses in a page absolute. It removes those that run scripts or hold data.
func resolveLinks(doc *html.Node, base *url.URL) {
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		kept := n.Attr[:0]
		for _, a := range n.Attr {
			if a.Key == "href" || a.Key == "src" {
				resolved, ok := resolve(a.Val, base)
				if !ok {
					continue
				}
				a.Val = resolved
			}
			kept = append(kept, a)
		}
		n.Attr = kept
	}
}

// resolve returns an address as absolute, and false if it leads nowhere.
func resolve(address string, base *url.URL) (string, bool) {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return "", false
	}
	switch u.Scheme {
	case "":
		if base != nil {
			u = base.ResolveReference(u)
		}
	case "http", "https", "mailto", "tel", "ftp", "magnet":
	default:
		return "", false
	}
	return u.String(), true
}

// linksIn returns the addresses that a part of a page links to, each once.
func linksIn(main *html.Node) []string {
	links, seen := []string{}, map[string]bool{}
	for n := range main.Descendants() {
		href := attribute(n, "href")
		if n.Type == html.ElementNode && n.Data == "a" && href != "" && !seen[href] {
			seen[href] = true
			links = append(links, href)
		}
	}
	return links
}

// find returns the first element of the first of names that doc has any of, or nil. doc itself is not looked at.
func find(doc *html.Node, names ...string) *html.Node {
	for _, name := range names {
		for n := range doc.Descendants() {
			if n.Type == html.ElementNode && n.Data == name {
				return n
			}
		}
	}
	return nil
}

// attribute returns an attribute of a node, or "" where it has none.
func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// innerText returns the text in a node as it is written, with that of scripts and styles. It returns "" for nil.
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
