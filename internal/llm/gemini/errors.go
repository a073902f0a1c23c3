package gemini

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"ravenbot/internal/llm"
)

// apiError is an error of the API (https://google.aip.dev/193).
type apiError struct {
	Code    int              `json:"code"` // the status
	Message string           `json:"message"`
	Status  string           `json:"status"`
	Details []map[string]any `json:"details"`

	retryAfter time.Duration // of the header
}

// Error returns the error's status and message, which may be long.
func (e apiError) Error() string { return fmt.Sprintf("status %d %s: %s", e.Code, e.Status, e.Message) }

// readError reads the error of an answer with another status than 200.
func readError(res *http.Response, body io.Reader) error {
	raw, err := io.ReadAll(io.LimitReader(body, 64<<10))
	if err != nil {
		return err
	}
	type errorAnswer struct {
		Error apiError `json:"error"`
	}
	// Where events are not sent, as by some gateways, answers are lists, those of errors as well.
	var answer errorAnswer
	var list []errorAnswer
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		answer = list[0]
	} else if json.Unmarshal(raw, &answer) != nil {
		answer = errorAnswer{}
	}
	if answer.Error.Message == "" {
		answer.Error.Message = strings.TrimSpace(string(raw))
	}
	answer.Error.Code = res.StatusCode
	answer.Error.retryAfter = llm.ReadRetryAfter(res.Header)
	return answer.Error
}

// readingError returns ctx's error, or err as an *llm.Error.
func readingError(ctx context.Context, err error) error {
	// A cancelled request is not the provider's fault and must not switch models.
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if known, ok := errors.AsType[*llm.Error](err); ok {
		return known
	}
	api, isAPI := errors.AsType[apiError](err)
	if !isAPI {
		return llm.ReadingError("gemini", err)
	}
	out := &llm.Error{
		Kind:       llm.Unavailable,
		Provider:   "gemini",
		RetryAfter: max(api.retryAfter, retryInfo(api.Details)),
		Err:        err,
	}
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
func isBadKey(e apiError) bool {
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
