package llm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"ravenbot/internal/text"
)

// FittedSchema is the JSON Schema of a tool's arguments in a form that both OpenAI's and Anthropic's APIs accept: they
// refuse a whole request for the schema of one tool.
type FittedSchema struct {
	JSON json.RawMessage // of an object with properties
	// names are the parameters that had to be renamed: new name → original one.
	names map[string]string
}

// restoreNames returns the arguments of a call under the names that the tool knows.
func (f FittedSchema) restoreNames(args json.RawMessage) json.RawMessage {
	var given map[string]json.RawMessage
	if len(f.names) == 0 || json.Unmarshal(args, &given) != nil || given == nil {
		return args
	}
	for name, original := range f.names {
		if v, ok := given[name]; ok {
			delete(given, name)
			given[original] = v
		}
	}
	restored, _ := json.Marshal(given) // cannot fail: it came from JSON
	return restored
}

// SchemaCache fits schemas and keeps them, because the same tools are declared for every message. The zero cache is
// ready for use; it is safe for concurrent use.
type SchemaCache struct {
	mu     sync.Mutex
	fitted map[string]FittedSchema // by schema
}

// maxFitted is how many schemas a cache keeps; those of tools that are gone must not pile up.
const maxFitted = 4096

// Fit returns a schema as both APIs accept it. What is no JSON object becomes the schema of an object with any
// properties; calls are checked against the original in any case.
func (c *SchemaCache) Fit(schema json.RawMessage) FittedSchema {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.fitted[string(schema)]; ok {
		return f
	}
	if c.fitted == nil || len(c.fitted) >= maxFitted {
		c.fitted = map[string]FittedSchema{}
	}
	f := fitSchema(schema)
	c.fitted[string(schema)] = f
	return f
}

// RestoreNames returns the arguments of a call, by the name of one of the tools of its request, under the names that the
// tool knows.
func (c *SchemaCache) RestoreNames(tools []ToolSpec, name string, args json.RawMessage) json.RawMessage {
	i := slices.IndexFunc(tools, func(t ToolSpec) bool { return t.Name == name })
	if i < 0 {
		return args
	}
	return c.Fit(tools[i].Schema).restoreNames(args)
}

// acceptedParameter matches the names of parameters that Anthropic accepts, at the top of a schema
// (anthropics/claude-code#79418).
var acceptedParameter = text.Pattern(`^[a-zA-Z0-9_.-]{1,64}$`)

// fitSchema returns a schema as SchemaCache.Fit does.
func fitSchema(schema json.RawMessage) FittedSchema {
	top := map[string]any{}
	values := json.NewDecoder(bytes.NewReader(schema))
	values.UseNumber() // limits may be larger than a float64 holds
	if values.Decode(&top) != nil || top == nil {
		top = map[string]any{}
	}
	given, _ := json.Marshal(top) // cannot fail: it came from JSON
	fitLevel(top)
	top["type"] = "object"
	// Both refuse alternatives at the top: what they name may be given.
	properties, _ := top["properties"].(map[string]any)
	if properties == nil { // OpenAI says "object schema missing properties"
		properties = map[string]any{}
	}
	for _, k := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := top[k].([]any)
		for _, one := range list {
			part, _ := one.(map[string]any)
			more, _ := part["properties"].(map[string]any)
			for name, v := range more {
				if _, ok := properties[name]; !ok {
					properties[name] = v
				}
			}
		}
	}
	for _, k := range []string{"allOf", "anyOf", "oneOf", "not", "enum"} {
		delete(top, k)
	}
	f := FittedSchema{names: map[string]string{}}
	for _, name := range slices.Collect(maps.Keys(properties)) {
		if safe := parameterName(name); safe != name {
			properties[safe] = properties[name]
			delete(properties, name)
			f.names[safe] = name
		}
	}
	top["properties"] = properties
	fitRequired(top, properties)
	// What needs no change keeps the order of its parameters, which models follow.
	if f.JSON, _ = json.Marshal(top); bytes.Equal(f.JSON, given) {
		f.JSON = bytes.Clone(schema)
	}
	return f
}

// parameterName returns a name that Anthropic accepts.
func parameterName(name string) string {
	if acceptedParameter().MatchString(name) {
		return name
	}
	return ReplaceName(name, "_.-", 64)
}

// ReplaceName returns a name of ASCII letters, digits and the characters of others, of most bytes at the most. It ends
// in a hash of the original, so that two names that are replaced stay different.
func ReplaceName(name, others string, most int) string {
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

// fitRequired leaves of the required parameters of the top those that there are, under their names.
func fitRequired(top, properties map[string]any) {
	list, _ := top["required"].([]any)
	kept := []string{}
	for _, v := range list {
		name, _ := v.(string)
		if name = parameterName(name); properties[name] != nil && !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	if top["required"] = kept; len(kept) == 0 {
		delete(top, "required")
	}
}

// schemaLists and schemaMaps are the keywords whose value is a list of schemas, or schemas by name.
var (
	schemaLists = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	schemaMaps  = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)

// fitLevel changes a schema and those in it where one of the APIs would refuse them.
func fitLevel(s map[string]any) {
	// OpenAI says "array schema missing items", where an array may hold anything.
	if s["items"] == nil && s["prefixItems"] == nil && isArray(s["type"]) {
		s["items"] = map[string]any{}
	}
	// A list was the form of tuples before draft 2020-12, by which Anthropic reads schemas.
	if list, ok := s["items"].([]any); ok {
		s["items"] = map[string]any{"anyOf": list}
		if len(list) == 0 {
			s["items"] = map[string]any{}
		}
	}
	for _, k := range []string{"exclusiveMinimum", "exclusiveMaximum"} { // booleans before draft 6
		if _, ok := s[k].(bool); ok {
			delete(s, k)
		}
	}
	for _, k := range []string{"enum", "required"} {
		if list, ok := s[k].([]any); s[k] != nil && !ok || ok && k == "enum" && len(list) == 0 {
			delete(s, k)
		}
	}
	for _, k := range schemaLists {
		list, ok := s[k].([]any)
		if ok && len(list) == 0 || s[k] != nil && !ok {
			delete(s, k)
		}
		for _, one := range list {
			fitValue(one)
		}
	}
	for _, k := range schemaMaps {
		named, _ := s[k].(map[string]any)
		for _, one := range named {
			fitValue(one)
		}
	}
	for _, k := range []string{"items", "additionalProperties", "not", "contains", "if", "then", "else"} {
		fitValue(s[k])
	}
}

// fitValue fits a schema that stands in another one, unless it is true or false.
func fitValue(v any) {
	if s, ok := v.(map[string]any); ok {
		fitLevel(s)
	}
}

// isArray reports whether a type is that of arrays, perhaps among others.
func isArray(kind any) bool {
	list, _ := kind.([]any)
	return kind == "array" || slices.Contains(list, any("array"))
}
