package feed

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

const (
	maxOutlines = 50_000 // of a list of feeds
	maxFolders  = 32     // nested in one another; deeper ones are left out of Outline.Folder
)

// Outline is one feed of an OPML file.
type Outline struct {
	Title  string   // plain text, never empty
	URL    string   // of the feed
	Page   string   // of the site it belongs to; may be empty
	Folder []string // the folders that it lies in, outermost first
}

// ReadOPML reads a list of feeds as feed readers export it, in its order. Names may be in any letter case, titles may
// be missing and the end may be cut off; outlines without a web address count as folders. It reads at most 10 MiB and
// 50,000 feeds, and expands no entities that the document declares.
func ReadOPML(r io.Reader) ([]Outline, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read OPML: %w", err)
	}
	if len(data) > maxBytes {
		return nil, fmt.Errorf("read OPML: it is larger than %d bytes", maxBytes)
	}
	text := removeInvalidChars(withoutPreamble(toUTF8(data, "")))
	o := opmlReader{list: []Outline{}}
	if err := o.read(newDecoder(bytes.NewReader(text))); err != nil {
		return nil, fmt.Errorf("read OPML: %w", err)
	}
	return o.list, nil
}

// opmlReader collects the outlines of a list.
type opmlReader struct {
	list    []Outline
	root    string
	folders []string // of the open outlines; empty for feeds
}

// read reads the outlines of a document. Of one that breaks off it keeps what comes before.
func (o *opmlReader) read(d *xml.Decoder) error {
	for {
		token, err := d.RawToken()
		var syntax *xml.SyntaxError
		if errors.Is(err, io.EOF) || errors.As(err, &syntax) && o.root != "" {
			break // keep what was read until here
		}
		if err != nil {
			return fmt.Errorf("it is not XML: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if err := o.handleStart(t); err != nil {
				return err
			}
		case xml.EndElement:
			if strings.EqualFold(t.Name.Local, "outline") && len(o.folders) > 0 {
				o.folders = o.folders[:len(o.folders)-1]
			}
		}
	}
	if o.root == "" {
		return errors.New("it has no element")
	}
	return nil
}

// handleStart notes a feed, or opens a folder. It returns an error where the document is not OPML.
func (o *opmlReader) handleStart(t xml.StartElement) error {
	name := strings.ToLower(t.Name.Local)
	if o.root == "" {
		if o.root = name; name != "opml" {
			return fmt.Errorf("its root element is <%.40s>, not <opml>", t.Name.Local)
		}
	}
	if name != "outline" {
		return nil
	}
	attr := map[string]string{}
	for _, a := range t.Attr {
		attr[strings.ToLower(a.Name.Local)] = a.Value
	}
	title, address := shortText(cmp.Or(attr["title"], attr["text"])), webAddress(shortText(cmp.Or(attr["xmlurl"], attr["url"])))
	// An outline without an address is a folder, also where it has an unknown type.
	if !isWebURL(address) {
		o.folders = append(o.folders, title)
		return nil
	}
	// Feeds may be written as open elements too; an empty name keeps the stack balanced.
	o.folders = append(o.folders, "")
	if len(o.list) == maxOutlines {
		return fmt.Errorf("it has more than %d feeds", maxOutlines)
	}
	if tagStart().MatchString(title) {
		title = text.OneLine(PlainText(title))
	}
	path := slices.DeleteFunc(slices.Clone(o.folders), func(name string) bool { return name == "" })
	o.list = append(o.list, Outline{
		Title:  cmp.Or(title, titleFromURL(address)),
		URL:    address,
		Page:   safeLink(attr["htmlurl"]),
		Folder: append([]string(nil), path[:min(len(path), maxFolders)]...), // nil for none
	})
	return nil
}

// titleFromURL returns a title for a feed that has none.
func titleFromURL(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	return strings.TrimSuffix(u.Host+u.Path, "/")
}

// WriteOPML writes a list of feeds that other feed readers can import, with nested folders. Feeds of one folder
// should follow one another, or the folder is written several times.
func WriteOPML(w io.Writer, title string, list []Outline) error {
	var b strings.Builder
	b.WriteString(xml.Header + "<opml version=\"2.0\">\n<head><title>" + escapeAttribute(title) + "</title></head>\n<body>\n")
	var open []string
	for _, o := range list {
		// Close the folders that this feed does not share with the one before it, then open its own.
		same := 0
		for same < min(len(open), len(o.Folder)) && open[same] == o.Folder[same] {
			same++
		}
		b.WriteString(strings.Repeat("</outline>\n", len(open)-same))
		for _, name := range o.Folder[same:] {
			fmt.Fprintf(&b, "<outline text=\"%s\">\n", escapeAttribute(name))
		}
		open = slices.Clone(o.Folder)
		name := escapeAttribute(cmp.Or(o.Title, titleFromURL(o.URL)))
		fmt.Fprintf(&b, "<outline type=\"rss\" text=\"%s\" title=\"%s\" xmlUrl=\"%s\"", name, name, escapeAttribute(o.URL))
		if o.Page != "" {
			fmt.Fprintf(&b, " htmlUrl=\"%s\"", escapeAttribute(o.Page))
		}
		b.WriteString("/>\n")
	}
	b.WriteString(strings.Repeat("</outline>\n", len(open)) + "</body>\n</opml>\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write OPML: %w", err)
	}
	return nil
}

// escapeAttribute escapes text for an XML attribute.
func escapeAttribute(text string) string { return xmlEscapes.Replace(text) }
