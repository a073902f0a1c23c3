package gemini_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/llm/gemini"
)

func TestSchemaSaysWhatGeminiTakes(t *testing.T) {
	cases := []struct{ name, in, want string }{
		{"nothing", ``, `null`},
		{"no arguments", `{"type":"object","properties":{},"additionalProperties":false}`, `null`},
		{"refused keywords", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{
			"a":{"type":"string","pattern":"^x","default":"x","minLength":2,"description":"An a."}},"not":{}}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"An a. (default: \"x\"; pattern: \"^x\"; ` +
				`minLength: 2)"}}}`},
		{"listed types", `{"properties":{"a":{"type":["array","null"],"items":{"type":"string"}},"b":{"type":["string"]}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"null"}]},` +
				`"b":{"type":"string"}}}`},
		{"const", `{"properties":{"a":{"const":3}}}`, `{"type":"object","properties":{"a":{"enum":[3]}}}`},
		{"allOf", `{"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},` +
			`{"properties":{"b":{"type":"integer"}},"required":["b"]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a","b"]}`},
		{"references of an older draft", `{"properties":{"a":{"$ref":"#/definitions/n","description":"x"}},` +
			`"definitions":{"n":{"type":"string","pattern":"x"}}}`,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"string","description":"(pattern: ` +
				`\"x\")"}}}`},
		{"names of parameters", `{"properties":{"user-id":{"type":"string"},"$x":{"type":"string"},` +
			`"ok":{"type":"string"}},"required":["user-id","ok","zz"]}`,
			`{"type":"object","properties":{"_user_id_a7571d":{"type":"string"},"__x_53b5ba":{"type":"string"},` +
				`"ok":{"type":"string"}},"required":["_user_id_a7571d","ok"]}`},
		{"mixed enum", `{"properties":{"a":{"enum":[1,"a",null]}}}`, `{"type":"object","properties":{"a":{"description":"(one of: [1,\"a\",null])"}}}`},
		{"true for anything", `{"properties":{"a":true,"b":{"items":true}}}`, `{"type":"object","properties":{"a":{},"b":{"items":{}}}}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := json.Marshal(gemini.ConvertSchema(json.RawMessage(c.in)))
			if err != nil {
				t.Fatal(err)
			}
			var have, want any
			if json.Unmarshal(got, &have) != nil || json.Unmarshal([]byte(c.want), &want) != nil {
				t.Fatalf("not JSON: %s or %s", got, c.want)
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// taken are the keywords that genai documents.
var taken = []string{"$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items",
	"prefixItems", "minItems",
	"maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required"}

// foreign names a keyword in a schema that is not taken.
func foreign(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	for k, sub := range m {
		if !slices.Contains(taken, k) {
			return k
		}
		if _, listed := sub.([]any); k == "type" && listed {
			return "a list of types"
		}
		if m["$ref"] != nil && k[0] != '$' {
			return k + " beside $ref"
		}
		var below []any
		switch k {
		case "properties", "$defs":
			for _, one := range sub.(map[string]any) {
				below = append(below, one)
			}
		case "items", "additionalProperties":
			below = []any{sub}
		case "anyOf", "oneOf", "prefixItems":
			below = sub.([]any)
		}
		for _, one := range below {
			if f := foreign(one); f != "" {
				return f
			}
		}
	}
	return ""
}

func FuzzSchema(f *testing.F) {
	f.Add(`{"properties":{"a":{"type":["string","null"],"allOf":[{"const":1}],"$ref":"#/definitions/x"}},` +
		`"definitions":{"x":{"not":{}}}}`)
	f.Add(`{"$ref":"http://elsewhere","items":[{"type":"string"},true],"anyOf":[{"if":{}}]}`)
	f.Fuzz(func(t *testing.T, raw string) {
		out := gemini.ConvertSchema(json.RawMessage(raw))
		data, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		if k := foreign(v); k != "" {
			t.Errorf("%s went out in %s", k, data)
		}
	})
}
