package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/text"
	"ravenbot/internal/model/client"
	"ravenbot/internal/model/toolschema"
)

// request is the body of a request without its tools.
type request struct {
	Model         string         `json:"model"`
	Messages      []any          `json:"messages"` // message, or a message with additions
	Stream        bool           `json:"stream"`
	StreamOptions map[string]any `json:"stream_options,omitempty"`
	Temperature   *float64       `json:"temperature,omitempty"`
	MaxTokens     int            `json:"max_tokens,omitempty"`
	Stop          []string       `json:"stop,omitempty"`
	Format        map[string]any `json:"response_format,omitempty"`
}

// message is a message in the API's form.
type message struct {
	Role       string           `json:"role"`
	Content    any              `json:"content"` // a string, nil, or a list of parts
	ToolCalls  []map[string]any `json:"tool_calls,omitempty"`
	ToolCallID string           `json:"tool_call_id,omitempty"`
}

func textPart(text string) any { return map[string]any{"type": "text", "text": text} }

// encodeRequest returns the body of a request, and the renamed parameters of its tools.
func (m *Model) encodeRequest(r llm.Request, h habits) ([]byte, toolschema.Names, error) {
	// Without include_usage a stream reports no tokens.
	q := request{Model: m.o.Model, Stream: true, StreamOptions: map[string]any{"include_usage": true},
		Temperature: cmp.Or(r.Temperature, m.o.Temperature), MaxTokens: r.OutputLimit(m.o.MaxOutputTokens), Stop: r.Stop}
	if r.Schema != nil {
		q.Format = map[string]any{
			"type":        "json_schema",
			"json_schema": map[string]any{"name": "answer", "strict": true, "schema": r.Schema}, // the model must follow it
		}
	}
	if r.System != "" {
		q.Messages = append(q.Messages, message{Role: "system", Content: r.System})
	}
	w := messageWriter{model: m, habits: h, ids: map[string]string{}}
	for _, one := range r.Messages {
		list, err := w.convert(one)
		if err != nil {
			return nil, nil, err
		}
		q.Messages = append(q.Messages, list...)
	}
	body, err := json.Marshal(q)
	if err != nil || len(r.Tools) == 0 {
		return body, nil, err
	}
	tools, names := m.tools.Declare(r.Tools)
	return client.Splice("tools", tools, body), names, nil
}

// messageWriter converts the messages of a request in order.
type messageWriter struct {
	model  *Model
	habits habits
	ids    map[string]string // ids of calls → ids in the request
}

// convert returns a message in the API's form. Each result of a tool becomes a message.
func (w messageWriter) convert(said llm.Message) (out []any, err error) {
	one := message{Role: string(said.Role)}
	var texts, tagged []string
	var images []any
	added := additions{}
	for _, p := range said.Parts {
		switch {
		case p.Result != nil:
			id := cmp.Or(w.ids[p.Result.ID], p.Result.ID)
			out = append(out, message{Role: "tool", Content: p.Result.Content, ToolCallID: id})
		case p.Call != nil:
			call, err := w.convertCall(p, said.Origin, len(one.ToolCalls) == 0)
			if err != nil {
				return nil, err
			}
			one.ToolCalls = append(one.ToolCalls, call)
		case p.Media != nil:
			url := "data:" + p.Media.Type + ";base64," + base64.StdEncoding.EncodeToString(p.Media.Data)
			images = append(images, map[string]any{"type": "image_url", "image_url": map[string]any{"url": url}})
		case p.Thought && len(p.Raw) == 0: // from tags in the text
			tagged = append(tagged, p.Text)
		case p.Thought:
			if err := added.load(p); err != nil {
				return nil, err
			}
		case p.Text != "":
			texts = append(texts, p.Text)
		}
	}
	if said.Role == llm.ToolRole {
		return out, nil
	}
	text := strings.Join(texts, "\n")
	// MiniMax requires the reasoning of calls at its original place
	// (https://platform.minimax.io/docs/api-reference/text-openai-api, seen 2026-11), and so do templates of other
	// models.
	if len(tagged) > 0 && len(one.ToolCalls) > 0 {
		text = "<think>" + strings.Join(tagged, "") + "</think>\n\n" + text
	}
	// Images need a list of parts. A message with only calls has null as its content.
	switch thinking, _ := added["content"].(string); {
	case len(images) > 0:
		one.Content = append([]any{textPart(text)}, images...)
	case thinking != "": // Mistral's form
		list := []any{map[string]any{"type": "thinking", "thinking": []any{textPart(thinking)}}}
		if text != "" {
			list = append(list, textPart(text))
		}
		one.Content = list
	case text != "" || len(one.ToolCalls) == 0:
		one.Content = text
	}
	delete(added, "content")
	if w.habits.placeholder != nil && len(one.ToolCalls) > 0 && added["reasoning_content"] == nil {
		added["reasoning_content"] = cmp.Or(added["reasoning"], any(*w.habits.placeholder))
	}
	if w.habits.needsDetails && len(one.ToolCalls) > 0 && added["reasoning_details"] == nil {
		added["reasoning_details"] = []any{map[string]any{"type": "reasoning.encrypted", "format": "google-gemini-v1",
			"index": 0, "id": one.ToolCalls[0]["id"], "data": skipSignature}}
	}
	return []any{added.mergeInto(one, w.habits.refused)}, nil
}

