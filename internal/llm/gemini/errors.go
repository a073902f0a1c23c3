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

// maxAnswerBytes is how many bytes of one answer are read.
const maxAnswerBytes = 32 << 20

// transport limits answers and records the Retry-After header, which the library drops.
type transport struct{ next http.RoundTripper }

// newTransport returns a transport with enough idle connections for many conversations at once.
func newTransport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	return transport{t}
}

type retryAfterKey struct{}

// withRetryAfter returns a context whose requests record the wait that the server asks for, and a function that
// returns it.
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
	// Only whole seconds are read, not dates.
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

// classifyError returns an error of the library as an *llm.Error, or ctx's error.
func classifyError(ctx context.Context, err error, retryAfter time.Duration) error {
	// A cancelled request is not the provider's fault and must not switch models.
	if ctx.Err() != nil {
		return ctx.Err()
	}
	out := &llm.Error{Kind: llm.Unavailable, Provider: "gemini", RetryAfter: retryAfter, Err: err}
	var api genai.APIError
	if !errors.As(err, &api) {
		return out
	}
	out.RetryAfter = max(retryAfter, retryInfo(api.Details))
	// A daily quota has the same status as a rate limit, and waiting a minute does not help.
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

// isBadKey reports whether the API rejects the key, which it does with status 400.
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

// isDailyQuota reports whether a daily quota is used up: google.rpc.QuotaFailure names it in quotaId. No wait of ours
// outlasts it.
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
