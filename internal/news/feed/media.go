package feed

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/mmcdole/gofeed"
	ext "github.com/mmcdole/gofeed/extensions"
	xhtml "golang.org/x/net/html"
)

// media is what an item has in the vocabulary of Media RSS.
type media struct {
	pictures []string // the best first
	files    []Enclosure
	text     string
}

const maxMedia = 50 // files of one item

// collectMedia reads the media elements of an item, two levels of group and content deep.
func collectMedia(all ext.Extensions) (m media) {
	var previews []string
	var visit func(elements map[string][]ext.Extension, depth int)
	visit = func(elements map[string][]ext.Extension, depth int) {
		for _, e := range elements["content"] {
			m.add(e)
		}
		for _, e := range elements["thumbnail"] {
			previews = append(previews, e.Attrs["url"])
		}
		if m.text == "" && len(elements["description"]) > 0 {
			m.text = elements["description"][0].Value
		}
		for _, name := range []string{"group", "content"} {
			for _, e := range elements[name] {
				if depth < 2 {
					visit(e.Children, depth+1)
				}
			}
		}
	}
	visit(all["media"], 0)
	m.pictures = append(m.pictures, previews...)
	return m
}

// add adds a media:content element.
func (m *media) add(e ext.Extension) {
	address, kind := safeLink(e.Attrs["url"]), shortText(e.Attrs["type"])
	if address == "" || len(m.files) == maxMedia {
		return
	}
	length, _ := strconv.ParseInt(e.Attrs["fileSize"], 10, 64) // 0 where it is no number
	m.files = append(m.files, Enclosure{URL: address, Type: kind, Length: max(length, 0)})
	if e.Attrs["medium"] == "image" || strings.HasPrefix(kind, "image/") {
		m.pictures = append(m.pictures, address)
	}
}

// applyTo fills the fields of an item that its other elements left empty, and appends enclosures that it does not have
// yet. The first picture with an address that may be followed becomes the item's.
func (m media) applyTo(item *Item, in *gofeed.Item) {
	for _, file := range m.files {
		if !slices.ContainsFunc(item.Enclosures, func(e Enclosure) bool { return e.URL == file.URL }) {
			item.Enclosures = append(item.Enclosures, file)
		}
	}
	if item.Summary == "" && item.Content == "" {
		item.Summary = sanitizeHTML(m.text)
	}
	// The feed's own choice comes first; pictures in the text are the last resort.
	pictures := m.pictures
	if in.Image != nil {
		pictures = append([]string{in.Image.URL}, pictures...)
	}
	pictures = append(pictures, firstPicture(item.Content), firstPicture(item.Summary))
	for _, address := range pictures {
		item.Image = cmp.Or(item.Image, safeLink(address))
	}
}

// firstPicture returns the address of the first picture of a fragment that is large enough to be seen; smaller ones
// count readers.
func firstPicture(fragment string) string {
	if !strings.Contains(fragment, "<img") {
		return ""
	}
	z := xhtml.NewTokenizer(strings.NewReader(fragment))
	for {
		switch z.Next() {
		case xhtml.ErrorToken:
			return ""
		case xhtml.StartTagToken, xhtml.SelfClosingTagToken:
			token := z.Token()
			if attr := attributeMap(token); token.Data == "img" && !isTinySize(attr["width"]) && !isTinySize(attr["height"]) &&
				isWebURL(attr["src"]) {
				return attr["src"]
			}
		}
	}
}

// isTinySize reports whether a width or height is below ten pixels.
func isTinySize(size string) bool {
	n, err := strconv.Atoi(strings.TrimSuffix(size, "px"))
	return err == nil && n < 10
}
