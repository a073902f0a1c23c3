// Package anthropic calls Claude models through Anthropic's Messages API (https://docs.claude.com/en/api/messages).
//
// Thinking and unknown blocks go back to the model unchanged, with their signatures. The arguments of a call are
// exactly what the model wrote. The prefix of a request is marked for the provider's cache. The package uses no SDK,
// because Anthropic's SDK replaces broken arguments by an empty object.
package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/client"
	"ravenbot/internal/model/toolschema"
)

// provider is the name in IDs and errors.
const provider = "anthropic"

const defaultURL = "https://api.anthropic.com"

// defaultMaxTokens is the default output limit, which the API requires.
const defaultMaxTokens = 8192

// Options configures one model.
type Options struct {
	APIKey          string
	Model           string
	BaseURL         string // with or without the version of the API; "": Anthropic
	Temperature     *float64
	MaxOutputTokens int             // 0: 8,192
	Body            json.RawMessage // further fields of requests, a JSON object; may be nil
	Log             *slog.Logger    // may be nil
}

// Model is one model of the API. It is safe for concurrent use.
type Model struct {
	o      Options
	client *client.Client
	tools  *toolschema.Declarer

	refusesMarks atomic.Bool // the endpoint does not know marks for the cache
}

// New returns a model. It makes no request. The context of each request sets the time limit.
func New(o Options) *Model {
	o.MaxOutputTokens = cmp.Or(o.MaxOutputTokens, defaultMaxTokens)
	o.BaseURL = strings.TrimSuffix(strings.TrimRight(cmp.Or(o.BaseURL, defaultURL), "/"), "/v1")
	return &Model{
		o: o,
		client: client.New(client.Options{
			Provider: provider,
			BaseURL:  o.BaseURL,
			Header:   http.Header{"X-Api-Key": {o.APIKey}, "Anthropic-Version": {"2023-06-01"}},
			Secret:   o.APIKey,
			Body:     o.Body,
			Optional: []client.Field{{Path: "temperature"}, {Path: "stop_sequences"}},
			Log:      o.Log,
		}),
		tools: toolschema.New(toolschema.JSONSchema, "input_schema", nil),
	}
}

// ID returns anthropic/MODEL.
func (m *Model) ID() string { return provider + "/" + m.o.Model }

// Origin returns the ID, and the endpoint unless it is Anthropic's own.
func (m *Model) Origin() string {
	if m.o.BaseURL == defaultURL {
		return m.ID()
	}
	return m.ID() + "@" + client.Place(m.o.BaseURL)
}

// Generate streams one answer. An answer without a stop reason is an error. If the endpoint refuses marks for the
// cache, or calls of other models without thinking, Generate sends the request again without them.
func (m *Model) Generate(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		q, isMarked := r, false
		a := answerReader{client: m.client, blocks: map[client.Count]*block{}}
		progress, isWanted := m.client.Stream(ctx, "/v1/messages", client.Request{
			Encode: func() (body []byte, err error) {
				isMarked = !m.refusesMarks.Load()
				body, a.names, err = m.encodeRequest(q, isMarked)
				return body, err
			},
			Learn: func(refusal *llm.Error) bool {
				switch hasCalls := len(calledTools(q.Messages)) > 0; {
				case isMarked && client.Names(refusal, "cache_control"):
					m.refusesMarks.Store(true)
				// With thinking enabled: "Expected `thinking` or `redacted_thinking`, but found `tool_use`."
				case hasCalls && strings.Contains(refusal.Words(), "xpected `thinking`"):
					q = q.WithoutTools()
					q.Tools = r.Tools
				default:
					return false
				}
				return true
			},
		}, yield, a.readEvent)
		if isWanted && progress == client.Begun { // the connection ended during an answer
			yield(llm.Chunk{}, m.client.Error(ctx, client.ErrNoEnd))
		}
	}
}
