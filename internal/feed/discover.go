package feed

import (
	"bytes"
	"slices"
	"strings"

	xhtml "golang.org/x/net/html"
)

const (
	maxPage  = 1 << 20 // of a page is searched
	maxLinks = 20
)

// Link is a feed that a page names.
type Link struct {
	URL   string `json:"url"`
	Title string `json:"title"`
	Type  string `json:"type"`
}

var feedTypes = []string{"application/atom+xml", "application/rss+xml", "application/rdf+xml", "application/feed+json",
	"application/x-rss+xml", "application/x.atom+xml"}

// Discover finds the feeds that a web page names for itself, in its order. The
// address of the page is the base of relative links.
func Discover(page []byte, pageURL string) []Link {
	base := join(nil, pageURL)
	links := []Link{}
	z := xhtml.NewTokenizer(bytes.NewReader(page[:min(len(page), maxPage)]))
	for len(links) < maxLinks {
		kind := z.Next()
		if kind == xhtml.ErrorToken {
			break
		}
		if kind != xhtml.StartTagToken && kind != xhtml.SelfClosingTagToken {
			continue
		}
		token := z.Token()
		attr := attributes(token)
		switch token.Data {
		case "base":
			base = join(base, attr["href"])
		case "link":
			mime := strings.ToLower(strings.TrimSpace(attr["type"]))
			rel := strings.Fields(strings.ToLower(attr["rel"]))
			address := absolute(base, attr["href"])
			known := slices.ContainsFunc(links, func(l Link) bool { return l.URL == address })
			if slices.Contains(rel, "alternate") && slices.Contains(feedTypes, mime) && isWeb(address) && !known {
				links = append(links, Link{URL: address, Title: field(attr["title"]), Type: mime})
			}
		}
	}
	return links
}

func attributes(token xhtml.Token) map[string]string {
	attr := map[string]string{}
	for _, a := range token.Attr {
		if _, twice := attr[a.Key]; !twice {
			attr[a.Key] = a.Val
		}
	}
	return attr
}
