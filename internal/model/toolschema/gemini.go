package toolschema

import (
	"encoding/json"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

// geminiKeywords are the keywords that parametersJsonSchema accepts, as Google documents them for its sister field
// responseJsonSchema, without those of identity. The API refuses the whole request for one unknown keyword.
var geminiKeywords = []string{"$defs", "$ref", "type", "format", "title", "description", "enum", "items", "prefixItems",
	"minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required"}

// ofOneType are the keywords that belong to one type only.
var ofOneType = map[string][]string{
	"array":  {"items", "prefixItems", "minItems", "maxItems"},
	"object": {"properties", "required", "additionalProperties"},
}

// maxDepth is how many levels of a schema Gemini is given; deeper ones allow anything.
const maxDepth = 24

// acceptedByGemini matches the names of parameters that Gemini accepts.
var acceptedByGemini = text.Pattern(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// converter converts a valid schema to one that Gemini accepts.
type converter struct {
	doc   *document
	names map[string]string // new name → original name
	left  int               // schemas that may still be converted
}

// convertForGemini returns a valid schema as Gemini accepts it, and adds the parameters that it renames. What cannot be
// expressed goes into the descriptions if that helps. It returns nil for a tool without arguments.
func convertForGemini(doc *document, names map[string]string) *object {
	c := &converter{doc, names, maxValues}
	out := c.convert(doc.top, maxDepth)
	out.set("type", "object")
	if properties := out.object("properties"); (properties == nil || len(properties.keys) == 0) && !out.has("anyOf") {
		return nil
	}
	return out
}

// convert converts a schema and those in it, down to a depth.
func (c *converter) convert(in *object, depth int) *object {
	out := newObject()
	if c.left--; depth == 0 || c.left < 0 {
		return out
	}
	in = c.mergeAllOf(in)
	// The definitions of older drafts move to the place where references point today.
	if old := in.object("definitions"); old != nil {
		defs := newObject()
		if now := in.object("$defs"); now != nil {
			defs.add(now)
		}
		defs.add(old)
		in.set("$defs", defs)
	}
	ref, isRef := in.get("$ref").(string)
	for _, k := range in.keys {
		// Beside $ref the API accepts only keywords that begin with $.
		if slices.Contains(geminiKeywords, k) && (!isRef || k[0] == '$') {
			out.set(k, c.convertKeyword(k, in.get(k), depth))
		}
	}
	if isRef {
		out.set("$ref", strings.Replace(ref, "#/definitions/", "#/$defs/", 1))
		return out
	}
	expandTypes(out)
	// The API has no const; an enum with one value means the same.
	if in.has("const") {
		out.set("enum", []any{in.get("const")})
	}
	var notes []string
	if list := out.list("enum"); list != nil && !isUniform(list) {
		out.delete("enum")
		notes = append(notes, note("one of", list))
	}
	filterRequired(out, geminiName)
	for _, k := range []string{"default", "pattern", "minLength", "maxLength", "multipleOf", "uniqueItems"} {
		if in.has(k) {
			notes = append(notes, note(k, in.get(k)))
		}
	}
	addNotes(out, notes...)
	return out
}

// convertKeyword converts the value of a keyword.
func (c *converter) convertKeyword(k string, v any, depth int) any {
	switch k {
	case "properties", "$defs":
		converted := newObject()
		for _, name := range v.(*object).keys {
			converted.set(name, c.convertValue(v.(*object).get(name), depth))
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

// convertValue converts a schema one level deeper; true and false become a schema that allows anything.
func (c *converter) convertValue(v any, depth int) *object {
	s, ok := v.(*object)
	if !ok {
		return newObject()
	}
	return c.convert(s, depth-1)
}

// mergeAllOf returns a copy of a schema with allOf merged into it, as far as that is simple: objects are merged and
// required lists joined; for anything else the outer schema wins.
func (c *converter) mergeAllOf(in *object) *object {
	out := in.clone()
	out.delete("allOf")
	parts := in.list("allOf")
	for _, one := range parts {
		part, ok := one.(*object)
		if !ok {
			continue
		}
		// Of what a reference stands beside, nothing would be left.
		if t := c.doc.targets[part]; t != nil && (len(parts) > 1 || in.has("properties") || in == c.doc.top) {
			part = t.clone()
			part.delete("allOf", "$ref", "$defs", "definitions")
		} else {
			part = c.mergeAllOf(part)
		}
		for _, k := range part.keys {
			switch have := out.get(k).(type) {
			case nil:
				out.set(k, part.get(k))
			case *object:
				if more := part.object(k); more != nil {
					both := have.clone()
					both.add(more)
					out.set(k, both)
				}
			case []any:
				if k == "required" {
					out.set(k, append(slices.Clone(have), part.list(k)...))
				}
			}
		}
	}
	return out
}

// expandTypes writes a list of types as anyOf, because the API accepts only one type. Beside alternatives the list is
// removed: the model then learns those only.
func expandTypes(out *object) {
	list := out.list("type")
	if list == nil {
		return
	}
	out.delete("type")
	if out.has("anyOf") || out.has("oneOf") {
		return
	}
	variants := []any{}
	for _, kind := range types(&object{values: map[string]any{"type": list}}) {
		one := newObject()
		one.set("type", kind)
		for _, k := range ofOneType[kind] {
			if out.has(k) {
				one.set(k, out.get(k))
			}
		}
		variants = append(variants, one)
	}
	out.delete(slices.Concat(ofOneType["array"], ofOneType["object"])...)
	out.set("anyOf", variants)
}

// isUniform reports whether the values are all texts or all numbers, which the API wants.
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

// geminiName returns a name that Gemini accepts: letters, digits and _, at most 64, not starting with a digit.
func geminiName(name string) string {
	if acceptedByGemini().MatchString(name) {
		return name
	}
	return "_" + replaceName(name, "_", maxName-1)
}
