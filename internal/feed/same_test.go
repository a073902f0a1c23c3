package feed

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCanonicalURL(t *testing.T) {
	for address, want := range map[string]string{
		"HTTPS://News.Example:443/a/?utm_source=x&b=2&a=1&fbclid=9#top": "https://news.example/a?a=1&b=2",
		"http://news.example:80":     "http://news.example",
		"http://news.example/":       "http://news.example",
		"https://news.example:8443/": "https://news.example:8443",
		"https://news.example/A%2Fb": "https://news.example/A%2Fb",
		" tag:x,1 ":                  "tag:x,1",
		"http://[bad":                "http://[bad",
	} {
		got := CanonicalURL(address)
		if got != want {
			t.Errorf("%q becomes %q, want %q", address, got, want)
		}
		if again := CanonicalURL(got); again != got {
			t.Errorf("%q becomes %q the second time", got, again)
		}
	}
}

func TestTitleKey(t *testing.T) {
	if a, b := titleKey("<b>Bridge</b> closes: “for two years”"), titleKey("bridge  closes for two-years!"); a != b || a != "bridge closes for two years" {
		t.Errorf("keys %q and %q", a, b)
	}
}

func TestDedupe(t *testing.T) {
	items := []Item{
		{ID: "1", Title: "The old harbour bridge closes", Link: "https://a.example/bridge?utm_source=rss"},
		{ID: "2", Title: "Weekly update", Link: "https://a.example/w1"},
		{ID: "3", Title: "Another headline", Link: "http://a.example/bridge/"},
		{ID: "4", Title: "THE OLD HARBOUR BRIDGE CLOSES.", Link: "https://b.example/x"},
		{ID: "5", Title: "Weekly update", Link: "https://b.example/w2"},
		{ID: "6"},
		{ID: "7"},
	}
	var got []string
	for _, story := range Dedupe(items) {
		ids := story.Item.ID
		for _, also := range story.Also {
			ids += "+" + also.ID
		}
		got = append(got, ids)
	}
	if diff := cmp.Diff([]string{"1+3+4", "2", "5", "6", "7"}, got); diff != "" {
		t.Errorf("stories (-want +got):\n%s", diff)
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
