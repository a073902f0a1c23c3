package toolsearch

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// common are English words that say nothing about what somebody wants done.
var common = set(`a about above after again against all also am an and any are aren as at be because been before being below
	between both but by can cannot could couldn d did didn do does doesn doing don down during each few for from further had
	hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself let ll m may
	me might more most must mustn my myself no nor not of off on once only or other ought our ours ourselves out over own re s
	same shall shan she should shouldn so some such t than that the their theirs them themselves then there these they this
	those through to too under until up us ve very was wasn we were weren what when where which while who whom whose why will
	with won would wouldn you your yours yourself yourselves`)

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

// eachWord yields the words of a text in lower case, until yield says false. Names
// are split where lower case turns to upper case; where words are written without
// spaces, pairs of neighbouring characters stand for them.
func eachWord(text string, yield func(string) bool) {
	runes := []rune(strings.ToValidUTF8(text, " "))
	for i := 0; i < len(runes); {
		if !inWord(runes[i]) {
			i++
			continue
		}
		end := wordEnd(runes, i)
		word := strings.ToLower(string(runes[i:end]))
		if !yield(word) {
			return
		}
		if isIdeograph(runes[i]) && end-i == 2 && end < len(runes) && isIdeograph(runes[end]) {
			end-- // pairs overlap
		}
		i = end
	}
}

func wordEnd(runes []rune, start int) int {
	if isIdeograph(runes[start]) {
		if start+1 < len(runes) && isIdeograph(runes[start+1]) {
			return start + 2
		}
		return start + 1
	}
	i := start + 1
	for i < len(runes) && inWord(runes[i]) && !isIdeograph(runes[i]) {
		before, r := runes[i-1], runes[i]
		if unicode.IsLower(before) && unicode.IsUpper(r) {
			break
		}
		if !unicode.IsLower(before) && unicode.IsUpper(r) && i+1 < len(runes) && unicode.IsLower(runes[i+1]) {
			break // as in HTTPServer and v2Users
		}
		i++
	}
	return i
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

func isIdeograph(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
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
