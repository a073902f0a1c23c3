package feed

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mmcdole/gofeed"
	ext "github.com/mmcdole/gofeed/extensions"

	"ravenbot/internal/core/text"
)

const maxField = 2_000 // bytes of a short text: a category, an author, an address

// convertFeed converts gofeed's result into a Document: sanitized, bounded, with absolute links.
// The lists of the result are empty rather than nil, as JSON shows them.
func convertFeed(in *gofeed.Feed) Document {
	doc := Document{
		Feed: Feed{
			Title:       sanitizeHTML(cmp.Or(in.Title, extensionText(in.Extensions, "atom", "title"))),
			Link:        safeLink(in.Link),
			Description: sanitizeHTML(cmp.Or(in.Description, extensionText(in.Extensions, "itunes", "subtitle"))),
			Language:    strings.ReplaceAll(shortText(in.Language), "_", "-"),
			Copyright:   sanitizeHTML(in.Copyright),
			Author:      formatAuthors(in.Authors),
			Published:   firstDate(in.Published, extensionText(in.Extensions, "dcterms", "issued")),
			Updated:     firstDate(in.Updated, extensionText(in.Extensions, "dcterms", "modified")),
			Categories:  cleanCategories(in.Categories),
		},
		Items: make([]Item, 0, len(in.Items)),
	}
	if in.Image != nil {
		doc.Feed.Image = safeLink(in.Image.URL)
	}
	for _, item := range in.Items[:min(len(in.Items), maxItems)] {
		if item != nil { // gofeed may have failed on it
			doc.Items = append(doc.Items, convertItem(item))
		}
	}
	doc.resolveItemLinks()
	doc.setSource()
	return doc
}

// convertItem returns one item, with a link that may still be relative where the document has no address.
func convertItem(in *gofeed.Item) Item {
	item := Item{
		Title:      sanitizeHTML(escapeLoneTags(cmp.Or(in.Title, extensionText(in.Extensions, "media", "title")))),
		Link:       safeLink(cmp.Or(in.Link, atomLink(in.Extensions))),
		Summary:    sanitizeHTML(redditLinks().ReplaceAllString(in.Description, "")),
		Content:    sanitizeHTML(redditLinks().ReplaceAllString(in.Content, "")),
		Author:     formatAuthors(in.Authors),
		Origin:     shortText(PlainText(in.Custom[originField])),
		Published:  firstDate(in.Published, extensionText(in.Extensions, "dcterms", "issued")),
		Updated:    firstDate(in.Updated, extensionText(in.Extensions, "dcterms", "modified")),
		Categories: cleanCategories(append(in.Categories, extensionCategories(in.Extensions)...)),
		Enclosures: []Enclosure{},
	}
	// Many feeds state a wrong or empty length; the file itself is still useful.
	for _, e := range in.Enclosures {
		if address := safeLink(e.URL); address != "" {
			length, _ := strconv.ParseInt(strings.TrimSpace(e.Length), 10, 64)
			item.Enclosures = append(item.Enclosures, Enclosure{URL: address, Type: shortText(e.Type), Length: max(length, 0)})
		}
	}
	collectMedia(in.Extensions).applyTo(&item, in)
	guid := shortText(in.GUID)
	// In RSS a guid is a permanent link unless the feed says otherwise, and often the only one.
	if item.Link == "" && isWebURL(guid) {
		item.Link = safeLink(guid)
	}
	// The episode of a podcast may have nothing but its file.
	if item.Link == "" && len(item.Enclosures) > 0 {
		item.Link = item.Enclosures[0].URL
	}
	item.ID = itemID(guid, item)
	// After the identifier, which must not change for items that were seen with the wrapped link.
	item.Link = cmp.Or(safeLink(extensionText(in.Extensions, "feedburner", "origLink")), unwrapLink(item.Link))
	// A date that is not understood must not make an old item look new.
	if item.Time().IsZero() {
		item.Published = dateInURL(item.Link)
	}
	return item
}

// redditLinks matches what Reddit writes below each post: its author, and links to the post (seen 2026-11).
var redditLinks = text.Pattern(`(?s)(?:&#32;|\s)*submitted by(?:&#32;|\s)*<a href="[^"]*/user/.{0,600}>\[comments\]</a>(?:\s*</span>)?`)

// atomLink returns the address of an atom:link in an RSS item that leads to the item itself, or "".
func atomLink(all ext.Extensions) string {
	for _, e := range all["atom"]["link"] {
		if rel := e.Attrs["rel"]; rel == "" || rel == "alternate" {
			return e.Attrs["href"]
		}
	}
	return ""
}

