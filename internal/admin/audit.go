package admin

import (
	"context"
	"net"
	"net/http"
	"strings"

	"ravenbot/internal/audit"
)

// Audit keeps what was changed.
type Audit interface {
	Record(ctx context.Context, e audit.Entry)
	Entries(before string, n int) []audit.Entry
}

// isReadOnly are changes that change nothing: previews and explanations, what is said in a room and
// what the chat page does.
func isReadOnly(r *http.Request) bool {
	path := r.URL.Path
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return strings.HasPrefix(path, "/chat") || strings.HasSuffix(path, "/messages") ||
		strings.HasSuffix(path, "/preview") || strings.HasSuffix(path, "/explain")
}

// serveAudited serves a request, and notes it where it changed something.
func (s *Server) serveAudited(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if s.o.Audit == nil || isReadOnly(r) {
		next.ServeHTTP(w, r)
		return
	}
	seen := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
	next.ServeHTTP(seen, r)
	if seen.status >= http.StatusBadRequest {
		return
	}
	e := audit.Entry{
		Who:    "session",
		Action: r.Method + " " + r.URL.EscapedPath(),
		Target: strings.TrimPrefix(w.Header().Get("Location"), "/api/v1"),
	}
	if _, ok := bearer(r); ok {
		e.Who = "admin token"
	}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		e.From = host
	}
	s.o.Audit.Record(context.WithoutCancel(r.Context()), e)
}

// statusRecorder is an answer whose status is known.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (o *statusRecorder) WriteHeader(status int) {
	o.status = status
	o.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach what is below.
func (o *statusRecorder) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// listAudit gives changes newest first, ?limit of them from ?next on.
func (s *Server) listAudit(w http.ResponseWriter, r *http.Request) {
	n, err := parseNumber(r.URL.Query().Get("limit"), pageSize)
	if err != nil || n < 1 {
		writeError(w, http.StatusBadRequest, "bad_request", "limit has to be a whole number above 0",
			"leave it out for the newest changes")
		return
	}
	n = min(n, maxPageSize)
	items, next := s.o.Audit.Entries(r.URL.Query().Get("next"), n), ""
	if len(items) == n {
		next = items[n-1].ID
	}
	writePage(w, items, next)
}
