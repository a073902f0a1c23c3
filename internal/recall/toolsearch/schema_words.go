package toolsearch

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Limits of the schema of a tool.
const (
	maxSchema = 256 << 10 // bytes; a larger schema is not read
	maxDepth  = 8
)

// schemaWords returns the words of a JSON Schema: names of parameters, titles, descriptions and choices. It returns
// nothing for what is no schema.
func schemaWords(schema json.RawMessage) string {
	if len(schema) > maxSchema {
		return ""
	}
	var decoded any
	if json.Unmarshal(schema, &decoded) != nil {
		return ""
	}
	var b strings.Builder
	writeSchema(&b, decoded, 0)
	return b.String()
}

// writeSchema writes the titles, descriptions, choices and names of a schema, one a line, down to maxDepth: a schema
// may refer to itself for ever.
func writeSchema(b *strings.Builder, schema any, depth int) {
	node, ok := schema.(map[string]any)
	if !ok || depth > maxDepth {
		return
	}
	for _, key := range []string{"title", "description"} {
		if s, ok := node[key].(string); ok {
			b.WriteString(s + "\n")
		}
	}
	choices, _ := node["enum"].([]any)
	for _, c := range choices {
		if s, ok := c.(string); ok {
			b.WriteString(s + "\n")
		}
	}
	for _, key := range []string{"properties", "$defs", "definitions"} {
		parts, _ := node[key].(map[string]any)
		// Sorted, since only the first words count, and these must not change from one start to the next.
		for _, name := range slices.Sorted(maps.Keys(parts)) {
			b.WriteString(name + "\n")
			writeSchema(b, parts[name], depth+1)
		}
	}
	writeSchema(b, node["items"], depth+1)
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		parts, _ := node[key].([]any)
		for _, p := range parts {
			writeSchema(b, p, depth+1)
		}
	}
}
