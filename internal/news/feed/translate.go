package feed

import (
	"cmp"
	"strings"

	"github.com/mmcdole/gofeed"
	"github.com/mmcdole/gofeed/atom"
	gorss "github.com/mmcdole/gofeed/rss"
)

// originField is where translator leaves the title of the feed that an item was first in.
const originField = "origin"

// translator adds what gofeed's translators leave out: the feed that an item was first in, and of several pages of an
// Atom entry the one that fits the feed.
type translator struct{ gofeed.Translator }

func (t translator) Translate(in any) (*gofeed.Feed, error) {
	out, err := t.Translator.Translate(in)
	if err != nil {
		return out, err
	}
	for n, item := range out.Items {
		item.Custom = map[string]string{}
		if f, ok := in.(*atom.Feed); ok {
			e := f.Entries[n]
			item.Link = cmp.Or(choosePage(e.Links, f.Language), item.Link)
			if e.Source != nil {
				item.Custom[originField] = e.Source.Title
			}
		} else if f, ok := in.(*gorss.Feed); ok && f.Items[n].Source != nil {
			item.Custom[originField] = f.Items[n].Source.Title
		}
	}
	return out, nil
}

// choosePage returns the address of an entry's page in the language of its feed: not of another form of it, such as a
// PDF, or of a translation, unless there is no other.
func choosePage(links []*atom.Link, language string) (address string) {
	best := -1
	for _, l := range links {
		if l.Rel != "" && l.Rel != "alternate" {
			continue
		}
		rank := 0
		if l.Type == "" || strings.Contains(l.Type, "html") {
			rank = 3
		}
		main, _, _ := strings.Cut(language, "-")
		own, _, _ := strings.Cut(l.Hreflang, "-")
		if strings.EqualFold(own, main) {
			rank += 2
		} else if own == "" || main == "" {
			rank++
		}
		if rank > best {
			best, address = rank, l.Href
		}
	}
	return address
}
