package slack

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	slackgo "github.com/slack-go/slack"

	"ravenbot/internal/chat"
)

// maxBody is the most that is read of a request, in bytes.
const maxBody = 1 << 20

// Handler serves /slack/events, /slack/commands and /slack/interactive for HTTP
// mode. Every request needs a good signature no older than five minutes.
func (s *Slack) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /slack/events", s.signed(s.events))
	mux.HandleFunc("POST /slack/commands", s.signed(s.commands))
	mux.HandleFunc("POST /slack/interactive", s.signed(s.interactions))
	return mux
}

// signed checks the signature over the raw body (Slack's version v0).
func (s *Slack) signed(next func(http.ResponseWriter, *http.Request, []byte)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.o.Mode != "http" || s.o.SigningSecret == "" {
			http.NotFound(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			refuse(w, http.StatusRequestEntityTooLarge, "the body is too large or was cut off")
			return
		}
		if !s.genuine(r.Header, body) {
			refuse(w, http.StatusUnauthorized, "the signature is missing, wrong or too old")
			return
		}
		next(w, r, body)
	}
}

// refuse answers in the form of the bot's other errors.
func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{
		"code": strings.ToLower(strings.ReplaceAll(http.StatusText(status), " ", "_")), "message": message, "hint": ""}})
}

func (s *Slack) genuine(h http.Header, body []byte) bool {
	v, err := slackgo.NewSecretsVerifier(h, s.o.SigningSecret)
	if err != nil {
		return false
	}
	if _, err := v.Write(body); err != nil {
		return false
	}
	return v.Ensure() == nil
}

func (s *Slack) events(w http.ResponseWriter, r *http.Request, body []byte) {
	var o outer
	if err := json.Unmarshal(body, &o); err != nil {
		refuse(w, http.StatusBadRequest, "the body is no JSON")
		return
	}
	if o.Type == "url_verification" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = io.WriteString(w, o.Challenge)
		return
	}
	if !s.up(w, r) {
		return
	}
	m, ok := s.message(o)
	s.answer(w, r, m, ok)
}

func (s *Slack) commands(w http.ResponseWriter, r *http.Request, body []byte) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body is no form")
		return
	}
	if !s.up(w, r) {
		return
	}
	m, ok := s.command(slash{TeamID: form.Get("team_id"), ChannelID: form.Get("channel_id"), UserID: form.Get("user_id"),
		UserName: form.Get("user_name"), Text: form.Get("text"), ResponseURL: form.Get("response_url"), TriggerID: form.Get("trigger_id")})
	s.answer(w, r, m, ok)
}

func (s *Slack) interactions(w http.ResponseWriter, r *http.Request, body []byte) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body is no form")
		return
	}
	if !s.up(w, r) {
		return
	}
	m, ok := s.press([]byte(form.Get("payload")))
	s.answer(w, r, m, ok)
}

// up waits for Run to know who the bot is.
func (s *Slack) up(w http.ResponseWriter, r *http.Request) bool {
	select {
	case <-s.ready:
		return true
	case <-r.Context().Done():
	}
	refuse(w, http.StatusServiceUnavailable, "the bot does not know yet who it is on Slack")
	return false
}

// answer says 200 when the message is stored or none of our business.
func (s *Slack) answer(w http.ResponseWriter, r *http.Request, m chat.Message, ok bool) {
	if ok {
		limited, cancel := context.WithTimeout(r.Context(), shortWait)
		s.missed.wait(limited, m.Conversation)
		cancel()
	}
	if ok && !s.take(r.Context(), m) {
		refuse(w, http.StatusServiceUnavailable, "the message could not be stored; send it again")
		return
	}
	w.WriteHeader(http.StatusOK)
}
