package feeds_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/tool"
	"ravenbot/internal/news/bundled"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/ops/egress"
	simfeeds "ravenbot/internal/testing/sim/feeds"
	"ravenbot/internal/tools/feeds"
)

// pack gives the tools over a reader that may reach the simulated web.
func pack(t *testing.T, allowed []string, known ...string) map[string]func(args string) tool.Result {
	t.Helper()
	out, err := egress.New(egress.Options{AllowPrivateHosts: allowed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.CloseIdle)
	calls := map[string]func(string) tool.Result{}
	for _, one := range feeds.Tools(feed.NewFetcher(out, nil, feed.Options{Bundled: bundled.Feeds()}), func() []string {
		return known
	}) {
		calls[one.Spec().Name] = func(args string) tool.Result {
			res, err := one.Call(context.Background(), json.RawMessage(args))
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
	}
	return calls
}

func TestAFeedIsListedNewestFirst(t *testing.T) {
	sim, err := simfeeds.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	url := sim.AddFeed("/feed", "Town [news]", simfeeds.RSS)
	for n, title := range []string{"Old [bracketed] story", "New story"} {
		sim.AddItem("/feed", simfeeds.Item{ID: title, Title: title, Link: "https://example.org/" + title[:3],
			Published: time.Date(2026, 1, 1+n, 0, 0, 0, 0, time.UTC)})
	}
	calls := pack(t, []string{"127.0.0.1"}, url)
	res := calls["fetch"](`{"url":"` + url + `","limit":5}`)
	want := "**Town (news)**\n\n1. [New story](https://example.org/New) (2026-01-02)\n2. [Old (bracketed) " +
		"story](https://example.org/Old) (2026-01-01)"
	if res.IsError || !strings.HasPrefix(res.Text, want[:40]) ||
		strings.Index(res.Text, "New story") > strings.Index(res.Text, "Old (bracketed)") {
		t.Errorf("listed\n%s\nwant\n%s", res.Text, want)
	}
	if res = calls["search"](`{"query":"bracketed OLD"}`); !strings.Contains(res.Text, "1 items") ||
		strings.Contains(res.Text, "New story") {
		t.Errorf("found %q", res.Text)
	}
}

func TestWhatIsNoFeedIsSaidInASentence(t *testing.T) {
	sim, err := simfeeds.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	sim.Serve("/page", []byte("<html><title>A page</title><p>words"), "text/html")
	sim.Serve("/broken", nil, "text/xml", simfeeds.Status(500))
	sim.Serve("/busy", nil, "text/xml", simfeeds.RetryAfter(429, time.Hour))
	open := pack(t, []string{"127.0.0.1"})
	for path, want := range map[string]string{"/page": "is not a feed", "/broken": "status 500", "/none": "status 404",
		"/busy": "asks to wait until"} {
		if res := open["fetch"](`{"url":"` + sim.URL() + path + `"}`); !res.IsError || !strings.Contains(res.Text, want) {
			t.Errorf("%s: %q, want %q", path, res.Text, want)
		}
	}
	if res := pack(t, nil)["fetch"](`{"url":"` + sim.URL() + `/page"}`); !strings.Contains(res.Text, "private network") {
		t.Errorf("a private address: %q", res.Text)
	}
	if res := open["fetch"](`{"url":"bundled:nonesuch"}`); !strings.Contains(res.Text, "no bundled feed") {
		t.Errorf("an unknown bundled feed: %q", res.Text)
	}
	if res := open["search"](`{"query":"x"}`); !res.IsError {
		t.Errorf("a search without feeds: %q", res.Text)
	}
}
