package oauth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
)

// Callback serves RedirectURL: links for people, and their return from the authorization server. It needs no login:
// only one person knows a link, and the return must come from the browser that opened the link. Otherwise somebody
// could make another person consent.
func (b *Broker) Callback() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch ticket := r.URL.Query().Get("open"); {
		case ticket != "" && (r.Method == http.MethodGet || r.Method == http.MethodPost):
			b.handleOpen(w, r, ticket)
		case ticket == "" && r.Method == http.MethodGet:
			b.handleReturn(w, r)
		default:
			w.Header().Set("Allow", "GET, POST")
			writePage(w, http.StatusMethodNotAllowed, "This address is opened by a browser.", "")
		}
	})
}

const expiredText = "This link was used before, is too old, or is of a bot that was restarted since. " +
	"Use what needed it once more to get a new one."

// handleOpen describes the purpose of a link, because links can be passed on. Only a click leads to the authorization
// server, because chat platforms fetch links.
func (b *Broker) handleOpen(w http.ResponseWriter, r *http.Request, ticket string) {
	p := b.findTicket(ticket)
	if p == nil {
		writePage(w, http.StatusBadRequest, expiredText, "")
		return
	}
	if r.Method == http.MethodGet {
		// The page names the account, because a link may have been passed on.
		whom := "everybody who may use this bot"
		if p.User != "" {
			whom = p.User + " alone: go on only if that is you"
		}
		text := fmt.Sprintf("Connect ravenbot to %s (%s). What you allow there will be used for %s.",
			p.Server, p.s.origin(), whom)
		writePage(w, http.StatusOK, text, "<form method=post><button>Continue</button></form>")
		return
	}
	// Other sites must not be able to press the button.
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		writePage(w, http.StatusForbidden, "Open the link itself.", "")
		return
	}
	cookie := &http.Cookie{
		Name:     cookieName,
		Value:    cmp.Or(browserID(r), rand.Text()),
		Path:     b.path,
		MaxAge:   int(consentLifetime.Seconds()),
		HttpOnly: true,
		Secure:   strings.HasPrefix(b.o.RedirectURL, "https:"),
		SameSite: http.SameSiteLaxMode,
	}
	if !b.markOpened(p, cookie.Value) {
		writePage(w, http.StatusBadRequest, expiredText, "")
		return
	}
	http.SetCookie(w, cookie)
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, p.consentURL, http.StatusSeeOther)
}

// cookieName is the cookie that identifies the browser that opened the link. It lasts as long as the consent.
const cookieName = "ravenbot_consent"

func browserID(r *http.Request) string {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// handleReturn handles the return of a browser from the authorization server. It ends the consent in any case.
func (b *Broker) handleReturn(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p, ok := b.takePending(q.Get("state"))
	if !ok {
		writePage(w, http.StatusBadRequest, expiredText, "")
		return
	}
	err := p.checkAnswer(q)
	// Without this check one person could complete the link that another person opened.
	if id := browserID(r); id == "" || subtle.ConstantTimeCompare([]byte(id), []byte(p.browser)) != 1 {
		err = errors.New("this is not the browser in which the link was opened, or it keeps no cookies")
	}
	if err == nil {
		// The code works only once, so a closed browser must not end this.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), flowTimeout)
		defer cancel()
		err = p.s.exchangeCode(ctx, p, q.Get("code"))
	}
	if err != nil {
		b.o.Log.Warn("mcp consent failed", "server", p.Server, "error", err)
		writePage(w, http.StatusBadRequest, fmt.Sprintf("%s is not connected: %v.", p.Server, err), "")
		return
	}
	b.o.Log.Info("mcp consent given", "server", p.Server, "per_user", p.User != "")
	if b.o.OnGranted != nil {
		b.o.OnGranted(p.Server, p.User)
	}
	writePage(w, http.StatusOK, p.Server+" is connected. You can close this window.", "")
}

var errIssuer = errors.New("the answer does not come from the authorization server that was asked")

// checkAnswer checks that the return of a browser contains a code and comes from the right authorization server (RFC
// 9207). The conformance suite demands that issuers are compared exactly.
func (p *pending) checkAnswer(q url.Values) error {
	switch iss := q.Get("iss"); {
	case q.Has("iss") && iss != p.target.issuer:
		return errIssuer
	case !q.Has("iss") && p.target.signs:
		return fmt.Errorf("%w: it does not say where it comes from", errIssuer)
	case q.Get("error") != "":
		return fmt.Errorf("the authorization server says %q", printable(q.Get("error")))
	case q.Get("code") == "":
		return errors.New("the authorization server sent no code")
	}
	return nil
}

// ServeHTTP serves the bot's client metadata document, if MetadataURL is set (OAuth Client ID Metadata Documents, MCP
// specification of 2025-11-25). The document is public.
func (b *Broker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.o.MetadataURL == "" {
		http.NotFound(w, r)
		return
	}
	about := b.clientMetadata()
	about["client_id"] = b.o.MetadataURL
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=3600")
	_ = json.NewEncoder(w).Encode(about) // fails only if the reader has left
}

func writePage(w http.ResponseWriter, status int, text, more string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<!doctype html><meta charset=utf-8><title>ravenbot</title><p>%s</p>%s\n", html.EscapeString(text), more)
}
