package client

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/text"
	"ravenbot/internal/ops/egress"
)

// readFault reads the error of an answer whose status is not 200.
func (c *Client) readFault(res *http.Response, body io.Reader) *llm.Error {
	raw, err := io.ReadAll(io.LimitReader(body, 64<<10))
	if err != nil {
		return llm.ReadingError(c.o.Provider, err)
	}
	fault := c.classify(res.StatusCode, raw)
	fault.RetryAfter = max(fault.RetryAfter, egress.ReadRetryAfter(res.Header))
	return fault
}

// StreamError returns the error in an answer with status 200, or nil for the empty errors of some endpoints.
func (c *Client) StreamError(raw json.RawMessage) error {
	switch strings.Join(strings.Fields(string(raw)), "") {
	case "", "null", "false", `""`, "{}", "[]", "0":
		return nil
	}
	status := http.StatusInternalServerError // the usual case in a stream
	var object struct {
		Code   Count `json:"code"`
		Status Count `json:"status"`
	}
	_ = json.Unmarshal(raw, &object) // the error may be plain text
	if code := cmp.Or(object.Code, object.Status); code >= 400 && code < 600 {
		status = int(code)
	}
	return c.classify(status, raw)
}

// minSecretLength is the minimum length of a masked secret; shorter ones occur in ordinary words.
const minSecretLength = 8

// classify converts an error of any endpoint. It checks words first, because statuses differ between providers.
func (c *Client) classify(status int, raw []byte) *llm.Error {
	if len(c.o.Secret) >= minSecretLength {
		raw = bytes.ReplaceAll(raw, []byte(c.o.Secret), []byte("***"))
	}
	var said any
	if json.Unmarshal(raw, &said) != nil {
		said = strings.TrimSpace(string(raw[:min(len(raw), 300)]))
	}
	words := describe(said)
	out := &llm.Error{Kind: llm.Unavailable, Provider: c.o.Provider, RetryAfter: findRetryDelay(raw),
		Err: fmt.Errorf("status %d: %s", status, cmp.Or(words, http.StatusText(status)))}
	lower := strings.ToLower(words)
	says := func(list []string) bool {
		return slices.ContainsFunc(list, func(w string) bool { return strings.Contains(lower, w) })
	}
	switch {
	case says(filterWords):
		out.Kind, out.Reason = llm.Blocked, "its safety filter objects"
	case says(badCallWords):
		out.Kind, out.Reason = llm.BadCall, "the model wrote a tool call that cannot be read"
	case status != http.StatusTooManyRequests && says(tooLongWords):
		out.Kind = llm.ContextTooLong
	// OpenRouter (https://openrouter.ai/docs/api/reference/errors-and-debugging, seen 2026-11).
	case status == http.StatusForbidden && (bytes.Contains(raw, []byte(`"reasons"`)) || says([]string{"flagged"})):
		out.Kind, out.Reason = llm.Blocked, "its moderation has flagged the question"
	case status == http.StatusPaymentRequired, says(exhaustedWords), dailyQuota().Match(raw):
		out.Kind = llm.Exhausted
	case status == http.StatusTooManyRequests, says([]string{"rate_limit_error"}):
		out.Kind = llm.RateLimited
	case status == http.StatusUnauthorized, status == http.StatusForbidden, says(deniedWords):
		out.Kind = llm.Denied
	case status == http.StatusRequestTimeout, status == 499, says([]string{"overloaded_error"}):
	case status == http.StatusNotFound:
		out.Kind = llm.BadRequest
		out.Err = fmt.Errorf("%w; check the model's name and baseURL in the configuration", out.Err)
	case status >= 400 && status < 500, says([]string{"invalid_request_error"}) && status == 500:
		out.Kind = llm.BadRequest
	}
	return out
}

