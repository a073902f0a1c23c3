package digest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/feed"
)

// asked is Feeds whose polls are recorded, each feed with the error of its address.
type asked struct {
	polled
	urls []string
	errs map[string]error
}

func (a *asked) PollAll(_ context.Context, urls []string, turn func(func())) ([]feed.Result, []error) {
	errs := make([]error, len(urls))
	for n, url := range urls {
		turn(func() { a.urls, errs[n] = append(a.urls, url), a.errs[url] })
	}
	return make([]feed.Result, len(urls)), errs
}

// withFeeds returns a digest that runs daily.
func withFeeds(name string, urls ...string) spec {
	d := spec{Plan: Plan{Name: name, Schedule: "0 8 * * *"}}
	for _, url := range urls {
		d.Feeds = append(d.Feeds, Feed{URL: url})
	}
	return d
}

// Of a new digest the feeds are read once, before it runs, and what cannot be read is logged with the names of its
// digests.
func TestPoll_FeedsThatWereNeverRead_AreCheckedOnce(t *testing.T) {
	var logged bytes.Buffer
	s, kept := onRecords()
	s.o.Log = slog.New(slog.NewTextHandler(&logged, nil))
	page, known, busy := "https://a.example/page", "https://b.example/known", "https://c.example/busy"
	feeds := &asked{errs: map[string]error{page: errors.New("it is a page"), busy: feed.ErrQueued}}
	s.o.Feeds = feeds
	raw, err := json.Marshal(feed.State{FetchedAt: noon})
	if err != nil {
		t.Fatal(err)
	}
	kept.kept["feed"] = map[string]json.RawMessage{known: raw}
	instant := withFeeds("instant", "https://d.example/instant")
	instant.Schedule = OnNew
	s.setConfigured(map[string]spec{
		"one": withFeeds("one", page, known, "bundled:mcp-primer"), "two": withFeeds("two", page, busy),
		"paused": withFeeds("paused", "https://e.example/paused"), "instant": instant,
	})
	s.pauses["paused"] = pause{Paused: true}
	s.pollLock.Lock()
	s.checkNewFeeds(t.Context())
	s.pollLock.Unlock()
	if want := []string{page, busy}; !slices.Equal(feeds.urls, want) {
		t.Errorf("%q were read, want %q", feeds.urls, want)
	}
	if got := logged.String(); !strings.Contains(got, `digest="one, two" feed=https://a.example/page error="it is a page"`) ||
		strings.Count(got, "\n") != 1 {
		t.Errorf("logged: %s", got)
	}
	if got := s.FeedTotals()[page]; got.Count != 1 || got.Failed != 1 {
		t.Errorf("counted: %+v", got)
	}
	// The next poll asks only for what waited for others.
	feeds.urls = nil
	s.checkNewFeeds(t.Context())
	if want := []string{busy}; !slices.Equal(feeds.urls, want) {
		t.Errorf("%q were read at the next poll, want %q", feeds.urls, want)
	}
}

// Of hundreds of feeds each poll looks at some.
func TestPoll_HundredsOfNewFeeds_AreReadInParts(t *testing.T) {
	s, _ := onRecords()
	feeds := &asked{}
	s.o.Feeds = feeds
	var urls []string
	for n := range maxFeedChecks + 7 {
		urls = append(urls, fmt.Sprintf("https://a.example/%03d", n))
	}
	s.setConfigured(map[string]spec{"many": withFeeds("many", urls...)})
	for _, want := range []int{maxFeedChecks, len(urls), len(urls)} {
		s.checkNewFeeds(t.Context())
		if len(feeds.urls) != want {
			t.Errorf("%d feeds were read, want %d", len(feeds.urls), want)
		}
	}
}
