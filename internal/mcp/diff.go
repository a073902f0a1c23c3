package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// render returns a tool as text for people to compare; hidden characters are written as their code.
func (t toolSpec) render() string {
	var b strings.Builder
	for _, part := range [][2]string{{"name", t.Name}, {"title", t.Title}, {"description", t.Description}} {
		if part[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", part[0], part[1])
		}
	}
	names := []string{"annotations", "inputSchema", "outputSchema"}
	for i, raw := range []json.RawMessage{t.Notes, t.Schema, t.Output} {
		var indented any = raw
		if value := decodeJSON(raw); value != nil {
			readable, _ := json.MarshalIndent(value, "", "  ") // it came as JSON
			indented = readable
		}
		if len(raw) > 0 {
			fmt.Fprintf(&b, "%s: %s\n", names[i], indented)
		}
	}
	return showHidden(b.String())
}

// showHidden returns a text with hidden characters written as their code.
func showHidden(s string) string {
	var b strings.Builder
	before := rune(0)
	// Whether a character is hidden may depend on the one before it.
	for _, c := range strings.ToValidUTF8(s, "\uFFFD") {
		if isHidden(before, c) || c == '\r' {
			fmt.Fprintf(&b, "{U+%04X}", c)
		} else {
			b.WriteRune(c)
		}
		before = c
	}
	return b.String()
}

// diffLines returns what changed from before to after as hunks of a unified diff; "" if nothing did.
func diffLines(before, after string) string {
	unified := string(diff.Diff("before", []byte(before), "after", []byte(after)))
	if header := strings.Index(unified, "@@"); header >= 0 { // behind lines with the two names
		return unified[header:]
	}
	return ""
}
