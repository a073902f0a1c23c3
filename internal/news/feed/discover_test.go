package feed

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/ops/egress"
)

func TestKnownSites(t *testing.T) {
	for page, want := range map[string]string{
		"https://www.youtube.com/channel/UC_x5XG1OV2P6uZZ5FSM9Ttw/videos": "https://www.youtube.com/feeds/videos.xml?channel_id=UC_x5XG1OV2P6uZZ5FSM9Ttw",
		"https://m.youtube.com/playlist?list=PL1&x=2":                     "https://www.youtube.com/feeds/videos.xml?playlist_id=PL1",
		"https://www.youtube.com/@golang":                                 "",
		"https://github.com/golang/go.git": "https://github.com/golang/go/releases.atom " +
			"https://github.com/golang/go/tags.atom https://github.com/golang/go/commits.atom",
		"https://github.com/golang/go/releases": "https://github.com/golang/go/releases.atom " +
			"https://github.com/golang/go/tags.atom https://github.com/golang/go/commits.atom",
		"https://github.com/rsc":              "https://github.com/rsc.atom",
		"https://github.com/":                 "",
		"https://gitlab.com/a/b/-/issues":     "https://gitlab.com/a/b/-/tags?format=atom",
		"https://old.reddit.com/r/golang/top": "https://www.reddit.com/r/golang/.rss",
		"https://www.reddit.com/u/spez":       "https://www.reddit.com/user/spez/.rss",
		"https://www.reddit.com/user/spez/":   "https://www.reddit.com/user/spez/.rss",
		"https://www.reddit.com/":             "",
		"https://bsky.app/profile/go.dev":     "https://bsky.app/profile/go.dev/rss",
		"https://notgithub.com/a/b":           "",
	} {
		u, err := url.Parse(page)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range documentedFeeds(u) {
			got = append(got, l.URL)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", page, got, want)
		}
	}
}

func TestFind(t *testing.T) {
	s, f := newSite(t)
	page := func(head string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "<!doctype html><head>%s</head>", head) }
	}
	feed := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/rss+xml; charset=utf-8")
		fmt.Fprint(w, rss)
	}
	s.mux.HandleFunc("/feed.rss", feed)
	s.mux.HandleFunc("/two", page(`<link rel="alternate" type="application/rss+xml" title="All" href="feed.rss"><link `+
		`rel=alternate type="application/atom+xml" href="/other">`))
	s.mux.HandleFunc("/@raven", page("a profile"))
	s.mux.HandleFunc("/@raven.rss", feed)
	s.mux.HandleFunc("/none", page(""))
	s.mux.Handle("/moved", http.RedirectHandler("/two", http.StatusFound))
	s.mux.Handle("/feed", http.RedirectHandler("/feed.rss", http.StatusFound))
	s.mux.HandleFunc("/rss.xml", page("a front page in the place of a feed"))
	self := Link{Title: "Harbour & Town", Type: "application/rss+xml"}
	at := func(path string) Link { l := self; l.URL = s.URL + path; return l }
	two := []Link{{URL: s.URL + "/feed.rss", Title: "All", Type: "application/rss+xml"},
		{URL: s.URL + "/other", Type: "application/atom+xml"}}
	for path, want := range map[string][]Link{"/feed.rss": {at("/feed.rss")}, "/two": two, "/moved": two,
		"/@raven": {at("/@raven.rss")}} {
		got, err := f.Find(t.Context(), s.URL+path)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s (-want +got):\n%s%v", path, diff, err)
		}
	}
	if _, err := f.Find(t.Context(), s.URL+"/none"); !errors.Is(err, ErrNoFeed) {
		t.Errorf("a page without a feed: %v", err)
	}
	s.mux.HandleFunc("/index.xml", feed)
	if got, err := f.Find(t.Context(), s.URL+"/none"); err != nil || len(got) != 1 || got[0].URL != s.URL+"/index.xml" {
		t.Errorf("a feed in a usual place: %+v, %v", got, err)
	}
	if got, err := f.Find(t.Context(), "bundled:demo"); err != nil || got[0].Title != "Harbour & Town" {
		t.Errorf("a bundled feed: %+v, %v", got, err)
	}
}

func TestFindFails(t *testing.T) {
	s, f := newSite(t)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page":
			fmt.Fprint(w, "<html>")
		case "/gone":
			w.WriteHeader(http.StatusGone)
		default:
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	var status *StatusError
	var wait *WaitError
	if _, err := f.Find(t.Context(), s.URL+"/gone"); !errors.As(err, &status) {
		t.Errorf("a page that is gone: %v", err)
	}
	if _, err := f.Find(t.Context(), s.URL+"/page"); !errors.As(err, &wait) ||
		!strings.Contains(err.Error(), "usual places failed") {
		t.Errorf("a server that has had enough: %v", err)
	}
	for _, address := range []string{"", "ftp://a.example/", "https://", "http://[bad"} {
		if _, err := f.Find(t.Context(), address); !errors.Is(err, egress.ErrURL) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestDiscover(t *testing.T) {
	page := `<html><head><base href="https://b.example/blog/">
		<link rel="ALTERNATE home" type="Application/Atom+XML" title=" All
		posts " href="atom.xml"><link rel="alternate" type="application/rss+xml" href="/rss">
		<link rel="alternate" type="application/rss+xml" href="/rss"><link rel="alternate" hreflang="de" href="/de">
		<link rel="stylesheet" type="application/rss+xml" href="/no"><link rel=alternate type=application/feed+json href="javascript:x()">
		` + strings.Repeat(" ", 10) + `</head>`
	want := []Link{
		{URL: "https://b.example/blog/atom.xml", Title: "All posts", Type: "application/atom+xml"},
		{URL: "https://b.example/rss", Type: "application/rss+xml"},
	}
	if diff := cmp.Diff(want, discoverLinks([]byte(page), "https://a.example/")); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}
