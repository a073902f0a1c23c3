package toolsearch

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
