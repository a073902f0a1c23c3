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

// keywords are those that parametersJsonSchema takes, as genai documents them for
// its sister field responseJsonSchema. One keyword too many and the API rejects
// the whole request.
var keywords = []string{"$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum",
	"items", "prefixItems", "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties",
	"additionalProperties", "required"}

// deepest is how many levels of a schema are kept; what lies deeper may be
// anything to the model, and is checked when the call comes.
const deepest = 24

// Schema makes of a tool's JSON Schema what Gemini takes. What cannot be said to
// it goes into the descriptions where it helps, and is left out else; calls are
// checked against the original. It gives nil where a tool takes no arguments.
func Schema(raw json.RawMessage) map[string]any {
	var in map[string]any
	if json.Unmarshal(raw, &in) != nil || len(in) == 0 {
		return nil
	}
	out := compile(in, deepest)
	if _, ok := out["$ref"]; !ok {
		out["type"] = "object"
	}
	if props, _ := out["properties"].(map[string]any); len(props) == 0 && out["$ref"] == nil && out["anyOf"] == nil {
		return nil
	}
	return out
}

func compile(in map[string]any, depth int) map[string]any {
	if depth == 0 {
		return map[string]any{}
	}
	in = maps.Clone(merged(in))
	out := map[string]any{}
	if ref, ok := in["$ref"].(string); ok && strings.HasPrefix(ref, "#") {
		for _, k := range []string{"$ref", "$defs", "$id", "$anchor"} {
			if v, ok := in[k]; ok {
				out[k] = value(k, v, depth)
			}
		}
		renameDefinitions(in, out, depth)
		return out
	}
	for _, k := range keywords {
		if v, ok := in[k]; ok && k != "$ref" && sane(k, v) {
			out[k] = value(k, v, depth)
		}
	}
	renameDefinitions(in, out, depth)
	listedTypes(in, out)
	if c, ok := in["const"]; ok {
		out["enum"] = []any{c}
	}
	plainEnum(in, out)
	onlyDefined(out)
	describe(in, out)
	return out
}

// plainEnum keeps a list of strings or of numbers; of others the description tells.
func plainEnum(in, out map[string]any) {
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

// onlyDefined keeps of what is required the parameters that are defined.
func onlyDefined(out map[string]any) {
	list, ok := out["required"].([]any)
	if !ok {
		return
	}
	props, _ := out["properties"].(map[string]any)
	kept := []any{}
	for _, v := range list {
		name, _ := v.(string)
		if name = parameter(name); props[name] != nil && !slices.Contains(kept, any(name)) {
			kept = append(kept, name)
		}
	}
	if out["required"] = kept; len(kept) == 0 {
		delete(out, "required")
	}
}

// sane reports that a keyword's value is of the kind that it must be; a schema
// with another was broken before it came to us.
func sane(k string, v any) bool {
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

// merged folds allOf into the schema that holds it, as far as that is plain.
func merged(in map[string]any) map[string]any {
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
		for k, v := range merged(part) {
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

func value(k string, v any, depth int) any {
	switch k {
	case "properties", "$defs":
		m, _ := v.(map[string]any)
		out := map[string]any{}
		for name, s := range m {
			if k == "properties" {
				name = parameter(name)
			}
			out[name] = sub(s, depth)
		}
		return out
	case "items":
		if list, ok := v.([]any); ok { // the tuple form of older drafts
			return map[string]any{"anyOf": subs(list, depth)}
		}
		return sub(v, depth)
	case "anyOf", "oneOf", "prefixItems":
		list, _ := v.([]any)
		return subs(list, depth)
	case "additionalProperties":
		if b, ok := v.(bool); ok {
			return b
		}
		return sub(v, depth)
	}
	return v
}

func sub(v any, depth int) map[string]any {
	m, ok := v.(map[string]any)
	if !ok { // true: anything
		return map[string]any{}
	}
	return compile(m, depth-1)
}

func subs(list []any, depth int) []any {
	out := []any{}
	for _, v := range list {
		out = append(out, sub(v, depth))
	}
	return out
}

// renameDefinitions moves the definitions of older drafts to where references are
// looked for now.
func renameDefinitions(in, out map[string]any, depth int) {
	if old, ok := in["definitions"]; ok && out["$defs"] == nil {
		out["$defs"] = value("$defs", old, depth)
	}
	if ref, ok := out["$ref"].(string); ok {
		out["$ref"] = strings.Replace(ref, "#/definitions/", "#/$defs/", 1)
	}
}

// listedTypes says ["string","null"] as anyOf.
func listedTypes(in, out map[string]any) {
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

// describe puts in words what the model should know and the schema cannot say.
func describe(in, out map[string]any) {
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

// longest is the most characters of a parameter's name.
const longest = 64

var good = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// parameter gives a name as Gemini takes it: letters, digits and _, at most 64, and
// no digit first. A name that has to be changed ends in a hash of the old one.
func parameter(name string) string {
	if good.MatchString(name) {
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
	return "_" + safe[:min(len(safe), longest-1-len(suffix))] + suffix
}
