package admin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"ravenbot/internal/mcp/mcpserve"
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
	Next    string // where to go on after the login; empty: the first page
}

// loginPath returns the path of the login for a request that needs one. Who comes from another MCP host goes on there
// afterwards.
func loginPath(r *http.Request) string {
	if r.Method == http.MethodGet && r.URL.Path == mcpserve.AuthorizePath {
		return "/login?next=" + url.QueryEscape(r.URL.RequestURI())
	}
	return "/login"
}

// nextPath returns where to go on after a login. Only a page of ours will do.
func nextPath(r *http.Request) string {
	next := r.FormValue("next")
	if !strings.HasPrefix(next, mcpserve.AuthorizePath+"?") {
		return ""
	}
	return next
}

// login accepts a one-time link or the admin token.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	var isRight bool
	var wrong string
	switch {
	case r.Method == http.MethodPost:
		isRight = s.sessions.isToken(strings.TrimSpace(r.PostFormValue("token")))
		wrong = "That is not the admin token. You find it as http.adminToken in config.json, or in the file next to the store."
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD, POST")
		writeError(w, http.StatusMethodNotAllowed, "method_not_allowed", "login takes GET and POST", "")
		return
	case r.Method == http.MethodGet && r.URL.Query().Has("token"):
		var err error
		if isRight, err = s.redeem(r.Context(), strings.TrimSpace(r.URL.Query().Get("token"))); err != nil {
			s.o.Log.Error("failed to check a login link", "error", err)
			s.loginPage(w, r, http.StatusServiceUnavailable, "I could not check the link. Open it again in a minute.")
			return
		}
		wrong = "This link was used before or has expired. " +
			"Enter the admin token instead, or have ravenbot login print a new link."
	default:
		s.loginPage(w, r, http.StatusOK, "")
		return
	}
	// A right token or link passes whatever was tried before: who guesses must not lock the operator out, and what the
	// bot makes itself cannot be guessed.
	if !isRight {
		s.refuseLogin(w, r, wrong)
		return
	}
	s.sessions.start(w, s.guard.isSecure(r))
	s.record(s.withActor(r, s.guard.clientAddress(r)), "login", "web pages")
	// The redirect also takes the used link out of the address bar.
	http.Redirect(w, r, cmp.Or(nextPath(r), "/"), http.StatusSeeOther)
}

// refuseLogin answers a login with a wrong token or link.
func (s *Server) refuseLogin(w http.ResponseWriter, r *http.Request, wrong string) {
	from := s.guard.clientAddress(r)
	switch {
	// Any page can make the operator's browser send these; they are no attempts of anybody.
	case r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site":
	case !s.guard.logins.countFailure(from, s.o.Now()):
		w.Header().Set("Retry-After", "60")
		s.loginPage(w, r, http.StatusTooManyRequests, "Too many wrong tokens; wait a minute, or enter the right one.")
		return
	default:
		s.o.Log.Warn("login refused", "address", from)
	}
	s.loginPage(w, r, http.StatusUnauthorized, wrong)
}

// loginPage shows the form for the admin token, with the reason why the last try failed.
func (s *Server) loginPage(w http.ResponseWriter, r *http.Request, status int, problem string) {
	var b bytes.Buffer
	v := loginView{template.CSS(loginStyle), problem, nextPath(r)}
	if err := templates().ExecuteTemplate(&b, "login", v); err != nil {
		panic(err)
	}
	w.Header().Set("Content-Security-Policy", loginPolicy())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the reader is gone when this fails
}

// createLoginLink writes the path of a link that logs a browser in once.
func (s *Server) createLoginLink(w http.ResponseWriter, r *http.Request) {
	s.record(r, "login link created", "web pages")
	writeJSON(w, http.StatusCreated, map[string]string{"path": s.LoginLink("")})
}

// logout ends the session of the request. Where that cannot be stored, it counts until this process ends.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	if id, until, ok := s.sessions.logOut(w, r); ok {
		err := s.o.Logouts.EndSession(context.WithoutCancel(r.Context()), id, until, s.o.Now())
		if err != nil {
			s.o.Log.Warn("failed to store a logout; it counts in this process only", "error", err)
		}
		s.record(r, "logout", "web pages")
	}
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