// Words that distinguish errors with the same status (seen 2026-11).
var (
	filterWords = []string{"content_filter", "content_policy"}
	// Groq's code and messages (https://console.groq.com/docs/errors), and llama.cpp's (nibor1896/Crow#203).
	badCallWords = []string{
		"tool_use_failed", "failed to call a function", "tool call validation failed", "failed to parse tool call arguments",
	}
	// Waiting does not help, even if the status is a rate limit: OpenAI, Moonshot, Z.ai (code 1113), DeepSeek, and
	// monthly limits of Anthropic.
	exhaustedWords = []string{
		"insufficient_quota", "billing_hard_limit_reached", "exceeded_current_quota_error", "insufficient balance",
		"credit balance", "specified api usage limits", "billing_error",
	}
	// Anthropic inside a stream; Google with status 400.
	deniedWords = []string{
		"authentication_error", "permission_error", "api_key_invalid", "api key not valid", "api key expired",
	}
	// A request with too many tokens: OpenAI, vLLM, OpenRouter, Groq, llama.cpp, Mistral, Z.ai, Anthropic, Google
	// (google-gemini/gemini-cli#6678), xAI (cline/cline#3120), Qwen (QwenLM/qwen-code#98) and LM Studio
	// (lmstudio-bug-tracker#237, #2205). Statuses differ: 400, 413, 200 (LM Studio) or 500 (llama.cpp).
	tooLongWords = []string{
		"context_length_exceeded", "maximum context length", "exceed_context_size_error", "available context size",
		"context window", "prompt is too long", "too large for model", "exceeds max length", "exceed context limit",
		"input token count", "context is too long", "maximum prompt length", "range of input length", "context the overflows",
		"greater than the context length",
	}
)

// maxDescribed bounds the text of an error, which may quote the whole request.
const maxDescribed = 4 << 10

// describe returns the message, code and type of an error, and the reason from a provider behind a gateway, in one
// line.
func describe(v any) string {
	var words []string
	collectWords(v, &words, 10)
	s := strings.Join(words, " ")
	return strings.Join(strings.Fields(s[:min(len(s), maxDescribed)]), " ")
}

func collectWords(v any, words *[]string, depth int) {
	if depth == 0 {
		return
	}
	switch v := v.(type) {
	case string:
		// OpenRouter quotes the provider's answer as text.
		var inner map[string]any
		if strings.HasPrefix(v, "{") && json.Unmarshal([]byte(v), &inner) == nil {
			collectWords(inner, words, depth-1)
		} else if v != "" && !slices.Contains(*words, v) {
			*words = append(*words, v)
		}
	case float64:
		collectWords(fmt.Sprint(v), words, depth)
	case []any:
		for _, one := range v {
			collectWords(one, words, depth-1)
		}
	case map[string]any:
		// FastAPI (vLLM, Mistral) names the place: "body.stream_options: Extra inputs are not permitted".
		if loc, ok := v["loc"].([]any); ok {
			path := strings.Trim(strings.ReplaceAll(fmt.Sprint(loc), " ", "."), "[]")
			*words = append(*words, fmt.Sprintf("%s: %v", path, v["msg"]))
			return
		}
		for _, key := range []string{
			"error", "message", "detail", "errors", "type", "code", "status", "param", "reason", "metadata", "raw",
			"provider_name", "details",
		} {
			collectWords(v[key], words, depth-1)
		}
	}
}

// dailyQuota matches a google.rpc.QuotaFailure for a day. The status is a rate limit, but waiting does not help.
var dailyQuota = text.Pattern(`"quotaId":\s*"[^"]*PerDay`)

// retryDelay matches google.rpc.RetryInfo: "retryDelay": "20.5s".
var retryDelay = text.Pattern(`"retryDelay":\s*"([^"]+)"`)

func findRetryDelay(raw []byte) (pause time.Duration) {
	if found := retryDelay().FindSubmatch(raw); found != nil {
		pause, _ = time.ParseDuration(string(found[1]))
	}
	return pause
}

// ErrNoEnd is the error of a body without an error and without a finish reason.
var ErrNoEnd = errors.New("the body ended before the answer did")
