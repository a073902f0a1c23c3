package toolsearch

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// polite are words in which people wrap a request. They may be what a tool does,
// too, so they count, but little.
var polite = set(`able additionally anyone anything ask asking assist assistance finally find first furthermore get give hello help
	hey hi interested kindly know lastly like look looking making moreover need next please possible provide see show someone
	something tell thank thanks thing things use using want way wondering`)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// clauses cuts a request into its sentences and lines, each of which may ask for
// something else.
func clauses(query string) []string {
	var list []string
	start := 0
	runes := []rune(query)
	for i, r := range runes {
		ends := strings.ContainsRune("\n;。！？；", r)
		if strings.ContainsRune(".!?", r) {
			ends = i+1 == len(runes) || unicode.IsSpace(runes[i+1])
		}
		if ends {
			list = append(list, string(runes[start:i]))
			start = i + 1
		}
	}
	return append(list, string(runes[start:]))
}

// schemaWords collects what a JSON Schema says in words: names of parameters,
// descriptions and the choices there are. What is no schema says nothing.
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
