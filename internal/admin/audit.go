package admin

import (
	"context"
	"net"
	"net/http"
	"strings"

	"ravenbot/internal/audit"
)

// Audit records changes.
type Audit interface {
	Record(ctx context.Context, e audit.Entry)
	Entries(before string, n int) []audit.Entry
}

// isReadOnly reports whether a request changes no configuration: previews and explanations, messages in a
// room, and everything of the chat page.
func isReadOnly(r *http.Request) bool {
	path := r.URL.Path
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return strings.HasPrefix(path, "/chat") || strings.HasSuffix(path, "/messages") ||
		strings.HasSuffix(path, "/preview") || strings.HasSuffix(path, "/explain")
}

// serveAudited serves a request, and records it when it changed something.
func (s *Server) serveAudited(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if s.o.Audit == nil || isReadOnly(r) {
		next.ServeHTTP(w, r)
		return
	}
	// A handler that writes no status succeeds with 200.
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
	// The change has happened, so it is recorded even when the client is gone.
	s.o.Audit.Record(context.WithoutCancel(r.Context()), e)
}

// statusRecorder remembers the status of an answer.
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

// listAudit writes the changes, newest first: ?limit of them, after the page that returned ?cursor as next.
func (s *Server) listAudit(w http.ResponseWriter, r *http.Request) {
	n, cursor, ok := parsePage(w, r)
	if !ok {
		return
	}
	items, next := s.o.Audit.Entries(cursor, n), ""
	if len(items) == n {
		next = items[n-1].ID
	}
	writePage(w, items, next)
}
