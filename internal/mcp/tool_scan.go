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
	// maxNesting bounds the depth of a schema: people read it, and scanning is recursive.
	maxNesting = 64
)

// inspectedTool is a tool in a form for models, with suspicions about it.
type inspectedTool struct {
	toolSpec           // in the form that was listed
	hash        string // of everything that a model reads
	description string // without hidden characters
	schema      json.RawMessage
	flags       []string
	refusal     string // the reason if it cannot be shown
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

// findSuspicions describes suspicious parts of a text at a place.
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

// orderPhrases match phrases with which published attacks give orders to a model. The list is short, because honest
// descriptions should pass. The text has no hidden characters and single spaces.
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

func findOrder(said string) string {
	return orderPhrases().FindString(strings.Join(strings.Fields(removeHidden(said)), " "))
}

// terminalSequence matches escape sequences for terminals (ECMA-48: CSI, OSC, and two-character escapes).
var terminalSequence = text.Pattern(`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]|` +
	`(?:\x1b\]|\x{9d})[^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?`)

// describeHidden describes the hidden characters in a text, or returns "".
func describeHidden(said string) string {
	if terminalSequence().MatchString(said) {
		return "terminal sequences"
	}
	var found []string
	replaceHidden(said, func(c rune) string {
		if code := fmt.Sprintf("U+%04X", c); c != '\r' && len(found) < 5 && !slices.Contains(found, code) {
			found = append(found, code)
		}
		return ""
	})
	if len(found) == 0 {
		return ""
	}
	return "hidden characters " + strings.Join(found, " ")
}

// isHidden reports whether a character is invisible without a legitimate use after the one before it: a variation
// selector may follow an emoji, and joiners belong to emoji and some scripts.
func isHidden(before, c rune) bool {
	switch {
	case c == '\n', c == '\t', c == '\r':
		return false
	case unicode.IsControl(c):
		return true
	case c == 0x200C, c == 0x200D: // joiners: hidden after Latin, Greek and Cyrillic
		return before < 0x0590
	case unicode.Is(unicode.Variation_Selector, c): // rows of them can carry invisible text
		return before < 0x20 || unicode.Is(unicode.Variation_Selector, before)
	}
	return text.IsInvisible(c)
}

func removeHidden(said string) string {
	said = terminalSequence().ReplaceAllString(strings.ToValidUTF8(said, "\uFFFD"), "")
	return replaceHidden(said, func(rune) string { return "" })
}

// replaceHidden replaces the hidden characters of a text, and carriage returns.
func replaceHidden(said string, replace func(rune) string) string {
	var b strings.Builder
	before := rune(0)
	for _, c := range said {
		if isHidden(before, c) || c == '\r' {
			b.WriteString(replace(c))
			continue
		}
		b.WriteRune(c)
		before = c
	}
	return b.String()
}

// removeHiddenFrom applies removeHidden to all texts in a decoded value. Tools with hidden characters in keys are
// refused.
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

// decodeJSON decodes JSON without rounding numbers. It returns nil if raw is not JSON, or too deep.
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

func encodeSorted(value any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return nil
	}
	return bytes.TrimSpace(b.Bytes())
}

// hash returns a hash of everything in a tool that a model reads or a policy uses. It ignores white space and the order
// of keys in JSON.
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
