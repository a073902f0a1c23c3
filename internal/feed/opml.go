package feed

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
)

const (
	maxOutlines = 50_000 // of a list of feeds
	maxFolders  = 32     // inside one another; deeper ones count as the last of them
)

// Outline is a feed in a list of feeds (OPML).
type Outline struct {
	Title  string // plain text, never empty
	URL    string // of the feed
	Page   string // of the site it belongs to; may be empty
	Folder []string
}

// ReadOPML reads a list of feeds as feed readers export it, in its order, each with
// the folders it lies in. Names may be in any case, titles missing, the end cut off;
// outlines without a web address are passed over. It reads at most 10 MiB and 50,000
// feeds and expands no entities of the document's own.
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
	if err := o.read(newDecoder(text)); err != nil {
		return nil, fmt.Errorf("read OPML: %w", err)
	}
	return o.list, nil
}

// opmlReader is a list being read.
type opmlReader struct {
	list    []Outline
	root    string
	folders []string // of the open outlines; empty for feeds
}

func (o *opmlReader) read(d *xml.Decoder) error {
	for {
		token, err := d.RawToken()
		var syntax *xml.SyntaxError
		if errors.Is(err, io.EOF) || errors.As(err, &syntax) && o.root != "" {
			break // what was read until here is what there is
		}
		if err != nil {
			return fmt.Errorf("it is no XML: %w", err)
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
		return errors.New("there is no element in it")
	}
	return nil
}

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
	title, address := shortText(firstOf(attr["title"], attr["text"])), shortText(firstOf(attr["xmlurl"], attr["url"]))
	if !isWebURL(address) {
		o.folders = append(o.folders, title)
		return nil
	}
	o.folders = append(o.folders, "")
	if len(o.list) == maxOutlines {
		return fmt.Errorf("it has more than %d feeds", maxOutlines)
	}
	if tagStart.MatchString(title) {
		title = oneLine(PlainText(title))
	}
	o.list = append(o.list, Outline{Title: firstOf(title, titleFromURL(address)), URL: address, Page: safeLink(attr["htmlurl"]), Folder: o.folderPath()})
	return nil
}

// folderPath names the open folders.
func (o *opmlReader) folderPath() (path []string) {
	for _, name := range o.folders {
		if name != "" && len(path) < maxFolders {
			path = append(path, name)
		}
	}
	return path
}

// titleFromURL stands for a title that is missing.
func titleFromURL(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	return strings.TrimSuffix(u.Host+u.Path, "/")
}

// WriteOPML writes a list of feeds that other feed readers take, one folder inside
// the other. Feeds of one folder should follow one another.
func WriteOPML(w io.Writer, title string, list []Outline) error {
	var b strings.Builder
	b.WriteString(xml.Header + "<opml version=\"2.0\">\n<head><title>" + escapeAttribute(title) + "</title></head>\n<body>\n")
	var open []string
	for _, o := range list {
		same := 0
		for same < min(len(open), len(o.Folder)) && open[same] == o.Folder[same] {
			same++
		}
		b.WriteString(strings.Repeat("</outline>\n", len(open)-same))
		for _, name := range o.Folder[same:] {
			fmt.Fprintf(&b, "<outline text=\"%s\">\n", escapeAttribute(name))
		}
		open = slices.Clone(o.Folder)
		name := escapeAttribute(firstOf(o.Title, titleFromURL(o.URL)))
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

// escapeAttribute is text as it stands in an attribute.
func escapeAttribute(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder takes everything
	return b.String()
}
