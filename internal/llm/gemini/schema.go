package gemini

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ravenbot/internal/llm"
	"ravenbot/internal/text"
)

// supportedKeywords are the keywords that parametersJsonSchema accepts, as Google documents them for its sister field
// responseJsonSchema. The API rejects the whole request for one unknown keyword.
var supportedKeywords = []string{"$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum",
	"items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties",
	"additionalProperties", "required"}

// These keywords belong to one type only.
var (
	arrayKeywords  = []string{"items", "prefixItems", "minItems", "maxItems"}
	objectKeywords = []string{"properties", "required", "additionalProperties"}
)

// maxDepth is how many levels of a schema are kept. The model may send anything for deeper levels; it is checked when
// the call comes. It also bounds the recursion over schemas of strangers.
const maxDepth = 24

// ConvertSchema converts a tool's JSON Schema to what Gemini accepts. What cannot be expressed goes into the
// descriptions where that helps, and is left out otherwise; calls are checked against the original. It returns nil
// for a tool without arguments.
func ConvertSchema(raw json.RawMessage) map[string]any {
	var in map[string]any
	if json.Unmarshal(raw, &in) != nil || len(in) == 0 {
		return nil
	}
	out := convert(in, maxDepth)
	// Arguments are always an object, also where the schema does not say so.
	if _, ok := out["$ref"]; !ok {
		out["type"] = "object"
	}
	if props, _ := out["properties"].(map[string]any); len(props) == 0 && out["$ref"] == nil && out["anyOf"] == nil {
		return nil
	}
	return out
}

// convert converts one level of a schema.
func convert(in map[string]any, depth int) map[string]any {
	if depth == 0 {
		return map[string]any{}
	}
	// A copy, because restrictEnum leaves a note for addNotes in it.
	in = maps.Clone(mergeAllOf(in))
	out := map[string]any{}
	// Beside $ref the API accepts only keywords that begin with $.
	if ref, ok := in["$ref"].(string); ok && strings.HasPrefix(ref, "#") {
		for _, k := range []string{"$ref", "$defs", "$id", "$anchor"} {
			if v, ok := in[k]; ok {
				out[k] = convertKeyword(k, v, depth)
			}
		}
		renameDefinitions(in, out, depth)
		return out
	}
	for _, k := range supportedKeywords {
		if v, ok := in[k]; ok && k != "$ref" && hasValidType(k, v) {
			out[k] = convertKeyword(k, v, depth)
		}
	}
	renameDefinitions(in, out, depth)
	// These adjust out in place; addNotes comes last, because the others may leave notes in in.
	expandTypeList(in, out)
	// The API has no const; an enum with one value means the same.
	if c, ok := in["const"]; ok {
		out["enum"] = []any{c}
	}
	restrictEnum(in, out)
	filterRequired(out)
	addNotes(in, out)
	return out
}

// restrictEnum keeps a list of strings or of numbers; other lists go into the description.
func restrictEnum(in, out map[string]any) {
	list, ok := out["enum"].([]any)
	if !ok {
		return
	}
	texts, numbers := 0, 0
	for _, v := range list {
		switch v.(type) {
		case string:
			texts++
		case float64:
			numbers++
		}
	}
	if len(list) == 0 || texts != len(list) && numbers != len(list) {
		delete(out, "enum")
		in["one of"] = list
	}
}

// filterRequired removes required parameters that are not defined, which the API rejects.
func filterRequired(out map[string]any) {
	list, ok := out["required"].([]any)
	if !ok {
		return
	}
	props, _ := out["properties"].(map[string]any)
	kept := []any{}
	for _, v := range list {
		// Parameters were renamed in properties, so they must be renamed here too.
		name, _ := v.(string)
		if name = parameterName(name); props[name] != nil && !slices.Contains(kept, any(name)) {
			kept = append(kept, name)
		}
	}
	if out["required"] = kept; len(kept) == 0 {
		delete(out, "required")
	}
}

// hasValidType reports whether a keyword's value has the type that it must have. A schema where it does not was
// broken before it came to us.
func hasValidType(k string, v any) bool {
	switch k {
	case "enum", "required", "anyOf", "oneOf", "prefixItems":
		_, ok := v.([]any)
		return ok
	case "minItems", "maxItems", "minimum", "maximum":
		_, ok := v.(float64)
		return ok
	case "properties", "$defs":
		_, ok := v.(map[string]any)
		return ok
	case "type":
		_, one := v.(string)
		_, list := v.([]any)
		return one || list
	case "items", "additionalProperties":
		return true
	}
	_, ok := v.(string)
	return ok
}

