package slack

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
)

// maxBody is the most that is read of a request, in bytes.
const maxBody = 1 << 20

// Handler serves /slack/events, /slack/commands and /slack/interactive for HTTP mode; in socket mode they are not
// found. Every request needs a valid signature no older than five minutes, and takes effect once. Slack gets 200 when a
// message is stored, and 503 when it is to send it again.
func (s *Slack) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /slack/events", s.requireSignature(s.serveEvent))
	mux.HandleFunc("POST /slack/commands", s.requireSignature(s.serveCommand))
	mux.HandleFunc("POST /slack/interactive", s.requireSignature(s.serveInteraction))
	return mux
}

// requireSignature checks the signature over the raw body (Slack's version v0). next returns
// whether the request was taken and need not be taken again.
func (s *Slack) requireSignature(
	next func(http.ResponseWriter, *http.Request, []byte) (taken bool),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.o.Mode != "http" || s.o.SigningSecret == "" {
			http.NotFound(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			writeError(w, http.StatusRequestEntityTooLarge, "the body is too large or was cut off")
			return
		}
		off, isGenuine := s.checkSignature(r.Header, body)
		if isGenuine && off.Abs() > signatureLife {
			s.noteAge(off)
		}
		if !isGenuine || off.Abs() > signatureLife {
			writeError(w, http.StatusUnauthorized, "the signature is missing, wrong or too old")
			return
		}
		signed := r.Header.Get("X-Slack-Signature")
		// A replayed request is answered as if it were taken, so that its sender learns nothing.
		if s.replays.has(signed) {
			w.WriteHeader(http.StatusOK)
			return
		}
		// Noted afterwards: what was not taken must be taken when Slack sends it again.
		if next(w, r, body) {
			s.replays.add(signed, s.o.Now())
		}
	}
}

const (
	// signatureLife is how far the time of a signature may be from ours
	// (https://docs.slack.dev/authentication/verifying-requests-from-slack).
	signatureLife = 5 * time.Minute
	// replayWindow is how long a signature can be valid: before and after the time that it names.
	replayWindow = 2 * signatureLife
	// ageEvery is how often the log says that what Slack signed is too old or too new.
	ageEvery = 10 * time.Minute
)

// replays remembers the signatures of requests that were taken, for as long as they are valid. A
// genuine retry that Slack sends within the same second has the same signature.
type replays struct {
	mu         sync.Mutex
	young, old map[string]bool
	since      time.Time // when young was begun
}

// has reports whether a request with a signature was taken not long ago.
func (r *replays) has(signature string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.young[signature] || r.old[signature]
}

// add notes that a request was taken. Two maps take turns, so that nothing has to be deleted one by one; a signature
// stays for one window at least.
func (r *replays) add(signature string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young == nil || now.Sub(r.since) > replayWindow {
		r.young, r.old, r.since = map[string]bool{}, r.young, now
	}
	r.young[signature] = true
}

// writeError answers with an error in the form of the bot's other errors.
func writeError(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{
		"code": strings.ToLower(
			strings.ReplaceAll(http.StatusText(status), " ", "_"),
		), "message": message, "hint": ""}})
}

// checkSignature reports whether a body was signed with the app's secret, and how far our clock is ahead of the time at
// which that was. Of that time slack-go judges by the clock of this machine, which need not be ours (v0.34.0, 2026-11).
func (s *Slack) checkSignature(h http.Header, body []byte) (off time.Duration, isGenuine bool) {
	at := h.Get("X-Slack-Request-Timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return 0, false
	}
	sum := hmac.New(sha256.New, []byte(s.o.SigningSecret))
	_, _ = fmt.Fprintf(sum, "v0:%s:%s", at, body) // a hash takes everything
	// In one form alone: a request could else be replayed in another.
	want := "v0=" + hex.EncodeToString(sum.Sum(nil))
	return s.o.Now().Sub(time.Unix(seconds, 0)), hmac.Equal([]byte(want), []byte(h.Get("X-Slack-Signature")))
}

// noteAge logs now and then that requests with the right signature are refused for their age.
func (s *Slack) noteAge(off time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.agedAt) > ageEvery {
		s.agedAt = now
		s.o.Log.Warn("refused a request of Slack: its signature has expired", "clock_ahead", off.Round(time.Second),
			"remedy", "set the clock of this machine, unless somebody repeats old requests")
	}
}

// serveEvent takes an event, or answers the question by which Slack checks the address.
func (s *Slack) serveEvent(w http.ResponseWriter, r *http.Request, body []byte) (taken bool) {
	var o struct {
		Type      string `json:"type"`
		Challenge string `json:"challenge"`
	}
	if err := json.Unmarshal(body, &o); err != nil {
		writeError(w, http.StatusBadRequest, "the body is no JSON")
		return false
	}
	// Slack proves in this way that the address is ours, before there is any event.
	if o.Type == "url_verification" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = io.WriteString(w, o.Challenge)
		return false // the same answer is due each time
	}
	return s.takeAndAnswer(w, r, request{Kind: eventsKind, Payload: body})
}

