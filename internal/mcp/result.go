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
	// maxResult is how much text of one result is kept, in bytes.
	maxResult = 4 << 20
	// maxFiles is how much data of one result is kept beside its text, in bytes.
	maxFiles = 8 << 20
)

// resultOf reads the result of a call from its exact keys. Text stays, data becomes
// files and is described, and of structured data alone the JSON is the text.
func resultOf(raw json.RawMessage) tool.Result {
	o := object(raw)
	room := maxFiles
	said, files := contents(o["content"], &room)
	failed := flag(o["isError"])
	r := tool.Result{Text: bounded(said), Files: files, IsError: failed != nil && *failed}
	if data := o["structuredContent"]; len(data) > 0 && string(data) != "null" && len(data) <= maxResult {
		r.Structured = data
		if r.Text == "" {
			r.Text = string(data)
		}
	}
	return r
}

// contents reads what servers put into results and messages, one part or a list of
// them. Data takes from room, in bytes; what has no room is only described.
func contents(raw json.RawMessage, room *int) (string, []chat.File) {
	list := items(raw)
	if bytes.HasPrefix(raw, []byte("{")) {
		list = []json.RawMessage{raw}
	}
	var parts []string
	var files []chat.File
	for _, item := range list {
		o := object(item)
		if part := partOf(o); part != "" {
			parts = append(parts, part)
		}
		if f, ok := fileOf(o, len(files)+1, room); ok {
			files = append(files, f)
		}
	}
	return strings.Join(parts, "\n"), files
}

func partOf(o map[string]json.RawMessage) string {
	switch kind := text(o["type"]); kind {
	case "text":
		return text(o["text"])
	case "image", "audio":
		return fmt.Sprintf("[%s: %s, %s]", kind, orUnknown(text(o["mimeType"])), size(o["data"]))
	case "resource_link":
		return "[resource" + described(o) + "]"
	case "resource":
		return resourcePart(object(o["resource"]))
	case "":
		return ""
	default:
		return fmt.Sprintf("[%.40s]", plain(kind))
	}
}

// resourcePart writes the content of a resource.
func resourcePart(o map[string]json.RawMessage) string {
	if o["text"] != nil {
		return fmt.Sprintf("[resource%s]\n%s", described(o), text(o["text"]))
	}
	return fmt.Sprintf("[resource%s: %s]", described(o), size(o["blob"]))
}

// fileOf takes the data of a part, if it has any and there is room.
func fileOf(o map[string]json.RawMessage, number int, room *int) (chat.File, bool) {
	kind := text(o["type"])
	encoded, media, name := text(o["data"]), text(o["mimeType"]), ""
	if kind == "resource" {
		inner := object(o["resource"])
		encoded, media, name = text(inner["blob"]), text(inner["mimeType"]), baseName(text(inner["uri"]))
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
		name = fmt.Sprintf("%s-%d%s", kind, number, extension(media))
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

// extension is the usual one of the types that servers send.
func extension(media string) string {
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
	name := path.Base(plain(uri))
	if name == "." || name == "/" || name == ".." || strings.ContainsAny(name, `\:`) {
		return ""
	}
	return cut(name, 100)
}

// described names a resource by what is known of it.
func described(o map[string]json.RawMessage) string {
	var b strings.Builder
	for _, key := range []string{"name", "uri", "mimeType"} {
		if v := plain(text(o[key])); v != "" {
			fmt.Fprintf(&b, " %.500s", v)
		}
	}
	var bytes int64
	if json.Unmarshal(o["size"], &bytes) == nil && bytes > 0 {
		fmt.Fprintf(&b, " %d bytes", bytes)
	}
	return b.String()
}

func orUnknown(kind string) string {
	if kind == "" {
		return "unknown type"
	}
	return fmt.Sprintf("%.100s", plain(kind))
}

// size tells how large base64 data is.
func size(encoded json.RawMessage) string {
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

func bounded(s string) string {
	if len(s) <= maxResult {
		return s
	}
	shown := cut(s, maxResult)
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
