package anthropic

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"ravenbot/internal/llm"
	"ravenbot/internal/text"
)

// newParams converts a request to the API's form. It fails where the schema of the answer is no JSON object.
func (m *Model) newParams(r llm.Request) (sdk.MessageNewParams, error) {
	p := sdk.MessageNewParams{
		Model:         m.o.Model,
		MaxTokens:     int64(r.OutputLimit(m.o.MaxOutputTokens)),
		StopSequences: r.Stop,
	}
	if r.System != "" {
		p.System = []sdk.TextBlockParam{{Text: r.System, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	}
	if r.Schema != nil {
		var schema map[string]any
		if err := json.Unmarshal(r.Schema, &schema); err != nil {
			return p, fmt.Errorf("read the schema of the answer: %w", err)
		}
		p.OutputConfig = sdk.OutputConfigParam{Format: sdk.JSONOutputFormatParam{Schema: schema}}
	}
	if t := cmp.Or(r.Temperature, m.o.Temperature); t != nil {
		p.Temperature = param.NewOpt(*t)
	}
	for _, t := range r.Tools {
		p.Tools = append(p.Tools, m.newTool(t))
	}
	for _, message := range r.Messages {
		p.Messages = appendMessage(p.Messages, message)
	}
	markForCache(p.Messages)
	// A request whose history holds calls must declare tools, although none may be called any more.
	if names := calledTools(r.Messages); len(p.Tools) == 0 && len(names) > 0 {
		for _, name := range names {
			p.Tools = append(p.Tools, m.newTool(llm.ToolSpec{Name: name}))
		}
		p.ToolChoice = sdk.ToolChoiceUnionParam{OfNone: &sdk.ToolChoiceNoneParam{}}
	}
	return p, nil
}

// markForCache marks the end of the last message. Tools and system prompt are the same from turn to turn, and the
// history only grows: with this mark and the one behind the system prompt the provider reads from its cache all that
// it was sent before.
func markForCache(list []sdk.MessageParam) {
	if len(list) == 0 {
		return
	}
	blocks := list[len(list)-1].Content
	switch last := &blocks[len(blocks)-1]; {
	case last.OfText != nil:
		last.OfText.CacheControl = sdk.NewCacheControlEphemeralParam()
	case last.OfToolResult != nil:
		last.OfToolResult.CacheControl = sdk.NewCacheControlEphemeralParam()
	case last.OfImage != nil:
		last.OfImage.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
}

// calledTools returns the names of the tools that were called, each once, in order.
func calledTools(messages []llm.Message) []string {
	var names []string
	seen := map[string]bool{}
	for _, m := range messages {
		for _, c := range m.Calls() {
			if !seen[c.Name] {
				seen[c.Name] = true
				names = append(names, c.Name)
			}
		}
	}
	return names
}

// newTool declares a tool.
func (m *Model) newTool(t llm.ToolSpec) sdk.ToolUnionParam {
	schema := param.Override[sdk.ToolInputSchemaParam](m.schemas.Fit(t.Schema).JSON)
	tool := sdk.ToolParam{Name: t.Name, InputSchema: schema}
	if t.Description != "" {
		tool.Description = param.NewOpt(t.Description)
	}
	return sdk.ToolUnionParam{OfTool: &tool}
}

// appendMessage adds a message, to the last one where both are of one role: results of tools and what a user says
// after them are one message of the user to the API. A message of which nothing is left is dropped.
func appendMessage(list []sdk.MessageParam, m llm.Message) []sdk.MessageParam {
	role := sdk.MessageParamRoleUser
	if m.Role == llm.Assistant {
		role = sdk.MessageParamRoleAssistant
	}
	var blocks []sdk.ContentBlockParamUnion
	for _, p := range m.Parts {
		if b, ok := newBlock(p, m.Role); ok {
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
	return append(list, sdk.MessageParam{Role: role, Content: blocks})
}

// newBlock returns a part as a block; false: the API has none for it, such as text that is empty.
func newBlock(p llm.Part, role llm.Role) (sdk.ContentBlockParamUnion, bool) {
	switch {
	case p.Result != nil:
		return newResult(*p.Result), true
	case p.Call != nil:
		return sdk.NewToolUseBlock(toolID(p.Call.ID), callInput(p.Call.Args), p.Call.Name), true
	case p.Media != nil:
		return sdk.NewImageBlockBase64(p.Media.Type, base64.StdEncoding.EncodeToString(p.Media.Data)), true
	case p.Thought && role == llm.Assistant && len(p.Raw) > 0:
		// Thinking goes back byte for byte: its signature covers it.
		return param.Override[sdk.ContentBlockParamUnion](p.Raw), true
	case p.Thought || strings.TrimSpace(p.Text) == "":
		return sdk.ContentBlockParamUnion{}, false
	}
	return sdk.NewTextBlock(p.Text), true
}

// newResult returns the result of a call as a block; an empty one has no content, which the API allows and empty text
// not.
func newResult(r llm.Result) sdk.ContentBlockParamUnion {
	b := sdk.ToolResultBlockParam{ToolUseID: toolID(r.ID)}
	if r.IsError {
		b.IsError = param.NewOpt(true)
	}
	if strings.TrimSpace(r.Content) != "" {
		b.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: r.Content}}}
	}
	return sdk.ContentBlockParamUnion{OfToolResult: &b}
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
