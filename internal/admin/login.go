package admin

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"
)

//go:embed templates/login.css
var loginStyle string

// loginPolicy returns the content policy of the login page. The page may load nothing that needs a login, so
// its style is inline, and the policy allows that one style by its hash.
func loginPolicy() string {
	sum := sha256.Sum256([]byte(loginStyle))
	// The page has an empty icon, so that browsers do not request /favicon.ico.
	own := strings.Replace(contentPolicy, "img-src 'self'", "img-src data:", 1)
	return strings.Replace(own, "style-src 'self'", "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'", 1)
}

// loginView is the login page.
type loginView struct {
	Style   template.CSS
	Problem string
}

// login accepts a one-time link or the admin token.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	var token, wrong string
	var right func(string) bool
	switch {
	case r.Method == http.MethodPost:
		token, right = r.PostFormValue("token"), s.sessions.isToken
		wrong = "That is not the admin token. You find it as http.adminToken in config.json, or in the file beside the store."
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD, POST")
		writeError(w, http.StatusMethodNotAllowed, "method_not_allowed", "login takes GET and POST", "")
		return
	case r.Method == http.MethodGet && r.URL.Query().Has("token"):
		token, right = r.URL.Query().Get("token"), s.sessions.redeem
		wrong = "This link was used before or has expired. " +
			"Enter the admin token instead, or take a new link from the bot's log after a restart."
	default:
		s.loginPage(w, http.StatusOK, "")
		return
	}
	// Before the comparison: guessing must stop also for a right token.
	if s.guard.logins.isFull(r, s.o.Now()) {
		w.Header().Set("Retry-After", "60")
		s.loginPage(w, http.StatusTooManyRequests, "Too many attempts; wait a minute.")
		return
	}
	s.guard.logins.countAttempt(r, s.o.Now())
	if !right(strings.TrimSpace(token)) {
		s.o.Log.Warn("login refused", "address", address(r))
		s.loginPage(w, http.StatusUnauthorized, wrong)
		return
	}
	s.sessions.start(w, s.guard.isSecure(r))
	// The redirect also takes the used link out of the address bar.
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (s *Server) loginPage(w http.ResponseWriter, status int, problem string) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "login", loginView{template.CSS(loginStyle), problem}); err != nil {
		panic(err)
	}
	w.Header().Set("Content-Security-Policy", loginPolicy())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the reader is gone when this fails
}

// logout ends the session of the request.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	s.sessions.logOut(w, r)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
