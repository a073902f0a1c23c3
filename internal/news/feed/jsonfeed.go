package feed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"strings"

	"github.com/mmcdole/gofeed"

	"ravenbot/internal/core/text"
)

// jsonFeed is a JSON Feed (https://www.jsonfeed.org/version/1.1/). It is not read by gofeed, which refuses the whole
// document for one field of another type (TestDefect_JSONFieldOfAnotherType).
type jsonFeed struct {
	Version, Title, HomePage, Description, Icon, Language jsonText

	Author, Authors jsonList[jsonPerson]

	items []*jsonItem // complete ones alone; nil: there is no such list
}

// jsonItem is an item of a JSON Feed.
type jsonItem struct {
	ID          jsonText                 `json:"id"`
	URL         jsonText                 `json:"url"`
	Title       jsonText                 `json:"title"`
	Summary     jsonText                 `json:"summary"`
	HTML        jsonText                 `json:"content_html"`
	Text        jsonText                 `json:"content_text"`
	Image       jsonText                 `json:"image"`
	Banner      jsonText                 `json:"banner_image"`
	Published   jsonText                 `json:"date_published"`
	Modified    jsonText                 `json:"date_modified"`
	Tags        jsonList[jsonText]       `json:"tags"`
	Author      jsonList[jsonPerson]     `json:"author"`
	Authors     jsonList[jsonPerson]     `json:"authors"`
	Attachments jsonList[jsonAttachment] `json:"attachments"`
}

// jsonAttachment is a file that belongs to an item.
type jsonAttachment struct {
	URL  jsonText `json:"url"`
	Type jsonText `json:"mime_type"`
	Size jsonText `json:"size_in_bytes"`
}

// jsonText is a text, or what a number or a truth value looks like. Anything else is an empty text.
type jsonText string

func (t *jsonText) UnmarshalJSON(raw []byte) error {
	var s string
	switch raw[0] {
	case '{', '[', 'n': // null
		return nil
	case '"':
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
	default:
		s = string(raw)
	}
	*t = jsonText(text.Cut(s, maxText))
	return nil
}

// jsonPerson is a person, or the name of one.
type jsonPerson struct{ name jsonText }

func (p *jsonPerson) UnmarshalJSON(raw []byte) error {
	if raw[0] != '{' {
		return p.name.UnmarshalJSON(raw)
	}
	var object struct{ Name jsonText }
	err := json.Unmarshal(raw, &object)
	p.name = object.Name
	return err
}

// maxListed is how many entries of a list are read.
const maxListed = 100

// jsonList is a list, or one value that stands for a list. Entries of another type are left out.
type jsonList[T any] []T

func (l *jsonList[T]) UnmarshalJSON(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if raw[0] == '[' {
		_, _ = d.Token() // the bracket
	}
	for d.More() && len(*l) < maxListed {
		var one T
		if d.Decode(&one) == nil { // the whole is known to be JSON
			*l = append(*l, one)
		}
	}
	return nil
}

// parseJSON parses a JSON Feed.
func parseJSON(text []byte, base *url.URL) (Document, error) {
	f, err := readJSONFeed(text)
	if err != nil && len(f.items) == 0 { // what breaks off keeps the items before
		return Document{}, fmt.Errorf("%w: broken JSON: %w", ErrNotFeed, err)
	}
	if !strings.Contains(string(f.Version), "jsonfeed.org") && f.items == nil {
		return Document{}, fmt.Errorf("%w: it is JSON without a JSON Feed version and without items", ErrNotFeed)
	}
	return f.convert(base), nil
}

// readJSONFeed reads a document token by token, up to maxItems items. With an error it returns what it has read.
func readJSONFeed(text []byte) (f jsonFeed, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return f, errors.Join(errors.New("not an object"), err)
	}
	fields := map[string]any{"version": &f.Version, "title": &f.Title, "home_page_url": &f.HomePage,
		"description": &f.Description, "icon": &f.Icon, "language": &f.Language, "author": &f.Author, "authors": &f.Authors}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return f, err
		}
		key, _ := token.(string)
		if key == "items" && f.items == nil {
			err = f.readItems(d)
		} else if err = d.Decode(cmp.Or[any](fields[key], &struct{}{})); isTypeError(err) {
			err = nil
		}
		if errors.Is(err, errEnough) {
			return f, nil
		}
		if err != nil {
			return f, err
		}
	}
	_, err = d.Token()
	return f, err
}

// isTypeError reports whether a value is of another type than its field.
func isTypeError(err error) bool {
	_, ok := errors.AsType[*json.UnmarshalTypeError](err)
	return ok
}

// readItems reads up to maxItems items, and returns errEnough where there are more.
func (f *jsonFeed) readItems(d *json.Decoder) error {
	if token, err := d.Token(); err != nil || token != json.Delim('[') {
		return err // null, say
	}
	f.items = []*jsonItem{}
	for d.More() {
		if len(f.items) == maxItems {
			return errEnough
		}
		var item *jsonItem
		if err := d.Decode(&item); err != nil && !isTypeError(err) {
			return err
		} else if err == nil && item != nil {
			f.items = append(f.items, item)
		}
	}
	_, err := d.Token()
	return err
}

// convert returns the document, with links that are resolved against base.
func (f *jsonFeed) convert(base *url.URL) Document {
	out := &gofeed.Feed{Title: string(f.Title), Link: absoluteURL(base, string(f.HomePage)), Description: string(f.Description),
		Language: string(f.Language), Image: &gofeed.Image{URL: absoluteURL(base, string(f.Icon))},
		Authors: listPersons(f.Authors, f.Author)}
	for _, i := range f.items {
		out.Items = append(out.Items, i.convert(base))
	}
	return convertFeed(out)
}

// convert returns an item in the form that gofeed has it.
func (i *jsonItem) convert(base *url.URL) *gofeed.Item {
	content := string(i.HTML)
	if content == "" {
		if content = string(i.Text); strings.ContainsAny(content, "<&") {
			content = html.EscapeString(content)
		}
	}
	out := &gofeed.Item{GUID: string(i.ID), Title: string(i.Title), Link: absoluteURL(base, string(i.URL)),
		Description: string(absoluteMarkup(base, []byte(i.Summary))), Content: string(absoluteMarkup(base, []byte(content))),
		Published: string(i.Published), Updated: string(i.Modified), Authors: listPersons(i.Authors, i.Author),
		Image: &gofeed.Image{URL: absoluteURL(base, string(cmp.Or(i.Image, i.Banner)))}}
	for _, tag := range i.Tags {
		out.Categories = append(out.Categories, string(tag))
	}
	for _, a := range i.Attachments {
		out.Enclosures = append(out.Enclosures,
			&gofeed.Enclosure{URL: absoluteURL(base, string(a.URL)), Type: string(a.Type), Length: string(a.Size)})
	}
	return out
}

// listPersons returns the first list that names anybody.
func listPersons(lists ...jsonList[jsonPerson]) (persons []*gofeed.Person) {
	for _, list := range lists {
		for _, p := range list {
			persons = append(persons, &gofeed.Person{Name: string(p.name)})
		}
		if len(persons) > 0 {
			break
		}
	}
	return persons
}
