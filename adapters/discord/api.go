package discord

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// api sends REST requests, each with a deadline, a size limit and its turn. Its methods may be called concurrently.
type api struct {
	base   *url.URL
	token  string
	log    *slog.Logger
	client *http.Client
	// pace holds requests of one route, and all of them, to the limits that Discord has told.
	pace *kit.Pacer
}

const (
	requestTimeout = 20 * time.Second
	uploadTimeout  = 2 * time.Minute // for requests with files
	// maxAnswer is how many bytes of an answer are read; more is an error.
	maxAnswer = 16 << 20
	userAgent = "DiscordBot (ravenbot, 1)"
)

// The steady rate stays below the 50 requests a second that Discord takes from a bot, whose replicas share it.
const (
	perRequest = time.Second / 45
	// burst is how far requests may run ahead of that rate: twenty at once after a rest.
	burst = 20 * perRequest
)

// newAPI returns an api that reaches no network before its first request. base may be nil: then every request fails.
func newAPI(base *url.URL, token string, log *slog.Logger) *api {
	client := &http.Client{Transport: kit.PermittedTransport{Next: kit.NewTransport(32)}, CheckRedirect: kit.NoRedirect}
	return &api{base: base, token: token, log: log, client: client, pace: &kit.Pacer{Every: perRequest, Burst: burst}}
}

// request is one call. Those with the same route share a rate limit and are sent one after the
// other, in order; an empty route stands for method and path.
type request struct {
	method, path string
	route        string
	body         any
	files        []chat.File // sent with the body
	// free: answers to interactions carry their own token, and are outside of the
	// limit on all requests of the bot.
	free bool
}

// Error codes of Discord that matter here.
const (
	errUnknownChannel = 10003
	errUnknownMessage = 10008
	errUnknownWebhook = 10015
	errReplyRefused   = 160002
	errHasThread      = 160004
	errSendingIsOff   = 40004 // for a while
	errFeatureIsOff   = 40006 // for a while
	errAcknowledged   = 40060
	errNoAccess       = 50001
	errCannotDM       = 50007
	errNoPermission   = 50013
	errWebhookToken   = 50027
	errBadForm        = 50035
	errArchived       = 50083
)

// apiError is a request that failed; but for maybe it had no effect.
type apiError struct {
	what    string // method and path, without tokens
	status  int    // 0: no answer
	code    int    // Discord's, 0 if it gave none
	message string
	maybe   bool          // the request may have been carried out
	after   time.Duration // how long Discord asks to wait
	err     error
}

func (e *apiError) Error() string {
	s := "discord " + e.what
	if e.status != 0 {
		s += fmt.Sprintf(": HTTP %d", e.status)
	}
	if e.code != 0 {
		s += fmt.Sprintf(", code %d", e.code)
	}
	if e.message != "" {
		s += ", " + e.message
	}
	if e.err != nil {
		s += ": " + e.err.Error()
	}
	return s
}

func (e *apiError) Unwrap() error { return e.err }

// isCode reports whether err is one of Discord's codes.
func isCode(err error, codes ...int) bool {
	var e *apiError
	if !errors.As(err, &e) {
		return false
	}
	for _, code := range codes {
		if e.code == code {
			return true
		}
	}
	return false
}

// isRetryable reports whether the same request may succeed later: there was no answer, it was too soon, or Discord
// failed.
func isRetryable(err error) bool {
	var e *apiError
	return !errors.As(err, &e) || e.status == 0 || e.status == http.StatusTooManyRequests || e.status >= 500
}

// isRefused reports whether Discord refused for good. A refused token does not count: it can be replaced. Neither does
// what is refused for a while.
func isRefused(err error) bool {
	var e *apiError
	return errors.As(err, &e) && e.status >= 400 && e.status < 500 && e.status != http.StatusUnauthorized &&
		e.status != http.StatusTooManyRequests && e.status != http.StatusRequestTimeout && !isBlocked(err) &&
		!isCode(err, errSendingIsOff, errFeatureIsOff)
}

