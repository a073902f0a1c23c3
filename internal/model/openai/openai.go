// Package openai calls any endpoint with OpenAI's chat completions
// (https://platform.openai.com/docs/api-reference/chat): OpenRouter, DeepSeek, Mistral, Ollama, vLLM, Google's
// compatible API and others.
//
// Additions of an endpoint to an assistant message or a call (reasoning, signatures, unknown fields) go back to that
// endpoint unchanged. Wrong types are tolerated in fields that are only counted or compared. The package uses no SDK,
// because OpenAI's SDK loses these additions.
package openai

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/client"
	"ravenbot/internal/model/toolschema"
)

// Options configures one model.
type Options struct {
	Name            string // the endpoint's name in the configuration: "openrouter"
	APIKey          string // may be empty, as for Ollama
	Model           string
	BaseURL         string // "https://openrouter.ai/api/v1"
	Temperature     *float64
	MaxOutputTokens int
	Body            json.RawMessage // further fields of requests, a JSON object; may be nil
	Log             *slog.Logger    // may be nil
}

// Model is one model of an endpoint. It is safe for concurrent use.
type Model struct {
	o      Options
	client *client.Client
	tools  *toolschema.Declarer

	mu     sync.Mutex
	habits habits
}

// habits are demands of an endpoint that its refusals have shown. A value never changes.
type habits struct {
	// placeholder is the reasoning for calls without any. It is nil if calls need none.
	placeholder  *string
	shortIDs     bool     // ids of calls must be nine letters and digits
	signsCalls   bool     // the first call of a message needs a signature (Gemini behind a gateway)
	needsDetails bool     // calls need reasoning_details with a signature (Gemini behind OpenRouter)
	refused      []string // additions that the endpoint refuses in requests
}

// New returns a model. It makes no request. The context of each request sets the time limit.
func New(o Options) *Model {
	header := http.Header{}
	if o.APIKey != "" {
		header.Set("Authorization", "Bearer "+o.APIKey)
	}
	return &Model{
		o: o,
		client: client.New(client.Options{
			Provider: o.Name,
			BaseURL:  o.BaseURL,
			Header:   header,
			Secret:   o.APIKey,
			Body:     o.Body,
			Optional: []client.Field{
				{Path: "stream_options"},
				{Path: "temperature"},
				{Path: "parallel_tool_calls"},
				// OpenAI's reasoning models require the newer name, which many other endpoints refuse.
				{Path: "max_tokens", Instead: "max_completion_tokens"},
				{Path: "max_completion_tokens"},
				{Path: "stop"},
			},
			Log: o.Log,
		}),
		tools: toolschema.New(toolschema.JSONSchema, "parameters", func(declaration map[string]any) any {
			return map[string]any{"type": "function", "function": declaration}
		}),
	}
}

// ID returns NAME/MODEL.
func (m *Model) ID() string { return m.o.Name + "/" + m.o.Model }

// Origin returns the ID and the endpoint, because additions are only for their endpoint.
func (m *Model) Origin() string { return m.ID() + "@" + client.Place(m.o.BaseURL) }

// Generate streams one answer.
func (m *Model) Generate(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		var known habits
		a := answerReader{model: m, callIndex: map[int]int{}, added: additions{}}
		_, isWanted := m.client.Stream(ctx, "/chat/completions", client.Request{
			Encode: func() (body []byte, err error) {
				m.mu.Lock()
				known = m.habits
				m.mu.Unlock()
				body, a.names, err = m.encodeRequest(r, known)
				return body, err
			},
			Learn: func(refusal *llm.Error) bool {
				learnt, ok := known.learn(refusal, r)
				if ok {
					m.mu.Lock()
					m.habits = learnt
					m.mu.Unlock()
				}
				return ok
			},
		}, yield, a.readEvent)
		if isWanted {
			a.end(yield)
		}
	}
}

// learn returns the habits after a refusal. It returns false if the refusal shows nothing new.
func (h habits) learn(fault *llm.Error, r llm.Request) (habits, bool) {
	said := strings.ToLower(fault.Words())
	isMissing := strings.Contains(said, "must be passed back") || strings.Contains(said, "missing") ||
		strings.Contains(said, "must be preserved")
	// DeepSeek and Kimi refuse calls without reasoning, even of other models.
	if strings.Contains(said, "reasoning_content") && isMissing {
		next := ""
		if h.placeholder != nil { // some endpoints treat empty text as missing
			next = "."
		}
		if h.placeholder != nil && *h.placeholder == next {
			return h, false
		}
		h.placeholder = &next
		return h, true
	}
	for _, demand := range []struct {
		known  *bool
		isMade bool
	}{
		// Mistral: "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9."
		{&h.shortIDs, strings.Contains(said, "tool call id") && strings.Contains(said, "length of 9")},
		// Gemini behind a gateway: "Function call is missing a thought_signature".
		{&h.signsCalls, strings.Contains(said, "thought_signature") && isMissing},
		// OpenRouter: "Gemini models require OpenRouter reasoning details to be preserved in each request."
		{&h.needsDetails, strings.Contains(said, "reasoning details to be preserved")},
	} {
		if demand.isMade && !*demand.known {
			*demand.known = true
			return h, true
		}
	}
	for _, name := range addedFields(r.Messages) {
		if !slices.Contains(h.refused, name) && client.Names(fault, name) {
			h.refused = append(slices.Clone(h.refused), name)
			return h, true
		}
	}
	return h, false
}
