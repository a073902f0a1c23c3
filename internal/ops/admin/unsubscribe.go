package admin

import (
	"bytes"
	"errors"
	"html/template"
	"net/http"
	"strings"

	"ravenbot/internal/news/digest"
)

// unsubscribeView is the page at which the reader of a mail ends it.
type unsubscribeView struct {
	digest.Mailing
	Style   template.CSS
	Heading string
}

// serveUnsubscribe serves the page behind the link in mails of digests. It reports whether the path is one of these.
// Scanners of mail open links, so GET changes nothing. Mail programs post List-Unsubscribe=One-Click (RFC 8058) without
// a login, and the page its own action.
func (s *Server) serveUnsubscribe(w http.ResponseWriter, r *http.Request) bool {
	token, ours := strings.CutPrefix(r.URL.Path, digest.UnsubscribePath(""))
	if !ours {
		return false
	}
	isPost := r.Method == http.MethodPost
	if !isPost && r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD, POST")
		writeError(w, http.StatusMethodNotAllowed, "method_not_allowed", "this page takes GET and POST", "")
		return true
	}
	m, found, err := s.o.Digests.Mailing(r.Context(), token)
	switch {
	case err != nil:
		s.writeFailure(w, r, "the mailbox could not be looked up", err)
		return true
	case !found:
		if !s.guard.bearers.countFailure(s.guard.clientAddress(r), s.o.Now()) {
			writeTooManyAttempts(w)
			return true
		}
		s.writeUnsubscribePage(w, r, http.StatusNotFound, "This link does not work", digest.Mailing{})
		return true
	case isPost && !readBody(w, r, maxBody):
		return true
	}
	heading := "Get no more of these mails?"
	if isPost {
		// FormValue reads both kinds of bodies that RFC 8058 has mail programs send.
		if m.Stopped, err = s.changeMailing(r, m); err == nil && !m.Stopped {
			heading = "You get these mails again"
		}
	}
	if errors.Is(err, errNoAction) {
		writeHints(w, http.StatusBadRequest, "bad_request", err.Error(), "send List-Unsubscribe=One-Click as a form", "")
		return true
	}
	if err != nil {
		s.writeFailure(w, r, "what you asked for could not be stored", err)
		return true
	}
	if m.Stopped {
		heading = "You are unsubscribed"
	}
	s.writeUnsubscribePage(w, r, http.StatusOK, heading, m)
	return true
}

var errNoAction = errors.New("the request names no action")

// changeMailing does what a posted form asks for, and reports whether the mailbox gets no more mails after that.
func (s *Server) changeMailing(r *http.Request, m digest.Mailing) (stopped bool, err error) {
	switch {
	case r.FormValue("List-Unsubscribe") == "One-Click" || r.FormValue("action") == "stop":
		return true, s.o.Digests.StopMail(r.Context(), m.Digest, m.Mailbox)
	case r.FormValue("action") == "resume":
		if err := s.o.Digests.ResumeMail(r.Context(), m.Digest, m.Mailbox); !errors.Is(err, digest.ErrUnknown) {
			return false, err
		}
		return false, nil // the button was pressed twice
	}
	return m.Stopped, errNoAction
}

// writeUnsubscribePage shows whether a mailbox receives a digest, with the button that changes it.
func (s *Server) writeUnsubscribePage(
	w http.ResponseWriter,
	r *http.Request,
	status int,
	heading string,
	m digest.Mailing,
) {
	var b bytes.Buffer
	v := unsubscribeView{Mailing: m, Style: template.CSS(publishedStyle), Heading: heading}
	if err := templates().ExecuteTemplate(&b, "unsubscribe", v); err != nil {
		s.writeFailure(w, r, "the page could not be made", err)
		return
	}
	w.Header().Set("X-Robots-Tag", "noindex")
	w.Header().Set("Content-Security-Policy", publicPolicy("'self'"))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // whoever asked may be gone
}

// resumeMail has a mailbox that was unsubscribed get a digest again.
func (s *Server) resumeMail(w http.ResponseWriter, r *http.Request) {
	switch err := s.o.Digests.ResumeMail(r.Context(), r.PathValue("name"), r.PathValue("mailbox")); {
	case errors.Is(err, digest.ErrUnknown):
		writeHints(w, http.StatusNotFound, "not_found", "this mailbox has not unsubscribed from the digest",
			"GET /api/v1/digests/{name} lists under unsubscribed which have", "")
	case err != nil:
		s.writeFailure(w, r, "the mailbox could not be subscribed again", err)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// resumeMailOnPage does the same on the page of the digests, and reloads it.
func (s *Server) resumeMailOnPage(w http.ResponseWriter, r *http.Request) {
	err := s.o.Digests.ResumeMail(r.Context(), r.PathValue("name"), r.PathValue("mailbox"))
	if errors.Is(err, digest.ErrUnknown) {
		err = nil
	}
	s.refresh(w, r, err)
}
