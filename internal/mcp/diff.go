package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// render returns a tool as text for people. Hidden characters appear as their codes.
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

func showHidden(s string) string {
	return replaceHidden(s, func(c rune) string { return fmt.Sprintf("{U+%04X}", c) })
}

// diffLines returns the changes from before to after as hunks of a unified diff, or "" if there are none.
func diffLines(before, after string) string {
	unified := string(diff.Diff("before", []byte(before), "after", []byte(after)))
	if header := strings.Index(unified, "@@"); header >= 0 { // after lines with the two names
		return unified[header:]
	}
	return ""
}
