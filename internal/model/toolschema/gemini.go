package toolschema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

// geminiKeywords are the keywords that parametersJsonSchema accepts, according to Google's documentation of
// responseJsonSchema, without $id and $anchor. The API refuses a request with one unknown keyword.
var geminiKeywords = []string{"$defs", "$ref", "type", "format", "title", "description", "enum", "items", "prefixItems",
	"minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required"}

// ofOneType are the keywords of only one type.
var ofOneType = map[string][]string{
	"array":  {"items", "prefixItems", "minItems", "maxItems"},
	"object": {"properties", "required", "additionalProperties"},
}

// maxDepth bounds the levels of a schema for Gemini; deeper ones allow anything.
const maxDepth = 24

var acceptedByGemini = text.Pattern(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

type converter struct {
	doc   *document
	names map[string]string // new name → original name
	left  int               // schemas that may still be converted
}

// convertForGemini converts a valid schema, and adds renamed parameters to names. Descriptions get the rules that
// Gemini cannot express. It returns nil for a tool without arguments.
func convertForGemini(doc *document, names map[string]string) object {
	c := &converter{doc, names, maxValues}
	out := c.convert(doc.top, maxDepth)
	out["type"] = "object"
	if properties := objectAt(out, "properties"); len(properties) == 0 && !has(out, "anyOf") {
		return nil
	}
	return out
}

func (c *converter) convert(in object, depth int) object {
	out := object{}
	if c.left--; depth == 0 || c.left < 0 {
		return out
	}
	in = c.mergeAllOf(in, depth == maxDepth)
	// References of older drafts point to definitions.
	if old := objectAt(in, "definitions"); old != nil {
		defs := maps.Clone(old)
		maps.Copy(defs, objectAt(in, "$defs"))
		in["$defs"] = defs
	}
	ref, isRef := in["$ref"].(string)
	for k, v := range in {
		// Next to $ref the API accepts only keywords that begin with $.
		if slices.Contains(geminiKeywords, k) && (!isRef || k[0] == '$') {
			out[k] = c.convertKeyword(k, v, depth)
		}
	}
	if isRef {
		out["$ref"] = strings.Replace(ref, "#/definitions/", "#/$defs/", 1)
		return out
	}
	expandTypes(out)
	// The API has no const.
	if has(in, "const") {
		out["enum"] = []any{in["const"]}
	}
	var notes []string
	if list := listAt(out, "enum"); list != nil && !isUniform(list) {
		drop(out, "enum")
		notes = append(notes, note("one of", list))
	}
	filterRequired(out, geminiName)
	for _, k := range []string{"default", "pattern", "minLength", "maxLength", "multipleOf", "uniqueItems"} {
		if has(in, k) {
			notes = append(notes, note(k, in[k]))
		}
	}
	addNotes(out, notes...)
	return out
}

func (c *converter) convertKeyword(k string, v any, depth int) any {
	switch k {
	case "properties", "$defs":
		converted := object{}
		for name, one := range v.(object) {
			converted[name] = c.convertValue(one, depth)
		}
		if k == "properties" {
			return renameProperties(converted, geminiName, c.names)
		}
		return converted
	case "anyOf", "oneOf", "prefixItems":
		converted := []any{}
		for _, one := range v.([]any) {
			converted = append(converted, c.convertValue(one, depth))
		}
		return converted
	case "additionalProperties":
		if _, ok := v.(bool); ok {
			return v
		}
		return c.convertValue(v, depth)
	case "items":
		return c.convertValue(v, depth)
	}
	return v
}

// convertValue converts a schema one level deeper. true and false allow anything.
func (c *converter) convertValue(v any, depth int) object {
	s, ok := v.(object)
	if !ok {
		return object{}
	}
	return c.convert(s, depth-1)
}

// mergeAllOf returns a copy of a schema with a simple merge of allOf: it merges objects and joins required lists.
// Otherwise the outer schema wins.
func (c *converter) mergeAllOf(in object, isTop bool) object {
	out := maps.Clone(in)
	drop(out, "allOf")
	parts := listAt(in, "allOf")
	for _, one := range parts {
		part, ok := one.(object)
		if !ok {
			continue
		}
		// Keywords next to $ref would be lost.
		if t := c.doc.target(part); t != nil && (len(parts) > 1 || has(in, "properties") || isTop) {
			part = maps.Clone(t)
			drop(part, "allOf", "$ref", "$defs", "definitions")
		} else {
			part = c.mergeAllOf(part, false)
		}
		for k, v := range part {
			switch have := out[k].(type) {
			case nil:
				out[k] = v
			case object:
				if more := objectAt(part, k); more != nil {
					out[k] = maps.Clone(have)
					addMissing(out[k].(object), more)
				}
			case []any:
				if k == "required" {
					out[k] = append(slices.Clone(have), listAt(part, k)...)
				}
			}
		}
	}
	return out
}

// expandTypes converts a list of types to anyOf, because the API accepts only one type. Next to alternatives it only
// removes the list.
func expandTypes(out object) {
	list := listAt(out, "type")
	if list == nil {
		return
	}
	drop(out, "type")
	if has(out, "anyOf") || has(out, "oneOf") {
		return
	}
	variants := []any{}
	for _, kind := range types(object{"type": list}) {
		one := object{"type": kind}
		for _, k := range ofOneType[kind] {
			if has(out, k) {
				one[k] = out[k]
			}
		}
		variants = append(variants, one)
	}
	drop(out, slices.Concat(ofOneType["array"], ofOneType["object"])...)
	out["anyOf"] = variants
}

// isUniform reports whether all values are texts or all are numbers, as the API requires.
func isUniform(list []any) bool {
	texts, numbers := 0, 0
	for _, v := range list {
		switch v.(type) {
		case string:
			texts++
		case json.Number:
			numbers++
		}
	}
	return texts == len(list) || numbers == len(list)
}

// geminiName returns a name of letters, digits and _, at most 64, that does not begin with a digit.
func geminiName(name string) string {
	if acceptedByGemini().MatchString(name) {
		return name
	}
	return "_" + replaceName(name, "_", maxName-1)
}
