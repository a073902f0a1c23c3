package simmodel

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/text"
)

// The wire form of requests to the Messages API, as far as it is looked into
// (https://docs.claude.com/en/api/messages, read 2026-11-22).
type (
	aBlock struct {
		Type      string          `json:"type"`
		Text      *string         `json:"text"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
		ToolUseID string          `json:"tool_use_id"`
		Content   json.RawMessage `json:"content"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		Cache     *struct {
			Type string `json:"type"`
		} `json:"cache_control"`
	}
	aMessage struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		blocks  []aBlock
	}
	aRequest struct {
		Model     string          `json:"model"`
		MaxTokens int             `json:"max_tokens"`
		System    json.RawMessage `json:"system"`
		Messages  []aMessage      `json:"messages"`
		Stream    bool            `json:"stream"`
		// Claude refuses it for its newest models (https://docs.claude.com/en/docs/about-claude/models, seen 2026-11).
		Temperature *float64 `json:"temperature"`
		Tools       []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"input_schema"`
		} `json:"tools"`
		Choice struct {
			Type string `json:"type"`
		} `json:"tool_choice"`
		system []aBlock
	}
)

// anthropicVersion is the only version of the API there is.
const anthropicVersion = "2023-06-01"

// anthropicError answers with an error as the Messages API words it.
func anthropicError(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, mustJSON(map[string]any{
		"type":       "error",
		"error":      map[string]any{"type": kind, "message": message},
		"request_id": "req_sim",
	}))
}

// anthropicKind returns the type of an error by its status.
func anthropicKind(status int) string {
	switch status {
	case 401:
		return "authentication_error"
	case 402:
		return "billing_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 529, 503:
		return "overloaded_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// serveAnthropic serves POST /v1/messages: it checks key, version and request in that order, and answers from the
// script, whole or as events.
func (s *Server) serveAnthropic(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Api-Key") != s.opts.APIKey {
		anthropicError(w, 401, "authentication_error", "invalid x-api-key")
		return
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var a aRequest
	problem := ""
	if err := json.Unmarshal(raw, &a); err != nil {
		problem = "The request body is not valid JSON: " + err.Error()
	} else if r.Header.Get("Anthropic-Version") != anthropicVersion {
		problem = "anthropic-version: header is required"
	} else if !s.hasModel(a.Model) {
		anthropicError(w, 404, "not_found_error", "model: "+a.Model)
		return
	} else if s.opts.RefuseOptional && a.Temperature != nil {
		anthropicError(w, 400, "invalid_request_error", "`temperature` is deprecated for this model.")
		return
	} else {
		problem = s.checkAnthropic(&a)
	}
	if problem != "" {
		s.reject(Anthropic, problem, raw)
		anthropicError(w, 400, "invalid_request_error", problem)
		return
	}
	reply := s.reply(a.newRequest(raw))
	if !s.prepareReply(w, r, reply) {
		return
	}
	if reply.Status != 0 {
		failAnthropic(w, reply)
		return
	}
	out := s.pipe(w, r, reply)
	if a.Stream && !reply.Whole {
		w.Header().Set("Content-Type", "text/event-stream")
		s.streamAnthropic(out, a, reply)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	message := s.anthropicMessage(a, reply)
	message["content"] = s.anthropicBlocks(a.Model, reply)
	message["stop_reason"] = anthropicStop(reply)
	message["usage"] = anthropicUsage(reply.Usage)
	out.put(mustJSON(message))
}

// failAnthropic answers with the error that the script asks for.
func failAnthropic(w http.ResponseWriter, reply Reply) {
	if reply.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(reply.RetryAfter.Round(time.Second).Seconds())))
	}
	if reply.Body != "" {
		w.WriteHeader(reply.Status)
		_, _ = io.WriteString(w, reply.Body)
		return
	}
	message := reply.Message
	if message == "" {
		message = "simulated " + http.StatusText(reply.Status)
	}
	anthropicError(w, reply.Status, anthropicKind(reply.Status), message)
}

var (
	anthropicToolName = text.Pattern(`^[a-zA-Z0-9_-]{1,128}$`)
	anthropicKey      = text.Pattern(`^[a-zA-Z0-9_.-]{1,64}$`) // of the parameters at the top of a schema
	anthropicToolID   = text.Pattern(`^[a-zA-Z0-9_-]+$`)
)

// checkAnthropic returns the first rule that a request breaks, in the API's words; empty: none.
func (s *Server) checkAnthropic(a *aRequest) string {
	marks := 0
	switch {
	case a.MaxTokens < 1:
		return "max_tokens: Field required"
	case len(a.Messages) == 0:
		return "messages: at least one message is required"
	}
	if len(a.System) > 0 {
		blocks, problem := readAnthropicBlocks("system", a.System)
		if problem != "" {
			return problem
		}
		a.system = blocks
		marks += countMarks(blocks)
	}
	if problem := checkAnthropicTools(a); problem != "" {
		return problem
	}
	if problem := s.refuseAnthropicTool(a); problem != "" {
		return problem
	}
	for n := range a.Messages {
		m := &a.Messages[n]
		at := fmt.Sprintf("messages.%d", n)
		blocks, problem := readAnthropicBlocks(at+".content", m.Content)
		if problem != "" {
			return problem
		}
		m.blocks = blocks
		marks += countMarks(blocks)
		if problem := s.checkAnthropicMessage(a, n); problem != "" {
			return at + ": " + problem
		}
	}
	if marks > 4 {
		return fmt.Sprintf("A maximum of 4 blocks with cache_control may be provided. Found %d.", marks)
	}
	return ""
}

// countMarks returns how many blocks are marked for the cache; a request may have four.
func countMarks(blocks []aBlock) (n int) {
	for _, b := range blocks {
		if b.Cache != nil {
			n++
		}
	}
	return n
}

// readAnthropicBlocks reads a string or a list of blocks.
func readAnthropicBlocks(at string, raw json.RawMessage) ([]aBlock, string) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []aBlock{{Type: "text", Text: &text}}, ""
	}
	var blocks []aBlock
	if err := json.Unmarshal(raw, &blocks); err != nil {
		return nil, at + ": Input should be a valid list"
	}
	for n, b := range blocks {
		if b.Type == "text" && (b.Text == nil || strings.TrimSpace(*b.Text) == "") {
			return nil, fmt.Sprintf("%s.%d: text content blocks must contain non-whitespace text", at, n)
		}
		if b.Cache != nil && (b.Cache.Type != "ephemeral" || b.Type == "thinking") {
			return nil, fmt.Sprintf("%s.%d.cache_control: not permitted", at, n)
		}
	}
	return blocks, ""
}

// checkAnthropicTools returns what is wrong with the tools of a request; empty: nothing.
func checkAnthropicTools(a *aRequest) string {
	seen := map[string]bool{}
	for n, t := range a.Tools {
		at := fmt.Sprintf("tools.%d.custom", n)
		if !anthropicToolName().MatchString(t.Name) {
			return at + ".name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
		}
		if seen[t.Name] {
			return "tools: Tool names must be unique."
		}
		seen[t.Name] = true
		var schema map[string]json.RawMessage
		if json.Unmarshal(t.Schema, &schema) != nil || string(schema["type"]) != `"object"` {
			return at + ".input_schema.type: Input should be 'object'"
		}
		var properties map[string]json.RawMessage
		_ = json.Unmarshal(schema["properties"], &properties) // what is no object has no keys
		for key := range properties {
			if !anthropicKey().MatchString(key) {
				return at + ".input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
			}
		}
		for _, key := range []string{"oneOf", "allOf", "anyOf"} {
			if schema[key] != nil {
				return at + ".input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
			}
		}
	}
	return ""
}

// checkAnthropicMessage checks a message against the one before it. Its blocks have been read.
func (s *Server) checkAnthropicMessage(a *aRequest, n int) string {
	m := a.Messages[n]
	switch {
	case m.Role != "user" && m.Role != "assistant":
		return "role: Input should be 'user' or 'assistant'"
	case n == 0 && m.Role != "user":
		return "first message must use the \"user\" role"
	case len(m.blocks) == 0 && n < len(a.Messages)-1:
		return "all messages must have non-empty content except for the optional final assistant message"
	}
	// Every call is answered at the beginning of the next message, and nothing else is.
	wanted := map[string]bool{}
	if n > 0 {
		for _, b := range a.Messages[n-1].blocks {
			if b.Type == "tool_use" {
				wanted[b.ID] = true
			}
		}
	}
	other := false
	for i, b := range m.blocks {
		switch b.Type {
		case "tool_use":
			var object map[string]json.RawMessage
			switch {
			case m.Role != "assistant" || !anthropicToolID().MatchString(b.ID):
				return fmt.Sprintf("content.%d.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", i)
			case !anthropicToolName().MatchString(b.Name):
				return fmt.Sprintf("content.%d.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", i)
			case json.Unmarshal(b.Input, &object) != nil || object == nil:
				return fmt.Sprintf("content.%d.tool_use.input: Input should be a valid dictionary", i)
			case len(a.Tools) == 0:
				return "Requests which include `tool_use` or `tool_result` blocks must define tools"
			}
		case "tool_result":
			if !wanted[b.ToolUseID] {
				return fmt.Sprintf("content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s", i, b.ToolUseID)
			}
			if other {
				return "tool_result blocks must come first in the content"
			}
			delete(wanted, b.ToolUseID)
			continue
		case "thinking":
			if !s.isGenuine(b.Signature, a.Model, b.Thinking) {
				return fmt.Sprintf("content.%d: Invalid `signature` in `thinking` block", i)
			}
		case "redacted_thinking", "text", "image", "document":
		default:
			return fmt.Sprintf("content.%d: Input tag '%s' is not expected", i, b.Type)
		}
		other = true
	}
	for id := range wanted {
		return "`tool_use` ids were found without `tool_result` blocks immediately after: " + id
	}
	return ""
}

// newRequest returns the request in terms of no provider.
func (a aRequest) newRequest(raw []byte) Request {
	r := Request{API: Anthropic, Model: a.Model, Stream: a.Stream, Raw: raw, ToolMode: strings.ToUpper(a.Choice.Type)}
	for _, b := range a.system {
		r.System += *b.Text
	}
	for _, t := range a.Tools {
		r.Tools = append(r.Tools, Tool{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	names := map[string]string{}
	for _, m := range a.Messages {
		out := Message{Role: RoleUser}
		if m.Role == "assistant" {
			out.Role = RoleModel
		}
		for _, b := range m.blocks {
			switch b.Type {
			case "text":
				out.Text += *b.Text
			case "tool_use":
				names[b.ID] = b.Name
				out.Calls = append(out.Calls, Call{ID: b.ID, Name: b.Name, Args: b.Input})
			case "tool_result":
				out.Results = append(out.Results, Result{ID: b.ToolUseID, Name: names[b.ToolUseID], Content: resultText(b.Content)})
			}
		}
		if len(out.Results) > 0 {
			results := out
			results.Role, results.Text = RoleTool, ""
			r.Messages = append(r.Messages, results)
			out.Results = nil
		}
		if out.Text != "" || len(out.Calls) > 0 {
			r.Messages = append(r.Messages, out)
		}
	}
	return r
}

// resultText returns the text of a tool result, which is a text or a list of blocks.
func resultText(raw json.RawMessage) string {
	blocks, _ := readAnthropicBlocks("", raw)
	var text strings.Builder
	for _, b := range blocks {
		if b.Text != nil {
			text.WriteString(*b.Text)
		}
	}
	return text.String()
}

// anthropicMessage returns the message with which a stream begins: without content, with the input's tokens, of which
// those from the cache are counted apart.
func (s *Server) anthropicMessage(a aRequest, reply Reply) map[string]any {
	return map[string]any{
		"id": "msg_sim", "type": "message", "role": "assistant", "model": reply.Served, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]any{
			"input_tokens":                reply.Usage.Prompt - reply.Usage.Cached,
			"cache_read_input_tokens":     reply.Usage.Cached,
			"cache_creation_input_tokens": 0,
			"output_tokens":               1,
		},
	}
}

// anthropicUsage returns the tokens of an answer. Thoughts count as output, cached input is not part of the input.
func anthropicUsage(u *Usage) map[string]any {
	return map[string]any{
		"input_tokens":                u.Prompt - u.Cached,
		"cache_read_input_tokens":     u.Cached,
		"cache_creation_input_tokens": 0,
		"output_tokens":               u.Output + u.Thoughts,
	}
}

// anthropicStop returns the reason for the end of an answer in Anthropic's words.
func anthropicStop(reply Reply) string {
	switch {
	case reply.Block != "", reply.Finish == "SAFETY", reply.Finish == "PROHIBITED_CONTENT":
		return "refusal"
	case reply.Finish == "MAX_TOKENS":
		return "max_tokens"
	case reply.Finish != "" && reply.Finish != "STOP":
		return strings.ToLower(reply.Finish)
	case len(reply.Calls) > 0:
		return "tool_use"
	}
	return "end_turn"
}

// anthropicBlocks returns the blocks of an answer: thinking first, then text, then calls.
func (s *Server) anthropicBlocks(model string, reply Reply) []map[string]any {
	blocks := []map[string]any{}
	if reply.Thoughts != "" {
		signature := s.sign(model, reply.Thoughts)
		blocks = append(blocks, map[string]any{"type": "thinking", "thinking": reply.Thoughts, "signature": signature})
	}
	if text := strings.Join(reply.Text, ""); text != "" {
		blocks = append(blocks, map[string]any{"type": "text", "text": text})
	}
	for _, c := range reply.Calls {
		blocks = append(blocks, map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name, "input": c.Args})
	}
	return blocks
}

// streamAnthropic sends an answer as the API's events.
func (s *Server) streamAnthropic(out *pipe, a aRequest, reply Reply) {
	event := func(kind string, data map[string]any) {
		data["type"] = kind
		out.put("event: " + kind + "\ndata: " + mustJSON(data) + "\n\n")
	}
	event("message_start", map[string]any{"message": s.anthropicMessage(a, reply)})
	event("ping", map[string]any{})
	for n, b := range s.anthropicBlocks(a.Model, reply) {
		delta := func(d map[string]any) { event("content_block_delta", map[string]any{"index": n, "delta": d}) }
		switch b["type"] {
		case "thinking":
			start := map[string]any{"type": "thinking", "thinking": "", "signature": ""}
			event("content_block_start", map[string]any{"index": n, "content_block": start})
			delta(map[string]any{"type": "thinking_delta", "thinking": b["thinking"]})
			delta(map[string]any{"type": "signature_delta", "signature": b["signature"]})
		case "text":
			event("content_block_start", map[string]any{"index": n, "content_block": map[string]any{"type": "text", "text": ""}})
			for piece := range reply.texts() {
				delta(map[string]any{"type": "text_delta", "text": piece})
			}
		case "tool_use":
			start := map[string]any{"type": "tool_use", "id": b["id"], "name": b["name"], "input": map[string]any{}}
			event("content_block_start", map[string]any{"index": n, "content_block": start})
			args := string(b["input"].(json.RawMessage))
			half := len(args) / 2
			delta(map[string]any{"type": "input_json_delta", "partial_json": ""})
			delta(map[string]any{"type": "input_json_delta", "partial_json": args[:half]})
			delta(map[string]any{"type": "input_json_delta", "partial_json": args[half:]})
		}
		event("content_block_stop", map[string]any{"index": n})
	}
	event("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": anthropicStop(reply), "stop_sequence": nil},
		"usage": anthropicUsage(reply.Usage),
	})
	event("message_stop", map[string]any{})
}
