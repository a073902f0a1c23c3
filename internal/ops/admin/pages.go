package admin

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/feature/approval"
	"ravenbot/internal/feature/jobs"
	"ravenbot/internal/mcp"
	"ravenbot/internal/mcp/mcpserve"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/ops/frame"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/roster"
)

//go:embed templates/*.html
var files embed.FS

// templates returns the pages, parsed once.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(frame.New().Funcs(template.FuncMap{
		"iso":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"clock": func(t time.Time) string { return t.UTC().Format("2 Jan 2006 15:04 MST") },
		"kind":  cellKind,
		"count": func(n int, one, several string) string { return countText(uint64(n), one, several) },
		"path":  url.PathEscape,
		"took":  func(ms float64) string { return secondsText(ms / 1000) },
		"web": func(link string) bool {
			return strings.HasPrefix(link, "https://") || strings.HasPrefix(link, "http://")
		},
	}).ParseFS(files, "templates/*.html"))
})

// dashboard returns the routes behind the login that are no API: the pages about the bot, and the chat page
// for everything else.
func (s *Server) dashboard() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /logout", s.logout)
	for _, p := range s.listPages() {
		mux.HandleFunc("GET "+p.Path, s.serveList(p))
	}
	s.listActions(mux)
	mux.HandleFunc("GET /overview", s.overviewPage)
	mux.HandleFunc("GET /servers", s.serversPage)
	mux.HandleFunc("POST /servers", s.addServerOnPage)
	mux.HandleFunc("POST /servers/{name}/{verb}", s.controlServerOnPage)
	mux.HandleFunc("GET /agents", s.agentsPage)
	mux.HandleFunc("POST /agents", s.saveAgent)
	mux.HandleFunc("POST /agent-rooms", s.chooseAgent)
	mux.HandleFunc("GET /agents/{name}", s.agentPage)
	mux.HandleFunc("POST /agents/{name}", s.saveAgent)
	mux.HandleFunc("POST /agents/{name}/remove", s.removeAgent)
	mux.HandleFunc("POST /agents/{name}/files", s.uploadFilesOnPage)
	mux.HandleFunc("POST /agents/{name}/files/{file}/remove", s.deleteFileOnPage)
	if s.o.HostAccess != nil {
		mux.HandleFunc("GET "+mcpserve.AuthorizePath, s.hostAccessPage)
		mux.HandleFunc("POST "+mcpserve.AuthorizePath, s.grantHostAccess)
	}
	mux.HandleFunc("GET /calls", s.callsPage)
	mux.HandleFunc("POST /calls/{id}/approve", s.decideOnPage(true))
	mux.HandleFunc("POST /calls/{id}/deny", s.decideOnPage(false))
	mux.HandleFunc("POST /grants/{id}/revoke", s.act("The tool asks again from now on.", func(r *http.Request) error {
		return s.o.Grants.Revoke(r.Context(), r.PathValue("id"))
	}))
	mux.HandleFunc("GET /digests", s.digestsPage)
	mux.HandleFunc("POST /digests", s.addDigestOnPage)
	mux.HandleFunc("POST /digests-try", s.tryDigest)
	mux.HandleFunc("GET /digests/{name}/edit", s.editDigestPage)
	mux.HandleFunc("POST /digests/{name}", s.changeDigestOnForm)
	mux.HandleFunc("POST /digests/{name}/try", s.tryDigest)
	mux.HandleFunc("GET /feeds", s.feedsPage)
	mux.HandleFunc("POST /feeds/try", s.tryFeed)
	mux.HandleFunc("GET /settings", s.settingsForm)
	mux.HandleFunc("POST /settings", s.saveSettings)
	mux.HandleFunc("POST /digests/{name}/preview", s.previewPage)
	mux.HandleFunc("POST /digests/{name}/run", s.runDigestOnPage)
	mux.HandleFunc("POST /digests/{name}/explain", s.explainPage)
	mux.HandleFunc("POST /digests/{name}/{verb}", s.changeDigestOnPage)
	mux.HandleFunc("POST /digests/{name}/unsubscribed/{mailbox}/remove", s.resumeMailOnPage)
	if s.o.Static != nil {
		mux.Handle("GET /static/", s.o.Static)
	}
	if s.o.Chat != nil {
		mux.HandleFunc("POST /chat/{room}/delete", s.deleteRoomOnPage)
		mux.Handle("/", s.o.Chat)
	} else {
		mux.Handle("GET /{$}", http.RedirectHandler("/overview", http.StatusSeeOther))
	}
	return mux
}

// page writes a template with v.
func (s *Server) page(w http.ResponseWriter, status int, name string, v any) {
	// Into a buffer first, so that a failing template is a clean error and not half a page.
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, name, v); err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the reader is gone when this fails
}

// refusals are the errors that a page shows in full, because the sender of the request can act on them.
var refusals = []error{mcp.ErrNotFound, mcp.ErrExists, mcp.ErrConfigured, mcp.ErrDisabled, mcp.ErrChanged,
	roster.ErrNotFound, roster.ErrExists, roster.ErrConfigured, roster.ErrNoFile, digest.ErrUnknown, digest.ErrConfigured,
	digest.ErrExists, jobs.ErrUnknown, mcpserve.ErrNoToken, mcpserve.ErrTokenExists, mcpserve.ErrTokenName,
	mcpserve.ErrTokenTools, approval.ErrUnknown, approval.ErrDecided, approval.ErrScope, store.ErrNotFound}

// showResult answers a button or a form of a page. After a success the lists on the page reload.
func (s *Server) showResult(w http.ResponseWriter, r *http.Request, err error, done string) {
	var unread *digest.UnreadError
	switch {
	case err == nil:
		w.Header().Set("HX-Trigger", "changed")
		s.page(w, http.StatusOK, "done", done)
	case isBadInput(err), errors.As(err, &unread),
		slices.ContainsFunc(refusals, func(known error) bool { return errors.Is(err, known) }):
		s.page(w, http.StatusUnprocessableEntity, "problem", "Not done: "+err.Error()+".")
	default:
		ref := newReference()
		s.o.Log.Error("failed to carry out a request of a page", "reference", ref, "path", r.URL.Path, "error", err)
		s.page(w, http.StatusInternalServerError, "problem",
			"Something went wrong (reference "+ref+"); the bot's log has the reason.")
	}
}

// refresh is showResult for a change after which the whole page is loaded again, because its buttons change.
func (s *Server) refresh(w http.ResponseWriter, r *http.Request, err error) {
	if err == nil {
		w.Header().Set("HX-Refresh", "true")
	}
	s.showResult(w, r, err, "Done.")
}
