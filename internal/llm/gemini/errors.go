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
	"ravenbot/internal/text"
)

// maxAnswerBytes is how many bytes of one answer are read.
const maxAnswerBytes = 32 << 20

// transport limits answers and records what the library drops.
type transport struct{ next http.RoundTripper }

// newTransport returns a transport with enough idle connections for many conversations at once.
func newTransport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	return transport{t}
}

// note is what the transport records of a request.
type note struct {
	retryAfter atomic.Int64                       // seconds that the server asks to wait
	tooLarge   atomic.Pointer[http.MaxBytesError] // the answer was not read to its end
}

// noteKey is the key under which a context has the note of its requests.
type noteKey struct{}

// withNote returns a context whose requests are noted.
func withNote(ctx context.Context) (context.Context, *note) {
	n := &note{}
	return context.WithValue(ctx, noteKey{}, n), n
}

// RoundTrip makes one request.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	n, ok := r.Context().Value(noteKey{}).(*note)
	if !ok {
		n = &note{}
	}
	// Only whole seconds are read, not dates.
	if s, err := strconv.ParseInt(res.Header.Get("Retry-After"), 10, 32); err == nil && s > 0 {
		n.retryAfter.Store(s)
	}
	res.Body = limitedBody{http.MaxBytesReader(nil, res.Body, maxAnswerBytes), n}
	return res, nil
}

// limitedBody notes that its limit was reached: the library reports the line that was cut instead.
type limitedBody struct {
	io.ReadCloser
	note *note
}

// Read notes that the limit was reached, and returns what the body returns.
func (b limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		b.note.tooLarge.Store(tooLarge)
	}
	return n, err
}

// maxErrorBytes bounds the text of an error: the library puts whole answers into some.
const maxErrorBytes = 500

// classifyError returns an error of the library as an *llm.Error, or ctx's error.
func classifyError(ctx context.Context, err error, n *note) error {
	// A cancelled request is not the provider's fault and must not switch models.
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if tooLarge := n.tooLarge.Load(); tooLarge != nil {
		return llm.ReadingError("gemini", tooLarge)
	}
	// Before the text is cut, which loses the type.
	var api genai.APIError
	isAPI := errors.As(err, &api)
	if s := err.Error(); len(s) > maxErrorBytes {
		err = errors.New(text.Cut(s, maxErrorBytes) + "…")
	}
	retryAfter := time.Duration(n.retryAfter.Load()) * time.Second
	out := &llm.Error{Kind: llm.Unavailable, Provider: "gemini", RetryAfter: retryAfter, Err: err}
	if !isAPI {
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
	case api.Code == http.StatusBadRequest && isTooLong(api.Message):
		out.Kind = llm.ContextTooLong
	case api.Code == http.StatusRequestTimeout, api.Code == 499:
		out.Kind = llm.Unavailable
	case api.Code >= 400 && api.Code < 500:
		out.Kind = llm.BadRequest
	}
	return out
}

// isTooLong reports whether the API says of a request "The input token count (1200293) exceeds the maximum number of
// tokens allowed (1048576)." (google-gemini/gemini-cli#6678), or, in other words, that its context is too long.
func isTooLong(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "token count") && strings.Contains(message, "exceeds") ||
		strings.Contains(message, "context is too long")
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
