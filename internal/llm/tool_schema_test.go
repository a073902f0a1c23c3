package llm_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/llm"
)

func TestSchemaCache_WhatProvidersRefuse_IsChanged(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"nothing":                  {``, `{"properties":{},"type":"object"}`},
		"no object":                {`7`, `{"properties":{},"type":"object"}`},
		"null":                     {`null`, `{"properties":{},"type":"object"}`},
		"an object without more":   {`{"type":"object"}`, `{"type":"object","properties":{}}`},
		"no type":                  {`{"properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}}}`},
		"an array without items":   {`{"type":"object","properties":{"a":{"type":"array"}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{}}}}`},
		"an array or null":         {`{"type":"object","properties":{"a":{"type":["array","null"]}}}`, `{"type":"object","properties":{"a":{"type":["array","null"],"items":{}}}}`},
		"an array deep down":       {`{"type":"object","properties":{"a":{"anyOf":[{"type":"object","additionalProperties":{"type":"array"}}]}}}`, `{"type":"object","properties":{"a":{"anyOf":[{"type":"object","additionalProperties":{"type":"array","items":{}}}]}}}`},
		"an array of definitions":  {`{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"array"}}}`, `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"array","items":{}}}}`},
		"a tuple of older drafts":  {`{"type":"object","properties":{"a":{"type":"array","items":[{"type":"array"}]}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{"anyOf":[{"type":"array","items":{}}]}}}}`},
		"a limit of older drafts":  {`{"type":"object","properties":{"a":{"type":"number","minimum":1,"exclusiveMinimum":true}}}`, `{"type":"object","properties":{"a":{"type":"number","minimum":1}}}`},
		"an empty enum":            {`{"type":"object","properties":{"a":{"enum":[]}}}`, `{"type":"object","properties":{"a":{}}}`},
		"alternatives at the top":  {`{"oneOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{}}}],"not":{}}`, `{"type":"object","properties":{"a":{"type":"string"},"b":{}}}`},
		"required and not defined": {`{"type":"object","properties":{"a":{}},"required":["a","b","a"]}`, `{"type":"object","properties":{"a":{}},"required":["a"]}`},
		"a large limit":            {`{"properties":{"a":{"maximum":9223372036854775807}}}`, `{"type":"object","properties":{"a":{"maximum":9223372036854775807}}}`},
	} {
		var schemas llm.SchemaCache
		values := func(raw string) (v any) {
			d := json.NewDecoder(strings.NewReader(raw))
			d.UseNumber()
			if err := d.Decode(&v); err != nil {
				t.Fatal(name, err)
			}
			return v
		}
		if diff := cmp.Diff(values(c.want), values(string(schemas.Fit(json.RawMessage(c.in)).JSON))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSchemaCache_NothingToChange_KeepsTheOrder(t *testing.T) {
	const in = `{"type":"object","properties":{"why":{"type":"string"},"amount":{"type":"integer"}},"required":["why"]}`
	var schemas llm.SchemaCache
	for range 2 { // the second time from the cache
		if got := schemas.Fit(json.RawMessage(in)); string(got.JSON) != in {
			t.Errorf("got %s", got.JSON)
		}
	}
}

func TestSchemaCache_NamesThatAnthropicRefuses_AreRestored(t *testing.T) {
	long := strings.Repeat("x", 80)
	var schemas llm.SchemaCache
	tools := []llm.ToolSpec{{Name: "other"}, {Name: "tool", Schema: json.RawMessage(`{"type":"object","properties":{
		"a b":{},"a/b":{},"` + long + `":{},"user-id":{}},"required":["a b"]}`)}}
	fitted := schemas.Fit(tools[1].Schema)
	var schema struct {
		Properties map[string]any
		Required   []string
	}
	if err := json.Unmarshal(fitted.JSON, &schema); err != nil {
		t.Fatal(err)
	}
	args := map[string]string{}
	for name := range schema.Properties {
		if !regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`).MatchString(name) {
			t.Errorf("the name %q is refused", name)
		}
		args[name] = "v"
	}
	if len(schema.Required) != 1 || args[schema.Required[0]] == "" {
		t.Errorf("required %v of %v", schema.Required, args)
	}
	raw, _ := json.Marshal(args) // of texts
	want := `{"a b":"v","a/b":"v","user-id":"v","` + long + `":"v"}`
	if got := schemas.RestoreNames(tools, "tool", raw); string(got) != want {
		t.Errorf("the tool is called with %s, want %s", got, want)
	}
	if got := schemas.RestoreNames(tools, "tool", json.RawMessage(`"cut`)); string(got) != `"cut` {
		t.Errorf("arguments that are no object became %s", got)
	}
	if got := schemas.RestoreNames(tools, "unknown", raw); string(got) != string(raw) {
		t.Errorf("arguments of a tool that the request does not have became %s", got)
	}
}