// serveCommand takes a slash command, which comes as a form.
func (s *Slack) serveCommand(w http.ResponseWriter, r *http.Request, body []byte) (taken bool) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		writeError(w, http.StatusBadRequest, "the body is not a form")
		return false
	}
	// In the form that a socket brings, because the process that the channel belongs to parses it.
	payload, err := json.Marshal(wireCommand{
		TeamID:      form.Get("team_id"),
		OrgWide:     form.Get("is_enterprise_install") == "true",
		ChannelID:   form.Get("channel_id"),
		UserID:      form.Get("user_id"),
		UserName:    form.Get("user_name"),
		Text:        form.Get("text"),
		ResponseURL: form.Get("response_url"),
		TriggerID:   form.Get("trigger_id"),
	})
	if err != nil {
		writeError(w, http.StatusBadRequest, "the command cannot be read")
		return false
	}
	return s.takeAndAnswer(w, r, request{Kind: commandsKind, Payload: payload})
}

// serveInteraction takes a press, a shortcut or a form that was sent: JSON in a field of a form.
func (s *Slack) serveInteraction(w http.ResponseWriter, r *http.Request, body []byte) (taken bool) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		writeError(w, http.StatusBadRequest, "the body is not a form")
		return false
	}
	return s.takeAndAnswer(w, r, request{Kind: interactiveKind, Payload: []byte(form.Get("payload"))})
}

// awaitReady waits until Run knows who the bot is; false: the request ended first and has an answer. Without knowing
// it, the bot would take its own posts for those of others.
func (s *Slack) awaitReady(w http.ResponseWriter, r *http.Request) bool {
	// First alone: what has arrived is taken, also where Slack has hung up.
	select {
	case <-s.ready:
		return true
	default:
	}
	select {
	case <-s.ready:
		return true
	case <-r.Context().Done():
	}
	writeError(w, http.StatusServiceUnavailable, "the bot does not know yet who it is on Slack")
	return false
}

// takeAndAnswer answers 200 when the message of a request is stored or does not concern the bot, else 503.
func (s *Slack) takeAndAnswer(w http.ResponseWriter, r *http.Request, in request) (taken bool) {
	if !s.awaitReady(w, r) {
		return false
	}
	takeNow := s.parseAndTake
	if in.Kind == eventsKind {
		takeNow = s.takeInTurn
	}
	answer, err := takeNow(r.Context(), in, time.Now())
	switch {
	case err != nil:
		writeError(w, http.StatusServiceUnavailable, "the message could not be stored; send it again")
	case len(answer) > 0:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	default:
		w.WriteHeader(http.StatusOK)
	}
	return err == nil
}

// takeInTurn takes an event behind the earlier ones of its channel, as a socket does. It goes on with that when Slack has
// hung up, after three seconds: the store may be slow, but Slack sends the event again at once, when it meets the same, and
// then after a minute.
func (s *Slack) takeInTurn(ctx context.Context, in request, arrived time.Time) (json.RawMessage, error) {
	result := make(chan error, 1) // the queue never waits for this request
	s.events.Do(in.channel(), func() {
		_, err := s.parseAndTake(s.running, in, arrived) // an event has no answer but that it was taken
		result <- err
	})
	select {
	case err := <-result:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.running.Done():
		return nil, s.running.Err()
	}
}

// parseAndTake takes a request, and returns what Slack is to be answered.
func (s *Slack) parseAndTake(ctx context.Context, in request, arrived time.Time) (json.RawMessage, error) {
	m, ok := s.parseRequest(in)
	return s.take(ctx, m, ok, arrived)
}

// errNotStored is returned for a message that Slack has to send again.
var errNotStored = errors.New("the message could not be stored")

// take stores a message that needs an answer at once, or opens the form that it asks for, and returns what Slack is to
// be answered: nil for nothing in particular. arrived is when Slack sent the request.
func (s *Slack) take(ctx context.Context, m chat.Message, ok bool, arrived time.Time) (json.RawMessage, error) {
	if !ok {
		return nil, nil
	}
	if faults := s.checkForm(ctx, &m); faults != nil {
		return faults, nil
	}
	if isInteraction(m) && s.openFormFor(ctx, &m) {
		return nil, nil
	}
	if m.Kind() != chat.EventReaction {
		// Slack waits three seconds for the answer to a request, and sends an event again after that.
		limited, cancel := context.WithDeadline(ctx, arrived.Add(interactionWait))
		s.awaitMissed(limited, m.Conversation)
		cancel()
	}
	if !s.takeMessage(ctx, m) {
		return nil, errNotStored
	}
	return nil, nil
}
