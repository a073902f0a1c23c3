package admin

import (
	"context"
	"io"
	"net/http"
	"strings"

	"ravenbot/internal/audit"
)

// Audit records changes.
type Audit interface {
	Record(ctx context.Context, e audit.Entry)
	Entries(before string, n int) []audit.Entry
	Verify(ctx context.Context, anchor audit.Link) (audit.Report, error)
	Export(ctx context.Context, w io.Writer, by audit.Entry) error
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
		strings.HasSuffix(path, "/preview") || strings.HasSuffix(path, "/explain") ||
		path == "/api/v1/audit/export" // records itself
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
	e := s.requestEntry(r)
	e.Action = r.Method + " " + r.URL.EscapedPath()
	e.Target = strings.TrimPrefix(w.Header().Get("Location"), "/api/v1")
	// The change has happened, so it is recorded even when the client is gone.
	s.o.Audit.Record(context.WithoutCancel(r.Context()), e)
}

// requestEntry returns an entry that says who makes a request, and from where.
func (s *Server) requestEntry(r *http.Request) audit.Entry {
	e := audit.Entry{Who: "session", From: s.guard.clientAddress(r)}
	if _, ok := bearer(r); ok {
		e.Who = "admin token"
	}
	return e
}

// exportAudit writes all entries as JSON lines, oldest first. The export is the last of them.
func (s *Server) exportAudit(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Cache-Control", "no-store")
	if err := s.o.Audit.Export(r.Context(), w, s.requestEntry(r)); err != nil {
		s.o.Log.Error("audit not exported", "error", err)
		// The answer has begun: only its abrupt end can say that it is not whole.
		panic(http.ErrAbortHandler)
	}
}

// verifyAudit checks the chain of the stored entries, which has to hold ?head.
func (s *Server) verifyAudit(w http.ResponseWriter, r *http.Request) {
	anchor, err := audit.ParseLink(r.URL.Query().Get("head"))
	if err != nil {
		writeError(w, http.StatusBadRequest, "bad_request", err.Error(), "leave head out to check the chain alone")
		return
	}
	report, err := s.o.Audit.Verify(r.Context(), anchor)
	if err != nil {
		s.writeFailure(w, r, "the audit", err)
		return
	}
	writeJSON(w, http.StatusOK, report)
}

// statusRecorder remembers the status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader remembers the status for the audit entry.
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
	if _, err := parseNumber(cursor, 0); err != nil {
		writeBadCursor(w)
		return
	}
	items, next := s.o.Audit.Entries(cursor, n), ""
	if len(items) == n {
		next = items[n-1].ID
	}
	writePage(w, items, next)
}
