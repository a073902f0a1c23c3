package slack

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"

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
	mux.HandleFunc("POST /slack/interactive", s.signed(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.WriteHeader(http.StatusOK)
	}))
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
			http.Error(w, "the body is too large or was cut off", http.StatusRequestEntityTooLarge)
			return
		}
		if !s.genuine(r.Header, body) {
			http.Error(w, "the signature is missing, wrong or too old", http.StatusUnauthorized)
			return
		}
		next(w, r, body)
	}
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
		http.Error(w, "the body is no JSON", http.StatusBadRequest)
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
		http.Error(w, "the body is no form", http.StatusBadRequest)
		return
	}
	if !s.up(w, r) {
		return
	}
	m, ok := s.command(slash{TeamID: form.Get("team_id"), ChannelID: form.Get("channel_id"), UserID: form.Get("user_id"),
		UserName: form.Get("user_name"), Text: form.Get("text"), ResponseURL: form.Get("response_url"), TriggerID: form.Get("trigger_id")})
	s.answer(w, r, m, ok)
}

// up waits for Run to know who the bot is.
func (s *Slack) up(w http.ResponseWriter, r *http.Request) bool {
	select {
	case <-s.ready:
		return true
	case <-r.Context().Done():
	}
	http.Error(w, "not ready", http.StatusServiceUnavailable)
	return false
}

// answer says 200 when the message is stored or none of our business.
func (s *Slack) answer(w http.ResponseWriter, r *http.Request, m chat.Message, ok bool) {
	if ok && !s.take(r.Context(), m) {
		http.Error(w, "not stored", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}
