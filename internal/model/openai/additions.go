package openai

import (
	"encoding/json"
	"fmt"
	"slices"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/client"
)

// additions are fields that an endpoint adds to an assistant message or a call: reasoning_content (DeepSeek, Kimi,
// GLM), reasoning (Groq, vLLM), reasoning_details (OpenRouter, MiniMax) and extra_content (Google). Numbers are
// json.Number.
type additions map[string]any

// ownFields are fields of messages that the reader uses, or that have no meaning in a request.
var ownFields = []string{
	"role", "content", "refusal", "tool_calls", "function_call", "name", "index", "annotations", "audio", "images",
	"citations", "logprobs",
}

// add adds a piece of a field from a stream.
func (a additions) add(name string, raw json.RawMessage) {
	var v any
	if client.Decode(raw, &v) != nil || isEmpty(v) {
		return
	}
	a[name] = mergePieces(name, a[name], v)
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// labels are fields that are complete in each piece of a stream.
var labels = []string{"type", "format", "id", "index", "name", "role"}

// mergePieces joins two pieces of a field: it appends texts, merges objects, and joins elements of lists with the same
// index and type, as in reasoning_details (https://openrouter.ai/docs/use-cases/reasoning-tokens, seen 2026-11).
func mergePieces(name string, a, b any) any {
	switch a := a.(type) {
	case string:
		if s, ok := b.(string); ok && !slices.Contains(labels, name) {
			return a + s
		}
	case map[string]any:
		if more, ok := b.(map[string]any); ok {
			for k, v := range more {
				a[k] = mergePieces(k, a[k], v)
			}
			return a
		}
	case []any:
		if list, ok := b.([]any); ok {
			for _, v := range list {
				a = appendPiece(a, v)
			}
			return a
		}
	}
	if isEmpty(b) {
		return a
	}
	return b
}

// appendPiece adds an element to a list, or to the element with the same index and type.
func appendPiece(list []any, v any) []any {
	if piece, _ := v.(map[string]any); piece["index"] != nil {
		for _, have := range list {
			m, _ := have.(map[string]any)
			if fmt.Sprint(m["index"], m["type"]) == fmt.Sprint(piece["index"], piece["type"]) {
				mergePieces("", m, v)
				return list
			}
		}
	}
	return append(list, v)
}

// kept is the raw form of a part with additions.
type kept struct {
	// Thought names the field of the part's text, which is stored once. "content" means pieces of type thinking in the
	// content (Mistral).
	Thought string          `json:"thought,omitempty"`
	Fields  json.RawMessage `json:"fields,omitempty"` // all other additions, an object
}

// thoughtFields contain reasoning as text.
var thoughtFields = []string{"reasoning_content", "reasoning", "thinking", "content"}

// part returns the additions to a message as a part. It returns false if there are none.
func (a additions) part() (llm.Part, bool) {
	if len(a) == 0 {
		return llm.Part{}, false
	}
	out := llm.Part{Thought: true}
	var k kept
	for _, name := range thoughtFields {
		if s, ok := a[name].(string); ok {
			k.Thought, out.Text = name, s
			delete(a, name)
			break
		}
	}
	if len(a) > 0 {
		k.Fields, _ = json.Marshal(a) // cannot fail: it came from JSON
	}
	out.Raw, _ = json.Marshal(k)
	return out, true
}

// load adds the additions in a part.
func (a additions) load(p llm.Part) error {
	var k kept
	if err := json.Unmarshal(p.Raw, &k); err != nil {
		return fmt.Errorf("read additions to a stored message: %w", err)
	}
	var fields map[string]any
	if len(k.Fields) > 0 {
		if err := client.Decode(k.Fields, &fields); err != nil {
			return fmt.Errorf("read additions to a stored message: %w", err)
		}
	}
	if k.Thought != "" {
		a[k.Thought] = mergePieces(k.Thought, a[k.Thought], p.Text)
	}
	for name, v := range fields {
		a[name] = mergePieces(name, a[name], v)
	}
	return nil
}
