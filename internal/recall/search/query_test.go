package search

import (
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
		for _, q := range newIndex().parse(text, false) {
			var words []string
			for _, w := range q {
				words = append(words, w.stem)
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
	for _, q := range newIndex().parse(strings.Repeat("word1 word2. ", 10_000), false) {
		n += len(q)
	}
	if n == 0 || n > maxQueryWords {
		t.Errorf("%d words are searched for", n)
	}
}
