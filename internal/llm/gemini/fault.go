package gemini

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/genai"

	"ravenbot/internal/llm"
)

// maxAnswerBytes is the most that is read of one answer, in bytes.
const maxAnswerBytes = 32 << 20

// transport bounds answers and notes a Retry-After header, which the library
// drops.
type transport struct{ next http.RoundTripper }

func newTransport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	return transport{t}
}

type retryAfterKey struct{}

// withRetryAfter gives a context whose requests note the pause that the server
// asks for, and a function to read it.
func withRetryAfter(ctx context.Context) (context.Context, func() time.Duration) {
	var seconds atomic.Int64
	return context.WithValue(ctx, retryAfterKey{}, &seconds),
		func() time.Duration { return time.Duration(seconds.Load()) * time.Second }
}

// RoundTrip makes one request.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if note, ok := r.Context().Value(retryAfterKey{}).(*atomic.Int64); ok {
		if s, err := strconv.ParseInt(res.Header.Get("Retry-After"), 10, 32); err == nil && s > 0 {
			note.Store(s)
		}
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxAnswerBytes), res.Body}
	return res, nil
}

// classifyError classes an error of the library.
func classifyError(ctx context.Context, err error, told time.Duration) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	out := &llm.Error{Kind: llm.Unavailable, Provider: "gemini", RetryAfter: told, Err: err}
	var api genai.APIError
	if !errors.As(err, &api) {
		return out
	}
	out.RetryAfter = max(told, retryInfo(api.Details))
	switch {
	case api.Code == http.StatusTooManyRequests && isDailyQuota(api.Details):
		out.Kind = llm.Exhausted
	case api.Code == http.StatusTooManyRequests:
		out.Kind = llm.RateLimited
	case api.Code == http.StatusUnauthorized, api.Code == http.StatusForbidden, isBadKey(api):
		out.Kind = llm.Denied
	case api.Code == http.StatusRequestTimeout, api.Code == 499:
		out.Kind = llm.Unavailable
	case api.Code >= 400 && api.Code < 500:
		out.Kind = llm.BadRequest
	}
	return out
}

func isBadKey(e genai.APIError) bool {
	for _, d := range e.Details {
		if d["reason"] == "API_KEY_INVALID" {
			return true
		}
	}
	return strings.Contains(e.Message, "API key not valid") || strings.Contains(e.Message, "API key expired")
}

// retryInfo reads google.rpc.RetryInfo: "retryDelay": "20.5s".
func retryInfo(details []map[string]any) time.Duration {
	for _, d := range details {
		if s, ok := d["retryDelay"].(string); ok {
			if after, err := time.ParseDuration(s); err == nil {
				return after
			}
		}
	}
	return 0
}

// isDailyQuota reports that a quota of the day is spent, which no pause of ours outlasts:
// google.rpc.QuotaFailure names it in quotaId.
func isDailyQuota(details []map[string]any) bool {
	for _, d := range details {
		violations, _ := d["violations"].([]any)
		for _, v := range violations {
			if m, ok := v.(map[string]any); ok {
				if id, _ := m["quotaId"].(string); strings.Contains(id, "PerDay") {
					return true
				}
			}
		}
	}
	return false
}
