package admin

import (
	"context"
	"io"
	"net/http"

	"ravenbot/internal/audit"
)

// Audit records changes.
type Audit interface {
	Record(ctx context.Context, e audit.Entry)
	Entries(before string, n int) []audit.Entry
	Verify(ctx context.Context, anchor audit.Link) (audit.Report, error)
	Export(ctx context.Context, w io.Writer) error
}

// withActor returns a request whose changes are recorded as the operator's.
func (s *Server) withActor(r *http.Request, from string) *http.Request {
	return r.WithContext(audit.WithActor(r.Context(), audit.Operator, from))
}

// record records what a request has done, other than change stored items: those are recorded where they are stored.
func (s *Server) record(r *http.Request, action, target string, changes ...audit.Change) {
	if s.o.Audit != nil {
		// It has happened, so it is recorded even when the client is gone.
		s.o.Audit.Record(context.WithoutCancel(r.Context()), audit.Entry{Action: action, Target: target, Changes: changes})
	}
}

// exportAudit writes all entries as JSON lines, oldest first. The export is the last of them.
func (s *Server) exportAudit(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Cache-Control", "no-store")
	if err := s.o.Audit.Export(r.Context(), w); err != nil {
		s.o.Log.Error("failed to export the audit", "error", err)
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