// separateItems identifies the items by link, or by text, where the feed has one identifier for several items.
func (d *Document) separateItems(isKnown bool) {
	if d.IDsRepeat = isKnown || d.hasSharedID(); !d.IDsRepeat {
		return
	}
	for i := range d.Items {
		d.Items[i].ID = itemID("", d.Items[i])
	}
}

// hasSharedID reports whether two different items have the same identifier. An item that is listed twice, or was
// edited, has the same link.
func (d *Document) hasSharedID() bool {
	first := map[string]*Item{}
	for i := range d.Items {
		item := &d.Items[i]
		other := first[item.ID]
		if other == nil {
			first[item.ID] = item
		} else if item.Link != other.Link && CanonicalURL(item.Link) != CanonicalURL(other.Link) ||
			item.Link == "" && item.Title != other.Title {
			return true
		}
	}
	return false
}

// itemID returns the identifier of an item. It must not change between fetches, or the item would be posted twice.
func itemID(guid string, item Item) string {
	switch {
	case guid != "":
		return guid
	case item.Link != "":
		return item.Link
	}
	// Dates are left out of the hash: some feeds stamp every item with the time of the request.
	sum := sha256.Sum256([]byte(item.Title + "\x00" + item.Summary + "\x00" + item.Content))
	return "sha256:" + hex.EncodeToString(sum[:16])
}

// resolveItemLinks makes item links that are still relative, in a document without an address, absolute with the
// feed's own link.
func (d *Document) resolveItemLinks() {
	base := resolveURL(nil, d.Feed.Link)
	for i := range d.Items {
		if link := &d.Items[i].Link; *link != "" && !isWebURL(*link) {
			*link = absoluteURL(base, *link)
		}
	}
}

// safeLink returns link if a reader may follow it or if it is relative, else "". It keeps script: and data: addresses
// out of posts.
func safeLink(link string) string {
	link = shortText(link)
	u, err := url.Parse(link)
	// An allow list: what a reader's client does with other schemes is unknown.
	schemes := []string{"", "http", "https", "ftp", "mailto", "magnet", "gopher", "news"}
	if err != nil && isWebURL(link) || err == nil && slices.Contains(schemes, strings.ToLower(u.Scheme)) {
		return link
	}
	return ""
}

// isWebURL reports whether a link begins like a web address. Whether it can be parsed is not looked at.
func isWebURL(link string) bool {
	lower := strings.ToLower(link)
	return strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://")
}

// shortText returns s on one line, cut to maxField bytes.
func shortText(s string) string {
	return text.Cut(text.OneLine(s), maxField)
}

// formatAuthors returns "Name (email)" of each person, without repeats.
func formatAuthors(list []*gofeed.Person) string {
	var out []string
	for _, p := range list {
		if p == nil {
			continue
		}
		name, email := shortText(html.UnescapeString(p.Name)), shortText(p.Email)
		if m := namedAddress().FindStringSubmatch(cmp.Or(name, email)); m != nil {
			name, email = m[1], m[2]
		}
		// The address may be repeated as the name.
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

// namedAddress matches the form of mail headers: Name <email>.
var namedAddress = text.Pattern(`^([^<>@]+?)\s*<([^<>@\s]+@[^<>@\s]+)>$`)

// extensionText returns the first value of an element of another vocabulary, or "".
func extensionText(all ext.Extensions, prefix, name string) string {
	for _, e := range all[prefix][name] {
		if value := strings.TrimSpace(e.Value); value != "" {
			return value
		}
	}
	return ""
}

// extensionCategories returns the categories of Media RSS, and of podcasts, which have their name in an attribute and may
// be nested once.
func extensionCategories(all ext.Extensions) (out []string) {
	for _, e := range all["media"]["category"] {
		out = append(out, e.Value)
	}
	for _, e := range all["itunes"]["category"] {
		out = append(out, e.Attrs["text"])
		for _, inner := range e.Children["category"] {
			out = append(out, inner.Attrs["text"])
		}
	}
	return out
}

// cleanCategories returns up to 100 categories, shortened and without repeats.
func cleanCategories(list []string) []string {
	out := []string{}
	for _, c := range list {
		if c = shortText(c); c != "" && !slices.Contains(out, c) && len(out) < 100 {
			out = append(out, c)
		}
	}
	return out
}

// firstDate returns the first date that can be read, in UTC, or the zero time. gofeed's own dates are not used: they
// ignore zones that it does not know.
func firstDate(texts ...string) time.Time {
	for _, text := range texts {
		if t := clampDate(parseDate(text)); !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// clampDate returns t in UTC and whole seconds, or the zero time for years that JSON cannot express.
func clampDate(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Second)
	if t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}
