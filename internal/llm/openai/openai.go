// Package openai calls any endpoint that offers OpenAI's chat completions: OpenRouter, Z.ai, Ollama, llama.cpp,
// Google's compatible API and others.
//
// It uses net/http only, because what such endpoints add to a tool call (Google's thought signature in extra_content)
// must go back unchanged, and the SDKs' types drop it. It promises to tolerate answers that are partly malformed, and
// it never retries what may have been answered. API: https://platform.openai.com/docs/api-reference/chat.
package openai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"ravenbot/internal/llm"
)

// Options configures one model.
type Options struct {
	Name            string // the endpoint's name in the configuration: "openrouter"
	APIKey          string // may be empty, as for Ollama
	Model           string
	BaseURL         string // "https://openrouter.ai/api/v1"
	Temperature     *float64
	MaxOutputTokens int
}

// Model is one model of an endpoint. It is safe for concurrent use.
type Model struct {
	o      Options
	client *http.Client
	// schemas are those of tools.
	schemas llm.SchemaCache
	// takesCompletionTokens says that the endpoint has refused max_tokens for its newer name, max_completion_tokens.
	takesCompletionTokens atomic.Bool
}

// maxAnswerBytes is how many bytes of one answer are read.
const maxAnswerBytes = 32 << 20

// New returns a model. It makes no request, and sets no time limit: ctx of each request does.
func New(o Options) *Model {
	return &Model{o: o, client: llm.HTTPClient()}
}

// ID returns NAME/MODEL.
func (m *Model) ID() string { return m.o.Name + "/" + m.o.Model }

// Generate streams one answer.
func (m *Model) Generate(ctx context.Context, r llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		body, err := m.ask(ctx, r)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		defer body.Close()
		// Some endpoints ignore "stream" and answer with one JSON object, perhaps behind white space by which they keep
		// the connection alive.
		a, reader := answerReader{model: m, tools: r.Tools}, bufio.NewReader(body)
		first, err := reader.Peek(1)
		for ; err == nil && (first[0] == ' ' || first[0] == '\n' || first[0] == '\r'); first, err = reader.Peek(1) {
			_, _ = reader.Discard(1)
		}
		if err == nil && first[0] == '{' {
			a.readWhole(ctx, reader, yield)
			return
		}
		a.readStream(ctx, reader, yield)
	}
}

// ask sends a chat request and returns the body of its answer, of which maxAnswerBytes can be read. The caller closes
// it. The error is ctx's or an *llm.Error.
func (m *Model) ask(ctx context.Context, r llm.Request) (io.ReadCloser, error) {
	q := m.newRequest(r)
	body, err := json.Marshal(q)
	if err != nil {
		return nil, m.readingError(ctx, err)
	}
	res, err := m.post(ctx, "/chat/completions", "text/event-stream", body)
	if err != nil {
		return nil, m.readingError(ctx, err)
	}
	limited := http.MaxBytesReader(nil, res.Body, maxAnswerBytes)
	if res.StatusCode == http.StatusOK {
		return limited, nil
	}
	defer limited.Close()
	fault := m.readError(res, limited)
	// OpenAI's models that reason refuse max_tokens by its name, which many other endpoints know alone. What is refused
	// costs nothing.
	if q.MaxTokens > 0 && fault.Kind == llm.BadRequest && strings.Contains(fault.Error(), "max_completion_tokens") {
		m.takesCompletionTokens.Store(true)
		return m.ask(ctx, r)
	}
	return nil, fault
}

// post sends JSON to a path below the endpoint. The caller closes the body of the answer, which may have any status.
// The error is one of the connection.
func (m *Model) post(ctx context.Context, path, accept string, body []byte) (*http.Response, error) {
	url := strings.TrimRight(m.o.BaseURL, "/") + path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", accept)
	// Local servers such as Ollama need no key.
	if m.o.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+m.o.APIKey)
	}
	return m.client.Do(req)
}

// readingError returns ctx's error, or err as an *llm.Error.
func (m *Model) readingError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return llm.ReadingError(m.o.Name, err)
}

