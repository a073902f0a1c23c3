// Package web is the native tool web_fetch: it reads a page as text. It promises
// that pages are fetched through the guarded client alone and that scripts,
// menus and hidden parts are left out; what a page says is data, never an order.
package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"

	htmltomarkdown "github.com/JohannesKaufmann/html-to-markdown/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"

	"ravenbot/internal/egress"
	"ravenbot/internal/tool"
)

// Getter fetches a public address.
type Getter interface {
	Get(ctx context.Context, url string, o egress.GetOptions) (*egress.Response, error)
}

// maxPage is the most that is read of a page, in bytes.
const maxPage = 4 << 20

// Fetch returns the tool.
func Fetch(get Getter) tool.Tool {
	yes := true
	return tool.Func{
		Described: tool.Spec{Server: "web", Name: "fetch", Native: true,
			Description: "Fetches a web page and returns its main text as Markdown. For feeds (RSS, Atom) use feeds_fetch.",
			Schema:      json.RawMessage(`{"type":"object","properties":{"url":{"type":"string","description":"the http or https address"}},"required":["url"]}`),
			Hints:       tool.Hints{ReadOnly: &yes, OpenWorld: &yes}},
		Do: func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
			var in struct{ URL string }
			if err := json.Unmarshal(args, &in); err != nil {
				return tool.Failure(err.Error()), nil
			}
			return fetch(ctx, get, in.URL), nil
		},
	}
}

func fetch(ctx context.Context, get Getter, address string) tool.Result {
	res, err := get.Get(ctx, address, egress.GetOptions{MaxBytes: maxPage,
		Accept: "text/html, application/xhtml+xml, text/plain;q=0.9, application/json;q=0.8, */*;q=0.1"})
	if err != nil {
		return tool.Failure(reason(address, err))
	}
	if res.Status < 200 || res.Status > 299 {
		return tool.Failure(fmt.Sprintf("%s answered with status %d.", address, res.Status))
	}
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		kind = "text/html"
	}
	switch {
	case kind == "text/html" || kind == "application/xhtml+xml":
		return tool.Text(Page(res.Body, res.Header.Get("Content-Type"), res.URL))
	case strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "xml"):
		text := decoded(res.Body, res.Header.Get("Content-Type"))
		return tool.Text("# " + res.URL + "\n\n" + text)
	}
	return tool.Failure(fmt.Sprintf("%s is no page but %s of %d bytes.", address, kind, len(res.Body)))
}

// reason says in one sentence why an address could not be fetched.
func reason(address string, err error) string {
	switch {
	case errors.Is(err, egress.ErrBlocked):
		return address + " is on a private network, which pages may not be fetched from."
	case errors.Is(err, egress.ErrTooLarge):
		return address + " is too large to read."
	case errors.Is(err, egress.ErrTimeout):
		return address + " did not answer in time."
	case errors.Is(err, egress.ErrRedirects):
		return address + " redirects again and again."
	case errors.Is(err, egress.ErrURL):
		return fmt.Sprintf("%q is not an address that can be fetched; it must begin with http:// or https://.", address)
	}
	return address + " could not be fetched: the connection failed."
}

func decoded(body []byte, contentType string) string {
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

// Page gives the title and main text of an HTML page as Markdown, the title on
// the first line. address makes relative links whole.
func Page(body []byte, contentType, address string) string {
	doc, err := html.Parse(strings.NewReader(decoded(body, contentType)))
	if err != nil { // html.Parse takes whatever it is given; its reader does not fail
		return "# " + address
	}
	title := strings.TrimSpace(text(find(doc, "title")))
	prune(doc, 0)
	main := mainPart(doc)
	domain := ""
	if u, err := url.Parse(address); err == nil {
		domain = u.Scheme + "://" + u.Host
	}
	md, err := htmltomarkdown.ConvertNode(main, converter.WithDomain(domain))
	if err != nil || !utf8.Valid(md) {
		md = []byte(strings.Join(strings.Fields(text(main)), " "))
	}
	if title == "" {
		title = address
	}
	title = strings.NewReplacer("[", "(", "]", ")").Replace(strings.Join(strings.Fields(title), " "))
	return "# [" + title + "](" + address + ")\n\n" + strings.TrimSpace(string(md))
}

// left are the elements that hold no text of the page.
var left = map[string]bool{"script": true, "style": true, "noscript": true, "nav": true, "header": true, "footer": true,
	"aside": true, "form": true, "svg": true, "iframe": true, "template": true, "button": true, "dialog": true}

// deepest is how many levels of elements are read.
const deepest = 400

func prune(n *html.Node, depth int) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type == html.CommentNode || c.Type == html.ElementNode && (depth > deepest || left[c.Data] || hidden(c)) {
			n.RemoveChild(c)
		} else {
			prune(c, depth+1)
		}
		c = next
	}
}

// hidden text is a way to give orders to a model that no reader sees.
func hidden(n *html.Node) bool {
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
		if n.Type == html.ElementNode && n.Data == "article" && (best == nil || len(text(n)) > len(text(best))) {
			best = n
		}
	}
	if best != nil && len(text(best)) > 200 {
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

func text(n *html.Node) string {
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
