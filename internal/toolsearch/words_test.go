package toolsearch

import (
	"encoding/json"
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
		if diff := cmp.Diff(want, strings.Join(plainWords(text), " ")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestRequestsAreCutIntoClauses(t *testing.T) {
	for text, want := range map[string][]string{
		"Find a flight. Then book a hotel!": {"find flight", "book hotel"},
		"open example.com at 10.30":         {"open exampl com 10 30"},
		"weather in Oslo\nnews":             {"weather oslo", "news"},
		"查天气。订酒店":                           {"查天 天气", "订酒 酒店"},
		"who is it?":                        {"who is it"}, // of common words alone
		"copy the copy of copies":           {"copi"},
		"... !!! ???":                       nil,
		"":                                  nil,
	} {
		var got []string
		for _, q := range questions(text) {
			var words []string
			for _, a := range q {
				words = append(words, a.stem)
			}
			got = append(got, strings.Join(words, " "))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestALongRequestIsCutShort(t *testing.T) {
	n := 0
	for _, q := range questions(strings.Repeat("word1 word2. ", 10_000)) {
		n += len(q)
	}
	if n == 0 || n > maxQueryWords {
		t.Errorf("%d words are searched for", n)
	}
}

func TestSchemasAreReadForTheirWords(t *testing.T) {
	schema := `{"type":"object","description":"all","properties":{
		"when":{"type":"string","description":"the day"},
		"how":{"enum":["fast","slow",3]},
		"list":{"type":"array","items":{"$ref":"#/$defs/x","title":"entry"}},
		"odd":true,
		"either":{"anyOf":[{"description":"a number"},{"description":"a word"}]}},
		"$defs":{"x":{"properties":{"deep":{}}}}}`
	want := "all either a number a word how fast slow list entry odd when the day x deep"
	if diff := cmp.Diff(want, strings.Join(strings.Fields(schemaWords(json.RawMessage(schema))), " ")); diff != "" {
		t.Errorf("words of the schema (-want +got):\n%s", diff)
	}
	for _, broken := range []string{"", "null", "[]", `{"properties":[]}`, `{"items":{"items":`, `"text"`} {
		if got := schemaWords(json.RawMessage(broken)); got != "" {
			t.Errorf("%q says %q", broken, got)
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
