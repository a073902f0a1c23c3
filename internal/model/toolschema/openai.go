package toolschema

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

// maxName bounds the names of parameters for all providers.
const maxName = 64

// acceptedByAnthropic matches names of parameters at the top of a schema (anthropics/claude-code#79418).
var acceptedByAnthropic = text.Pattern(`^[a-zA-Z0-9_.-]{1,64}$`)

// fitTop changes a valid schema for OpenAI and Anthropic, and adds renamed parameters to names.
func fitTop(doc *document, names map[string]string) {
	// Providers use different engines for patterns: OpenAI forbids look-around (pleaseai/shunt#488), llama.cpp requires
	// both anchors (openclaw/openclaw#114114).
	for _, s := range doc.schemas {
		if p, ok := s["pattern"].(string); ok {
			addNotes(s, note("pattern", p))
			drop(s, "pattern")
		}
	}
	top := doc.top
	top["type"] = "object"
	properties := objectAt(top, "properties")
	if properties == nil { // OpenAI says "object schema missing properties"
		properties = object{}
	}
	// Both refuse alternatives at the top. All of their parameters are then optional.
	for _, k := range []string{"allOf", "anyOf", "oneOf"} {
		for _, one := range listAt(top, k) {
			part, _ := one.(object)
			for t := doc.target(part); t != nil; t = doc.target(t) {
				part = t
			}
			addMissing(properties, objectAt(part, "properties"))
		}
	}
	drop(top, "allOf", "anyOf", "oneOf", "not", "enum")
	rename := func(name string) string {
		if acceptedByAnthropic().MatchString(name) {
			return name
		}
		return replaceName(name, "_.-", maxName)
	}
	top["properties"] = renameProperties(properties, rename, names)
	filterRequired(top, rename)
}

// renameProperties renames properties, and adds the original names to names.
func renameProperties(properties object, rename func(string) string, names map[string]string) object {
	renamed := object{}
	for name, one := range properties {
		safe := rename(name)
		if safe != name {
			names[safe] = name
		}
		renamed[safe] = one
	}
	return renamed
}

// filterRequired renames required parameters and drops undefined ones.
func filterRequired(s object, rename func(string) string) {
	properties := objectAt(s, "properties")
	kept := []any{}
	for _, v := range listAt(s, "required") {
		name, _ := v.(string)
		name = rename(name)
		if has(properties, name) && !slices.Contains(kept, any(name)) {
			kept = append(kept, name)
		}
	}
	if has(s, "required") {
		s["required"] = kept
	}
	if len(kept) == 0 {
		drop(s, "required")
	}
}

// replaceName returns a name of ASCII letters, digits and the characters in others, of at most most bytes. A hash of
// the original at the end keeps names different.
func replaceName(name, others string, most int) string {
	safe := strings.Map(func(c rune) rune {
		if '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.ContainsRune(others, c) {
			return c
		}
		return '_'
	}, name)
	sum := sha256.Sum256([]byte(name))
	suffix := "_" + hex.EncodeToString(sum[:3])
	return safe[:min(len(safe), most-len(suffix))] + suffix
}

// note describes a keyword that a schema cannot express. It is empty for long values.
func note(keyword string, v any) string {
	if value := encode(v); len(value) < 200 {
		return keyword + ": " + string(value)
	}
	return ""
}

func addNotes(s object, notes ...string) {
	notes = slices.DeleteFunc(notes, func(n string) bool { return n == "" })
	if len(notes) > 0 {
		description, _ := s["description"].(string)
		s["description"] = strings.TrimSpace(description + " (" + strings.Join(notes, "; ") + ")")
	}
}
