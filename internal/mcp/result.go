package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"ravenbot/internal/tool"
)

// maxResult is how much text of one result is kept, in bytes.
const maxResult = 4 << 20

// resultOf reads the result of a call from its exact keys. Text stays, data is
// described, and of data alone the JSON is the text.
func resultOf(raw json.RawMessage) tool.Result {
	o := object(raw)
	var items []json.RawMessage
	_ = json.Unmarshal(o["content"], &items) // what is no list has no parts
	var parts []string
	for _, item := range items {
		if part := partOf(object(item)); part != "" {
			parts = append(parts, part)
		}
	}
	failed := flag(o["isError"])
	r := tool.Result{Text: bounded(strings.Join(parts, "\n")), IsError: failed != nil && *failed}
	if data := o["structuredContent"]; len(data) > 0 && string(data) != "null" && len(data) <= maxResult {
		r.Structured = data
		if r.Text == "" {
			r.Text = string(data)
		}
	}
	return r
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
		inner := object(o["resource"])
		if inner["text"] != nil {
			return fmt.Sprintf("[resource%s]\n%s", described(inner), text(inner["text"]))
		}
		return fmt.Sprintf("[resource%s: %s]", described(inner), size(inner["blob"]))
	case "":
		return ""
	default:
		return fmt.Sprintf("[%.40s]", plain(kind))
	}
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
	n := base64.StdEncoding.DecodedLen(max(0, len(encoded)-2)) // without its quotes
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

func bounded(s string) string {
	if len(s) <= maxResult {
		return s
	}
	end := maxResult
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return fmt.Sprintf("%s\n[cut: %d of %d bytes are shown]", s[:end], end, len(s))
}
