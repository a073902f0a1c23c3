package feed

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"ravenbot/internal/text"
)

// fieldKind is how a field of a JSON Feed is read.
type fieldKind int

const (
	textField   fieldKind = iota // a number or a truth value counts as its text
	numberField                  // a number in quotes counts, too
	boolField
	textsField       // one text counts as a list
	personField      // a name counts as a person
	peopleField      // one person counts as a list
	attachmentsField // one attachment counts as a list
)

// jsonFields are the fields that gofeed reads (https://www.jsonfeed.org/version/1.1/).
var jsonFields = map[string]fieldKind{
	"version": textField, "title": textField, "home_page_url": textField, "feed_url": textField, "description": textField,
	"user_comment": textField, "next_url": textField, "icon": textField, "favicon": textField, "language": textField,
	"expired": boolField, "id": textField, "url": textField, "external_url": textField, "content_html": textField,
	"content_text": textField, "summary": textField, "image": textField, "banner_image": textField,
	"date_published": textField, "date_modified": textField, "tags": textsField, "author": personField,
	"authors": peopleField, "attachments": attachmentsField, "name": textField, "avatar": textField,
	"mime_type": textField, "size_in_bytes": numberField, "duration_in_seconds": numberField,
}

// lenientObject returns an object whose fields have the types that the format asks for, where that can be made of what
// they hold; the others are left out. One wrong field would otherwise make gofeed refuse the whole feed. It returns
// false for what is no object. Objects within others have simple fields alone, which bounds the work on nested ones.
func (f *jsonFeed) lenientObject(raw json.RawMessage, inner bool) (json.RawMessage, bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return nil, false
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil, false
		}
		if name, _ := name.(string); isRead(name, inner) {
			fields[name] = value
		}
	}
	out, err := json.Marshal(f.lenientFields(fields, inner))
	return out, err == nil
}

// isRead reports whether a field is one that gofeed reads, in an object within others or in another one.
func isRead(name string, inner bool) bool {
	kind, known := jsonFields[name]
	return known && (!inner || kind < textsField)
}

// lenientFields returns the fields that gofeed reads, each in the form that it expects.
func (f *jsonFeed) lenientFields(fields map[string]json.RawMessage, inner bool) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for name, value := range fields {
		if isRead(name, inner) {
			if value, ok := f.readField(jsonFields[name], value); ok {
				out[name] = value
			}
		}
	}
	return out
}

// readField returns a value in the type of its kind, or false. Of a text it returns maxText bytes at most.
func (f *jsonFeed) readField(k fieldKind, raw json.RawMessage) (json.RawMessage, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, false
	}
	switch first := raw[0]; k {
	case textField:
		if first == '{' || first == '[' {
			return nil, false
		}
		if first != '"' {
			return quoteJSON(string(raw)), true
		}
		var long string
		if len(raw) > maxText && json.Unmarshal(raw, &long) == nil {
			raw = quoteJSON(text.Cut(long, maxText))
		}
		return raw, true
	case numberField:
		number := strings.Trim(string(raw), `" `)
		var whole int64
		return json.RawMessage(number), json.Unmarshal([]byte(number), &whole) == nil
	case boolField:
		return raw, first == 't' || first == 'f'
	case personField:
		if first == '"' {
			return json.RawMessage(`{"name":` + string(raw) + `}`), true
		}
		return f.lenientObject(raw, true)
	}
	return f.readList(k, raw)
}

// readList reads a list, or one value that stands for a list. It leaves out what is more than maxParts in all lists of
// the document.
func (f *jsonFeed) readList(k fieldKind, raw json.RawMessage) (json.RawMessage, bool) {
	if raw[0] != '[' {
		raw = slices.Concat(json.RawMessage("["), raw, json.RawMessage("]"))
	}
	element := map[fieldKind]fieldKind{textsField: textField, peopleField: personField}[k]
	out := []json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(raw))
	_, err := d.Token() // the bracket
	for ; err == nil && d.More() && f.parts < maxParts; f.parts++ {
		var one json.RawMessage
		if err = d.Decode(&one); err != nil {
			break
		}
		ok := false
		if k == attachmentsField {
			one, ok = f.lenientObject(one, true)
		} else {
			one, ok = f.readField(element, one)
		}
		if ok {
			out = append(out, one)
		}
	}
	if err != nil {
		return nil, false
	}
	encoded, err := json.Marshal(out)
	return encoded, err == nil
}

// quoteJSON returns a string as JSON.
func quoteJSON(s string) json.RawMessage {
	quoted, _ := json.Marshal(s) // a string always encodes
	return quoted
}
