package feed

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"ravenbot/internal/core/text"
)

const (
	maxDepth   = 256       // of nested elements; the parser behind recurses on them
	maxItems   = 2_000     // of a feed; further items are left out
	maxParts   = 200_000   // elements and attributes of a document, or what is in lists and objects; the rest is left out
	maxTag     = 1 << 20   // bytes of one tag; the rest of the document is left out
	maxText    = 512 << 10 // bytes of one element's text; the rest is cut off
	maxAttr    = 64 << 10
	maxRepairs = 1_000 // of broken markup; then the rest of the document is left out
)

// cleaner copies an XML document into a form that a parser can read without surprises: well formed, within the limits
// on depth, length and size, link addresses absolute. Where the document breaks off, the item that is incomplete is
// left out.
type cleaner struct {
	out    bytes.Buffer
	stack  []frame
	items  int // begun so far
	inItem bool
	parts  int    // elements and attributes so far
	root   string // local name of the root element, lower case
	pace   Pace   // what the elements so far say
}

// frame is an open element.
type frame struct {
	source      string // its name in the document
	name        string // its name in the copy
	local       string // that without a prefix, lower case
	base        *url.URL
	attr        map[string]string
	start       int // of the element in out
	inner       int // of its content in out
	isItem      bool
	isMarkup    bool // read and not yet written
	inMarkup    bool // it is part of such content
	hasChildren bool
	text        []byte // not written yet
}

// cleanXML returns a cleaner whose out holds the cleaned document and whose root is the local name of its root
// element. data is UTF-8 without characters that XML forbids; base may be nil. It returns an error where there is no
// element, or elements are nested too deeply; the cleaner is returned with it.
func cleanXML(data []byte, base *url.URL) (*cleaner, error) {
	c := &cleaner{}
	c.out.Grow(len(data) + len(data)/8)
	if err := c.copy(data, base); err != nil {
		return c, err
	}
	if c.root == "" {
		return c, errors.New("it has no element")
	}
	return c, nil
}

// errEnough ends the reading of a document with more than maxItems items or more than maxParts.
var errEnough = errors.New("as much as is read of a document")

// copy copies the document token by token. It returns an error only where nothing useful can be made of it.
func (c *cleaner) copy(data []byte, base *url.URL) error {
	at := 0 // start of the decoder's input in data
	r := &tagReader{data: data}
	d := newDecoder(r)
	for repairs := 0; ; {
		start := at + int(d.InputOffset())
		r.beginToken(start)
		token, err := d.RawToken()
		if err == nil {
			err = c.handleToken(token, base)
			if errors.Is(err, errEnough) || c.root != "" && len(c.stack) == 0 {
				break
			}
			if err != nil {
				return err
			}
			continue
		}
		// encoding/xml stops for good at its first syntax error, so a new decoder continues behind the broken token.
		end := at + int(d.InputOffset())
		if errors.Is(err, io.EOF) || isTruncation(err) || repairs == maxRepairs || start >= len(data) {
			break
		}
		repairs++
		at = c.skipToken(data, start, end)
		r.at = at
		d = newDecoder(r)
	}
	c.finish()
	return nil
}

// newDecoder returns a decoder that accepts HTML entities, unquoted attributes and unclosed elements.
func newDecoder(r io.Reader) *xml.Decoder {
	d := xml.NewDecoder(r)
	d.Strict = false
	d.Entity = xml.HTMLEntity
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // it is UTF-8 by now
	return d
}

// tagReader reads a document for a decoder, which takes single bytes, no more than it needs. It ends where a start tag
// has more than maxTag bytes: the decoder keeps all attributes of a tag in memory before any can be counted.
type tagReader struct {
	io.Reader // which the decoder asks for, and does not use
	data      []byte
	at, end   int
}

// beginToken says that the next token begins at an offset in the data.
func (r *tagReader) beginToken(start int) {
	r.end = len(r.data)
	if start+1 < r.end && r.data[start] == '<' && strings.IndexByte("!?/", r.data[start+1]) < 0 {
		r.end = min(start+maxTag, r.end)
	}
}

