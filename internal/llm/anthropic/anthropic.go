// Package anthropic calls Claude models through Anthropic's Messages API with its official SDK.
//
// It promises that thinking blocks go back to the model as they came, with their signatures, that parallel tool calls
// are answered in one message, and that the prefix of a request is marked for the provider's cache. It never retries:
// that is left to the agent. It is the only importer of anthropic-sdk-go. API: https://docs.claude.com/en/api/messages.
package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"ravenbot/internal/llm"
)

// provider is the name in Model.ID and in errors.
const provider = "anthropic"

// defaultMaxTokens is the output limit where the configuration has none: the API requires one.
const defaultMaxTokens = 8192

// maxAnswerBytes is how many bytes of one answer are read.
const maxAnswerBytes = 32 << 20

// Options configures one model.
type Options struct {
	APIKey          string
	Model           string
	BaseURL         string // empty: Anthropic's own
	Temperature     *float64
	MaxOutputTokens int // 0: 8,192
}

// Model is one model of the API. It is safe for concurrent use.
type Model struct {
	o        Options
	messages sdk.MessageService
	schemas  llm.SchemaCache
}

// New returns a model. It makes no request.
func New(o Options) *Model {
	client := llm.HTTPClient()
	client.Transport = limitBody{client.Transport}
	options := []option.RequestOption{
		option.WithAPIKey(o.APIKey),
		option.WithHTTPClient(client),
		option.WithMaxRetries(0), // the agent retries, within its own deadline and budget
	}
	// The service is made directly: the SDK's client would also read keys and addresses from the environment.
	base := "https://api.anthropic.com/"
	if o.BaseURL != "" {
		base = strings.TrimRight(o.BaseURL, "/") + "/"
	}
	options = append(options, option.WithBaseURL(base))
	if o.MaxOutputTokens == 0 {
		o.MaxOutputTokens = defaultMaxTokens
	}
	return &Model{o: o, messages: sdk.NewMessageService(options...)}
}

// limitBody ends the body of an answer that is larger than any real one.
type limitBody struct{ next http.RoundTripper }

// RoundTrip makes a request whose answer cannot be read beyond maxAnswerBytes.
func (l limitBody) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := l.next.RoundTrip(r)
	if res != nil {
		res.Body = http.MaxBytesReader(nil, res.Body, maxAnswerBytes)
	}
	return res, err
}

// ID returns anthropic/MODEL.
func (m *Model) ID() string { return provider + "/" + m.o.Model }

// Generate streams one answer, as llm.Model says. An answer that ends without a reason is an error: the rest of it is
// missing.
func (m *Model) Generate(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		params, err := m.newParams(r)
		if err != nil {
			yield(llm.Chunk{}, &llm.Error{Kind: llm.BadRequest, Provider: provider, Err: err})
			return
		}
		stream := m.messages.NewStreaming(ctx, params)
		defer stream.Close()
		var answer sdk.Message
		ended := false
		for stream.Next() {
			event := stream.Current()
			if err := answer.Accumulate(event); err != nil {
				yield(llm.Chunk{}, &llm.Error{Kind: llm.Unavailable, Provider: provider, Err: err})
				return
			}
			chunk, ok := readEvent(event, &answer)
			if !ok {
				continue
			}
			m.restoreNames(chunk, r.Tools)
			if chunk.Finish != "" {
				ended = true
			}
			if !yield(chunk, nil) {
				return
			}
		}
		err = stream.Err()
		if err == nil && !ended {
			err = io.ErrUnexpectedEOF // the connection ended cleanly in the middle of an answer
		}
		if err != nil {
			yield(llm.Chunk{}, classifyError(ctx, err))
		}
	}
}

// restoreNames gives the arguments of the calls of a chunk the names that their tools know.
func (m *Model) restoreNames(c llm.Chunk, tools []llm.ToolSpec) {
	for _, p := range c.Parts {
		if p.Call != nil {
			p.Call.Args = m.schemas.RestoreNames(tools, p.Call.Name, p.Call.Args)
		}
	}
}

