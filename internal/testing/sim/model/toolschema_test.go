package simmodel_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	simmodel "ravenbot/internal/testing/sim/model"
)

// post sends a body to a path of a simulated model, and returns the status and the answer.
func post(t *testing.T, s *simmodel.Server, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, strings.NewReader(body))
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

func TestTools_SchemasThatProvidersRefuse_AreRefusedInTheirWords(t *testing.T) {
	s, err := simmodel.New(simmodel.Options{RefuseTools: []string{"cursed"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	const (
		good       = `{"type":"object","properties":{"a":{"type":"string"}}}`
		anthropic  = `tools.1.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 `
		geminiTool = `* GenerateContentRequest.tools[0].function_declarations[1].parameters`
	)
	property := func(schema string) string { return `{"type":"object","properties":{"a":` + schema + `}}` }
	for name, c := range map[string]struct{ tool, schema, openAI, anthropic, gemini string }{
		"nothing wrong": {"t", good, "", "", ""},
		"a tool that is always refused": {"cursed", good, `[] is not of type 'object', 'boolean'.`, anthropic,
			geminiTool + `.properties: should be non-empty for OBJECT type`},
		"an unknown type": {"t", property(`{"type":"any"}`), `'any' is not valid under any of the given schemas.`, anthropic,
			`function_declarations[1].parameters_json_schema`},
		"a list as a property": {"t", property(`[]`), `[] is not of type 'boolean', 'object'.`, anthropic,
			`function_declarations[1].parameters_json_schema`},
		"no regular expression": {"t", property(`{"pattern":"\\p{L}"}`), `'\p{L}' is not a 'regex'.`, anthropic,
			`function_declarations[1].parameters_json_schema`},
		"a dangling reference": {"t", property(`{"$ref":"#/$defs/X"}`), `Invalid schema for function 't'`, anthropic,
			geminiTool + `_json_schema`},
		"a reference to elsewhere": {"t", property(`{"$ref":"https://example.com/x"}`), `https://example.com/x`, anthropic,
			geminiTool + `_json_schema`},
		"an array of an array without items": {"t", property(`{"anyOf":[{"type":"array","items":{"type":["null","array"]}}]}`),
			`In context=('properties', 'a', 'anyOf', '0', 'items', 'type', '1'), array schema missing items.`, "",
			`function_declarations[1].parameters_json_schema.properties.a.anyOf[0].items.type`},
	} {
		check := func(api, path, body, want string, parts ...string) {
			status, answer := post(t, s, path, body)
			if want == "" {
				if status != http.StatusOK {
					t.Errorf("%s: %s answers %d %s", name, api, status, answer)
				}
				return
			}
			var decoded map[string]any
			if err := json.Unmarshal([]byte(answer), &decoded); err != nil {
				t.Errorf("%s: %s answers %s", name, api, answer)
			}
			for _, part := range append(parts, want) {
				if text := fmt.Sprint(decoded["error"]); status != http.StatusBadRequest || !strings.Contains(text, part) {
					t.Errorf("%s: %s answers %d %s, want %s", name, api, status, text, part)
				}
			}
		}
		check("openai", "/v1/chat/completions", `{"model":"gpt-sim","messages":[{"role":"user","content":"x"}],"tools":[`+
			`{"type":"function","function":{"name":"fine","parameters":`+good+`}},`+
			`{"type":"function","function":{"name":"`+c.tool+`","parameters":`+c.schema+`}}]}`, c.openAI,
			`Invalid schema for function '`+c.tool+`': `, `param:tools[1].function.parameters`,
			`code:invalid_function_parameters`, `type:invalid_request_error`)
		check("anthropic", "/v1/messages", `{"model":"claude-sim","max_tokens":1,"messages":[{"role":"user","content":"x"}],`+
			`"tools":[{"name":"fine","input_schema":`+good+`},{"name":"`+c.tool+`","input_schema":`+c.schema+`}]}`, c.anthropic)
		check("gemini", "/v1beta/models/gemini-3.8-flash:generateContent", `{"contents":[{"parts":[{"text":"x"}]}],`+
			`"tools":[{"functionDeclarations":[{"name":"fine","parametersJsonSchema":`+good+`},`+
			`{"name":"`+c.tool+`","parametersJsonSchema":`+c.schema+`}]}]}`, c.gemini, `status:INVALID_ARGUMENT`)
	}
}
