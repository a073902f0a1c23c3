package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"ravenbot/internal/core/text"
)

const (
	maxFlags    = 20  // of one tool
	maxFlagPath = 150 // bytes, of the place in a schema
	// maxNesting is how deep a schema may be: people have to read it, and scanning is recursive.
	maxNesting = 64
)

// inspectedTool is a tool as it may be shown to a model, with what is suspicious about it.
type inspectedTool struct {
	toolSpec           // as listed
	hash        string // of all that a model reads of it
	description string // the description without what is hidden
	schema      json.RawMessage
	flags       []string
	refusal     string // why it cannot be shown at all
}

// inspect scans a tool for hidden characters and for orders to the model.
func inspect(t toolSpec) inspectedTool {
	i := inspectedTool{toolSpec: t, hash: t.hash(), description: removeHidden(t.describe()), schema: t.Schema}
	switch {
	case describeHidden(t.Name) != "":
		i.refusal = "its name holds hidden or control characters"
	case isTooDeep(t.Schema), isTooDeep(t.Output), isTooDeep(t.Notes):
		i.refusal = fmt.Sprintf("its schema is nested more than %d levels deep", maxNesting)
	}
	for _, part := range [][2]string{{"name", t.Name}, {"title", t.Title}, {"description", t.Description}} {
		i.flags = append(i.flags, findSuspicions(part[0], part[1])...)
	}
	input := decodeJSON(t.Schema)
	i.scanValue("inputSchema", input)
	i.scanValue("outputSchema", decodeJSON(t.Output))
	i.scanValue("annotations", decodeJSON(t.Notes))
	if cleaned := removeHiddenFrom(input); !reflect.DeepEqual(cleaned, input) {
		i.schema = encodeSorted(cleaned)
	}
	i.flags = i.flags[:min(len(i.flags), maxFlags)]
	return i
}

// scanValue scans every key and every text of a decoded value.
func (i *inspectedTool) scanValue(at string, value any) {
	if len(i.flags) > maxFlags {
		return
	}
	at = at[:min(len(at), maxFlagPath)]
	switch v := value.(type) {
	case string:
		i.flags = append(i.flags, findSuspicions(at, v)...)
	case []any:
		for n, inner := range v {
			i.scanValue(fmt.Sprintf("%s[%d]", at, n), inner)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if describeHidden(key) != "" {
				i.refusal = "a name in its schema holds hidden or control characters"
			}
			i.flags = append(i.flags, findSuspicions(at+" key", key)...)
			i.scanValue(at+"."+key, v[key])
		}
	}
}

// findSuspicions returns what is suspicious in a text; each entry names the place at.
func findSuspicions(at, said string) []string {
	var list []string
	if what := describeHidden(said); what != "" {
		list = append(list, fmt.Sprintf("%s: %s", text.OneLine(at), what))
	}
	if order := findOrder(said); order != "" {
		list = append(list, fmt.Sprintf("%s: reads like an order to the model: %.100q", text.OneLine(at), order))
	}
	return list
}

// orderPhrases are phrases by which published attacks give orders to the model behind the user's back. The list is
// short on purpose: a match only warns, and an honest description should pass. They are matched against text without
// hidden characters and with single spaces.
var orderPhrases = text.Pattern(`(?i)` + strings.Join([]string{
	`\b(ignore|disregard|forget|override) (all |any |the |your |of |these )*` +
		`(previous|prior|above|earlier|preceding|system|other) (instruction|prompt|rule|message|direction)`,
	`</? ?(important|system|instructions?|secret|admin) ?>`,
	`\b(do not|don't|never|without) (tell|mention|inform|notify|reveal|alert|telling|mentioning|informing|notifying)\b` +
		`[^.]{0,60}\b(user|human|operator|owner|anyone)\b`,
	`\.ssh/|~/\.ssh\b|\bid_(rsa|ed25519)\b|\.aws/credentials|/etc/(passwd|shadow)\b|\.cursor/mcp\.json|\.gnupg\b`,
	`\b(send|forward|upload|post|leak|exfiltrate|copy)\b[^.]{0,60}\b` +
		`(credentials|api keys?|passwords?|private keys?|chat history|system prompt|environment variables)\b`,
	`\b(new|updated|real) system (prompt|instructions?)\b|\byou are now (in|a|an|the)\b`,
}, "|"))

