package schema_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ravenbot/internal/turn/schema"
)

func TestLosses(t *testing.T) {
	tests := []struct {
		name, before, after string
		want                []string
	}{
		{"nothing", `{"$schema":"x","type":"object","properties":{"a":{"type":"string","title":"A"}},"required":["a"]}`, `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, nil},
		{"left out", `{"not":{"required":["b"]},"properties":{"a":{"pattern":"^x","minLength":3}}}`,
			`{"properties":{"a":{"description":"(pattern: \"^x\")"}}}`,
			[]string{"arguments: not is left out", "arguments.a: minLength is left out",
				"arguments.a: pattern is told in words only"}},
		{"folded", `{"allOf":[{"required":["a"]}],"additionalProperties":true,"properties":{}}`, `{"required":["a"]}`, []string{"arguments: allOf is folded into the rest, as far as that goes"}},
		{"renamed", `{"properties":{"a-b":{"type":"string"}}}`, `{"properties":{"_a_b_123":{"type":"string"}}}`, []string{"arguments.a-b: goes by another name, or is left out"}},
		{"types as alternatives", `{"properties":{"a":{"type":["string","null"]}}}`, `{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, nil},
		{"definitions", `{"$ref":"#/definitions/x","definitions":{"x":{"const":1}}}`, `{"$ref":"#/$defs/x","$defs":{"x":{}}}`, []string{"arguments.x: const is left out"}},
		{"deep", `{"properties":{"a":{"items":{"anyOf":[{"type":"string"},{"format":"date"}]},"enum":[1,2]}},` +
			`"required":["a","b"]}`, `{"properties":{"a":{"items":{"anyOf":[{"type":"string"}]},"enum":[1]}},"required":["a"]}`,
			[]string{"arguments.a: enum names fewer", "arguments.a.items: anyOf has fewer choices",
				"arguments: required names fewer"}},
		{"all", `{"properties":{"a":{"type":"string"}}}`, `null`, []string{"arguments: properties is left out"}},
		{"not readable", `{"a"`, `{}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, schema.Losses(json.RawMessage(tt.before), json.RawMessage(tt.after))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// kinds are schemas with values that fit, and what a model may make of those.
var kinds = []struct {
	schema string
	fits   func(*rapid.T) any
	mangle func(any) any
}{
	{`{"type":"integer"}`, func(t *rapid.T) any { return rapid.Int32().Draw(t, "n") }, func(v any) any { return fmt.Sprint(v) }},
	{`{"type":"number"}`, func(t *rapid.T) any { return rapid.Float64Range(-1e9, 1e9).Draw(t, "x") }, func(v any) any { b, _ := json.Marshal(v); return string(b) }},
	{`{"type":"boolean"}`, func(t *rapid.T) any { return rapid.Bool().Draw(t, "b") }, func(v any) any { return fmt.Sprint(v) }},
	{`{"type":"string"}`, func(t *rapid.T) any { return fmt.Sprint(rapid.Uint32().Draw(t, "s")) }, func(v any) any { return json.Number(v.(string)) }},
	{`{"type":"array","items":{"type":"string"}}`, func(t *rapid.T) any { return []any{rapid.StringMatching("[a-z ]{1,9}").Draw(t, "l")} }, func(v any) any { return v.([]any)[0] }},
	{`{"type":"object","required":["k"]}`, func(t *rapid.T) any { return map[string]any{"k": rapid.String().Draw(t, "o")} }, func(v any) any { b, _ := json.Marshal(v); return string(b) }},
}

// What fits is never changed; what is mangled in ways that models are known for
// comes back as it was meant.
func TestMendingGivesWhatWasMeant(t *testing.T) {
	c := schema.New()
	rapid.Check(t, func(t *rapid.T) {
		properties, meant, sent := map[string]json.RawMessage{}, map[string]any{}, map[string]any{}
		for i := range rapid.IntRange(1, 6).Draw(t, "properties") {
			kind := kinds[rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")]
			name := fmt.Sprint("p", i)
			value := kind.fits(t)
			properties[name], meant[name], sent[name] = json.RawMessage(kind.schema), value, value
			if rapid.Bool().Draw(t, "mangled") {
				sent[name] = kind.mangle(value)
			}
		}
		s := marshal(t, map[string]any{"type": "object", "properties": properties, "additionalProperties": false})
		want := marshal(t, meant)
		if got, err := c.Check(s, want); err != nil || string(got) != string(want) {
			t.Fatalf("what fits, %s, became %s (%v)", want, got, err)
		}
		if rapid.Bool().Draw(t, "stranger") {
			sent["unrelated thing"] = "because"
		}
		got, err := c.Check(s, marshal(t, sent))
		if err != nil {
			t.Fatalf("%s: %v", marshal(t, sent), err)
		}
		var x, y any
		if json.Unmarshal(got, &x) != nil || json.Unmarshal(want, &y) != nil || !cmp.Equal(x, y) {
			t.Fatalf("%s became %s, meant was %s", marshal(t, sent), got, want)
		}
	})
}

func marshal(t *rapid.T, v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFits(t *testing.T) {
	c := schema.New()
	for value, want := range map[string]string{
		`{"n":5}`: "", `{"n":"5"}`: "n: must be integer, not string", `[1]`: "arguments: must be object, not array",
		`{`: "not valid JSON: unexpected EOF",
	} {
		got := ""
		if err := c.Fits(json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`),
			json.RawMessage(value)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("Fits(%s): %q, want %q", value, got, want)
		}
	}
	if err := c.Fits(json.RawMessage(`{"type":"objekt"}`), json.RawMessage(`5`)); err != nil {
		t.Errorf("with a schema that cannot be used: %v", err)
	}
}
