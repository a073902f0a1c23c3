package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
)

// Callback is where browsers are sent when a person has decided: GET, at
// RedirectURL. It needs no login, for the state in its address is known to that
// browser alone; it works once.
func (b *Broker) Callback() http.Handler { return http.HandlerFunc(b.callback) }

func (b *Broker) callback(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		page(w, http.StatusMethodNotAllowed, "This address is opened by a browser.")
		return
	}
	q := r.URL.Query()
	p, ok := b.take(q.Get("state"))
	if !ok {
		page(w, http.StatusBadRequest, "This link was used before, or is too old. Use what needed it once more to get a new one.")
		return
	}
	err := p.decided(q)
	if err == nil {
		err = p.s.granted(r.Context(), p, q.Get("code"))
	}
	if err != nil {
		b.o.Log.Warn("mcp consent failed", "server", p.Server, "error", err)
		page(w, http.StatusBadRequest, fmt.Sprintf("%s is not connected: %v.", p.Server, err))
		return
	}
	b.o.Log.Info("mcp consent given", "server", p.Server, "per_user", p.User != "")
	if b.o.Granted != nil {
		b.o.Granted(p.Server, p.User)
	}
	page(w, http.StatusOK, p.Server+" is connected. You can close this window.")
}

// decided checks what a browser was sent back with: that it comes from the
// authorization server that was asked (RFC 9207; names are compared as they are),
// and that it is a code.
func (p *pending) decided(q url.Values) error {
	switch iss := q.Get("iss"); {
	case q.Has("iss") && iss != p.place.issuer:
		return errIssuer
	case !q.Has("iss") && p.place.signs:
		return fmt.Errorf("%w: it does not say where it comes from", errIssuer)
	case q.Get("error") != "":
		return fmt.Errorf("the authorization server says %q", plain(q.Get("error")))
	case q.Get("code") == "":
		return errors.New("the authorization server sent no code")
	}
	return nil
}

// ServeHTTP serves the bot's client metadata document, for MetadataURL.
func (b *Broker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.o.MetadataURL == "" {
		http.NotFound(w, r)
		return
	}
	about := b.describe()
	about["client_id"] = b.o.MetadataURL
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=3600")
	_ = json.NewEncoder(w).Encode(about) // a reader that left needs none
}

func page(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<!doctype html><meta charset=utf-8><title>ravenbot</title><p>%s</p>\n", html.EscapeString(text))
}