func (r *tagReader) ReadByte() (byte, error) {
	if r.at == r.end {
		return 0, io.EOF
	}
	r.at++
	return r.data[r.at-1], nil
}

// isTruncation reports whether the document ended in the middle of an element. encoding/xml has no error value for it.
func isTruncation(err error) bool {
	var syntax *xml.SyntaxError
	return errors.As(err, &syntax) && strings.Contains(syntax.Msg, "unexpected EOF")
}

// skipToken copies a token that is not XML as text and returns the offset to continue at.
func (c *cleaner) skipToken(data []byte, start, end int) int {
	// Some servers send a second XML declaration in the middle of the document.
	if bytes.HasPrefix(data[start:], []byte("<?")) {
		if length := bytes.Index(data[start:], []byte("?>")); length > 0 {
			return start + length + 2
		}
	}
	if data[start] == '<' {
		c.appendText([]byte("<"))
		return start + 1
	}
	end = max(end, start+1)
	c.appendText([]byte(html.UnescapeString(string(data[start:end]))))
	return end
}

// handleToken copies one token. Comments, declarations and processing instructions are left out.
func (c *cleaner) handleToken(token xml.Token, base *url.URL) error {
	switch t := token.(type) {
	case xml.StartElement:
		return c.openElement(t, base)
	case xml.EndElement:
		c.closeElement(qualifiedName(t.Name))
	case xml.CharData:
		c.appendText(t)
	}
	return nil
}

// qualifiedName returns a name with its prefix, as it stands in the document: RawToken resolves no namespaces.
func qualifiedName(name xml.Name) string {
	if name.Space == "" {
		return name.Local
	}
	return name.Space + ":" + name.Local
}

// openElement writes a start tag. It returns errEnough at one item too many, and at too many elements and attributes.
func (c *cleaner) openElement(t xml.StartElement, base *url.URL) error {
	if c.parts += 1 + len(t.Attr); c.parts > maxParts {
		return errEnough
	}
	name := qualifiedName(t.Name)
	f := frame{source: name, name: name, local: strings.ToLower(t.Name.Local), base: base}
	if len(c.stack) > 0 {
		parent := &c.stack[len(c.stack)-1]
		f.base = parent.base
		// Text before a child element has to be written before the child.
		c.flushText(parent)
		parent.hasChildren = true
		f.inMarkup = parent.isMarkup || parent.inMarkup
	} else {
		c.root = f.local
	}
	c.renameElement(&f)
	// A document that is nested this deeply is an attack; it is refused rather than repaired.
	if len(c.stack) == maxDepth {
		return fmt.Errorf("malformed: elements are nested more than %d deep", maxDepth)
	}
	if (f.local == "item" || f.local == "entry") && !c.inItem {
		if c.items == maxItems {
			return errEnough
		}
		c.items++
		c.inItem, f.isItem = true, true
	}
	// finish cuts the output back to here when the item turns out to be incomplete.
	f.start = c.out.Len()
	f.attr = map[string]string{}
	c.out.WriteString("<" + f.name)
	c.writeAttributes(&f, t.Attr)
	c.out.WriteByte('>')
	f.inner = c.out.Len()
	c.stack = append(c.stack, f)
	// gofeed reads elements alone.
	if about := f.attr["rdf:about"]; c.root == "rdf" && f.isItem && about != "" {
		c.out.WriteString("<guid>" + html.EscapeString(about) + "</guid>")
	}
	return nil
}

// renameElement decides what the element is called in the copy.
func (c *cleaner) renameElement(f *frame) {
	switch {
	case f.inMarkup:
		f.name = f.local // HTML knows no prefixes such as xhtml:
		return
	case c.root == "rss" && f.name == "author" && !c.inItem:
		f.name = "managingEditor"
	case c.root != "feed" && c.inItem && (f.local == "body" || f.local == "fullitem"):
		f.name, f.local = "content:encoded", "encoded"
	}
	f.isMarkup = slices.Contains(markupElements, f.local) && len(c.stack) > 0 && !strings.HasPrefix(f.name, "media:")
}

