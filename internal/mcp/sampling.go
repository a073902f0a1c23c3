package mcp

import (
	"cmp"
	"context"
	"encoding/json"

	sdk "github.com/mark3labs/mcp-go/mcp"

	"ravenbot/internal/core/chat"
)

// SamplingRequest is a server's request to a model. Its texts are untrusted. MaxTokens may be 0 or negative.
type SamplingRequest struct {
	Server      string
	Tool        string // the tool that was called
	System      string
	Messages    []SamplingMessage
	MaxTokens   int
	Temperature *float64 // may be nil
	Stop        []string // stop sequences
}

// SamplingMessage is one message; Role is user or assistant.
type SamplingMessage struct {
	Role  string
	Text  string
	Files []chat.File
}

// SamplingResult is the model's answer. The server gets Text unchanged.
type SamplingResult struct {
	Text   string
	Model  string
	Reason string // endTurn, stopSequence or maxTokens; "": endTurn
}

// sample answers a request of the server with a model. It refuses a request without a call, because nobody would pay
// for it or consent to it.
func (c *connection) sample(ctx context.Context, o map[string]json.RawMessage) (json.RawMessage, *requestError) {
	request := c.parseSampling(o)
	if len(request.Messages) == 0 {
		return nil, &requestError{sdk.INVALID_PARAMS, "there are no messages"}
	}
	calls := c.callsBehind(ctx)
	if len(calls) == 0 || !calls[0].allowRequest() {
		return nil, &requestError{-1, "sampling is refused: it belongs to no call, or there was too much of it"}
	}
	request.Tool = calls[0].tool
	sampleCtx, end := c.pauseCalls(calls, maxSamplingWait)
	defer end()
	// The server may cancel its request, which ends ctx.
	defer context.AfterFunc(ctx, func() { end() })()
	got, err := c.s.o.Sample(sampleCtx, request)
	if err != nil {
		c.s.log.Warn("sampling for mcp server refused", "error", err)
		return nil, &requestError{-1, "sampling is refused"}
	}
	return encodeJSON(map[string]any{
		"role":       "assistant",
		"model":      got.Model,
		"stopReason": cmp.Or(got.Reason, "endTurn"),
		"content":    map[string]any{"type": "text", "text": got.Text},
	}), nil
}

// parseSampling reads the parameters of a request. Missing and malformed values are zero.
func (c *connection) parseSampling(o map[string]json.RawMessage) SamplingRequest {
	request := SamplingRequest{Server: c.s.c.Name, System: jsonString(o["systemPrompt"])}
	room := maxFileBytes
	for _, raw := range jsonList(o["messages"]) {
		m := jsonObject(raw)
		said := SamplingMessage{Role: jsonString(m["role"])}
		said.Text, said.Files, _ = parseContents(m["content"], &room)
		request.Messages = append(request.Messages, said)
	}
	_ = json.Unmarshal(o["maxTokens"], &request.MaxTokens)
	_ = json.Unmarshal(o["temperature"], &request.Temperature)
	for _, stop := range jsonList(o["stopSequences"]) {
		request.Stop = append(request.Stop, jsonString(stop))
	}
	return request
}
