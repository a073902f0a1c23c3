package feed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"strings"
)

// parseJSON parses a JSON Feed.
func parseJSON(text []byte, base *url.URL) (Document, error) {
	f, err := readJSONFeed(text)
	if err != nil {
		return Document{}, fmt.Errorf("%w: broken JSON: %w", ErrNotFeed, err)
	}
	if !strings.Contains(string(f.fields["version"]), "jsonfeed.org") && f.items == nil {
		return Document{}, fmt.Errorf("%w: it is JSON without a JSON Feed version and without items", ErrNotFeed)
	}
	clean, err := f.encode()
	if err != nil {
		return Document{}, fmt.Errorf("parse JSON feed: %w", err)
	}
	parsed, err := newParser().Parse(bytes.NewReader(clean))
	if err != nil {
		return Document{}, fmt.Errorf("parse JSON feed: %w", err)
	}
	doc := convertFeed(parsed)
	doc.escapePlainTexts(f.items)
	doc.resolveLinks(base)
	return doc, nil
}

// jsonFeed is a document as far as it could be read: what is cut off is left out, and so are items beyond maxItems.
type jsonFeed struct {
	fields map[string]json.RawMessage // without the items
	items  []json.RawMessage          // nil: there is no such list
	parts  int                        // read in lists other than the items
}

// maxFields is how many fields of the document itself are read.
const maxFields = 1000

var (
	errNotObject = errors.New("not an object")
	errMaxFields = fmt.Errorf("more than %d fields", maxFields)
)

// readJSONFeed reads a document token by token. It fails where the document breaks off before its first item.
func readJSONFeed(text []byte) (jsonFeed, error) {
	f := jsonFeed{fields: map[string]json.RawMessage{}}
	d := json.NewDecoder(bytes.NewReader(text))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return f, errors.Join(errNotObject, err)
	}
	for n := 0; d.More(); n++ {
		token, err := d.Token()
		if err == nil && n == maxFields {
			err = errMaxFields
		}
		if err != nil {
			return f, f.truncationError(err)
		}
		key, isKey := token.(string)
		if !isKey {
			return f, errNotObject
		}
		// Items are read one by one, so that a document that breaks off keeps those that are complete.
		if key == "items" && f.items == nil {
			err = f.readItems(d)
		} else {
			var value json.RawMessage
			if err = d.Decode(&value); err == nil {
				f.fields[key] = value
			}
		}
		if errors.Is(err, errEnough) {
			return f, nil
		}
		if err != nil {
			return f, f.truncationError(err)
		}
	}
	_, err := d.Token()
	return f, f.truncationError(err)
}

// truncationError returns err, or nil where the document holds items already and is usable.
func (f *jsonFeed) truncationError(err error) error {
	if len(f.items) > 0 {
		return nil
	}
	return err
}

// readItems reads up to maxItems items, and returns errEnough where there are more.
func (f *jsonFeed) readItems(d *json.Decoder) error {
	if token, err := d.Token(); err != nil || token != json.Delim('[') {
		return err // null, say
	}
	f.items = []json.RawMessage{}
	for d.More() {
		if len(f.items) == maxItems {
			return errEnough
		}
		var item json.RawMessage
		if err := d.Decode(&item); err != nil {
			return err
		}
		// An item that is not an object would make gofeed fail on the whole document.
		if item, ok := f.lenientObject(item, false); ok {
			f.items = append(f.items, item)
		}
	}
	_, err := d.Token()
	return err
}

// encode returns the document as complete JSON for gofeed.
func (f *jsonFeed) encode() ([]byte, error) {
	whole := f.lenientFields(f.fields, false)
	whole["items"], _ = json.Marshal(f.items) // which are JSON
	return json.Marshal(whole)
}

// escapePlainTexts escapes contents that are plain text, which gofeed does not tell apart from HTML.
func (d *Document) escapePlainTexts(items []json.RawMessage) {
	// gofeed may have dropped items; then the lists do not match and nothing is safe to assume.
	if len(items) != len(d.Items) {
		return
	}
	for i, item := range items {
		var raw struct {
			HTML string `json:"content_html"`
			Text string `json:"content_text"`
		}
		if json.Unmarshal(item, &raw) == nil && raw.HTML == "" && strings.ContainsAny(raw.Text, "<&") {
			d.Items[i].Content = html.EscapeString(raw.Text)
		}
	}
}

// resolveLinks makes the links of a JSON feed absolute. In XML that happens before parsing, where xml:base is known.
func (d *Document) resolveLinks(base *url.URL) {
	if base == nil {
		return
	}
	d.Feed.Link = absoluteURL(base, d.Feed.Link)
	d.Feed.Image = absoluteURL(base, d.Feed.Image)
	for i := range d.Items {
		item := &d.Items[i]
		item.Link = absoluteURL(base, item.Link)
		item.Image = absoluteURL(base, item.Image)
		item.Summary = string(absoluteMarkup(base, []byte(item.Summary)))
		item.Content = string(absoluteMarkup(base, []byte(item.Content)))
		for k := range item.Enclosures {
			item.Enclosures[k].URL = absoluteURL(base, item.Enclosures[k].URL)
		}
	}
}