// readEvent returns what an event adds for the reader; ok is false where it adds nothing. Thinking and tool calls are
// passed on when their block is whole: a signature comes at its end, and half a call's arguments are no JSON.
func readEvent(event sdk.MessageStreamEventUnion, answer *sdk.Message) (chunk llm.Chunk, ok bool) {
	switch event.Type {
	case "message_start":
		return llm.Chunk{ServedBy: provider + "/" + answer.Model, Usage: readUsage(answer.Usage)}, true
	case "content_block_start":
		// A text block may begin with text in place of an empty string.
		if b := event.ContentBlock; b.Type == "text" && b.Text != "" {
			return llm.Chunk{Parts: []llm.Part{{Text: b.Text}}}, true
		}
	case "content_block_delta":
		if event.Delta.Type == "text_delta" && event.Delta.Text != "" {
			return llm.Chunk{Parts: []llm.Part{{Text: event.Delta.Text}}}, true
		}
	case "content_block_stop":
		if part, ok := readBlock(answer.Content[event.Index]); ok {
			return llm.Chunk{Parts: []llm.Part{part}}, true
		}
	case "message_delta":
		return llm.Chunk{Usage: readUsage(answer.Usage), Finish: readFinish(answer.StopReason)}, true
	}
	return llm.Chunk{}, false
}

// readBlock returns a whole block as a part; false: its text was passed on while it came.
func readBlock(b sdk.ContentBlockUnion) (llm.Part, bool) {
	switch b.Type {
	case "text":
		return llm.Part{}, false
	case "tool_use":
		return llm.Part{Call: &llm.Call{ID: b.ID, Name: b.Name, Args: readArguments(b.Input)}}, true
	case "thinking":
		raw, err := json.Marshal(map[string]string{"type": b.Type, "thinking": b.Thinking, "signature": b.Signature})
		if err != nil {
			return llm.Part{}, false
		}
		return llm.Part{Text: b.Thinking, Thought: true, Raw: raw}, true
	case "redacted_thinking":
		raw, err := json.Marshal(map[string]string{"type": b.Type, "data": b.Data})
		if err != nil {
			return llm.Part{}, false
		}
		return llm.Part{Thought: true, Raw: raw}, true
	}
	return llm.Part{}, false
}

// readArguments returns the arguments of a call as a JSON value; text that is no JSON becomes a string, so that it can
// be stored and told to the model.
func readArguments(input json.RawMessage) json.RawMessage {
	switch {
	case len(input) == 0:
		return json.RawMessage("{}")
	case json.Valid(input):
		return slices.Clone(input)
	}
	quoted, _ := json.Marshal(string(input)) // a string can always be written
	return quoted
}

// readUsage returns the tokens so far. The API counts tokens that it reads from and writes to its cache apart from the
// other input.
func readUsage(u sdk.Usage) *llm.Usage {
	return &llm.Usage{
		Input:  int(u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens),
		Cached: int(u.CacheReadInputTokens),
		Output: int(u.OutputTokens),
	}
}

// readFinish converts the reason why an answer ended; "" where it has not.
func readFinish(reason sdk.StopReason) llm.Finish {
	switch reason {
	case "end_turn", "stop_sequence", "tool_use":
		return llm.FinishStop
	case "max_tokens", "model_context_window_exceeded":
		return llm.FinishLength
	case "refusal":
		return llm.FinishBlocked
	case "":
		return ""
	}
	return llm.FinishOther
}

// classifyError returns ctx's error, or err as an *llm.Error.
func classifyError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	out := &llm.Error{Kind: llm.Unavailable, Provider: provider, Err: err}
	var api *sdk.Error
	if !errors.As(err, &api) {
		return llm.ReadingError(provider, err)
	}
	text := strings.ToLower(api.RawJSON())
	// An error inside a stream has the status 200 of the stream, so its type is looked at as well.
	is := func(status int, kind string) bool { return api.StatusCode == status || strings.Contains(text, kind) }
	switch {
	// Texts of status 400 (seen 2026-11). Status 413 counts bytes, which images have, and not tokens.
	case strings.Contains(text, "prompt is too long"), strings.Contains(text, "exceed context limit"):
		out.Kind = llm.ContextTooLong
	// The limits are those that an organization sets for a month, with status 400.
	case strings.Contains(text, "credit balance"), strings.Contains(text, "specified api usage limits"),
		is(http.StatusPaymentRequired, "billing_error"):
		out.Kind = llm.Exhausted
	case is(http.StatusTooManyRequests, "rate_limit_error"):
		out.Kind = llm.RateLimited
	case is(http.StatusUnauthorized, "authentication_error"), is(http.StatusForbidden, "permission_error"):
		out.Kind = llm.Denied
	case api.StatusCode == http.StatusRequestTimeout, is(529, "overloaded_error"), api.StatusCode >= 500:
	case api.StatusCode >= 400, strings.Contains(text, "invalid_request_error"):
		out.Kind = llm.BadRequest
	}
	if api.Response != nil {
		out.RetryAfter = llm.ReadRetryAfter(api.Response.Header)
	}
	return out
}
