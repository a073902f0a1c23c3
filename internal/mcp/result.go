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
	// maxResultBytes bounds the text of one result.
	maxResultBytes = 4 << 20
	// maxFileBytes bounds the binary data of one result.
	maxFileBytes = 8 << 20
)

// oddResult follows a result in another form than the protocol demands.
const oddResult = "[The result has another form than the protocol demands. This is what could be read of it.]"

// parseResult reads the result of a call. Data becomes files, which the text mentions. Structured data is added to the
// text as JSON, unless the text says the same. A result in another form is returned as far as it can be read, or as
// JSON, with a note.
func parseResult(raw json.RawMessage) tool.Result {
	o := jsonObject(raw)
	room := maxFileBytes
	said, files, isOdd := parseContents(o["content"], &room)
	data := o["structuredContent"]
	if string(data) == "null" {
		data = nil
	}
	switch old := o["toolResult"]; { // of protocol version 2024-10-07
	case o["content"] == nil && data != nil: // the data says the same
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

// textOrJSON returns the text of a JSON string, "" for null, and any other JSON unchanged.
func textOrJSON(raw json.RawMessage) string {
	switch {
	case bytes.HasPrefix(raw, []byte(`"`)):
		return jsonString(raw)
	case string(raw) == "null":
		return ""
	}
	return string(raw)
}

// containsValues reports whether a text contains structured data: the JSON itself, or each of its texts, numbers and
// booleans. Servers should send both (specification of 2025-06-18), and some send a sentence instead.
func containsValues(said string, data json.RawMessage) bool {
	if strings.Contains(said, string(data)) {
		return true
	}
	if said == "" {
		return false
	}
	// Numbers must be whole words: 15 does not contain 5. Texts may be parts of a sentence.
	words := map[string]bool{}
	for _, w := range strings.FieldsFunc(said, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("+-.", c)
	}) {
		words[strings.TrimRight(w, ".")] = true
	}
	count, isThere := countSaid(said, words, data)
	return isThere && count > 0
}

// countSaid counts the values in JSON. It returns false if the text, with the given words, lacks one of them.
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

// maxOddPart bounds the bytes shown of a part in an unknown form.
const maxOddPart = 64 << 10

// parseContents reads the content of a result or a message. isOdd means another form than a list of known parts. It
// subtracts the size of the data from room; without room, data is only described.
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

// splitDataURL splits a data URL into data and type.
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

// partText returns a part as text for the model, and describes data. It returns false for a part in an unknown form;
// the text may then be empty.
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

func resourceText(o map[string]json.RawMessage) string {
	if o["text"] != nil {
		return fmt.Sprintf("[resource%s]\n%s", resourceLabel(o), textOrJSON(o["text"]))
	}
	return fmt.Sprintf("[resource%s: %s]", resourceLabel(o), dataSize(o["blob"]))
}

// parseFile returns the data of a part as a file. ok is false if there are no data, no room, or broken data; isBroken
// is then true. number is for files without a name. The size of the file is subtracted from room.
func parseFile(o map[string]json.RawMessage, number int, room *int) (f chat.File, ok, isBroken bool) {
	kind := jsonString(o["type"])
	encoded, media, name := jsonString(o["data"]), jsonString(o["mimeType"]), ""
	if kind == "resource" {
		inner := jsonObject(o["resource"])
		encoded, media, name = jsonString(inner["blob"]), jsonString(inner["mimeType"]), baseName(jsonString(inner["uri"]))
	} else if kind != "image" && kind != "audio" {
		return f, false, false
	}
	// Before decoding; DecodedLen includes up to 2 bytes of padding.
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

func fileExtension(media string) string {
	// Package mime's table depends on the system.
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

// baseName returns the last part of a URI as a file name, or "".
func baseName(uri string) string {
	uri, _, _ = strings.Cut(uri, "?")
	name := path.Base(text.OneLine(uri))
	if name == "." || name == "/" || name == ".." || strings.ContainsAny(name, `\:`) {
		return ""
	}
	return text.Cut(name, 100)
}

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

// dataSize returns the decoded size of a base64 JSON string, for people.
func dataSize(encoded json.RawMessage) string {
	n := len(bytes.TrimRight(bytes.Trim(encoded, `"`), "=")) * 3 / 4
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

func truncateResult(s string) string {
	if len(s) <= maxResultBytes {
		return s
	}
	shown := text.Cut(s, maxResultBytes)
	return fmt.Sprintf("%s\n[cut: %d of %d bytes are shown]", shown, len(shown), len(s))
}