// isBlocked reports whether the proxy in front of Discord refused the request. It blocks addresses for a while (Discord's
// reference of 2026-08, rate limits), and its body is not Discord's, which always says why.
func isBlocked(err error) bool {
	var e *apiError
	return errors.As(err, &e) && e.status == http.StatusForbidden && e.code == 0 && e.message == ""
}

// isUnauthorized reports whether Discord refused the token.
func isUnauthorized(err error) bool {
	var e *apiError
	return errors.As(err, &e) && e.status == http.StatusUnauthorized
}

// retryAfter returns how long Discord wants us to wait before the next attempt.
func retryAfter(err error) time.Duration {
	var e *apiError
	if errors.As(err, &e) {
		return e.after
	}
	return 0
}

// do sends a request when its turn has come, waits out rate limits as long as ctx lasts, and decodes the answer into
// out unless that is nil. Nothing but a rate limit has a request repeated. Errors are *apiError; status 429 in one
// means that the turn would come only after ctx has ended.
func (a *api) do(ctx context.Context, r request, out any) error {
	e := &apiError{what: r.method + " " + redact(r.path)}
	if a.base == nil {
		e.err = errors.New("platforms.discord.apiBaseURL is not an address")
		return e
	}
	if r.route == "" {
		r.route = r.method + r.path
	}
	for {
		// Requests of one route go one after the other, so that posts keep their order during a
		// rate limit.
		turn, err := a.pace.Enter(ctx, r.route, r.free)
		if err != nil {
			var limited *kit.WaitError
			if errors.As(err, &limited) {
				e.status, e.after = http.StatusTooManyRequests, limited.After
			}
			e.err = err
			return e
		}
		status, header, body, err := a.send(ctx, r)
		// Also after a success: it may have been the last request that the limit of the route allows for now.
		pause, global := rateLimit(status, header, body)
		turn.Leave(pause, global)
		switch {
		case err != nil:
			e.maybe, e.err = !kit.IsUnsent(err), err
			return e
		// Discord has not carried it out, so that repeating it is safe.
		case status == http.StatusTooManyRequests:
			a.log.Warn(
				"discord rate limit",
				"platform",
				"discord",
				"request",
				e.what,
				"wait",
				pause,
				"global",
				global,
			)
			continue
		}
		return a.read(e, status, body, out)
	}
}

// redact removes the tokens from the path of an interaction.
func redact(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if i > 1 && (parts[1] == "interactions" || parts[1] == "webhooks") && i == 3 {
			part = "***"
		}
		parts[i] = part
	}
	return strings.Join(parts, "/")
}

