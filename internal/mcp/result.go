package mcp

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"path"
	"slices"
	"strings"
	"unicode"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
)

const (
	// maxResultBytes is how much text of one result is kept.
	maxResultBytes = 4 << 20
	// maxFileBytes is how much binary data of one result is kept.
	maxFileBytes = 8 << 20
)

// oddResult is appended to a result in another form than the protocol demands.
const oddResult = "[The result has another form than the protocol demands. This is what could be read of it.]"

// parseResult returns the result of a call. Text stays; data becomes files, which the text
// mentions; the JSON of structured data stands behind the text that does not say the same.
// Of a result in another form it returns what can be read, or else its JSON, with a note.
func parseResult(raw json.RawMessage) tool.Result {
	o := jsonObject(raw)
	room := maxFileBytes
	said, files, isOdd := parseContents(o["content"], &room)
	data := o["structuredContent"]
	if string(data) == "null" {
		data = nil
	}
	switch old := o["toolResult"]; { // of protocol version 2024-10-07
	case o["content"] == nil && data != nil: // it says the same
	case o["content"] == nil && old != nil:
		said, isOdd = textOrJSON(old), true
	case o["content"] == nil, said == "" && isOdd:
		said, isOdd = textOrJSON(raw), true
	}
	if len(data) > maxResultBytes {
		said = strings.TrimSpace(said + fmt.Sprintf("\n[structured data of %d bytes is left out]", len(data)))
	}
	r := tool.Result{Text: truncateResult(said), Files: files, IsError: decodeAs[bool](o["isError"])}
	if len(data) > 0 && len(data) <= maxResultBytes {
		r.Structured = data
		if !containsValues(r.Text, data) {
			r.Text = truncateResult(strings.TrimSpace(r.Text + "\n" + string(data)))
		}
	}
	if isOdd {
		r.Text = strings.TrimPrefix(r.Text+"\n"+oddResult, "\n")
	}
	return r
}

// textOrJSON returns a JSON string as text, and any other value as it is; "" for null and nothing.
func textOrJSON(raw json.RawMessage) string {
	switch {
	case bytes.HasPrefix(raw, []byte(`"`)):
		return jsonString(raw)
	case string(raw) == "null":
		return ""
	}
	return string(raw)
}

// containsValues reports whether a text says what structured data says: the data itself, or each of its texts, numbers
// and truth values. Servers should send both (specification of 2025-06-18), and some send a sentence beside the data.
// Data without any value is not contained, unless it stands there as it is.
func containsValues(said string, data json.RawMessage) bool {
	if strings.Contains(said, string(data)) {
		return true
	}
	if said == "" {
		return false
	}
	// Numbers are compared as whole words: 5 is part of 15, and not said by it. Texts may be parts of a sentence.
	words := map[string]bool{}
	for _, w := range strings.FieldsFunc(said, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("+-.", c)
	}) {
		words[strings.TrimRight(w, ".")] = true
	}
	count, isThere := countSaid(said, words, data)
	return isThere && count > 0
}

// countSaid returns how many values JSON holds; false: a text, whose words are given, lacks one of them.
func countSaid(said string, words map[string]bool, data json.RawMessage) (count int, isThere bool) {
	inner := append(jsonList(data), slices.Collect(maps.Values(jsonObject(data)))...)
	for _, one := range inner {
		n, ok := countSaid(said, words, one)
		if !ok {
			return 0, false
		}
		count += n
	}
	switch {
	case len(data) == 0 || data[0] == '[' || data[0] == '{' || string(data) == "null":
		return count, true
	case data[0] == '"':
		return 1, strings.Contains(said, jsonString(data))
	}
	return 1, words[string(data)]
}

// maxOddPart is how much of a part in an unknown form is shown, in bytes.
const maxOddPart = 64 << 10

// parseContents reads the content of a result or a message, and reports whether it has another form than a list of
// parts as the protocol knows them. It takes the size of the data from room; data for which there is no room is only
// described.
func parseContents(raw json.RawMessage, room *int) (said string, files []chat.File, isOdd bool) {
	list := jsonList(raw)
	if len(raw) > 0 && raw[0] != '[' {
		list, isOdd = []json.RawMessage{raw}, true
	}
	var parts []string
	for _, item := range list {
		o := jsonObject(item)
		splitDataURL(o)
		part, known := partText(o)
		if !known {
			isOdd = true
			part = cmp.Or(part, text.Cut(textOrJSON(item), maxOddPart))
		}
		f, ok, isBroken := parseFile(o, len(files)+1, room)
		if isBroken {
			part += " [its data is not base64 and is left out]"
		}
		if part != "" {
			parts = append(parts, part)
		}
		if ok {
			files = append(files, f)
		}
	}
	return strings.Join(parts, "\n"), files, isOdd
}

// splitDataURL changes a part whose data is a data URL, as in web pages, to data and its type.
func splitDataURL(o map[string]json.RawMessage) {
	if !bytes.HasPrefix(o["data"], []byte(`"data:`)) {
		return
	}
	head, data, _ := strings.Cut(jsonString(o["data"]), ",")
	o["data"] = encodeJSON(data)
	if jsonString(o["mimeType"]) == "" {
		kind, _, _ := strings.Cut(strings.TrimPrefix(head, "data:"), ";")
		o["mimeType"] = encodeJSON(kind)
	}
}

