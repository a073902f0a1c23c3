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

// request is the body of a request. Its tools are spliced in.
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

// message is a message of one role. Its content is *content, or json.RawMessage for blocks of the API.
type message struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

// content is a block that the bot writes.
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

// encodeRequest returns the body of a request, and the names of parameters that its declarations replace.
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
	// A request whose history holds calls must declare tools, although none may be called any more.
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

// markForCache marks the end of the last message. Tools and system prompt are the same from turn to turn, and the
// history only grows: with this mark and the one after the system prompt the provider reads from its cache all that
// it was sent before.
func markForCache(list []message) {
	if len(list) == 0 {
		return
	}
	blocks := list[len(list)-1].Content
	if last, ok := blocks[len(blocks)-1].(*content); ok && last.Type != "tool_use" {
		last.Cache = cacheMark
	}
}

// calledTools returns the names of the tools that were called, each once, in order.
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

// appendMessage adds a message, to the last one if both are of one role: results of tools and what a user says
// after them are one message of the user to the API. A message of which nothing is left is dropped.
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

// newBlock returns a part as a block; nil if the API has none for it, such as text that is empty.
func newBlock(p llm.Part, role llm.Role) any {
	switch {
	case p.Result != nil:
		b := &content{Type: "tool_result", ToolUseID: toolID(p.Result.ID), IsError: p.Result.IsError}
		// An empty result has no content, which the API allows, and empty text it does not.
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
		return p.Raw // as it came: its signature covers it
	case p.Thought || strings.TrimSpace(p.Text) == "":
		return nil
	}
	return &content{Type: "text", Text: p.Text}
}

// callInput returns the arguments of a call as the object that the API wants. What another model sent malformed is
// kept under a key.
func callInput(args json.RawMessage) any {
	var object map[string]json.RawMessage
	if json.Unmarshal(args, &object) == nil && object != nil {
		return args
	}
	return map[string]string{"malformed": string(args)}
}

// notInID matches what the API refuses in the ID of a call; other providers' IDs may hold it.
var notInID = text.Pattern(`[^a-zA-Z0-9_-]`)

// toolID returns the ID of a call in the characters that the API takes. A call and its result get the same one.
func toolID(id string) string { return notInID().ReplaceAllString(id, "_") }
