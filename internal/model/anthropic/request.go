package anthropic

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/text"
	"ravenbot/internal/model/client"
	"ravenbot/internal/model/toolschema"
)

// request is the body of a request without its tools.
type request struct {
	Model       string         `json:"model"`
	MaxTokens   int            `json:"max_tokens"`
	System      []any          `json:"system,omitempty"`
	Messages    []message      `json:"messages"`
	Stream      bool           `json:"stream"`
	Temperature *float64       `json:"temperature,omitempty"`
	Stop        []string       `json:"stop_sequences,omitempty"`
	Output      map[string]any `json:"output_config,omitempty"`
	Choice      map[string]any `json:"tool_choice,omitempty"`
}

// message is a message of one role. Its content is *content, or json.RawMessage from the API.
type message struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

type content struct {
	Type      string         `json:"type"` // text, image, tool_use or tool_result
	Text      string         `json:"text,omitempty"`
	Source    map[string]any `json:"source,omitempty"`
	ID        string         `json:"id,omitempty"`
	Name      string         `json:"name,omitempty"`
	Input     any            `json:"input,omitempty"`
	ToolUseID string         `json:"tool_use_id,omitempty"`
	IsError   bool           `json:"is_error,omitempty"`
	Content   []any          `json:"content,omitempty"` // of a result
	Cache     map[string]any `json:"cache_control,omitempty"`
}

// cacheMark asks the provider to cache a request up to a block.
var cacheMark = map[string]any{"type": "ephemeral"}

// encodeRequest returns the body of a request, and the renamed parameters of its tools.
func (m *Model) encodeRequest(r llm.Request, isMarked bool) ([]byte, toolschema.Names, error) {
	q := request{Model: m.o.Model, MaxTokens: r.OutputLimit(m.o.MaxOutputTokens), Stream: true, Stop: r.Stop,
		Temperature: cmp.Or(r.Temperature, m.o.Temperature)}
	if r.System != "" {
		system := &content{Type: "text", Text: r.System}
		if isMarked {
			system.Cache = cacheMark
		}
		q.System = []any{system}
	}
	if r.Schema != nil {
		q.Output = map[string]any{"format": map[string]any{"type": "json_schema", "schema": r.Schema}}
	}
	for _, m := range r.Messages {
		q.Messages = appendMessage(q.Messages, m)
	}
	if isMarked {
		markForCache(q.Messages)
	}
	tools := r.Tools
	// A request with calls in its history must declare tools.
	if names := calledTools(r.Messages); len(tools) == 0 && len(names) > 0 {
		for _, name := range names {
			tools = append(tools, llm.ToolSpec{Name: name})
		}
		q.Choice = map[string]any{"type": "none"}
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, nil, fmt.Errorf("write a request: %w", err)
	}
	if len(tools) == 0 {
		return body, nil, nil
	}
	declared, names := m.tools.Declare(tools)
	return client.Splice("tools", declared, body), names, nil
}

// markForCache marks the end of the last message. Tools and system prompt stay the same, and the history only grows:
// the provider's cache covers everything that it has received before.
func markForCache(list []message) {
	if len(list) == 0 {
		return
	}
	blocks := list[len(list)-1].Content
	if last, ok := blocks[len(blocks)-1].(*content); ok && last.Type != "tool_use" {
		last.Cache = cacheMark
	}
}

// calledTools returns the names of the tools in calls, each once, in order.
func calledTools(messages []llm.Message) []string {
	var names []string
	for _, m := range messages {
		for _, c := range m.Calls() {
			if !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
	}
	return names
}

// appendMessage adds a message, or extends the last one of the same role: for the API, results of tools and the next
// words of the user are one message. It drops empty messages.
func appendMessage(list []message, m llm.Message) []message {
	role := "user"
	if m.Role == llm.Assistant {
		role = "assistant"
	}
	var blocks []any
	for _, p := range m.Parts {
		if b := newBlock(p, m.Role); b != nil {
			blocks = append(blocks, b)
		}
	}
	switch {
	case len(blocks) == 0:
		return list
	case len(list) > 0 && list[len(list)-1].Role == role:
		last := &list[len(list)-1]
		last.Content = append(last.Content, blocks...)
		return list
	}
	return append(list, message{role, blocks})
}

// newBlock converts a part. It returns nil if the API has no block for it, for example for empty text.
func newBlock(p llm.Part, role llm.Role) any {
	switch {
	case p.Result != nil:
		b := &content{Type: "tool_result", ToolUseID: toolID(p.Result.ID), IsError: p.Result.IsError}
		// The API accepts a result without content, but no empty text.
		if strings.TrimSpace(p.Result.Content) != "" {
			b.Content = []any{&content{Type: "text", Text: p.Result.Content}}
		}
		return b
	case p.Call != nil:
		return &content{Type: "tool_use", ID: toolID(p.Call.ID), Name: p.Call.Name, Input: callInput(p.Call.Args)}
	case p.Media != nil:
		data := base64.StdEncoding.EncodeToString(p.Media.Data)
		source := map[string]any{"type": "base64", "media_type": p.Media.Type, "data": data}
		return &content{Type: "image", Source: source}
	case p.Thought && role == llm.Assistant && len(p.Raw) > 0:
		return p.Raw // unchanged, because its signature covers it
	case p.Thought || strings.TrimSpace(p.Text) == "":
		return nil
	}
	return &content{Type: "text", Text: p.Text}
}

// callInput returns the arguments of a call as an object. Malformed arguments of another model are kept under a key.
func callInput(args json.RawMessage) any {
	var object map[string]json.RawMessage
	if json.Unmarshal(args, &object) == nil && object != nil {
		return args
	}
	return map[string]string{"malformed": string(args)}
}

// notInID matches the characters that the API refuses in IDs of calls.
var notInID = text.Pattern(`[^a-zA-Z0-9_-]`)

// toolID returns the ID of a call for the API. A call and its result get the same one.
func toolID(id string) string { return notInID().ReplaceAllString(id, "_") }
