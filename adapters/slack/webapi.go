package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"

	"ravenbot/adapters/kit"
)

// historyQuery names a part of a channel, or of a thread in it.
type historyQuery struct {
	channel, thread string
	oldest          string // timestamp of the last message that is not wanted; empty: from the beginning
	latest          string // timestamp of the first message that is not wanted; empty: to the end
	inclusive       bool   // the messages at oldest and latest are wanted, too
	pageSize        int
}

// pageFetcher gets one page of a passage; next is empty with the last one.
type pageFetcher func(
	ctx context.Context,
	p historyQuery,
	cursor string,
) (messages []*wireMessage, next string, err error)

// readPages gives the pages of a query to visit until visit has enough or there are no more; whole
// reports which. In a channel the order is Slack's: newest first within a page, which need not be
// the newest page (slackhq/slack-api-docs#4). A thread comes oldest first, beginning with its first
// message.
func readPages(
	ctx context.Context,
	ask pageFetcher,
	p historyQuery,
	visit func([]*wireMessage) (more bool),
) (whole bool, err error) {
	for cursor := ""; ; {
		messages, next, err := ask(ctx, p, cursor)
		if err != nil {
			return false, err
		}
		more := visit(messages)
		if next == "" || !more {
			return next == "", nil
		}
		cursor = next
	}
}

// fetchPage asks once for a page. It decodes one message at a time, because slack-go refuses a
// whole page for one field of an unexpected kind (v0.34.0, 2026-11).
func (s *Slack) fetchPage(ctx context.Context, p historyQuery, cursor string) ([]*wireMessage, string, error) {
	method, form := "conversations.history", url.Values{"channel": {p.channel}, "limit": {strconv.Itoa(p.pageSize)},
		"include_all_metadata": {"true"}}
	if p.thread != "" {
		method = "conversations.replies"
		form.Set("ts", p.thread)
	}
	if p.oldest != "" {
		form.Set("oldest", p.oldest)
	}
	if p.latest != "" {
		form.Set("latest", p.latest)
	}
	if p.inclusive {
		form.Set("inclusive", "true")
	}
	if cursor != "" {
		form.Set("cursor", cursor)
	}
	var answer struct {
		Messages []json.RawMessage `json:"messages"`
		Metadata struct {
			Cursor string `json:"next_cursor"`
		} `json:"response_metadata"`
	}
	if err := s.callReading(ctx, method, form, &answer); err != nil {
		return nil, "", err
	}
	var messages []*wireMessage
	for _, raw := range answer.Messages {
		var m wireMessage
		if json.Unmarshal(raw, &m) == nil {
			m.Channel, m.isRead = p.channel, true
			m.fillText()
			messages = append(messages, &m)
		}
	}
	return messages, answer.Metadata.Cursor, nil
}

// callReading is callAPI for methods that read messages: while Slack wants one left alone, which counts for all channels
// (2026-11), nothing is sent and the error is the same.
func (s *Slack) callReading(ctx context.Context, method string, form url.Values, answer any) error {
	until, _ := s.readAfter.Get(method)
	if rest := time.Until(until); rest > 0 {
		return fmt.Errorf("%s: %w", method, &slackgo.RateLimitedError{RetryAfter: rest})
	}
	err := s.callAPI(ctx, method, form, answer)
	if rest := retryAfter(err); rest > 0 {
		s.readAfter.Put(method, time.Now().Add(rest))
	}
	return err
}

