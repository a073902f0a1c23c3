package feed

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"net/url"

	"github.com/mmcdole/gofeed"
	xhtml "golang.org/x/net/html"

	"ravenbot/internal/core/text"
)

// maxBytes is the largest document that is read.
const maxBytes = 10 << 20

// Hint is what is known about a document apart from its bytes. Every field is optional.
type Hint struct {
	URL             string // where it came from: the base of relative links
	ContentType     string // header of the response
	ContentLocation string // header of the response
	ContentLanguage string // header of the response
	// IDsRepeat says that the identifiers of the feed's items are known to be of several items each.
	IDsRepeat bool
}

// newHint returns what a response's headers say about its body.
func newHint(url string, h http.Header) Hint {
	return Hint{
		URL:             url,
		ContentType:     h.Get("Content-Type"),
		ContentLocation: h.Get("Content-Location"),
		ContentLanguage: h.Get("Content-Language"),
	}
}

// base returns the address that relative links count from, or nil where none is known.
func (h Hint) base() *url.URL {
	return resolveURL(resolveURL(nil, h.URL), h.ContentLocation)
}

// Parse reads a feed. It never panics. For a document that is not a feed it returns an error that wraps ErrNotFeed
// and says what the document is instead.
func Parse(data []byte, hint Hint) (doc Document, err error) {
	defer func() {
		if p := recover(); p != nil { // gofeed is third-party code and reads what strangers wrote
			doc, err = Document{}, fmt.Errorf("parse feed: the feed parser panicked: %v", p)
		}
	}()
	if len(data) > maxBytes {
		return Document{}, fmt.Errorf("parse feed: the document has %d bytes, more than the limit of %d", len(data), maxBytes)
	}
	text := withoutPreamble(toUTF8(data, hint.ContentType))
	// JSON Feed allows characters that XML forbids, so only XML is cleaned of them.
	parse := parseXML
	if bytes.HasPrefix(text, []byte("{")) {
		parse = parseJSON
	} else {
		text = removeInvalidChars(text)
	}
	doc, err = parse(text, hint.base())
	// The header is the last resort: a language in the document itself is more specific.
	doc.Feed.Language = cmp.Or(doc.Feed.Language, shortText(hint.ContentLanguage))
	doc.separateItems(hint.IDsRepeat)
	for i := range doc.Items {
		doc.Items[i].Link = cmp.Or(doc.Items[i].Link, doc.Feed.Link)
	}
	return doc, err
}

// parseXML reads an XML feed that is UTF-8. base is nil where the address is not known.
func parseXML(text []byte, base *url.URL) (Document, error) {
	// Pages are the most common mistake, so they are refused before anything tries to repair them.
	if isPage(text) {
		return Document{}, notFeed(text)
	}
	c, err := cleanXML(text, base)
	root := c.root
	switch {
	case err != nil && root == "":
		return Document{}, notFeed(text)
	case err != nil:
		return Document{}, fmt.Errorf("parse feed: %w", err)
	case root == "html":
		return Document{}, notFeed(text)
	case root != "rss" && root != "rdf" && root != "feed":
		return Document{}, fmt.Errorf("%w: its root element is <%.40s>", ErrNotFeed, root)
	}
	parsed, err := newParser().Parse(bytes.NewReader(c.out.Bytes()))
	if err != nil {
		return Document{}, fmt.Errorf("parse feed: %w", err)
	}
	doc := convertFeed(parsed)
	doc.Pace = c.pace
	return doc, nil
}

// newParser returns a gofeed parser that does not scan item contents for images; media.go does that.
func newParser() *gofeed.Parser {
	p := gofeed.NewParser()
	p.RSSTranslator = translator{&gofeed.DefaultRSSTranslator{DisableContentImageScan: true}}
	p.AtomTranslator = translator{&gofeed.DefaultAtomTranslator{}}
	return p
}

var (
	opening   = text.Pattern(`(?i)<\?xml|<rss\b|<feed\b|<rdf:rdf\b`)
	pageStart = text.Pattern(`(?is)^\s*(<!--.*?-->\s*)*<(!doctype\s+html|html\b)`)
	xmlHead   = text.Pattern(`^<\?xml[^>]{0,500}\?>`)
)

const (
	preamble   = 4 << 10 // bytes in which the document must begin; what stands before it is left out
	blankStart = " \t\r\n\x00\uFEFF"
)

// withoutPreamble removes what some servers send before the document: blank lines, stray bytes, warnings of a script,
// and the XML declaration, whose encoding toUTF8 has used already.
func withoutPreamble(text []byte) []byte {
	text = bytes.TrimLeft(text, blankStart)
	head := text[:min(len(text), preamble)]
	// A JSON feed may mention <rss in a text, so only XML is searched.
	if len(head) > 0 && head[0] != '{' && !pageStart().Match(head) {
		if at := opening().FindIndex(head); at != nil {
			text = text[at[0]:]
		}
	}
	return bytes.TrimLeft(text[len(xmlHead().Find(text)):], blankStart)
}

// isPage reports whether the document is an HTML page. A feed with an HTML doctype, which some servers send, is not
// one.
func isPage(text []byte) bool {
	head := text[:min(len(text), preamble)]
	return pageStart().Match(head) && !opening().Match(head)
}

// notFeed returns an error that says what the document is instead of a feed.
func notFeed(text []byte) error {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return fmt.Errorf("%w: the document is empty", ErrNotFeed)
	case !bytes.Contains(text[:min(len(text), preamble)], []byte("<")):
		return fmt.Errorf("%w: it begins with %.60q", ErrNotFeed, text)
	case !isPage(text) && !bytes.Contains(bytes.ToLower(text), []byte("<html")):
		return fmt.Errorf("%w: it is markup without a feed in it", ErrNotFeed)
	}
	title := pageTitle(text)
	if title == "" {
		return fmt.Errorf("%w: it looks like an HTML page", ErrNotFeed)
	}
	return fmt.Errorf("%w: it looks like an HTML page titled %.100q", ErrNotFeed, title)
}

// pageTitle returns the title of an HTML page, or "".
func pageTitle(page []byte) string {
	z := xhtml.NewTokenizer(bytes.NewReader(page))
	for {
		switch z.Next() {
		case xhtml.ErrorToken:
			return ""
		case xhtml.StartTagToken:
			if name, _ := z.TagName(); string(name) == "title" && z.Next() == xhtml.TextToken {
				return text.OneLine(string(z.Text()))
			}
		}
	}
}
