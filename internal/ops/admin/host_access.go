package admin

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ravenbot/internal/mcp/mcpserve"
)

// accessLives are the choices of how long another MCP host gets access, the first one for a start.
var accessLives = []struct {
	Days  int
	Label string
}{{90, "90 days"}, {30, "30 days"}, {365, "a year"}}

// hostAccessView is the page on which the operator lets another MCP host in.
type hostAccessView struct {
	mcpserve.AuthorizationRequest
	Query   string // of the request
	Lives   any
	Problem string
}

// hostAccessPage asks the operator whether another MCP host may use the bot's tools.
func (s *Server) hostAccessPage(w http.ResponseWriter, r *http.Request) {
	q, err := s.o.HostAccess.Read(r.URL.Query(), s.baseURL(r))
	if !s.refuseHostAccess(w, r, err) {
		s.writeHostAccess(w, http.StatusOK, hostAccessView{q, r.URL.RawQuery, accessLives, ""})
	}
}

// grantHostAccess takes the operator's answer.
func (s *Server) grantHostAccess(w http.ResponseWriter, r *http.Request) {
	query := r.PostFormValue("query")
	values, err := url.ParseQuery(query)
	var q mcpserve.AuthorizationRequest
	if err == nil {
		q, err = s.o.HostAccess.Read(values, s.baseURL(r))
	}
	if s.refuseHostAccess(w, r, err) {
		return
	}
	if r.PostFormValue("decision") != "allow" {
		http.Redirect(w, r, s.o.HostAccess.Deny(q, s.baseURL(r)), http.StatusSeeOther)
		return
	}
	tools := strings.FieldsFunc(
		r.PostFormValue("tools"),
		func(c rune) bool { return c == ',' || c == ' ' || c == '\n' || c == '\r' },
	)
	if len(tools) == 0 {
		s.writeHostAccess(w, http.StatusUnprocessableEntity,
			hostAccessView{q, query, accessLives, "Name at least one tool or pattern."})
		return
	}
	life := accessLives[0].Days
	for _, choice := range accessLives {
		if r.PostFormValue("life") == choice.Label {
			life = choice.Days
		}
	}
	access := mcpserve.Access{Tools: tools, Life: time.Duration(life) * 24 * time.Hour}
	http.Redirect(w, r, s.o.HostAccess.Approve(q, access, s.baseURL(r)), http.StatusSeeOther)
}

// refuseHostAccess answers a request that cannot be granted, and reports whether it has.
func (s *Server) refuseHostAccess(w http.ResponseWriter, r *http.Request, err error) bool {
	var refused *mcpserve.RequestError
	switch {
	case err == nil:
		return false
	case errors.As(err, &refused) && refused.Redirect != "":
		http.Redirect(w, r, refused.Redirect, http.StatusSeeOther)
	default:
		s.page(w, http.StatusBadRequest, "note-page", err.Error())
	}
	return true
}

// writeHostAccess shows the page on which access of another MCP host is granted or refused.
func (s *Server) writeHostAccess(w http.ResponseWriter, status int, v hostAccessView) {
	// The answer to the page's form leads to the host: browsers apply the policy for forms to redirects, too.
	w.Header().Set("Content-Security-Policy",
		strings.Replace(contentPolicy, "form-action 'self'", "form-action 'self' "+v.RedirectOrigin(), 1))
	s.page(w, status, "host-access", v)
}
