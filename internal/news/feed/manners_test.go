package feed

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const smallFeed = `<rss><channel><title>F</title><item><title>T</title><guid>https://f.example/a</guid></item></channel></rss>`

func TestFetch_RedirectsUntilItsCookieIsSent_IsRead(t *testing.T) {
	s, f := newSite(t)
	s.mux.HandleFunc("/feed", func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie("seen"); err != nil {
			http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1", Path: "/"})
			http.Redirect(w, r, "/feed", http.StatusFound)
			return
		}
		fmt.Fprint(w, smallFeed)
	})
	s.mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/loop", http.StatusFound)
	})
	if res, err := f.Fetch(t.Context(), s.URL+"/feed"); err != nil || len(res.Items) != 1 {
		t.Errorf("%d items, %v", len(res.Items), err)
	}
	_, err := f.Fetch(t.Context(), s.URL+"/loop")
	if text := Explain("F", err); !strings.Contains(text, "redirects too often") {
		t.Errorf("a loop is explained as %q (%v)", text, err)
	}
}

func TestFetch_ServerAsksToWaitBriefly_IsAskedAgain(t *testing.T) {
	s, f := newSite(t)
	asked := 0
	s.mux.HandleFunc("/feed", func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, smallFeed)
	})
	if res, err := f.Fetch(t.Context(), s.URL+"/feed"); err != nil || len(res.Items) != 1 || asked != 2 {
		t.Errorf("%d items after %d requests, %v", len(res.Items), asked, err)
	}
}

func TestPoll_HostAskedToWaitForAnotherFeed_ErrorNamesIt(t *testing.T) {
	s, f := newSite(t)
	s.mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7200")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	s.mux.HandleFunc("/feed", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, smallFeed) })
	if _, err := f.Poll(t.Context(), s.URL+"/busy"); err == nil {
		t.Fatal("a refused feed is read")
	}
	_, err := f.Poll(t.Context(), s.URL+"/feed")
	wait, ok := errors.AsType[*WaitError](err)
	if !ok || wait.URL != s.URL+"/feed" || wait.Cause != s.URL+"/busy" {
		t.Fatalf("the error is %+v", err)
	}
	if text := Explain(wait.URL, err); !strings.Contains(text, s.URL+"/busy") {
		t.Errorf("it is explained as %q", text)
	}
}

func TestFetch_ItemsSharedAnIdentifierOnce_IsRemembered(t *testing.T) {
	s, f := newSite(t)
	items := ""
	s.mux.HandleFunc("/feed", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<rss><channel><title>F</title>"+items+"</channel></rss>")
	})
	for _, n := range []string{"1", "2", "3"} {
		items = `<item><title>T` + n + `</title><link>https://f.example/` + n + `</link><guid isPermaLink="false">x</guid></item>` + items
		if n == "3" {
			items, _, _ = strings.Cut(items, "</item>")
			items += "</item>" // the others have left the feed
		}
		res, err := f.Fetch(t.Context(), s.URL+"/feed")
		if err != nil {
			t.Fatal(err)
		}
		// A single item is no reason to doubt its identifier.
		want := map[string]string{"1": "x", "2": "https://f.example/2", "3": "https://f.example/3"}[n]
		if got := res.Items[0].ID; got != want {
			t.Errorf("item %s is %q, want %q", n, got, want)
		}
	}
}

func TestWebAddress_SchemeOfFeeds(t *testing.T) {
	for address, want := range map[string]string{
		" feed://f.example/rss ":   "http://f.example/rss",
		"feed:https://f.example/a": "https://f.example/a",
		"https://f.example/a":      "https://f.example/a",
		"feed:other":               "feed:other",
	} {
		if got := webAddress(address); got != want {
			t.Errorf("%q is %q, want %q", address, got, want)
		}
	}
	list, err := ReadOPML(strings.NewReader(`<opml><body><outline text="F" xmlUrl="feed://f.example/rss"/></body></opml>`))
	if err != nil || len(list) != 1 || list[0].URL != "http://f.example/rss" {
		t.Errorf("OPML names %+v, %v", list, err)
	}
}

func TestDiscoverLinks_CommentsComeLast(t *testing.T) {
	links := discoverLinks([]byte(`<link rel="alternate" type="application/rss+xml" title="Comments" href="/comments/feed/">`+
		`<link rel="alternate" type="application/rss+xml" href="/feed/">`), "https://f.example/")
	if len(links) != 2 || links[0].URL != "https://f.example/feed/" {
		t.Errorf("found %+v", links)
	}
}
