package simfeeds_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/mmcdole/gofeed"

	"ravenbot/internal/testing/sim"
	simfeeds "ravenbot/internal/testing/sim/feeds"
)

func open(t *testing.T) *simfeeds.Server {
	t.Helper()
	s, err := simfeeds.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, url string, header ...string) (*http.Response, []byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp, body, err
}

func TestFeedGrows(t *testing.T) {
	day := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	for _, format := range []simfeeds.Format{simfeeds.RSS, simfeeds.Atom} {
		s := open(t)
		url := s.AddFeed("/news", "News & more", format)
		first := s.AddItem("/news", simfeeds.Item{Title: "One <b>", Summary: "<p>hello</p>", Author: "Ann", Published: day,
			Categories: []string{"x"}})
		resp, body, err := get(t, url)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := gofeed.NewParser().ParseString(string(body))
		if err != nil {
			t.Fatal(err)
		}
		it := parsed.Items[0]
		if parsed.Title != "News & more" || it.Title != "One <b>" || it.Link != first.Link || it.GUID != first.ID ||
			it.Description != "<p>hello</p>" ||
			!it.PublishedParsed.Equal(day) || it.Categories[0] != "x" || it.Authors[0].Name != "Ann" {
			t.Errorf("format %d: %+v", format, it)
		}
		etag := resp.Header.Get("ETag")
		if again, _, err := get(t, url, "If-None-Match", etag); err != nil || again.StatusCode != http.StatusNotModified {
			t.Errorf("conditional GET: %v %v", again, err)
		}
		s.AddItem("/news", simfeeds.Item{Title: "Two"})
		if again, _, err := get(t, url, "If-None-Match", etag); err != nil || again.StatusCode != http.StatusOK {
			t.Errorf("after growth: %v %v", again, err)
		}
		if got := s.Hits("/news"); got != (simfeeds.Hits{Full: 2, NotModified: 1}) {
			t.Errorf("hits %+v", got)
		}
	}
}

func TestConditionalByDate(t *testing.T) {
	s := open(t)
	url := s.Serve("/page", []byte("x"), "text/html", simfeeds.Header("Last-Modified", "Mon, 02 Mar 2026 08:00:00 GMT"))
	cases := map[string]int{"Mon, 02 Mar 2026 08:00:00 GMT": 304, "Sun, 01 Mar 2026 08:00:00 GMT": 200}
	for since, want := range cases {
		if resp, _, err := get(t, url, "If-Modified-Since", since); err != nil || resp.StatusCode != want {
			t.Errorf("since %s: %v %v", since, resp, err)
		}
	}
	plain := s.Serve("/plain", []byte("x"), "text/html", simfeeds.NoValidators())
	if resp, _, err := get(t, plain); err != nil || resp.Header.Get("ETag")+resp.Header.Get("Last-Modified") != "" {
		t.Errorf("validators where none are wanted: %v %v", resp, err)
	}
}

func TestRedirects(t *testing.T) {
	s := open(t)
	target := s.Serve("/target", []byte("here"), "text/plain")
	if _, body, err := get(t, s.RedirectChain("/chain", target, 5)); err != nil || string(body) != "here" {
		t.Errorf("chain: %q %v", body, err)
	}
	if n := len(s.Requests()); n != 6 {
		t.Errorf("%d requests for five hops", n)
	}
	if _, _, err := get(t, s.RedirectLoop("/loop")); err == nil || !strings.Contains(err.Error(), "stopped after") {
		t.Errorf("loop: %v", err)
	}
}

func TestHostilePages(t *testing.T) {
	s := open(t)
	bomb, err := s.GzipBomb("/bomb", 8<<20)
	if err != nil {
		t.Fatal(err)
	}
	if _, body, err := get(t, bomb); err != nil || len(body) != 1<<20 {
		t.Errorf("bomb unpacked to %d (limit 1 MiB): %v", len(body), err)
	}
	packed, err := s.Gzip("/packed", []byte("hello"), "text/plain")
	if err != nil {
		t.Fatal(err)
	}
	if _, body, err := get(t, packed); err != nil || string(body) != "hello" {
		t.Errorf("gzip: %q %v", body, err)
	}
	if _, body, err := get(t, s.Endless("/endless", []byte("abc"), "text/xml")); err != nil || len(body) != 1<<20 {
		t.Errorf("endless: %d %v", len(body), err)
	}
	if _, body, err := get(t, s.Slow("/slow", []byte("abc"), "text/xml", time.Millisecond)); err != nil ||
		string(body) != "abc" {
		t.Errorf("slow: %q %v", body, err)
	}
	resp, _, err := get(t, s.Serve("/busy", nil, "", simfeeds.RetryAfter(429, time.Minute)))
	if err != nil || resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "60" {
		t.Errorf("busy: %v %v", resp, err)
	}
	// For good, since net/http tries a lost GET again.
	off := s.Fail(sim.Fault{Match: sim.MatchPath("GET", "/packed"), Drop: true})
	if _, _, err := get(t, packed); err == nil {
		t.Error("a dropped connection gave an answer")
	}
	off()
	s.Remove("/packed")
	if resp, _, err := get(t, packed); err != nil || resp.StatusCode != 404 {
		t.Errorf("removed page: %v %v", resp, err)
	}
}

func TestHangEndsWithTheServer(t *testing.T) {
	s := open(t)
	url := s.Hang("/hang")
	done := make(chan error, 1)
	go func() {
		resp, err := http.Get(url)
		if err == nil {
			_ = resp.Body.Close()
		}
		done <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.WaitArrival(ctx, sim.MatchPath("GET", "/hang")); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := <-done; err == nil {
		t.Error("the hanging page answered")
	}
}

func TestServeDir(t *testing.T) {
	s := open(t)
	if err := s.ServeDir("/real", fstest.MapFS{"a/feed.atom": {Data: []byte("<feed/>")}}); err != nil {
		t.Fatal(err)
	}
	resp, body, err := get(t, s.URL()+"/real/a/feed.atom")
	if err != nil || string(body) != "<feed/>" || resp.Header.Get("Content-Type") != "application/atom+xml" {
		t.Errorf("%q %v %v", body, resp, err)
	}
}