// partText returns a part as text for the model; data is described. It returns false if the part has another form than
// the protocol knows; without a text, nothing of it could be read.
func partText(o map[string]json.RawMessage) (string, bool) {
	isText := func(raw json.RawMessage) bool { return bytes.HasPrefix(raw, []byte(`"`)) }
	switch kind := jsonString(o["type"]); {
	case kind == "text" && isText(o["text"]):
		return jsonString(o["text"]), true
	case (kind == "image" || kind == "audio") && isText(o["data"]):
		return fmt.Sprintf("[%s: %.100s, %s]", kind, cmp.Or(text.OneLine(jsonString(o["mimeType"])), "unknown type"),
			dataSize(o["data"])), true
	case kind == "resource_link":
		return "[resource" + resourceLabel(o) + "]", true
	case kind == "resource" && jsonObject(o["resource"]) != nil:
		return resourceText(jsonObject(o["resource"])), true
	}
	return textOrJSON(o["text"]), false
}

// resourceText returns the content of a resource as text; data is described.
func resourceText(o map[string]json.RawMessage) string {
	if o["text"] != nil {
		return fmt.Sprintf("[resource%s]\n%s", resourceLabel(o), textOrJSON(o["text"]))
	}
	return fmt.Sprintf("[resource%s: %s]", resourceLabel(o), dataSize(o["blob"]))
}

// parseFile returns the data of a part as a file; ok is false if it has none, or there is no room, or the data cannot be
// decoded and isBroken is true. number tells files without a name apart. The size of the file is taken from room.
func parseFile(o map[string]json.RawMessage, number int, room *int) (f chat.File, ok, isBroken bool) {
	kind := jsonString(o["type"])
	encoded, media, name := jsonString(o["data"]), jsonString(o["mimeType"]), ""
	if kind == "resource" {
		inner := jsonObject(o["resource"])
		encoded, media, name = jsonString(inner["blob"]), jsonString(inner["mimeType"]), baseName(jsonString(inner["uri"]))
	} else if kind != "image" && kind != "audio" {
		return f, false, false
	}
	// Checked before decoding; DecodedLen counts up to 2 bytes of padding.
	if encoded == "" || base64.StdEncoding.DecodedLen(len(encoded)) > *room+2 {
		return f, false, false
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(data) > *room {
		return f, false, err != nil
	}
	*room -= len(data)
	media = mediaType(media)
	if name == "" {
		name = fmt.Sprintf("%s-%d%s", kind, number, fileExtension(media))
	}
	return chat.File{Name: name, Type: media, Size: int64(len(data)), Data: data}, true, false
}

// mediaType returns a media type without its parameters, or application/octet-stream.
func mediaType(s string) string {
	kind, _, err := mime.ParseMediaType(s)
	if err != nil || !strings.Contains(kind, "/") || len(kind) > 100 {
		return "application/octet-stream"
	}
	return kind
}

// fileExtension returns the usual extension of a media type, or .bin.
func fileExtension(media string) string {
	// The table of package mime depends on the system.
	known := map[string]string{
		"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg",
		"audio/wav": ".wav", "audio/x-wav": ".wav", "audio/mpeg": ".mp3", "audio/ogg": ".ogg", "audio/flac": ".flac",
		"application/pdf": ".pdf", "application/json": ".json", "text/plain": ".txt",
	}
	if e, ok := known[media]; ok {
		return e
	}
	return ".bin"
}

// baseName returns the last part of a URI as the name of a file; "" if it is none.
func baseName(uri string) string {
	uri, _, _ = strings.Cut(uri, "?")
	name := path.Base(text.OneLine(uri))
	if name == "." || name == "/" || name == ".." || strings.ContainsAny(name, `\:`) {
		return ""
	}
	return text.Cut(name, 100)
}

// resourceLabel returns the name, address, type and size of a resource, as far as given.
func resourceLabel(o map[string]json.RawMessage) string {
	var b strings.Builder
	for _, key := range []string{"name", "uri", "mimeType"} {
		if v := text.OneLine(jsonString(o[key])); v != "" {
			fmt.Fprintf(&b, " %.500s", v)
		}
	}
	var bytes int64
	if json.Unmarshal(o["size"], &bytes) == nil && bytes > 0 {
		fmt.Fprintf(&b, " %d bytes", bytes)
	}
	return b.String()
}

// dataSize returns the decoded size of a JSON string in base64, for people.
func dataSize(encoded json.RawMessage) string {
	n := len(bytes.TrimRight(bytes.Trim(encoded, `"`), "=")) * 3 / 4
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

// truncateResult returns a text of at most maxResultBytes, with a note if it was cut.
func truncateResult(s string) string {
	if len(s) <= maxResultBytes {
		return s
	}
	shown := text.Cut(s, maxResultBytes)
	return fmt.Sprintf("%s\n[cut: %d of %d bytes are shown]", shown, len(shown), len(s))
}
