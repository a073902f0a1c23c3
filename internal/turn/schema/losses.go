package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

const maxLosses = 50

// Losses compares a schema with its version for a model provider that supports less of JSON Schema. It returns the
// differences that the model does not see, one a line, at most 50. The call still checks them. It returns nothing if
// one of the two is unreadable.
func Losses(before, after json.RawMessage) []string {
	from, err := read(before)
	if err != nil {
		return nil
	}
	to, err := read(after)
	if err != nil {
		to = nil
	}
	var l losses
	l.compare("arguments", from, to)
	return l.list
}

type losses struct{ list []string }

// add notes what cannot be declared to a model; behind maxLosses nothing is added.
func (l *losses) add(at, what string) {
	if len(l.list) < maxLosses {
		l.list = append(l.list, text.Shorten(at, maxMessage)+": "+what)
	}
}

// compare compares two schemas part by part.
func (l *losses) compare(at string, before, after any) {
	from, _ := before.(map[string]any)
	to, _ := after.(map[string]any)
	for _, k := range slices.Sorted(maps.Keys(from)) {
		if annotations[k] {
			continue
		}
		name := k
		if k == "definitions" && to["definitions"] == nil {
			name = "$defs"
		}
		there, ok := to[name]
		switch {
		case ok:
			l.compareBelow(at, k, from[k], there)
		case k == "type" && (to["anyOf"] != nil || to["oneOf"] != nil), k == "properties" && empty(from[k]):
		case k == "allOf":
			l.add(at, "allOf is folded into the rest, as far as that goes")
		case k == "additionalProperties" && from[k] == true:
		case strings.Contains(fmt.Sprint(to["description"]), k+": "):
			l.add(at, k+" is told in words only")
		default:
			l.add(at, k+" is left out")
		}
	}
}

// annotations are the keywords that require nothing of a value.
var annotations = map[string]bool{"$schema": true, "$id": true, "$anchor": true, "$comment": true, "title": true,
	"description": true,
	"examples":    true, "default": true, "deprecated": true, "readOnly": true, "writeOnly": true}

// empty reports whether a schema is {}, which allows everything.
func empty(v any) bool {
	table, ok := v.(map[string]any)
	return ok && len(table) == 0
}

// compareBelow compares the contents of a keyword that both schemas have.
func (l *losses) compareBelow(at, keyword string, before, after any) {
	switch keyword {
	case "properties", "$defs", "definitions", "patternProperties", "dependentSchemas":
		from, _ := before.(map[string]any)
		to, _ := after.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(from)) {
			inner, ok := to[name]
			if !ok {
				l.add(at+"."+shorten(name), "goes by another name, or is left out")
				continue
			}
			l.compare(at+"."+shorten(name), from[name], inner)
		}
	case "anyOf", "oneOf", "allOf", "prefixItems":
		from, _ := before.([]any)
		to, _ := after.([]any)
		for i := range from {
			if i < len(to) {
				l.compare(fmt.Sprintf("%s.%s[%d]", at, keyword, i), from[i], to[i])
			}
		}
		if len(to) < len(from) {
			l.add(at, keyword+" has fewer choices")
		}
	case "required", "enum":
		from, _ := before.([]any)
		to, _ := after.([]any)
		if len(to) < len(from) {
			l.add(at, keyword+" names fewer")
		}
	case "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems",
		"unevaluatedProperties":
		l.compare(at+"."+keyword, before, after)
	}
}
