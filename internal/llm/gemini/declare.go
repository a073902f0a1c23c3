package gemini

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"ravenbot/internal/llm"
)

// declared remembers the declaration of the tools that were declared last, since
// the same ones are declared again and again. It is written here and not by genai,
// which turns each through reflection into maps and back: for hundreds of tools
// that took longer than everything else that is done for a message.
type declared struct {
	mu   sync.Mutex
	key  [sha256.Size]byte
	made json.RawMessage
	// names are the parameters that had to be renamed: tool → new name → old.
	names map[string]map[string]string
}

// declaration is a tool as the API takes it.
type declaration struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Schema      map[string]any `json:"parametersJsonSchema,omitempty"`
}

func (d *declared) declare(tools []llm.ToolSpec) json.RawMessage {
	h := sha256.New()
	for _, t := range tools {
		fmt.Fprintf(h, "%q %q %d ", t.Name, t.Description, len(t.Schema))
		h.Write(t.Schema)
	}
	var key [sha256.Size]byte
	h.Sum(key[:0])
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made != nil && d.key == key {
		return d.made
	}
	var list []declaration
	d.names = map[string]map[string]string{}
	for _, t := range tools {
		list = append(list, declaration{t.Name, t.Description, Schema(t.Schema)})
		var schema any
		if json.Unmarshal(t.Schema, &schema) == nil {
			names := map[string]string{}
			if renamed(schema, names); len(names) > 0 {
				d.names[t.Name] = names
			}
		}
	}
	d.key = key
	d.made, _ = json.Marshal([]any{map[string]any{"functionDeclarations": list}}) // it came from JSON
	return d.made
}

// restore gives the arguments of a call the names that the tool knows.
func (d *declared) restore(tool string, args map[string]any) map[string]any {
	d.mu.Lock()
	names := d.names[tool]
	d.mu.Unlock()
	if len(names) == 0 {
		return args
	}
	out, _ := original(args, names).(map[string]any)
	return out
}

func original(v any, names map[string]string) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, inner := range v {
			if old, ok := names[k]; ok {
				k = old
			}
			out[k] = original(inner, names)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = original(inner, names)
		}
		return out
	}
	return v
}

// renamed collects the parameters of a schema, at any depth, that parameter gives
// another name.
func renamed(schema any, names map[string]string) {
	switch schema := schema.(type) {
	case map[string]any:
		props, _ := schema["properties"].(map[string]any)
		for name := range props {
			if safe := parameter(name); safe != name {
				names[safe] = name
			}
		}
		for _, inner := range schema {
			renamed(inner, names)
		}
	case []any:
		for _, inner := range schema {
			renamed(inner, names)
		}
	}
}