// skipSignature is Google's documented signature for calls of other models.
const skipSignature = "skip_thought_signature_validator"

var noSignature = map[string]any{"google": map[string]any{"thought_signature": skipSignature}}

// isGoogle reports whether the endpoint is Google's, which requires a signature on the first call of a message.
func (m *Model) isGoogle() bool {
	return strings.HasSuffix(strings.TrimRight(m.o.BaseURL, "/"), "/v1beta/openai")
}

// convertCall returns a call in the API's form, with its additions.
func (w messageWriter) convertCall(p llm.Part, origin string, isFirst bool) (map[string]any, error) {
	call, added := map[string]any{}, map[string]any{}
	if len(p.Raw) > 0 {
		if err := client.Decode(p.Raw, &call); err != nil {
			return nil, fmt.Errorf("read additions to a stored call: %w", err)
		}
		added, _ = call["function"].(map[string]any)
	}
	if isFirst && call["extra_content"] == nil && (w.model.isGoogle() || w.habits.signsCalls) {
		call["extra_content"] = noSignature
	}
	function := map[string]any{"name": p.Call.Name, "arguments": string(p.Call.Args)}
	for k, v := range added {
		if function[k] == nil {
			function[k] = v
		}
	}
	id := p.Call.ID
	if origin != w.model.Origin() || w.habits.shortIDs {
		id = shortID(id)
	}
	w.ids[p.Call.ID] = id
	delete(call, "index")
	call["id"], call["type"], call["function"] = id, "function", function
	return call, nil
}

// isShortID matches ids that every endpoint accepts. Mistral requires nine letters and digits
// (https://docs.mistral.ai/api, seen 2026-11).
var isShortID = text.Pattern(`^[a-zA-Z0-9]{9}$`)

// shortID returns an id that every endpoint accepts, always the same one for an id.
func shortID(id string) string {
	if isShortID().MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:5])[:9]
}

// mergeInto returns a message with additions, except for refused ones.
func (a additions) mergeInto(m message, refused []string) any {
	for _, name := range refused {
		delete(a, name)
	}
	if len(a) == 0 {
		return m
	}
	out := map[string]any(a)
	out["role"], out["content"] = m.Role, m.Content
	if len(m.ToolCalls) > 0 {
		out["tool_calls"] = m.ToolCalls
	}
	return out
}

// addedFields returns the names of the additions in messages.
func addedFields(messages []llm.Message) []string {
	all := additions{"reasoning_content": nil}
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Thought && len(p.Raw) > 0 {
				_ = all.load(p) // encodeRequest reports it
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}
