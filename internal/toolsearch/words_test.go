package toolsearch

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
