package gemini

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// supportedKeywords are those that parametersJsonSchema takes, as genai documents them for
// its sister field responseJsonSchema. One keyword too many and the API rejects
// the whole request.
var supportedKeywords = []string{"$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum",
	"items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties",
	"additionalProperties", "required"}

// maxDepth is how many levels of a schema are kept; what lies deeper may be
// anything to the model, and is checked when the call comes.
const maxDepth = 24

// ConvertSchema makes of a tool's JSON Schema what Gemini takes. What cannot be said to
// it goes into the descriptions where it helps, and is left out else; calls are
// checked against the original. It gives nil where a tool takes no arguments.
func ConvertSchema(raw json.RawMessage) map[string]any {
	var in map[string]any
	if json.Unmarshal(raw, &in) != nil || len(in) == 0 {
		return nil
	}
	out := convert(in, maxDepth)
	if _, ok := out["$ref"]; !ok {
		out["type"] = "object"
	}
	if props, _ := out["properties"].(map[string]any); len(props) == 0 && out["$ref"] == nil && out["anyOf"] == nil {
		return nil
	}
	return out
}

func convert(in map[string]any, depth int) map[string]any {
	if depth == 0 {
		return map[string]any{}
	}
	in = maps.Clone(mergeAllOf(in))
	out := map[string]any{}
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
	expandTypeList(in, out)
	if c, ok := in["const"]; ok {
		out["enum"] = []any{c}
	}
	restrictEnum(in, out)
	filterRequired(out)
	addNotes(in, out)
	return out
}

// restrictEnum keeps a list of strings or of numbers; of others the description tells.
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

// filterRequired keeps of what is required the parameters that are defined.
func filterRequired(out map[string]any) {
	list, ok := out["required"].([]any)
	if !ok {
		return
	}
	props, _ := out["properties"].(map[string]any)
	kept := []any{}
	for _, v := range list {
		name, _ := v.(string)
		if name = parameterName(name); props[name] != nil && !slices.Contains(kept, any(name)) {
			kept = append(kept, name)
		}
	}
	if out["required"] = kept; len(kept) == 0 {
		delete(out, "required")
	}
}

// hasValidType reports that a keyword's value is of the kind that it must be; a schema
// with another was broken before it came to us.
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

// mergeAllOf folds allOf into the schema that holds it, as far as that is plain.
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

func convertSub(v any, depth int) map[string]any {
	m, ok := v.(map[string]any)
	if !ok { // true: anything
		return map[string]any{}
	}
	return convert(m, depth-1)
}

func convertSubs(list []any, depth int) []any {
	out := []any{}
	for _, v := range list {
		out = append(out, convertSub(v, depth))
	}
	return out
}

// renameDefinitions moves the definitions of older drafts to where references are
// looked for now.
func renameDefinitions(in, out map[string]any, depth int) {
	if old, ok := in["definitions"]; ok && out["$defs"] == nil {
		out["$defs"] = convertKeyword("$defs", old, depth)
	}
	if ref, ok := out["$ref"].(string); ok {
		out["$ref"] = strings.Replace(ref, "#/definitions/", "#/$defs/", 1)
	}
}

// expandTypeList says ["string","null"] as anyOf.
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
	if out["anyOf"] != nil || out["oneOf"] != nil {
		return
	}
	variants := []any{}
	for _, t := range list {
		one := map[string]any{"type": t}
		for _, k := range []string{"items", "prefixItems", "minItems", "maxItems"} {
			if v, ok := out[k]; ok && t == "array" {
				one[k] = v
			}
		}
		for _, k := range []string{"properties", "required", "additionalProperties"} {
			if v, ok := out[k]; ok && t == "object" {
				one[k] = v
			}
		}
		variants = append(variants, one)
	}
	for _, k := range []string{"items", "prefixItems", "minItems", "maxItems", "properties", "required", "additionalProperties"} {
		delete(out, k)
	}
	out["anyOf"] = variants
}

// addNotes puts in words what the model should know and the schema cannot say.
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

// maxNameLength is the most characters of a parameter's name.
const maxNameLength = 64

var validName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// parameterName gives a name as Gemini takes it: letters, digits and _, at most 64, and
// no digit first. A name that has to be changed ends in a hash of the old one.
func parameterName(name string) string {
	if validName.MatchString(name) {
		return name
	}
	safe := strings.Map(func(c rune) rune {
		if c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			return c
		}
		return '_'
	}, name)
	sum := sha256.Sum256([]byte(name))
	suffix := "_" + hex.EncodeToString(sum[:3])
	return "_" + safe[:min(len(safe), maxNameLength-1-len(suffix))] + suffix
}