// send sends a request once and reads its answer as a whole, whatever its status. The error is one of the connection,
// and holds no address, which has the token of an interaction.
func (a *api) send(ctx context.Context, r request) (int, http.Header, []byte, error) {
	within := requestTimeout
	if len(r.files) > 0 {
		within = uploadTimeout
	}
	ctx, cancel := kit.RequestContext(ctx, within)
	defer cancel()
	payload, kind, err := r.content()
	if err != nil {
		return 0, nil, nil, err
	}
	address := a.base.Scheme + "://" + a.base.Host + "/api/v10" + r.path
	req, err := http.NewRequestWithContext(ctx, r.method, address, payload)
	if err != nil {
		return 0, nil, nil, stripURL(err)
	}
	req.Header.Set("User-Agent", userAgent)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if !r.free {
		req.Header.Set("Authorization", "Bot "+a.token)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return 0, nil, nil, stripURL(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, nil, stripURL(err)
	}
	return resp.StatusCode, resp.Header, body, nil
}

// content returns what a request sends, and its media type; nil and "" where it has no body. It is made again for each
// attempt, because sending uses it up.
func (r request) content() (io.Reader, string, error) {
	switch {
	case r.body == nil:
		return nil, "", nil
	case len(r.files) > 0:
		data, kind, err := multipartBody(r.body, r.files)
		return bytes.NewReader(data), kind, err
	}
	data, err := json.Marshal(r.body)
	return bytes.NewReader(data), "application/json", err
}

// stripURL removes the address, which may hold a token, from an error.
func stripURL(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// read decodes an answer, or returns it as an error.
func (a *api) read(e *apiError, status int, body []byte, out any) error {
	if status >= 200 && status < 300 {
		if out == nil || len(bytes.TrimSpace(body)) == 0 {
			return nil // taken, though nothing is told of it
		}
		if err := json.Unmarshal(body, out); err != nil {
			// Discord has done it, and what came of it is not known.
			e.status, e.maybe, e.err = status, true, fmt.Errorf("read the answer: %w", err)
			return e
		}
		return nil
	}
	var d struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Errors  any    `json:"errors"`
	}
	e.status = status
	if json.Unmarshal(body, &d) == nil { // else the status has to do
		e.code, e.message = d.Code, d.Message
		if detail, err := json.Marshal(d.Errors); err == nil && d.Errors != nil && len(detail) < 1000 {
			e.message += " " + string(detail)
		}
	}
	e.maybe = status >= 500
	return e
}

// Waits after a 429 that names none, and after one that names too short a one.
const (
	unnamedPause = 5 * time.Second
	minPause     = 10 * time.Millisecond
)

// rateLimit returns how long the route of an answer, or every request if global, has to rest. Waits are in seconds,
// with fractions, in headers and body alike (Discord's reference, rate limits).
func rateLimit(status int, h http.Header, body []byte) (pause time.Duration, global bool) {
	if status != http.StatusTooManyRequests {
		if h.Get("X-RateLimit-Remaining") == "0" {
			return parseSeconds(h.Get("X-RateLimit-Reset-After")), false
		}
		return 0, false
	}
	var d struct {
		After  *float64 `json:"retry_after"`
		Global bool     `json:"global"`
	}
	err := json.Unmarshal(body, &d)
	pause = parseSeconds(h.Get("Retry-After"))
	if err == nil && d.After != nil {
		pause = secondsToRest(*d.After)
	}
	if pause <= 0 {
		pause = unnamedPause
	}
	// A body that is not Discord's comes from the proxy in front of it, which has had
	// enough of this whole address.
	return max(pause, minPause), d.Global || h.Get("X-RateLimit-Global") == "true" || err != nil
}

// parseSeconds returns a number of seconds; 0: it is none.
func parseSeconds(s string) time.Duration {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return secondsToRest(f)
}

// secondsToRest returns how long seconds are, at most kit.MaxRest; 0: they are no time.
func secondsToRest(f float64) time.Duration {
	// Compared before they are multiplied: the product may not fit.
	switch {
	case f >= kit.MaxRest.Seconds():
		return kit.MaxRest
	case f > 0:
		return time.Duration(f * float64(time.Second))
	}
	return 0
}

// refusalReason returns in words for people why Discord refused a post.
func refusalReason(e *apiError) string {
	switch e.code {
	case errUnknownChannel:
		return "the channel does not exist, or the bot was removed from its server"
	case errNoAccess:
		return "the bot cannot see this channel; give its role View Channel"
	case errNoPermission:
		return "the bot cannot write here; give its role Send Messages, Send Messages in Threads and Embed Links"
	case errCannotDM:
		return "this person does not take direct messages from the bot"
	case errArchived:
		return "the thread is archived and locked"
	case errBadForm:
		return "Discord refused the form of the message"
	}
	return "Discord refused the message"
}

// postError returns a *chat.PostError for an error of the API: permanent where Discord refused for good, after a pause
// where it refused the token, and with Maybe where the request may have been carried out.
func (d *Discord) postError(err error) error {
	var e *apiError
	if !errors.As(err, &e) {
		return &chat.PostError{Err: err}
	}
	switch {
	case isRefused(err):
		return &chat.PostError{
			Permanent:   true,
			Unreachable: isCode(err, errUnknownChannel, errNoAccess, errNoPermission, errArchived),
			Reason:      refusalReason(e),
			Err:         fmt.Errorf("%s: %w", refusalReason(e), err),
		}
	case isUnauthorized(err):
		return &chat.PostError{After: maxPause, Err: tokenError(err)}
	case isBlocked(err):
		return &chat.PostError{After: maxPause, Err: fmt.Errorf("the proxy in front of Discord blocks the bot: %w", err)}
	}
	return &chat.PostError{Maybe: e.maybe, After: e.after, Err: err}
}
