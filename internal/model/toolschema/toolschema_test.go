package toolschema_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/toolschema"
)

// decode returns JSON as values.
func decode(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); text != "" && err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func TestFit_JSONSchema_WhatProvidersRefuse_IsChanged(t *testing.T) {
	property := func(a string) string { return `{"type":"object","properties":{"a":` + a + `}}` }
	for name, c := range map[string]struct{ in, want string }{
		"nothing":                  {``, `{"properties":{},"type":"object"}`},
		"no object":                {`7`, `{"properties":{},"type":"object"}`},
		"null":                     {`null`, `{"properties":{},"type":"object"}`},
		"an object without more":   {`{"type":"object"}`, `{"type":"object","properties":{}}`},
		"no type":                  {`{"properties":{"a":{}}}`, property(`{}`)},
		"an array without items":   {property(`{"type":"array"}`), property(`{"type":"array","items":{}}`)},
		"an array or null":         {property(`{"type":["array","null"]}`), property(`{"type":["array","null"],"items":{}}`)},
		"a tuple without items":    {property(`{"type":"array","prefixItems":[{}]}`), property(`{"type":"array","prefixItems":[{}],"items":{}}`)},
		"an array deep down":       {property(`{"anyOf":[{"type":"object","additionalProperties":{"type":"array"}}]}`), property(`{"anyOf":[{"type":"object","additionalProperties":{"type":"array","items":{}}}]}`)},
		"an array of definitions":  {`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"array"}}}`, `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"array","items":{}}}}`},
		"a tuple of older drafts":  {property(`{"type":"array","items":[{"type":"array"}]}`), property(`{"type":"array","items":{"anyOf":[{"type":"array","items":{}}]}}`)},
		"a limit of older drafts":  {property(`{"type":"number","minimum":1,"exclusiveMinimum":true}`), property(`{"type":"number","minimum":1}`)},
		"an empty enum":            {property(`{"enum":[]}`), property(`{}`)},
		"alternatives at the top":  {`{"oneOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{}}}],"not":{}}`, `{"type":"object","properties":{"a":{"type":"string"},"b":{}}}`},
		"required and not defined": {`{"type":"object","properties":{"a":{}},"required":["a","b","a"]}`, `{"type":"object","properties":{"a":{}},"required":["a"]}`},
		"a large limit":            {property(`{"maximum":9223372036854775807}`), property(`{"maximum":9223372036854775807}`)},
		"required by the property": {property(`{"type":"string","required":true}`), `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`},
		"names of Python's types":  {property(`{"type":["str","None","str"]}`), property(`{"type":["string","null"]}`)},
		"an unknown type":          {property(`{"type":"any","description":"d"}`), property(`{"description":"d"}`)},
		"a type as a property":     {property(`"str"`), property(`{"type":"string"}`)},
		"a text as a property":     {property(`"The city"`), property(`{"description":"The city"}`)},
		"an enum of another type":  {property(`{"type":"integer","enum":["a"]}`), property(`{"enum":["a"]}`)},
		"an enum partly forbidden": {property(`{"type":"string","enum":["a",1,"a"]}`), property(`{"type":"string","enum":["a"]}`)},
		"nullable":                 {property(`{"type":"string","nullable":true}`), property(`{"type":["string","null"]}`)},
		"limits as texts":          {property(`{"minimum":"0","maxLength":1.5,"multipleOf":0}`), property(`{}`)},
		"a dangling reference":     {property(`{"$ref":"#/$defs/None","description":"d"}`), property(`{"description":"d"}`)},
		"references in a circle":   {`{"properties":{"a":{"$ref":"#/properties/b"},"b":{"$ref":"#/properties/a"}}}`, `{"type":"object","properties":{"a":{},"b":{"$ref":"#/$defs/ref1"}},"$defs":{"ref1":{}}}`},
		"a reference to a property": {`{"properties":{"a b":{"type":"string"},"c":{"$ref":"#/properties/a%20b"}}}`,
			`{"type":"object","properties":{"a_b_c8687a":{"type":"string"},"c":{"$ref":"#/$defs/ref1"}},"$defs":{"ref1":{"type":"string"}}}`},
		"a reference to the top":  {`{"properties":{"a":{"$ref":"#"}}}`, property(`{"$ref":"#"}`)},
		"a reference at the top":  {`{"$ref":"#/$defs/A","$defs":{"A":{"properties":{"a":{}},"required":["a"]}}}`, `{"type":"object","properties":{"a":{}},"required":["a"],"$defs":{"A":{"properties":{"a":{}},"required":["a"]}}}`},
		"a pattern of JavaScript": {property(`{"pattern":"^(?!x)\\p{L}$","description":"d"}`), property(`{"description":"d (pattern: \"^(?!x)\\\\p{L}$\")"}`)},
		"a map of anything":       {property(`{"patternProperties":{"^(.*)$":{"type":"string"}}}`), property(`{}`)},
		"numbers that are bombs":  {property(`{"minimum":1e-999999999,"maximum":1e999999999,"multipleOf":1e5}`), property(`{"minimum":0,"multipleOf":100000}`)},
	} {
		got := toolschema.Fit(toolschema.JSONSchema, json.RawMessage(c.in))
		if diff := cmp.Diff(decode(t, c.want), decode(t, string(got))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFit_Gemini_WhatItRefuses_IsChanged(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"nothing":      {``, ``},
		"no arguments": {`{"type":"object","properties":{},"additionalProperties":false}`, ``},
		"refused keywords": {`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{
			"a":{"type":"string","pattern":"^x","default":"x","minLength":2,"description":"An a."}},"not":{}}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"An a. (default: \"x\"; pattern: \"^x\"; ` +
				`minLength: 2)"}}}`},
		"listed types": {`{"properties":{"a":{"type":["array","null"],"items":{"type":"string"}},"b":{"type":["string"]}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"null"}]},` +
				`"b":{"type":"string"}}}`},
		"const": {`{"properties":{"a":{"const":3}}}`, `{"type":"object","properties":{"a":{"enum":[3]}}}`},
		"allOf": {`{"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},` +
			`{"properties":{"b":{"type":"integer"}},"required":["b"]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a","b"]}`},
		"allOf with a reference": {`{"allOf":[{"$ref":"#/definitions/n"},{"properties":{"b":{}}}],` +
			`"definitions":{"n":{"properties":{"a":{}}}}}`,
			`{"type":"object","properties":{"a":{},"b":{}},"$defs":{"n":{"properties":{"a":{}}}}}`},
		"references of an older draft": {`{"properties":{"a":{"$ref":"#/definitions/n","description":"x"}},` +
			`"definitions":{"n":{"type":"string","pattern":"x"}}}`,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"string","description":"(pattern: ` +
				`\"x\")"}}}`},
		"names of parameters": {`{"properties":{"user-id":{"type":"string"},"$x":{"type":"string"},` +
			`"ok":{"type":"string"}},"required":["user-id","ok","zz"]}`,
			`{"type":"object","properties":{"_user_id_a7571d":{"type":"string"},"__x_53b5ba":{"type":"string"},` +
				`"ok":{"type":"string"}},"required":["_user_id_a7571d","ok"]}`},
		"mixed enum":        {`{"properties":{"a":{"enum":[1,"a",null]}}}`, `{"type":"object","properties":{"a":{"description":"(one of: [1,\"a\",null])"}}}`},
		"true for anything": {`{"properties":{"a":true,"b":{"items":true}}}`, `{"type":"object","properties":{"a":{},"b":{"items":{}}}}`},
	} {
		got := toolschema.Fit(toolschema.Gemini, json.RawMessage(c.in))
		if diff := cmp.Diff(decode(t, c.want), decode(t, string(got))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFit_NothingToChange_KeepsTheBytes(t *testing.T) {
	const in = `{"type":"object", "properties":{"why":{"type":"string","description":"<b>"},` +
		`"amount":{"type":["integer","null"],"default":1},"tree":{"$ref":"#/$defs/T"},` +
		`"tuple":{"type":"array","prefixItems":[{"const":{"a":1}}],"items":false}},"required":["why"],` +
		`"$defs":{"T":{"type":"object","properties":{"left":{"$ref":"#/$defs/T"},"top":{"$ref":"#"}}}}}`
	if got := toolschema.Fit(toolschema.JSONSchema, json.RawMessage(in)); string(got) != in {
		t.Errorf("got %s", got)
	}
}

func TestFit_SomethingToChange_SortsTheKeys(t *testing.T) {
	const in = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"z":{"type":"str"},` +
		`"a b":{"enum":["b","a"]},"m":{}}}`
	for dialect, want := range map[toolschema.Dialect]string{
		toolschema.JSONSchema: `{"properties":{"a_b_c8687a":{"enum":["b","a"]},"m":{},"z":{"type":"string"}},"type":"object"}`,
		toolschema.Gemini:     `{"properties":{"_a_b_c8687a":{"enum":["b","a"]},"m":{},"z":{"type":"string"}},"type":"object"}`,
	} {
		if got := toolschema.Fit(dialect, json.RawMessage(in)); string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestDeclarer_NamesThatProvidersRefuse_AreRestored(t *testing.T) {
	long := strings.Repeat("x", 80)
	accepted := map[toolschema.Dialect]string{
		toolschema.JSONSchema: `^[a-zA-Z0-9_.-]{1,64}$`,
		toolschema.Gemini:     `^[A-Za-z_][A-Za-z0-9_]{0,63}$`,
	}
	for dialect, pattern := range accepted {
		d := toolschema.New(dialect, "schema", nil)
		encoded, names := d.Declare([]llm.ToolSpec{{Name: "other"}, {Name: "tool", Schema: json.RawMessage(`{"type":"object",
			"properties":{"a b":{},"a/b":{},"` + long + `":{},"user-id":{}},"required":["a b"]}`)}})
		var tools []struct {
			Schema struct {
				Properties map[string]any
				Required   []string
			}
		}
		if err := json.Unmarshal(encoded, &tools); err != nil || len(tools) != 2 {
			t.Fatalf("%s: %v", encoded, err)
		}
		args := map[string]json.Number{}
		for name := range tools[1].Schema.Properties {
			if !regexp.MustCompile(pattern).MatchString(name) {
				t.Errorf("the name %q is refused", name)
			}
			args[name] = "9007199254740993"
		}
		if required := tools[1].Schema.Required; len(required) != 1 || args[required[0]] == "" {
			t.Errorf("required %v of %v", required, args)
		}
		raw, _ := json.Marshal(args)
		const n = `:9007199254740993`
		want := `{"a b"` + n + `,"a/b"` + n + `,"user-id"` + n + `,"` + long + `"` + n + `}`
		if got := names.Restore("tool", raw); string(got) != want {
			t.Errorf("the tool is called with %s, want %s", got, want)
		}
		for _, same := range []string{`"cut`, `[1]`, `null`, ``, `{"b": 1e2}`, `{"a_b_c8687a": 1} x`} {
			if got := names.Restore("tool", json.RawMessage(same)); string(got) != same {
				t.Errorf("the arguments %s became %s", same, got)
			}
		}
		if got := names.Restore("unknown", raw); string(got) != string(raw) {
			t.Errorf("arguments of a tool that was not declared became %s", got)
		}
	}
}

func TestDeclarer_GeminiNamesBelowTheTop_AreRestored(t *testing.T) {
	encoded, names := toolschema.New(toolschema.Gemini, "schema", nil).Declare([]llm.ToolSpec{{Name: "tool", Schema: json.RawMessage(
		`{"properties":{"list":{"type":"array","items":{"properties":{"user-id":{"type":"string"}}}}}}`)}})
	if !strings.Contains(string(encoded), `"_user_id_a7571d":{"type":"string"}`) {
		t.Errorf("declared %s", encoded)
	}
	got := names.Restore("tool", json.RawMessage(`{"list":[{"_user_id_a7571d":"x"}]}`))
	if string(got) != `{"list":[{"user-id":"x"}]}` {
		t.Errorf("the tool is called with %s", got)
	}
}

func TestDeclarer_OtherTools_ReplaceTheDeclarationsThatWereKept(t *testing.T) {
	d := toolschema.New(toolschema.JSONSchema, "schema", nil)
	a, b := []llm.ToolSpec{{Name: "a"}}, []llm.ToolSpec{{Name: "b", Schema: json.RawMessage(`{"properties":{"x y":{}}}`)}}
	const wantA, wantB = `[{"name":"a","schema":{"properties":{},"type":"object"}}]`,
		`[{"name":"b","schema":{"properties":{"x_y_887fce":{}},"type":"object"}}]`
	for range 2 {
		if got, names := d.Declare(a); string(got) != wantA || len(names) != 0 {
			t.Errorf("got %s and %v", got, names)
		}
		if got, names := d.Declare(b); string(got) != wantB || names["b"]["x_y_887fce"] != "x y" {
			t.Errorf("got %s and %v", got, names)
		}
	}
	if got, _ := d.Declare(nil); string(got) != `[]` {
		t.Errorf("no tools are declared as %s", got)
	}
}
