package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"path"
	"strings"
	"unicode/utf8"

	"ravenbot/internal/chat"
	"ravenbot/internal/tool"
)

const (
	// maxResultBytes is how much text of one result is kept, in bytes.
	maxResultBytes = 4 << 20
	// maxFileBytes is how much data of one result is kept beside its text, in bytes.
	maxFileBytes = 8 << 20
)

// parseResult reads the result of a call from its exact keys. Text stays, data becomes
// files and is described, and of structured data alone the JSON is the text.
func parseResult(raw json.RawMessage) tool.Result {
	o := jsonObject(raw)
	room := maxFileBytes
	said, files := parseContents(o["content"], &room)
	failed := jsonBool(o["isError"])
	r := tool.Result{Text: truncateResult(said), Files: files, IsError: failed != nil && *failed}
	if data := o["structuredContent"]; len(data) > 0 && string(data) != "null" && len(data) <= maxResultBytes {
		r.Structured = data
		if r.Text == "" {
			r.Text = string(data)
		}
	}
	return r
}

// parseContents reads what servers put into results and messages, one part or a list of
// them. Data takes from room, in bytes; what has no room is only described.
func parseContents(raw json.RawMessage, room *int) (string, []chat.File) {
	list := jsonList(raw)
	if bytes.HasPrefix(raw, []byte("{")) {
		list = []json.RawMessage{raw}
	}
	var parts []string
	var files []chat.File
	for _, item := range list {
		o := jsonObject(item)
		if part := partText(o); part != "" {
			parts = append(parts, part)
		}
		if f, ok := parseFile(o, len(files)+1, room); ok {
			files = append(files, f)
		}
	}
	return strings.Join(parts, "\n"), files
}

func partText(o map[string]json.RawMessage) string {
	switch kind := jsonString(o["type"]); kind {
	case "text":
		return jsonString(o["text"])
	case "image", "audio":
		return fmt.Sprintf("[%s: %s, %s]", kind, typeOrUnknown(jsonString(o["mimeType"])), dataSize(o["data"]))
	case "resource_link":
		return "[resource" + resourceLabel(o) + "]"
	case "resource":
		return resourceText(jsonObject(o["resource"]))
	case "":
		return ""
	default:
		return fmt.Sprintf("[%.40s]", plainLine(kind))
	}
}

// resourceText writes the content of a resource.
func resourceText(o map[string]json.RawMessage) string {
	if o["text"] != nil {
		return fmt.Sprintf("[resource%s]\n%s", resourceLabel(o), jsonString(o["text"]))
	}
	return fmt.Sprintf("[resource%s: %s]", resourceLabel(o), dataSize(o["blob"]))
}

// parseFile takes the data of a part, if it has any and there is room.
func parseFile(o map[string]json.RawMessage, number int, room *int) (chat.File, bool) {
	kind := jsonString(o["type"])
	encoded, media, name := jsonString(o["data"]), jsonString(o["mimeType"]), ""
	if kind == "resource" {
		inner := jsonObject(o["resource"])
		encoded, media, name = jsonString(inner["blob"]), jsonString(inner["mimeType"]), baseName(jsonString(inner["uri"]))
	} else if kind != "image" && kind != "audio" {
		return chat.File{}, false
	}
	if encoded == "" || base64.StdEncoding.DecodedLen(len(encoded)) > *room+2 {
		return chat.File{}, false
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(data) > *room {
		return chat.File{}, false
	}
	*room -= len(data)
	media = mediaType(media)
	if name == "" {
		name = fmt.Sprintf("%s-%d%s", kind, number, fileExtension(media))
	}
	return chat.File{Name: name, Type: media, Size: int64(len(data)), Data: data}, true
}

// mediaType gives a media type without parameters; what is none is data of any kind.
func mediaType(s string) string {
	kind, _, err := mime.ParseMediaType(s)
	if err != nil || !strings.Contains(kind, "/") || len(kind) > 100 {
		return "application/octet-stream"
	}
	return kind
}

// fileExtension is the usual one of the types that servers send.
func fileExtension(media string) string {
	known := map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg",
		"audio/wav": ".wav", "audio/x-wav": ".wav", "audio/mpeg": ".mp3", "audio/ogg": ".ogg", "audio/flac": ".flac",
		"application/pdf": ".pdf", "application/json": ".json", "text/plain": ".txt"}
	if e, ok := known[media]; ok {
		return e
	}
	return ".bin"
}

// baseName is the last part of a URI as a name of a file.
func baseName(uri string) string {
	uri, _, _ = strings.Cut(uri, "?")
	name := path.Base(plainLine(uri))
	if name == "." || name == "/" || name == ".." || strings.ContainsAny(name, `\:`) {
		return ""
	}
	return cut(name, 100)
}

// resourceLabel names a resource by what is known of it.
func resourceLabel(o map[string]json.RawMessage) string {
	var b strings.Builder
	for _, key := range []string{"name", "uri", "mimeType"} {
		if v := plainLine(jsonString(o[key])); v != "" {
			fmt.Fprintf(&b, " %.500s", v)
		}
	}
	var bytes int64
	if json.Unmarshal(o["size"], &bytes) == nil && bytes > 0 {
		fmt.Fprintf(&b, " %d bytes", bytes)
	}
	return b.String()
}

func typeOrUnknown(kind string) string {
	if kind == "" {
		return "unknown type"
	}
	return fmt.Sprintf("%.100s", plainLine(kind))
}

// dataSize tells how large base64 data is.
func dataSize(encoded json.RawMessage) string {
	length := len(encoded) - 2 // without its quotes
	n := base64.StdEncoding.DecodedLen(max(0, length))
	for end := length; n > 0 && end > 0 && encoded[end] == '='; end-- {
		n--
	}
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

func truncateResult(s string) string {
	if len(s) <= maxResultBytes {
		return s
	}
	shown := cut(s, maxResultBytes)
	return fmt.Sprintf("%s\n[cut: %d of %d bytes are shown]", shown, len(shown), len(s))
}

// cut gives the beginning of a text, at most limit bytes of it.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
