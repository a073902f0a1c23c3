package feed

import (
	"bytes"
	"encoding/json"
	"strings"
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
func lenientObject(raw json.RawMessage, inner bool) (json.RawMessage, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return nil, false
	}
	out, err := json.Marshal(lenientFields(fields, inner))
	return out, err == nil
}

// lenientFields returns the fields that gofeed knows, each in the form that it expects.
func lenientFields(fields map[string]json.RawMessage, inner bool) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for name, value := range fields {
		if kind, known := jsonFields[name]; known && (!inner || kind < textsField) {
			if value, ok := kind.read(value); ok {
				out[name] = value
			}
		}
	}
	return out
}

// read returns a value in the type of its kind, or false.
func (k fieldKind) read(raw json.RawMessage) (json.RawMessage, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, false
	}
	switch first := raw[0]; k {
	case textField:
		if first == '{' || first == '[' {
			return nil, false
		}
		if first == '"' {
			return raw, true
		}
		return quoteJSON(string(raw)), true
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
		return lenientObject(raw, true)
	}
	return k.readList(raw)
}

// readList reads a list, or one value that stands for a list.
func (k fieldKind) readList(raw json.RawMessage) (json.RawMessage, bool) {
	list := []json.RawMessage{raw}
	if raw[0] == '[' {
		if json.Unmarshal(raw, &list) != nil {
			return nil, false
		}
	}
	element := map[fieldKind]fieldKind{textsField: textField, peopleField: personField}[k]
	out := []json.RawMessage{}
	for _, one := range list {
		ok := false
		if k == attachmentsField {
			one, ok = lenientObject(one, true)
		} else {
			one, ok = element.read(one)
		}
		if ok {
			out = append(out, one)
		}
	}
	encoded, err := json.Marshal(out)
	return encoded, err == nil
}

// quoteJSON returns a string as JSON.
func quoteJSON(s string) json.RawMessage {
	quoted, _ := json.Marshal(s) // a string always encodes
	return quoted
}