// callAPI calls a method of the Web API and decodes its answer, which may be nil. It does not wait for Slack's pace and
// repeats nothing. Errors wrap a slackgo.SlackErrorResponse (Slack refused), *slackgo.RateLimitedError (it was too
// soon) or slackgo.StatusCodeError; others mean that there was no answer. They may hold the address, but never the
// token.
func (s *Slack) callAPI(ctx context.Context, method string, form url.Values, answer any) error {
	r, err := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		s.o.APIBaseURL+method,
		strings.NewReader(form.Encode()),
	)
	if err != nil {
		return fmt.Errorf("ask slack for %s: %w", method, err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+s.o.BotToken)
	res, err := s.client.Do(r)
	if err != nil {
		return fmt.Errorf("ask slack for %s: %w", method, err)
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("%s: %w", method, rateLimit(res.Header))
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %w", method, slackgo.StatusCodeError{Code: res.StatusCode, Status: res.Status})
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("read the answer to %s: %w", method, err)
	}
	var verdict struct {
		OK     bool   `json:"ok"`
		Error  string `json:"error"`
		Needed string `json:"needed"`
	}
	if err := json.Unmarshal(raw, &verdict); err != nil {
		return fmt.Errorf("read the answer to %s: %w", method, err)
	}
	if verdict.Needed != "" {
		method += " (needs " + verdict.Needed + ")"
	}
	switch {
	case verdict.OK:
	case verdict.Error == "ratelimited", verdict.Error == "rate_limited":
		return fmt.Errorf("%s: %w", method, rateLimit(res.Header))
	default:
		return fmt.Errorf("%s: %w", method, slackgo.SlackErrorResponse{Err: verdict.Error, Needed: verdict.Needed})
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("read the answer to %s: %w", method, err)
	}
	return nil
}

// rateLimit returns the error of a call that came too soon, with the time that the answer's header asks for.
func rateLimit(h http.Header) error {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	// Callers take 0 for no rate limit. A number that does not fit is none.
	if err != nil || seconds < 1 {
		seconds = 1
	}
	seconds = min(seconds, int(kit.MaxRest/time.Second))
	return &slackgo.RateLimitedError{RetryAfter: time.Duration(seconds) * time.Second}
}

// errorCode returns the code with which Slack refused a call; empty if it did not.
func errorCode(err error) string {
	var told slackgo.SlackErrorResponse
	if errors.As(err, &told) {
		return told.Err
	}
	return ""
}

// neededScope returns the scope for want of which Slack refused a call; empty if it did not, or did not say.
func neededScope(err error) string {
	var told slackgo.SlackErrorResponse
	if errors.As(err, &told) && told.Err == "missing_scope" {
		return told.Needed
	}
	return ""
}

// transientCodes are the words of refusals that a later call may not meet.
var transientCodes = map[string]bool{
	"internal_error":      true,
	"fatal_error":         true,
	"service_unavailable": true,
	"request_timeout":     true,
	"ratelimited":         true,
	"rate_limited":        true,
	"invalid_cursor":      true,
	"team_added_to_org":   true,
}

// isFinal reports whether reading was refused and will be refused again. An error without an answer is not final.
func isFinal(err error) bool {
	if word := errorCode(err); word != "" {
		return !transientCodes[word]
	}
	var status slackgo.StatusCodeError
	return errors.As(err, &status) && (status.Code == http.StatusForbidden || status.Code == http.StatusNotFound)
}

// retryAfter returns how long Slack asks to be left alone; zero if it does not.
func retryAfter(err error) time.Duration {
	var limited *slackgo.RateLimitedError
	if errors.As(err, &limited) {
		// The library reads any number of seconds, which may not even fit into a Duration.
		if limited.RetryAfter < 0 {
			return kit.MaxRest
		}
		return min(limited.RetryAfter, kit.MaxRest)
	}
	return 0
}

// postLabel is what our posts carry unseen: which piece of which draft they are, and which messages
// they answer.
type postLabel struct {
	Key     string `json:"key"`
	Piece   int    `json:"piece"`
	Answers string `json:"answers,omitempty"` // timestamps, with spaces between
	Live    bool   `json:"live,omitempty"`    // the answer was still being written
}

// postMetadata is a label in the form of Slack's message metadata.
type postMetadata struct {
	Type  string    `json:"event_type"`
	Label postLabel `json:"event_payload"`
}

// labelOf returns the label of a message; false if it has none.
func labelOf(m *wireMessage) (postLabel, bool) {
	if m.label != nil {
		return *m.label, true
	}
	var meta postMetadata
	if len(m.Metadata) == 0 || json.Unmarshal(m.Metadata, &meta) != nil || meta.Type != metadataType {
		return postLabel{}, false
	}
	return meta.Label, true
}

// isOwnPost reports whether the bot posted a message, as its user or as its app.
func (s *Slack) isOwnPost(m *wireMessage) bool {
	return m.User == s.self.user && m.User != "" || m.BotID == s.self.bot && m.BotID != ""
}
