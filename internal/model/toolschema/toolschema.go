// Package toolschema declares tools with schemas that no provider refuses, because a provider refuses a whole request
// for one schema, and strangers write the schemas. It promises that a valid schema keeps its bytes, and any other one
// gets sorted keys; and that no schema makes it panic, load anything or take long. A fitted schema may allow more than
// the original, and its parameters may have other names: callers restore the names and check arguments against the
// original schema.
package toolschema

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"ravenbot/internal/core/llm"
)

// Dialect is a form of schemas.
type Dialect int

const (
	// JSONSchema is for OpenAI and Anthropic: JSON Schema of draft 2020-12 for an object with properties, without
	// alternatives at the top.
	JSONSchema Dialect = iota
	// Gemini is for parametersJsonSchema: some keywords of JSON Schema, one type a schema.
	Gemini
)

// Names are renamed parameters: tool → new name → original name.
type Names map[string]map[string]string

const maxFitted = 4096

// Declarer encodes the declarations of tools. It caches the last ones and the fitted schemas. It is safe for concurrent
// use.
type Declarer struct {
	dialect Dialect
	key     string // of the schema in a declaration
	wrap    func(declaration map[string]any) any

	mu      sync.Mutex
	fitted  map[string]fitted // by original schema
	tools   []llm.ToolSpec
	encoded json.RawMessage
	names   Names // never changed after it was returned
}

// fitted is a fitted schema with renamed parameters: new name → original name.
type fitted struct {
	schema json.RawMessage
	names  map[string]string
}

// New returns a Declarer whose declarations contain name, description and the schema under a key. The schema is missing
// for a tool without arguments in the Gemini dialect. wrap returns the API's form of a declaration; it may be nil.
func New(d Dialect, key string, wrap func(declaration map[string]any) any) *Declarer {
	if wrap == nil {
		wrap = func(declaration map[string]any) any { return declaration }
	}
	return &Declarer{dialect: d, key: key, wrap: wrap, fitted: map[string]fitted{}}
}

// Declare returns the declarations of tools as a JSON array, and their renamed parameters.
func (d *Declarer) Declare(tools []llm.ToolSpec) (json.RawMessage, Names) {
	isSame := func(a, b llm.ToolSpec) bool {
		return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Schema, b.Schema)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.encoded != nil && slices.EqualFunc(d.tools, tools, isSame) {
		return d.encoded, d.names
	}
	list := []any{}
	d.names = Names{}
	for _, t := range tools {
		f := d.fit(t.Schema)
		declaration := map[string]any{"name": t.Name}
		if t.Description != "" {
			declaration["description"] = t.Description
		}
		if f.schema != nil {
			declaration[d.key] = f.schema
		}
		list = append(list, d.wrap(declaration))
		if len(f.names) > 0 {
			d.names[t.Name] = f.names
		}
	}
	d.tools = slices.Clone(tools)
	d.encoded, _ = json.Marshal(list) // cannot fail for declarations of texts and JSON
	return d.encoded, d.names
}

func (d *Declarer) fit(schema json.RawMessage) fitted {
	if f, ok := d.fitted[string(schema)]; ok {
		return f
	}
	if len(d.fitted) >= maxFitted { // schemas of tools that are gone must not pile up
		clear(d.fitted)
	}
	f := fit(d.dialect, schema)
	d.fitted[string(schema)] = f
	return f
}

// Restore returns the arguments of a call with original names. It returns arguments unchanged if they are not a JSON
// object, or need no change.
func (n Names) Restore(tool string, args json.RawMessage) json.RawMessage {
	names := n[tool]
	var given map[string]any
	values := json.NewDecoder(bytes.NewReader(args))
	values.UseNumber() // ids may be larger than a float64 holds
	if len(names) == 0 || !json.Valid(args) || values.Decode(&given) != nil || !restore(given, names) {
		return args
	}
	restored, _ := json.Marshal(given) // cannot fail: it came from JSON
	return restored
}

// restore renames keys at any depth. It returns false if there are none to rename.
func restore(v any, names map[string]string) (found bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			found = restore(inner, names) || found
		}
		for name, original := range names {
			if inner, ok := v[name]; ok {
				delete(v, name)
				v[original], found = inner, true
			}
		}
	case []any:
		for _, inner := range v {
			found = restore(inner, names) || found
		}
	}
	return found
}

// Fit returns a schema in a dialect, or nil for a tool without arguments in the Gemini dialect.
func Fit(d Dialect, schema json.RawMessage) json.RawMessage { return fit(d, schema).schema }

// fit returns a schema in a dialect. An invalid or too large schema becomes an object with any properties.
func fit(d Dialect, schema json.RawMessage) fitted {
	top, ok := read(schema)
	if !ok {
		top = object{}
	}
	given := encode(top)
	doc := normalize(top)
	f := fitted{names: map[string]string{}}
	if d == Gemini {
		if top = convertForGemini(doc, f.names); top == nil {
			return f
		}
	} else {
		fitTop(doc, f.names)
	}
	f.schema = encode(top)
	switch {
	case len(f.schema) > maxBytes: // a definition may be in the schema twice
		return fit(d, nil)
	case ok && bytes.Equal(given, f.schema):
		f.schema = bytes.Clone(schema)
	}
	return f
}
