package admin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"ravenbot/internal/ops/audit"
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

// loadAudit fills in the page of the audit.
func (s *Server) loadAudit(r *http.Request, v *listView) error {
	f := v.addFilter(r)
	who := f.add(r, "who", "Who")
	since, until := f.addDate(r, "since", "From"), f.addDate(r, "until", "To")
	empty, entries := explainDates(since, until), []audit.Entry(nil)
	if empty == "" {
		empty, entries = "No entries.", s.o.Audit.Entries(r.FormValue("before"), audit.MaxEntries)
	}
	var rows [][]any
	oldest := ""
	for _, e := range entries {
		day, changed := e.Time.UTC().Format(time.DateOnly), changesText(e.Changes)
		if since != "" && day < since || until != "" && day > until || !strings.Contains(strings.ToLower(e.Who), who) ||
			!f.has(e.Who, e.Action, e.Target, e.From, changed) {
			continue
		}
		if len(rows) == pageSize {
			v.Older = f.Address() + "&before=" + oldest
			break
		}
		oldest = e.ID
		var changes any = changed
		if len(e.Changes) > 1 {
			changes = folded{countText(uint64(len(e.Changes)), "field", "fields"), changed}
		}
		rows = append(rows, []any{e.Time, e.Who, e.Action, e.Target, changes, e.From})
	}
	v.addTable(empty, rows, "When", "Who", "Action", "Target", "Changes", "From")
	report, err := s.o.Audit.Verify(r.Context(), audit.Link{})
	n := countText(uint64(report.Entries), "entry", "entries")
	v.Notes = append(v.Notes, pill{Text: "The chain of " + n + " is intact."})
	if report.Problem != "" {
		v.Notes = []pill{{"error", "The chain is broken: " + report.Problem + "."}}
	}
	return err
}

// explainDates says what is wrong with the days of a filter, which may be empty; "": nothing.
func explainDates(since, until string) string {
	for _, day := range []string{since, until} {
		if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
			return fmt.Sprintf("%.40q is no date. Write it as year-month-day, such as 2026-03-04.", day)
		}
	}
	if until != "" && since > until {
		return "The date in From is after the date in To."
	}
	return ""
}

// changesText lists changed fields, one in a line.
func changesText(list []audit.Change) string {
	lines := make([]string, len(list))
	for i, c := range list {
		lines[i] = fmt.Sprintf("%s: %s → %s", c.Field, cmp.Or(c.Old, "nothing"), cmp.Or(c.New, "nothing"))
	}
	return strings.Join(lines, "\n")
}
