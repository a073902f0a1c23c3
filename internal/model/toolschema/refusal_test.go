package toolschema_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ravenbot/internal/model/toolschema"
	simmodel "ravenbot/internal/testing/sim/model"
)

// property returns the schema of an object with one property.
func property(schema string) string { return `{"type":"object","properties":{"p":` + schema + `}}` }

// malformed are schemas of tools as strangers write them: name → schema and texts that the fitted one has to hold.
var malformed = []struct {
	name, schema string
	kept         []string
}{
	{"type any", property(`{"type":"any","description":"D"}`), []string{`"p"`, `"D"`}},
	{"type Any", property(`{"type":"Any"}`), []string{`"p":{}`}},
	{"type None", property(`{"type":"None"}`), []string{`"null"`}},
	{"type str", property(`{"type":"str","description":"D"}`), []string{`"string"`, `"D"`}},
	{"type int", property(`{"type":"int"}`), []string{`"integer"`}},
	{"type float", property(`{"type":"float"}`), []string{`"number"`}},
	{"type dict", property(`{"type":"dict"}`), []string{`"p":{"type":"object"`}},
	{"type list", property(`{"type":"list"}`), []string{`"array"`, `"items"`}},
	{"type bool", property(`{"type":"bool"}`), []string{`"boolean"`}},
	{"type in upper case", `{"type":"OBJECT","properties":{"p":{"type":"STRING"}}}`, []string{`"object"`, `"string"`}},
	{"type null as a value", property(`{"type":null,"title":"T"}`), []string{`"T"`}},
	{"type empty list", property(`{"type":[],"title":"T"}`), []string{`"T"`}},
	{"type with duplicates", property(`{"type":["string","string"]}`), []string{`"string"`}},
	{"type with nested list", property(`{"type":[["string"]]}`), []string{`"p"`}},
	{"type number as a value", property(`{"type":3}`), []string{`"p"`}},
	{"type object as a value", property(`{"type":{"type":"string"}}`), []string{`"p"`}},
	{"type union in a text", property(`{"type":"string | null"}`), []string{`"string"`, `"null"`}},
	{"type with schemas of draft 3", property(`{"type":["string",{"type":"null"}]}`), []string{`"p"`}},
	{"type of the top in capitals", `{"type":"Object","properties":{"p":{}}}`, []string{`"object"`, `"p"`}},
	{"type of the top array", `{"type":"array","items":{"type":"string"}}`, nil},
	{"type of the top list", `{"type":["object","null"],"properties":{"p":{}}}`, []string{`"p"`}},
	{"property is a text", property(`"string"`), []string{`"string"`}},
	{"property is a description", property(`"The city"`), []string{`"The city"`}},
	{"property is a list", property(`["string","null"]`), []string{`"string"`, `"null"`}},
	{"property is null", property(`null`), []string{`"p"`}},
	{"property is a number", property(`1`), []string{`"p"`}},
	{"property is false", property(`false`), []string{`"p"`}},
	{"properties is a list", `{"type":"object","properties":[{"name":"p"}]}`, nil},
	{"properties is null", `{"type":"object","properties":null}`, nil},
	{"properties is a text", `{"type":"object","properties":"p"}`, nil},
	{"description null", property(`{"type":"string","description":null}`), []string{`"string"`}},
	{"description number", property(`{"type":"string","description":7}`), []string{`"string"`}},
	{"description list", property(`{"type":"string","description":["a"]}`), []string{`"string"`}},
	{"title null", property(`{"type":"string","title":null}`), []string{`"string"`}},
	{"title boolean", property(`{"type":"string","title":true}`), []string{`"string"`}},
	{"enum null", property(`{"type":"string","enum":null}`), []string{`"string"`}},
	{"enum text", property(`{"type":"string","enum":"a,b"}`), []string{`"string"`}},
	{"enum object", property(`{"type":"string","enum":{"A":1}}`), []string{`"string"`}},
	{"enum empty", property(`{"type":"string","enum":[]}`), []string{`"string"`}},
	{"enum with duplicates", property(`{"enum":["a","b","a"]}`), []string{`["a","b"]`}},
	{"enum of another type", property(`{"type":"string","enum":[1,2]}`), []string{`[1,2]`}},
	{"enum with null", property(`{"type":"string","enum":["a",null]}`), []string{`["a"]`}},
	{"format null", property(`{"type":"string","format":null}`), []string{`"string"`}},
	{"format number", property(`{"type":"string","format":1}`), []string{`"string"`}},
	{"pattern null", property(`{"type":"string","pattern":null}`), []string{`"string"`}},
	{"pattern number", property(`{"type":"string","pattern":1}`), []string{`"string"`}},
	{"pattern no expression", property(`{"type":"string","pattern":"^[$"}`), []string{`"string"`}},
	{"pattern with lookahead", property(`{"pattern":"^(?!x).*$"}`), []string{`(?!x)`}},
	{"pattern with Unicode class", property(`{"pattern":"^\\p{L}+$"}`), []string{`p{L}`}},
	{"pattern of RE2 only", property(`{"pattern":"^(?i)a\\z$"}`), []string{`(?i)`}},
	{"pattern with named group", property(`{"pattern":"^(?<n>a)$"}`), []string{`(?`}},
	{"pattern with class in range", property(`{"pattern":"^[\\w-.]$"}`), nil},
	{"pattern with huge repeat", property(`{"pattern":"^a{1,2000}$"}`), nil},
	{"minimum text", property(`{"type":"integer","minimum":"0","maximum":"1e2"}`), []string{`"integer"`}},
	{"minimum no number", property(`{"type":"integer","minimum":"low"}`), []string{`"integer"`}},
	{"minimum null", property(`{"type":"integer","minimum":null}`), []string{`"integer"`}},
	{"minimum huge", property(`{"type":"number","minimum":1e999999999}`), []string{`"number"`}},
	{"minimum tiny", property(`{"type":"number","minimum":1e-999999999}`), []string{`"number"`}},
	{"maxLength 1.5", property(`{"type":"string","maxLength":1.5}`), []string{`"string"`}},
	{"minLength negative", property(`{"type":"string","minLength":-1}`), []string{`"string"`}},
	{"minProperties text", property(`{"type":"object","minProperties":"1"}`), []string{`"p"`}},
	{"multipleOf 0", property(`{"type":"number","multipleOf":0}`), []string{`"number"`}},
	{"exclusiveMinimum boolean", property(`{"type":"number","minimum":1,"exclusiveMinimum":true}`), []string{`"minimum":1`}},
	{"uniqueItems text", property(`{"type":"array","uniqueItems":"true"}`), []string{`"array"`}},
	{"additionalProperties null", `{"type":"object","properties":{"p":{}},"additionalProperties":null}`, []string{`"p"`}},
	{"additionalProperties text", property(`{"type":"object","additionalProperties":"string"}`),
		[]string{`"additionalProperties":{"type":"string"}`}},
	{"additionalProperties list", property(`{"type":"object","additionalProperties":[]}`), []string{`"p"`}},
	{"items null", property(`{"type":"array","items":null}`), []string{`"array"`}},
	{"items text", property(`{"type":"array","items":"string"}`), []string{`"items":{"type":"string"}`}},
	{"items list", property(`{"type":"array","items":[{"type":"str"},{"type":"int"}]}`), []string{`"string"`, `"integer"`}},
	{"items empty list", property(`{"type":"array","items":[],"additionalItems":false}`), []string{`"array"`}},
	{"items missing", property(`{"type":"array","prefixItems":[{"type":"number"}]}`), []string{`"items"`, `"number"`}},
	{"prefixItems object", property(`{"type":"array","prefixItems":{}}`), []string{`"array"`}},
	{"$defs list", `{"type":"object","properties":{"p":{}},"$defs":[]}`, []string{`"p"`}},
	{"$defs with a bad schema", `{"properties":{"p":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"str"},"B":7}}`,
		[]string{`"#/$defs/A"`, `"string"`}},
	{"definitions null", `{"properties":{"p":{}},"definitions":null}`, []string{`"p"`}},
	{"$ref no text", property(`{"$ref":7,"description":"D"}`), []string{`"D"`}},
	{"$ref dangling", property(`{"$ref":"#/$defs/X","description":"D"}`), []string{`"D"`}},
	{"$ref remote", property(`{"$ref":"https://example.com/a.json","description":"D"}`), []string{`"D"`}},
	{"$ref to a file", property(`{"$ref":"file:///etc/passwd","description":"D"}`), []string{`"D"`}},
	{"$ref to no schema", property(`{"$ref":"#/properties","description":"D"}`), []string{`"D"`}},
	{"$ref with a negative index", `{"properties":{"p":{"$ref":"#/allOf/-1"}},"allOf":[{}]}`, []string{`"p"`}},
	{"$ref to itself", property(`{"$ref":"#/properties/p","description":"D"}`), []string{`"D"`}},
	{"$ref of the top to itself", `{"$ref":"#","properties":{"p":{}}}`, []string{`"p"`}},
	{"$ref in a circle", `{"properties":{"p":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}}}`,
		[]string{`"p"`}},
	{"$ref to a property", `{"properties":{"a b":{"type":"str"},"p":{"$ref":"#/properties/a b"}}}`, []string{`"string"`}},
	{"$ref to a component", `{"properties":{"p":{"$ref":"#/components/A"}},"components":{"A":{"type":"string"}}}`, []string{`"p"`}},
	{"$ref to an anchor", `{"properties":{"p":{"$ref":"#a"}},"$defs":{"A":{"$anchor":"a","type":"str"}}}`, []string{`"string"`}},
	{"$ref by the identity", `{"$id":"https://example.com/t","properties":{"p":{"$ref":"https://example.com/t#/$defs/A"}},` +
		`"$defs":{"A":{"type":"str"}}}`, []string{`"string"`}},
	{"$ref of a tree", `{"properties":{"p":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"object","properties":` +
		`{"next":{"$ref":"#/$defs/N"}}}}}`, []string{`"#/$defs/N"`, `"next"`}},
	{"$ref at the top", `{"$ref":"#/definitions/A","definitions":{"A":{"type":"object","properties":{"p":{"type":"str"}}}}}`,
		[]string{`"p"`, `"string"`}},
	{"$anchor bad", property(`{"type":"string","$anchor":"1 a"}`), []string{`"string"`}},
	{"$anchor twice", `{"$anchor":"a","properties":{"p":{"$anchor":"a"}}}`, []string{`"p"`}},
	{"$dynamicRef dangling", property(`{"type":"string","$dynamicRef":"#none"}`), []string{`"string"`}},
	{"$id bad", property(`{"type":"string","$id":":::"}`), []string{`"string"`}},
	{"$id twice", `{"$id":"https://example.com/t","properties":{"p":{"$id":"https://example.com/t"}}}`, []string{`"p"`}},
	{"$schema unknown", `{"$schema":"https://example.com/draft","properties":{"p":{}}}`, []string{`"p"`}},
	{"$schema below the top", property(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"string"}`), []string{`"string"`}},
	{"$schema number", `{"$schema":7,"properties":{"p":{}}}`, []string{`"p"`}},
	{"$comment object", property(`{"type":"string","$comment":{}}`), []string{`"string"`}},
	{"examples no list", property(`{"type":"string","examples":"x"}`), []string{`"string"`}},
	{"required true", property(`{"type":"string","required":true}`), []string{`"required":["p"]`}},
	{"required false", property(`{"type":"string","required":false}`), []string{`"string"`}},
	{"required text", `{"properties":{"p":{}},"required":"p"}`, []string{`"p"`}},
	{"required null", `{"properties":{"p":{}},"required":null}`, []string{`"p"`}},
	{"required numbers", `{"properties":{"p":{}},"required":[1,"p"]}`, []string{`"required":["p"]`}},
	{"required duplicates below", property(`{"type":"object","properties":{"q":{}},"required":["q","q"]}`),
		[]string{`"required":["q"]`}},
	{"dependentRequired text", property(`{"type":"object","dependentRequired":{"a":"b"}}`), []string{`"p"`}},
	{"dependencies of draft 7", property(`{"type":"object","dependencies":{"a":7}}`), []string{`"p"`}},
	{"nullable", property(`{"type":"string","nullable":true}`), []string{`"string"`, `"null"`}},
	{"nullable without type", property(`{"nullable":true}`), []string{`"p"`}},
	{"readOnly text", property(`{"type":"string","readOnly":"yes"}`), []string{`"string"`}},
	{"anyOf empty", property(`{"anyOf":[],"description":"D"}`), []string{`"D"`}},
	{"anyOf object", property(`{"anyOf":{"type":"string"},"description":"D"}`), []string{`"D"`}},
	{"anyOf with texts", property(`{"anyOf":["string",null]}`), []string{`"string"`}},
	{"oneOf at the top", `{"oneOf":[{"properties":{"p":{"type":"str"}}}]}`, nil},
	{"allOf at the top", `{"allOf":[{"$ref":"#/$defs/A"},{"properties":{"q":{}}}],"$defs":{"A":{"properties":{"p":{}}}}}`,
		[]string{`"p"`, `"q"`}},
	{"allOf of itself", `{"properties":{"p":{"$ref":"#/$defs/A"}},"$defs":{"A":{"allOf":[{"$ref":"#/$defs/A"},{"title":"T"}]}}}`,
		[]string{`"p"`, `"T"`}},
	{"not null", property(`{"type":"string","not":null}`), []string{`"string"`}},
	{"if text", property(`{"type":"string","if":"x"}`), []string{`"string"`}},
	{"patternProperties with a bad key", property(`{"type":"object","patternProperties":{"[":{}}}`), []string{`"p"`}},
	{"patternProperties list", property(`{"type":"object","patternProperties":[]}`), []string{`"p"`}},
	{"propertyNames list", property(`{"type":"object","propertyNames":[]}`), []string{`"p"`}},
	{"contentSchema text", property(`{"type":"string","contentSchema":"x"}`), []string{`"string"`}},
	{"unknown keyword with schemas", `{"properties":{"p":{}},"x-more":{"$id":":::","$ref":"http://x"}}`, []string{`"p"`}},
	{"names of parameters", `{"properties":{"a b":{"type":"str"},"":{},"ключ":{}},"required":["a b"]}`, []string{`a_b_c8687a`}},
	{"names with escapes", `{"properties":{"\ud800":{},"__proto__":{},"a\u0000":{},"p":{}}}`, []string{`"p"`}},
	{"keys twice", `{"type":"any","properties":{"p":{"type":"any","type":"str"}}}`, []string{`"string"`}},
	{"text after it", `{"type":"object"} x`, nil},
	{"no JSON", `{"type":`, nil},
	{"a list", `[{"type":"object"}]`, nil},
	{"true", `true`, nil},
	{"a depth bomb", strings.Repeat(`{"properties":{"p":`, 3000) + `{}` + strings.Repeat(`}}`, 3000), []string{`"p"`}},
	{"a deep list", property(`{"default":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`), []string{`"p"`}},
	{"a huge schema", property(`{"description":"` + strings.Repeat("x", 1<<20) + `"}`), nil},
	{"many parameters", `{"properties":{` + strings.Join(numbered(2000, `"p%d":{"type":"str"}`), ",") + `}}`, []string{`"p1999"`}},
	{"references to references", `{"properties":{` + strings.Join(numbered(1000, `"p%d":{"$ref":"#/properties/p%[2]d"}`), ",") + `}}`,
		[]string{`"p999"`}},
}

// numbered returns a format filled with the numbers below n, each with its successor.
func numbered(n int, format string) (list []string) {
	for i := range n {
		line := strings.ReplaceAll(format, "%[2]d", strconv.Itoa(i+1))
		list = append(list, strings.ReplaceAll(line, "%d", strconv.Itoa(i)))
	}
	return list
}

// api is an endpoint of a provider, and how a request with one tool looks there.
type api struct {
	name, path string
	dialect    toolschema.Dialect
	body       func(schema json.RawMessage) string
}

var apis = []api{
	{"openai", "/v1/chat/completions", toolschema.JSONSchema, func(s json.RawMessage) string {
		return `{"model":"gpt-sim","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":` +
			`{"name":"t","parameters":` + string(s) + `}}]}`
	}},
	{"anthropic", "/v1/messages", toolschema.JSONSchema, func(s json.RawMessage) string {
		return `{"model":"claude-sim","max_tokens":1,"messages":[{"role":"user","content":"x"}],` +
			`"tools":[{"name":"t","input_schema":` + string(s) + `}]}`
	}},
	{"gemini", "/v1beta/models/gemini-3.8-flash:generateContent", toolschema.Gemini, func(s json.RawMessage) string {
		field := ""
		if s != nil {
			field = `,"parametersJsonSchema":` + string(s)
		}
		return `{"contents":[{"parts":[{"text":"x"}]}],"tools":[{"functionDeclarations":[{"name":"t"` + field + `}]}]}`
	}},
}

// send sends a request with a schema, and returns the status and the answer.
func (a api) send(t *testing.T, s *simmodel.Server, schema json.RawMessage) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+a.path, strings.NewReader(a.body(schema)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer key"}, "X-Api-Key": {"key"}, "X-Goog-Api-Key": {"key"},
		"Anthropic-Version": {"2023-06-01"}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

func newServer(t testing.TB) *simmodel.Server {
	s, err := simmodel.New(simmodel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestFit_MalformedSchemas_NoProviderRefuses(t *testing.T) {
	s := newServer(t)
	for _, c := range malformed {
		for _, a := range apis {
			fitted := toolschema.Fit(a.dialect, json.RawMessage(c.schema))
			if status, answer := a.send(t, s, fitted); status != http.StatusOK {
				t.Errorf("%s: %s answers %d %s to %.2000s", c.name, a.name, status, answer, fitted)
			}
			for _, part := range c.kept {
				if !strings.Contains(string(fitted), part) {
					t.Errorf("%s: %s for %s is not in %.2000s", c.name, part, a.name, fitted)
				}
			}
		}
	}
}

// TestFit_MalformedSchemas_AreRefusedAsTheyAre keeps the simulated endpoints strict: most of the schemas would be refused.
func TestFit_MalformedSchemas_AreRefusedAsTheyAre(t *testing.T) {
	s := newServer(t)
	for _, a := range apis {
		accepted := []string{}
		for _, c := range malformed {
			if len(c.schema) > 1000 { // costs minutes to compile
				continue
			}
			if status, _ := a.send(t, s, json.RawMessage(c.schema)); status == http.StatusOK {
				accepted = append(accepted, c.name)
			}
		}
		if len(accepted) > 20 {
			t.Errorf("%s accepts %d: %q", a.name, len(accepted), accepted)
		}
	}
}

// corpora returns the schemas of the tools in the test collections, and what their files hold otherwise.
func corpora(t *testing.T) (schemas []json.RawMessage) {
	folder := os.Getenv("RAVENBOT_CORPORA")
	if folder == "" {
		t.Skip("RAVENBOT_CORPORA is not set")
	}
	files, err := filepath.Glob(filepath.Join(folder, "tools", "*", "tools.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tools in %s: %v", folder, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
			var tool struct{ Parameters json.RawMessage }
			if err := json.Unmarshal(lines.Bytes(), &tool); err != nil {
				t.Fatal(err)
			}
			schemas = append(schemas, tool.Parameters, bytes.Clone(lines.Bytes()))
		}
	}
	return schemas
}

func TestFit_Corpora_NoProviderRefuses(t *testing.T) {
	schemas, s := corpora(t), newServer(t)
	for i := 0; i < len(schemas); i += 100 { // many schemas in one, which saves requests
		properties := []string{}
		for n, schema := range schemas[i:min(i+100, len(schemas))] {
			if schema != nil {
				properties = append(properties, fmt.Sprintf(`"p%d":%s`, n, schema))
			}
		}
		whole := json.RawMessage(`{"properties":{` + strings.Join(properties, ",") + `}}`)
		for _, a := range apis {
			if status, answer := a.send(t, s, toolschema.Fit(a.dialect, whole)); status != http.StatusOK {
				t.Errorf("schemas from %d: %s answers %d %s", i, a.name, status, answer)
			}
		}
	}
}

func FuzzFit(f *testing.F) {
	for _, c := range malformed {
		if len(c.schema) < 1000 {
			f.Add(c.schema)
		}
	}
	s := newServer(f)
	f.Fuzz(func(t *testing.T, schema string) {
		for _, a := range apis {
			fitted := toolschema.Fit(a.dialect, json.RawMessage(schema))
			if status, answer := a.send(t, s, fitted); status != http.StatusOK {
				t.Errorf("%s answers %d %s to %s", a.name, status, answer, fitted)
			}
			if again := toolschema.Fit(a.dialect, fitted); a.dialect == toolschema.JSONSchema && !bytes.Equal(again, fitted) {
				t.Errorf("%s is fitted again to %s", fitted, again)
			}
		}
	})
}
