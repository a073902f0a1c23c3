package gemini

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"ravenbot/internal/llm"
)

// declarationCache keeps the encoded declaration of the tools that were declared last, because the same tools are
// declared for every message: for hundreds of tools that takes longer than everything else that is done for a message.
type declarationCache struct {
	mu      sync.Mutex
	tools   []llm.ToolSpec
	encoded json.RawMessage
	names   originalNames // never changed once it was returned
}

// originalNames are the parameters that had to be renamed: tool → new name → original name.
type originalNames map[string]map[string]string

// declaration is a tool in the API's form.
type declaration struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Schema      map[string]any `json:"parametersJsonSchema,omitempty"`
}

// declare returns the declaration of the tools, and the parameters that it renames. They belong to the request: another
// one may declare other tools while the answer to this one still streams.
func (d *declarationCache) declare(tools []llm.ToolSpec) (json.RawMessage, originalNames) {
	isSame := func(a, b llm.ToolSpec) bool {
		return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Schema, b.Schema)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.encoded != nil && slices.EqualFunc(d.tools, tools, isSame) {
		return d.encoded, d.names
	}
	var list []declaration
	d.names = originalNames{}
	for _, t := range tools {
		list = append(list, declaration{t.Name, t.Description, ConvertSchema(t.Schema)})
		var schema any
		if json.Unmarshal(t.Schema, &schema) == nil {
			names := map[string]string{}
			if collectRenamed(schema, names); len(names) > 0 {
				d.names[t.Name] = names
			}
		}
	}
	d.tools = slices.Clone(tools)
	// cannot fail: all of it came from JSON
	d.encoded, _ = json.Marshal([]any{map[string]any{"functionDeclarations": list}})
	return d.encoded, d.names
}

// restore returns the arguments of a call under the names that the tool knows, and {} where the model left them out. It
// fails where they are no JSON object.
func (o originalNames) restore(tool string, args json.RawMessage) (json.RawMessage, error) {
	given := map[string]any{}
	if len(args) > 0 {
		values := json.NewDecoder(bytes.NewReader(args))
		values.UseNumber() // ids may be larger than a float64 holds
		if err := values.Decode(&given); err != nil {
			return nil, err
		}
	}
	return json.Marshal(restoreValue(given, o[tool]))
}

// restoreValue renames the keys of a value at any depth.
func restoreValue(v any, names map[string]string) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, inner := range v {
			if old, ok := names[k]; ok {
				k = old
			}
			out[k] = restoreValue(inner, names)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = restoreValue(inner, names)
		}
		return out
	}
	return v
}

// collectRenamed adds the parameters of a schema, at any depth, that parameterName renames.
func collectRenamed(schema any, names map[string]string) {
	switch schema := schema.(type) {
	case map[string]any:
		props, _ := schema["properties"].(map[string]any)
		for name := range props {
			if safe := parameterName(name); safe != name {
				names[safe] = name
			}
		}
		for _, inner := range schema {
			collectRenamed(inner, names)
		}
	case []any:
		for _, inner := range schema {
			collectRenamed(inner, names)
		}
	}
}
