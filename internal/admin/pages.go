package admin

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/frame"
	"ravenbot/internal/mcpserve"
	"ravenbot/internal/store"
)

//go:embed templates/*.html
var files embed.FS

// templates returns the pages, parsed once.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(frame.New().Funcs(template.FuncMap{
		"iso":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"clock": func(t time.Time) string { return t.UTC().Format("2 Jan 2006 15:04 MST") },
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
	mux.HandleFunc("GET /overview", s.overviewPage)
	mux.HandleFunc("GET /servers", s.serversPage)
	mux.HandleFunc("POST /servers", s.addServerOnPage)
	mux.HandleFunc("POST /servers/{name}/{verb}", s.controlServerOnPage)
	mux.HandleFunc("GET /agents", s.agentsPage)
	mux.HandleFunc("POST /agents", s.saveAgent)
	mux.HandleFunc("POST /agents/rooms", s.chooseAgent)
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
	mux.HandleFunc("POST /grants/{id}/revoke", s.revokeOnPage)
	mux.HandleFunc("GET /digests", s.digestsPage)
	mux.HandleFunc("POST /digests", s.addDigestOnPage)
	mux.HandleFunc("GET /feeds", s.feedsPage)
	mux.HandleFunc("POST /feeds/try", s.tryFeed)
	mux.HandleFunc("GET /posts", s.postsPage)
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

// postsPage shows the posts that could not be delivered, latest first, and the counts of feedback.
func (s *Server) postsPage(w http.ResponseWriter, r *http.Request) {
	list, err := s.o.Conversations.Undelivered(r.Context())
	if err != nil {
		s.showListError(w, r, "posts", err)
		return
	}
	slices.Reverse(list)
	v := postsView{Posts: list}
	words, err := s.o.Conversations.Feedback(r.Context())
	if err != nil {
		// The posts are the point of the page, so it is shown without the counts.
		s.o.Log.Error("failed to list feedback", "path", r.URL.Path, "error", err)
	}
	for _, f := range words {
		if f.Good {
			v.Good++
		} else {
			v.Bad++
		}
	}
	s.page(w, http.StatusOK, "posts", v)
}

// postsView is the page of posts.
type postsView struct {
	Posts     []store.Post
	Good, Bad int // answers found helpful, and not
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