// apiError is the error object of the API, in its common forms.
type apiError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    any    `json:"code"` // a word, or a status
	// Metadata is what OpenRouter says of a request that its moderation has flagged.
	Metadata struct {
		Reasons json.RawMessage `json:"reasons"`
	} `json:"metadata"`
}

// UnmarshalJSON accepts the object and, as some servers write it, the message alone.
func (p *apiError) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, &p.Message)
	}
	type object apiError
	return json.Unmarshal(raw, (*object)(p))
}

func (p apiError) String() string {
	s := p.Message + " " + p.Type
	if p.Code != nil {
		s += fmt.Sprint(" ", p.Code)
	}
	return strings.TrimSpace(s)
}

// readError reads the error of an answer with another status than 200.
func (m *Model) readError(res *http.Response, body io.Reader) *llm.Error {
	raw, err := io.ReadAll(io.LimitReader(body, 64<<10))
	if err != nil {
		return llm.ReadingError(m.o.Name, err)
	}
	var answer struct{ Error apiError }
	if json.Unmarshal(raw, &answer) != nil || answer.Error.Message == "" {
		answer.Error.Message = strings.TrimSpace(string(raw[:min(len(raw), 300)]))
	}
	out := m.classifyError(res.StatusCode, answer.Error)
	out.RetryAfter = llm.ReadRetryAfter(res.Header)
	return out
}

// classifyError returns an error of the API as an *llm.Error.
func (m *Model) classifyError(status int, p apiError) *llm.Error {
	out := &llm.Error{Kind: llm.Unavailable, Provider: m.o.Name, Err: fmt.Errorf("status %d: %s", status, p)}
	text := strings.ToLower(p.String())
	// Providers use different statuses for the same thing, so their words are checked first.
	switch {
	case strings.Contains(text, "content_filter"), strings.Contains(text, "content_policy"):
		out.Kind, out.Reason = llm.Blocked, "its safety filter objects"
	case status != http.StatusTooManyRequests && isContextTooLong(text):
		out.Kind = llm.ContextTooLong
	// OpenRouter (https://openrouter.ai/docs/api/reference/errors-and-debugging, seen 2026-11).
	case status == http.StatusForbidden && (len(p.Metadata.Reasons) > 0 || strings.Contains(text, "flagged")):
		out.Kind, out.Reason = llm.Blocked, "its moderation has flagged the question"
	case status == http.StatusPaymentRequired, isExhausted(text):
		out.Kind = llm.Exhausted
	case status == http.StatusTooManyRequests:
		out.Kind = llm.RateLimited
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		out.Kind = llm.Denied
	case status == http.StatusRequestTimeout:
	case status >= 400 && status < 500:
		out.Kind = llm.BadRequest
	}
	return out
}

// exhaustedWords are what endpoints say where the account has no credit left, which waiting does not change, though the
// status may be that of a rate limit: OpenAI, Moonshot, Z.ai (code 1113) and DeepSeek (seen 2026-11).
var exhaustedWords = []string{
	"insufficient_quota", "billing_hard_limit_reached", "exceeded_current_quota_error", "insufficient balance",
}

// isExhausted reports whether the text of an error says that the account has no credit left.
func isExhausted(text string) bool {
	return slices.ContainsFunc(exhaustedWords, func(words string) bool { return strings.Contains(text, words) })
}

// tooLongWords are what endpoints say of a request with too many tokens: the code of OpenAI, vLLM, OpenRouter and
// Groq and their message, the type of llama.cpp and its message, those of Mistral, Z.ai and of Anthropic and Gemini
// behind a proxy (seen 2026-11).
var tooLongWords = []string{
	"context_length_exceeded", "maximum context length", "exceed_context_size_error", "available context size",
	"context window", "prompt is too long", "too large for model", "exceeds max length", "exceed context limit",
	"input token count",
}

// isContextTooLong reports whether the text of an error says that a request has too many tokens. Its status does not
// say so: it is 400 with most endpoints, 413 with others, and was 500 with llama.cpp.
func isContextTooLong(text string) bool {
	return slices.ContainsFunc(tooLongWords, func(words string) bool { return strings.Contains(text, words) })
}

// errNoEnd is the error of a stream that ends cleanly and says neither [DONE] nor why the answer ended.
var errNoEnd = errors.New("the body ended before the answer did")
