package feed

import "testing"

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
	if a, b := titleKey("<b>Bridge</b> closes: “for two years”"), titleKey("bridge  closes for two-years!"); a != b ||
		a != "bridge closes for two years" {
		t.Errorf("keys %q and %q", a, b)
	}
}