// findOrder returns the first phrase of a text that reads like an order to the model, or "".
func findOrder(said string) string {
	return orderPhrases().FindString(strings.Join(strings.Fields(removeHidden(said)), " "))
}

// terminalSequence matches the escape sequences by which text controls a terminal (ECMA-48:
// CSI, OSC, and two-character escapes).
var terminalSequence = text.Pattern(`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]|` +
	`(?:\x1b\]|\x{9d})[^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?`)

// describeHidden returns a description of what a text holds that a reader does not see, or "".
func describeHidden(said string) string {
	if terminalSequence().MatchString(said) {
		return "terminal sequences"
	}
	var found []string
	before := rune(0)
	for _, c := range said {
		if isHidden(before, c) && len(found) < 5 {
			if code := fmt.Sprintf("U+%04X", c); !slices.Contains(found, code) {
				found = append(found, code)
			}
		}
		before = c
	}
	if len(found) == 0 {
		return ""
	}
	return "hidden characters " + strings.Join(found, " ")
}

// isHidden reports whether a character is invisible and not legitimate behind the one before it. One variation selector
// may follow an emoji; joiners belong to emoji and to scripts that need them.
func isHidden(before, c rune) bool {
	switch {
	case c == '\n', c == '\t', c == '\r':
		return false
	case unicode.IsControl(c):
		return true
	case c == 0x200C, c == 0x200D: // joiners: hidden behind Latin, Greek and Cyrillic
		return before < 0x0590
	case unicode.Is(unicode.Variation_Selector, c): // rows of them can carry text that nobody sees
		return before < 0x20 || unicode.Is(unicode.Variation_Selector, before)
	}
	return text.IsInvisible(c)
}

// removeHidden returns a text without what a reader would not see.
func removeHidden(said string) string {
	said = terminalSequence().ReplaceAllString(strings.ToValidUTF8(said, "\uFFFD"), "")
	before := rune(0)
	return strings.Map(func(c rune) rune {
		if isHidden(before, c) || c == '\r' {
			return -1
		}
		before = c
		return c
	}, said)
}

// removeHiddenFrom returns a decoded value with removeHidden applied to every text. Keys stay as they are: a tool with
// hidden characters in a key is refused as a whole.
func removeHiddenFrom(value any) any {
	switch v := value.(type) {
	case string:
		return removeHidden(v)
	case []any:
		list := make([]any, len(v))
		for n, inner := range v {
			list[n] = removeHiddenFrom(inner)
		}
		return list
	case map[string]any:
		table := make(map[string]any, len(v))
		for key, inner := range v {
			table[key] = removeHiddenFrom(inner)
		}
		return table
	}
	return value
}

// isTooDeep reports whether JSON is deeper than maxNesting.
func isTooDeep(raw json.RawMessage) bool {
	depth, quoted := 0, false
	for n := 0; n < len(raw); n++ {
		switch c := raw[n]; {
		case quoted && c == '\\':
			n++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			if depth++; depth > maxNesting {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}

// decodeJSON returns decoded JSON, with keys and numbers as written; nil if raw is not JSON, or too deep.
func decodeJSON(raw json.RawMessage) any {
	if isTooDeep(raw) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return nil
	}
	return value
}

// encodeSorted returns a decoded value as JSON with sorted keys.
func encodeSorted(value any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return nil
	}
	return bytes.TrimSpace(b.Bytes())
}

// hash returns a hash of everything about a tool that a model reads or a policy uses. JSON
// is hashed in its decoded form: white space and the order of keys do not count.
func (t toolSpec) hash() string {
	parts := []any{t.Name, t.Title, t.Description}
	for _, raw := range []json.RawMessage{t.Schema, t.Output, t.Notes} {
		if value := decodeJSON(raw); value != nil {
			parts = append(parts, value)
		} else {
			parts = append(parts, string(raw))
		}
	}
	return hashJSON(parts...)
}