// linkAttrs are the attributes that hold addresses, in feeds and in the XHTML inside them.
var linkAttrs = strings.Fields("href src url uri")

// writeAttributes writes the attributes of an element and notes them in f, with absolute addresses. Of two with the
// same name the first counts.
func (c *cleaner) writeAttributes(f *frame, attrs []xml.Attr) {
	// xml:base applies to every attribute of its element, so it is read first.
	for _, a := range attrs {
		if a.Name.Space == "xml" && a.Name.Local == "base" {
			f.base = resolveURL(f.base, a.Value)
		}
	}
	for _, a := range attrs {
		name := qualifiedName(a.Name)
		if _, twice := f.attr[name]; twice || name == "xml:base" || len(a.Value) > maxAttr {
			continue
		}
		value := a.Value
		if name == "rel" { // RFC 4287 (4.2.7.2) allows the whole name of a relation
			value = strings.TrimPrefix(value, "http://www.iana.org/assignments/relation/")
		}
		if slices.Contains(linkAttrs, strings.ToLower(a.Name.Local)) {
			value = absoluteURL(f.base, value)
		}
		f.attr[name] = value
		// The copy of a text has a form of its own, and gofeed would take the label of a category for its name.
		if f.isMarkup && (name == "type" || name == "mode") || c.root == "feed" && f.local == "category" && name == "label" {
			continue
		}
		c.out.WriteString(" " + name + `="`)
		escapeXML(&c.out, []byte(value))
		c.out.WriteByte('"')
	}
}

// appendText keeps up to maxText bytes of an element's text, cut between characters.
func (c *cleaner) appendText(data []byte) {
	if len(c.stack) == 0 {
		return
	}
	f := &c.stack[len(c.stack)-1]
	f.text = append(f.text, text.Cut(string(data[:min(len(data), maxText+utf8.UTFMax)]), maxText-len(f.text))...)
}

// flushText writes the text that stands beside child elements.
func (c *cleaner) flushText(f *frame) {
	escapeXML(&c.out, f.text)
	f.text = nil
}

// closeElement closes the nearest open element of that name and all inside it. It ignores an end tag without a start
// tag.
func (c *cleaner) closeElement(name string) {
	depth := len(c.stack) - 1
	// Inner elements that were never closed, such as <br>, are closed with the outer one.
	for depth >= 0 && c.stack[depth].source != name {
		depth--
	}
	if depth < 0 {
		return
	}
	for len(c.stack) > depth {
		c.pop()
	}
}

// pop closes the innermost element and writes what of it is not written yet.
func (c *cleaner) pop() {
	f := &c.stack[len(c.stack)-1]
	switch {
	case f.hasChildren:
		c.flushText(f)
		// The content was written as elements; it is taken back out and written as escaped HTML, which gofeed reads.
		if f.isMarkup {
			inner := bytes.Clone(c.out.Bytes()[f.inner:])
			c.out.Truncate(f.inner)
			c.writeCDATA(unwrapMarkup(inner, strings.ToLower(f.attr["type"])))
		}
	case f.inMarkup:
		c.flushText(f)
	default:
		c.writeLeaf(f)
	}
	c.out.WriteString("</" + f.name + ">")
	c.inItem = c.inItem && !f.isItem
	c.stack = c.stack[:len(c.stack)-1]
}

// linkElements hold an address as their text.
var linkElements = strings.Fields("link url uri docs comments icon logo")

// markupElements hold HTML as their text, whatever type they declare.
var markupElements = strings.Fields("description encoded content summary subtitle tagline info title rights copyright")

