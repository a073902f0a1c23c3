package feed

import (
	"crypto/sha256"
	"encoding/hex"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/mmcdole/gofeed"
	ext "github.com/mmcdole/gofeed/extensions"
)

const maxField = 2_000 // bytes of a short field: a category, an author, an address

func convert(in *gofeed.Feed) Document {
	doc := Document{
		Feed: Feed{
			Title:       SafeHTML(firstOf(in.Title, extension(in.Extensions, "atom", "title"))),
			Link:        safeLink(in.Link),
			Description: SafeHTML(firstOf(in.Description, extension(in.Extensions, "itunes", "subtitle"))),
			Language:    strings.ReplaceAll(field(in.Language), "_", "-"),
			Copyright:   SafeHTML(in.Copyright),
			Author:      people(in.Authors),
			Published:   when(in.PublishedParsed, in.Published, extension(in.Extensions, "dcterms", "issued")),
			Updated:     when(in.UpdatedParsed, in.Updated, extension(in.Extensions, "dcterms", "modified")),
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
		Title:      SafeHTML(firstOf(in.Title, extension(in.Extensions, "media", "title"))),
		Link:       safeLink(in.Link),
		Summary:    SafeHTML(in.Description),
		Content:    SafeHTML(in.Content),
		Author:     people(in.Authors),
		Published:  when(in.PublishedParsed, in.Published, extension(in.Extensions, "dcterms", "issued")),
		Updated:    when(in.UpdatedParsed, in.Updated, extension(in.Extensions, "dcterms", "modified")),
		Categories: categories(append(in.Categories, moreCategories(in.Extensions)...)),
		Enclosures: []Enclosure{},
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
	mediaOf(in.Extensions).adopt(&item, in)
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

// oneLine folds white space and drops control characters, which could steer a terminal.
func oneLine(s string) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) && !unicode.IsSpace(c) {
			return -1
		}
		return c
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// people is "Name (email)" of each, without repeats.
func people(list []*gofeed.Person) string {
	var out []string
	for _, p := range list {
		if p == nil {
			continue
		}
		name, email := field(html.UnescapeString(p.Name)), field(p.Email)
		if m := angled.FindStringSubmatch(firstOf(name, email)); m != nil {
			name, email = m[1], m[2]
		}
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

// angled is the way of mail headers: Name <email>.
var angled = regexp.MustCompile(`^([^<>@]+?)\s*<([^<>@\s]+@[^<>@\s]+)>$`)

// extension is the first value of an element of another vocabulary.
func extension(all ext.Extensions, prefix, name string) string {
	for _, e := range all[prefix][name] {
		if value := strings.TrimSpace(e.Value); value != "" {
			return value
		}
	}
	return ""
}

// moreCategories are those that podcasts and media feeds have.
func moreCategories(all ext.Extensions) (out []string) {
	for _, e := range all["media"]["category"] {
		out = append(out, e.Value)
	}
	return append(out, podcastCategories(all["itunes"]["category"])...)
}

// podcastCategories hold their name as an attribute and may be nested once.
func podcastCategories(list []ext.Extension) (out []string) {
	for _, e := range list {
		out = append(out, e.Attrs["text"])
		for _, inner := range e.Children["category"] {
			out = append(out, inner.Attrs["text"])
		}
	}
	return out
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

// when is the first date that can be read, in UTC.
func when(parsed *time.Time, texts ...string) time.Time {
	if parsed != nil {
		return inRange(*parsed)
	}
	for _, text := range texts {
		if t := inRange(parseDate(text)); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// inRange is zero for years that JSON has no date for.
func inRange(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Second)
	if t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}
