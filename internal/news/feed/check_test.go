package feed

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	xhtml "golang.org/x/net/html"
)

var handler = regexp.MustCompile(`^on[a-z]+$`)

// checkDocument fails the test where a document breaks a promise of the package.
func checkDocument(t testing.TB, name string, doc Document) {
	t.Helper()
	data, err := json.Marshal(doc)
	if err != nil || !utf8.Valid(data) {
		t.Errorf("%s: does not become JSON: %v", name, err)
	}
	checkInert(t, name, doc.Feed.Title, doc.Feed.Description, doc.Feed.Copyright)
	checkLinks(t, name, doc.Feed.Link, doc.Feed.Image)
	for _, item := range doc.Items {
		if item.ID == "" {
			t.Errorf("%s: an item without an id", name)
		}
		checkInert(t, name, item.Title, item.Summary, item.Content)
		checkLinks(t, name, item.Link, item.Image)
		for _, e := range item.Enclosures {
			checkLinks(t, name, e.URL)
		}
	}
}

func checkLinks(t testing.TB, name string, links ...string) {
	t.Helper()
	for _, link := range links {
		if isActive(link) {
			t.Errorf("%s: active link %q", name, link)
		}
	}
}

func isActive(link string) bool {
	link = strings.ToLower(strings.Map(func(r rune) rune {
		if r <= ' ' {
			return -1
		}
		return r
	}, link))
	return strings.HasPrefix(link, "javascript:") || strings.HasPrefix(link, "vbscript:") ||
		strings.HasPrefix(link, "data:")
}

// checkInert reads the fragments as a browser would and looks for anything that
// acts.
func checkInert(t testing.TB, name string, fragments ...string) {
	t.Helper()
	for _, fragment := range fragments {
		nodes, err := xhtml.ParseFragment(strings.NewReader(fragment), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, n := range nodes {
			for d := range n.Descendants() {
				checkNode(t, name, d)
			}
		}
	}
}

func checkNode(t testing.TB, name string, n *xhtml.Node) {
	t.Helper()
	if n.Type != xhtml.ElementNode {
		return
	}
	switch n.Data {
	case "script", "style", "iframe", "frame", "object", "embed", "applet", "form", "input", "meta", "link", "base", "svg",
		"math":
		t.Errorf("%s: active element <%s>", name, n.Data)
	}
	for _, a := range n.Attr {
		if handler.MatchString(a.Key) || a.Key == "style" || isActive(a.Val) {
			t.Errorf("%s: active attribute %s=%q", name, a.Key, a.Val)
		}
	}
}
