package feed

import (
	"crypto/sha256"
	"encoding/hex"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mmcdole/gofeed"
)

const maxField = 2_000 // bytes of a short field: a category, an author, an address

func convert(in *gofeed.Feed) Document {
	doc := Document{
		Feed: Feed{
			Title:       SafeHTML(in.Title),
			Link:        safeLink(in.Link),
			Description: SafeHTML(in.Description),
			Language:    field(in.Language),
			Copyright:   SafeHTML(in.Copyright),
			Author:      people(in.Authors),
			Published:   when(in.PublishedParsed, in.Published),
			Updated:     when(in.UpdatedParsed, in.Updated),
			Categories:  categories(in.Categories),
		},
		Items: make([]Item, 0, len(in.Items)),
	}
	if in.Image != nil {
		doc.Feed.Image = safeLink(in.Image.URL)
	}
	for _, item := range in.Items[:min(len(in.Items), maxItems)] {
		if item != nil {
			doc.Items = append(doc.Items, convertItem(item))
		}
	}
	doc.adoptBase()
	doc.attribute()
	return doc
}

func convertItem(in *gofeed.Item) Item {
	item := Item{
		Title:      SafeHTML(in.Title),
		Link:       safeLink(in.Link),
		Summary:    SafeHTML(in.Description),
		Content:    SafeHTML(in.Content),
		Author:     people(in.Authors),
		Published:  when(in.PublishedParsed, in.Published),
		Updated:    when(in.UpdatedParsed, in.Updated),
		Categories: categories(in.Categories),
		Enclosures: []Enclosure{},
	}
	if in.Image != nil {
		item.Image = safeLink(in.Image.URL)
	}
	for _, e := range in.Enclosures {
		if address := safeLink(e.URL); address != "" {
			length, err := strconv.ParseInt(strings.TrimSpace(e.Length), 10, 64)
			if err != nil || length < 0 {
				length = 0
			}
			item.Enclosures = append(item.Enclosures, Enclosure{URL: address, Type: field(e.Type), Length: length})
		}
	}
	guid := field(in.GUID)
	if item.Link == "" && isWeb(guid) {
		item.Link = safeLink(guid)
	}
	item.ID = identity(guid, item)
	return item
}

func identity(guid string, item Item) string {
	switch {
	case guid != "":
		return guid
	case item.Link != "":
		return item.Link
	}
	sum := sha256.Sum256([]byte(item.Title + "\x00" + item.Summary + "\x00" + item.Content))
	return "sha256:" + hex.EncodeToString(sum[:16])
}

// adoptBase resolves what is still relative, in a document without an address,
// against the feed's own link.
func (d *Document) adoptBase() {
	base := join(nil, d.Feed.Link)
	for i := range d.Items {
		if link := &d.Items[i].Link; *link != "" && !isWeb(*link) {
			*link = absolute(base, *link)
		}
	}
}

// safeLink keeps addresses that a reader may follow, and relative ones.
func safeLink(link string) string {
	link = field(link)
	u, err := url.Parse(link)
	if err != nil {
		if isWeb(link) {
			return link
		}
		return ""
	}
	switch strings.ToLower(u.Scheme) {
	case "", "http", "https", "ftp", "mailto", "magnet", "gopher", "news":
		return link
	}
	return ""
}

func isWeb(link string) bool {
	lower := strings.ToLower(link)
	return strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://")
}

// field is a short text without markup, on one line.
func field(s string) string {
	s = oneLine(s)
	if len(s) > maxField {
		s = strings.ToValidUTF8(s[:maxField], "")
	}
	return s
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// people is "Name (email)" of each, without repeats.
func people(list []*gofeed.Person) string {
	var out []string
	for _, p := range list {
		if p == nil {
			continue
		}
		name, email := field(html.UnescapeString(p.Name)), field(p.Email)
		switch {
		case name == "":
			name = email
		case email != "" && email != name:
			name += " (" + email + ")"
		}
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}

func categories(list []string) []string {
	out := []string{}
	for _, c := range list {
		if c = field(c); c != "" && !slices.Contains(out, c) && len(out) < 100 {
			out = append(out, c)
		}
	}
	return out
}

func when(parsed *time.Time, text string) time.Time {
	t := parseDate(text)
	if parsed != nil {
		t = *parsed
	}
	if t = t.UTC().Truncate(time.Second); t.Year() < 1 || t.Year() > 9999 {
		return time.Time{} // JSON has no such date
	}
	return t
}