// writeLeaf writes the text of an element without children as CDATA, so that no later reader decodes it a second time.
func (c *cleaner) writeLeaf(f *frame) {
	text := bytes.TrimSpace(f.text)
	if len(text) == 0 {
		return
	}
	// Only short texts can be a number of minutes or the name of a day.
	if depth := len(c.stack); depth > 1 && len(text) < 20 {
		c.pace.readElement(c.stack[depth-2].local, f.local, string(text))
	}
	if slices.Contains(linkElements, f.local) {
		text = []byte(absoluteURL(f.base, string(text)))
		// Some write the links of Atom as those of RSS.
		if c.root == "feed" && f.local == "link" && f.attr["href"] == "" {
			c.out.Truncate(f.start)
			c.out.WriteString(`<link href="`)
			escapeXML(&c.out, text)
			c.out.WriteString(`">`)
			return
		}
	}
	if f.isMarkup {
		text = c.leafMarkup(f, text)
	}
	c.writeCDATA(text)
}

// leafMarkup returns the HTML that an element's text stands for. Texts of RSS are HTML; Atom declares what they are.
func (c *cleaner) leafMarkup(f *frame, text []byte) []byte {
	kind, mode := strings.ToLower(strings.TrimSpace(f.attr["type"])), strings.ToLower(f.attr["mode"])
	isAtom := c.root == "feed"
	switch {
	case mode == "base64" || isAtom && mode == "" && isBinary(kind):
		if decoded, err := base64.StdEncoding.DecodeString(string(text)); err == nil {
			text = removeInvalidChars(bytes.ToValidUTF8(decoded, []byte("\uFFFD")))
		}
	case isAtom && (kind == "text" || kind == "text/plain" || kind == "" && mode == ""):
		if bytes.IndexByte(text, '<') >= 0 {
			text = []byte(html.EscapeString(string(text)))
		}
		return text
	}
	return absoluteMarkup(f.base, text)
}

// isBinary reports whether Atom content of this media type is in base64: neither text nor XML (RFC 4287, 4.1.3.3).
func isBinary(kind string) bool {
	return strings.Contains(kind, "/") && !strings.HasPrefix(kind, "text/") && !strings.HasSuffix(kind, "xml")
}

// wrapperDiv matches a div that is the whole of a fragment, as far as an expression can tell.
var wrapperDiv = text.Pattern(`(?s)^\s*<div[^>]*>(.*)</div>\s*$`)

// unwrapMarkup returns the markup without the div that Atom 1.0 wraps XHTML in and that is not part of it (RFC 4287,
// 3.1.1.3).
func unwrapMarkup(markup []byte, kind string) []byte {
	// Several divs in a row are content; only a single one is the wrapper.
	m := wrapperDiv().FindSubmatch(markup)
	if m == nil || bytes.Contains(m[1], []byte("<div")) || kind != "xhtml" && kind != "html" && kind != "application/xml" {
		return markup
	}
	inner := bytes.TrimSpace(m[1])
	if kind == "html" && bytes.IndexByte(inner, '<') < 0 {
		return []byte(html.UnescapeString(string(inner))) // escaped and wrapped, as some blog hosts do
	}
	return inner
}

// writeCDATA writes text as CDATA. A "]]>" inside is split over two sections.
func (c *cleaner) writeCDATA(text []byte) {
	c.out.WriteString("<![CDATA[")
	c.out.Write(bytes.ReplaceAll(text, []byte("]]>"), []byte("]]]]><![CDATA[>")))
	c.out.WriteString("]]>")
}

// finish drops the item that is incomplete and closes the elements that are open.
func (c *cleaner) finish() {
	// A truncated item may lack its link or end in half a sentence, so it must not be posted.
	if i := slices.IndexFunc(c.stack, func(f frame) bool { return f.isItem }); i >= 0 {
		c.out.Truncate(c.stack[i].start)
		c.stack = c.stack[:i]
	}
	for len(c.stack) > 0 {
		c.pop()
	}
}

// escapeXML writes text with XML's special characters escaped. Characters that XML does not allow were removed before.
func escapeXML(out *bytes.Buffer, text []byte) {
	_, _ = xmlEscapes.WriteString(out, string(text)) // a bytes.Buffer never fails
}

var xmlEscapes = strings.NewReplacer("<", "&lt;", ">", "&gt;", "&", "&amp;", `"`, "&#34;")