// mergeAllOf merges allOf into the schema that holds it, as far as that is simple.
func mergeAllOf(in map[string]any) map[string]any {
	all, ok := in["allOf"].([]any)
	if !ok {
		return in
	}
	out := maps.Clone(in)
	delete(out, "allOf")
	for _, a := range all {
		part, ok := a.(map[string]any)
		if !ok {
			continue
		}
		for k, v := range mergeAllOf(part) {
			// Objects are merged and required lists joined; for anything else the outer schema wins.
			switch have := out[k].(type) {
			case map[string]any:
				if m, ok := v.(map[string]any); ok {
					both := maps.Clone(have)
					maps.Copy(both, m)
					out[k] = both
				}
			case []any:
				if l, ok := v.([]any); ok && k == "required" {
					out[k] = append(slices.Clone(have), l...)
				}
			case nil:
				out[k] = v
			}
		}
	}
	return out
}

// convertKeyword converts the value of a keyword.
func convertKeyword(k string, v any, depth int) any {
	switch k {
	case "properties", "$defs":
		m, _ := v.(map[string]any)
		out := map[string]any{}
		for name, s := range m {
			if k == "properties" {
				name = parameterName(name)
			}
			out[name] = convertSub(s, depth)
		}
		return out
	case "items":
		if list, ok := v.([]any); ok { // the tuple form of older drafts
			return map[string]any{"anyOf": convertSubs(list, depth)}
		}
		return convertSub(v, depth)
	case "anyOf", "oneOf", "prefixItems":
		list, _ := v.([]any)
		return convertSubs(list, depth)
	case "additionalProperties":
		if b, ok := v.(bool); ok {
			return b
		}
		return convertSub(v, depth)
	}
	return v
}

// convertSub converts a schema one level deeper. true and anything else that is not an object allow everything.
func convertSub(v any, depth int) map[string]any {
	m, ok := v.(map[string]any)
	if !ok { // true: anything
		return map[string]any{}
	}
	return convert(m, depth-1)
}

// convertSubs converts a list of schemas.
func convertSubs(list []any, depth int) []any {
	out := []any{}
	for _, v := range list {
		out = append(out, convertSub(v, depth))
	}
	return out
}

// renameDefinitions moves the definitions of older drafts to the place where references point today.
func renameDefinitions(in, out map[string]any, depth int) {
	if old, ok := in["definitions"]; ok && out["$defs"] == nil {
		out["$defs"] = convertKeyword("$defs", old, depth)
	}
	if ref, ok := out["$ref"].(string); ok {
		out["$ref"] = strings.Replace(ref, "#/definitions/", "#/$defs/", 1)
	}
}

// expandTypeList writes a type such as ["string","null"] as anyOf, because the API accepts only one type.
func expandTypeList(in, out map[string]any) {
	list, ok := in["type"].([]any)
	if !ok {
		return
	}
	delete(out, "type")
	if len(list) == 1 {
		out["type"] = list[0]
		return
	}
	// A second anyOf would replace the first; the model then learns the alternatives only.
	if out["anyOf"] != nil || out["oneOf"] != nil {
		return
	}
	variants := []any{}
	for _, t := range list {
		one := map[string]any{"type": t}
		for _, k := range arrayKeywords {
			if v, ok := out[k]; ok && t == "array" {
				one[k] = v
			}
		}
		for _, k := range objectKeywords {
			if v, ok := out[k]; ok && t == "object" {
				one[k] = v
			}
		}
		variants = append(variants, one)
	}
	for _, k := range slices.Concat(arrayKeywords, objectKeywords) {
		delete(out, k)
	}
	out["anyOf"] = variants
}

// addNotes adds to the description what the model should know and the schema cannot express.
func addNotes(in, out map[string]any) {
	var notes []string
	for _, k := range []string{"one of", "default", "pattern", "minLength", "maxLength", "multipleOf", "uniqueItems"} {
		if v, ok := in[k]; ok {
			b, err := json.Marshal(v)
			if err == nil && len(b) < 200 {
				notes = append(notes, fmt.Sprintf("%s: %s", k, b))
			}
		}
	}
	if len(notes) == 0 {
		return
	}
	text, _ := out["description"].(string)
	out["description"] = strings.TrimSpace(text + " (" + strings.Join(notes, "; ") + ")")
}

// maxNameLength is the longest name of a parameter, in characters.
const maxNameLength = 64

// validName matches the names of parameters that Gemini accepts.
var validName = text.Pattern(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// parameterName returns a name that Gemini accepts: letters, digits and _, at most 64, not starting with a digit.
func parameterName(name string) string {
	if validName().MatchString(name) {
		return name
	}
	return "_" + llm.ReplaceName(name, "_", maxNameLength-1)
}
