package search

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNamesAndTextsAreSplitIntoWords(t *testing.T) {
	for text, want := range map[string]string{
		"getHTTPServerStatus":   "get http server status",
		"github_create-issue":   "github create issue",
		"sha256 of v2":          "sha256 of v2",
		"What's O'Reilly's?":    "what s o reilly s",
		"Überprüfe ÄNDERUNGEN":  "überprüfe änderungen",
		"天气预报 today":            "天气 气预 预报 today",
		"雨":                     "雨",
		"bad\xffbytes":          "bad bytes",
		"  \u202e \x00 … -- ":   "",
		"naïve café":            "naïve café",
		"one\u200btwo":          "one two",
		"iPhone15ProMax":        "i phone15 pro max",
		"JSON2XML":              "json2xml",
		"https://example.org/a": "https example org a",
	} {
		if diff := cmp.Diff(want, strings.Join(slices.Collect(Words(text)), " ")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// TestStems takes one word for every rule; that they agree with other stemmers of
// the kind was tried on all words of the collected input.
func TestStems(t *testing.T) {
	for word, want := range map[string]string{
		"caresses": "caress", "ties": "tie", "cries": "cri", "gas": "gas", "gaps": "gap", "kiwis": "kiwi",
		"agreed": "agre", "feed": "feed", "hopping": "hop", "hoping": "hope", "luxuriated": "luxuri", "sing": "sing",
		"cry": "cri", "by": "by", "say": "say", "rational": "ration", "relational": "relat", "digitizer": "digit",
		"happiness": "happi", "electrical": "electr", "formative": "format", "replacement": "replac", "adoption": "adopt",
		"rate": "rate", "controll": "control", "skies": "sky", "dying": "die", "news": "news", "exceed": "exceed",
		"generate": "generat", "general": "general", "communism": "communism", "yearly": "year", "beauty": "beauti",
		"geology": "geolog", "kindly": "kind", "quickly": "quick", "über": "über", "v2": "v2", "is": "is",
	} {
		if got := stem(word); got != want {
			t.Errorf("stem(%q) is %q, want %q", word, got, want)
		}
	}
}
