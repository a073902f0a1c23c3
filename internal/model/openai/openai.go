// Package openai calls any endpoint that offers OpenAI's chat completions: OpenRouter, DeepSeek, Mistral, Ollama, vLLM,
// Google's compatible API and others.
//
// Whatever an endpoint adds to an assistant message or a call (reasoning, signatures, unknown fields) goes back to that
// endpoint unchanged. Wrong types are tolerated in fields that are only counted or compared. A request is sent again
// only if the endpoint refused its form. The package uses no SDK: OpenAI's SDK loses these additions. API:
// https://platform.openai.com/docs/api-reference/chat.
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

// habits are the demands of an endpoint that its refusals have shown. A value is never changed, only replaced.
type habits struct {
	// placeholder is sent as the reasoning of calls that have none. It is nil if calls need none.
	placeholder  *string
	shortIDs     bool     // every id of a call must be nine letters and digits
	signsCalls   bool     // the first call of a message must have a signature, as of Gemini behind a gateway
	needsDetails bool     // calls must have reasoning_details with a signature, as of Gemini behind OpenRouter
	refused      []string // fields that the endpoint adds to messages but refuses in requests
}

// New returns a model. It makes no request, and sets no time limit: ctx of each request does.
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
				// OpenAI's models that reason want the newer name, which many other endpoints do not know.
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

// Origin returns the ID and the endpoint: additions of one endpoint mean nothing to another.
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

// learn returns the habits after a refused request. It returns false if the refusal shows nothing new; sending the
// request again would not help then.
func (h habits) learn(fault *llm.Error, r llm.Request) (habits, bool) {
	said := strings.ToLower(fault.Words())
	isMissing := strings.Contains(said, "must be passed back") || strings.Contains(said, "missing") ||
		strings.Contains(said, "must be preserved")
	// DeepSeek and Kimi refuse calls without reasoning, even if another model made the calls.
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
