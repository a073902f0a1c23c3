package simmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"ravenbot/internal/core/text"
)

// refuseOpenAITool returns the number of the first tool for which OpenAI refuses the request, and its words; they are
// empty if there is none.
func (s *Server) refuseOpenAITool(o oRequest) (int, string) {
	for n, t := range o.Tools {
		problem := checkOpenAISchema(t.Function.Parameters)
		if slices.Contains(s.opts.RefuseTools, t.Function.Name) {
			problem = "[] is not of type 'object', 'boolean'."
		}
		if problem != "" {
			return n, fmt.Sprintf("Invalid schema for function '%s': %s", t.Function.Name, problem)
		}
	}
	return 0, ""
}

// invalidParameters answers a request whose tool n is refused, as OpenAI does (evalstate/fast-agent#143).
func invalidParameters(w http.ResponseWriter, n int, problem string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	body := map[string]any{"message": problem, "type": "invalid_request_error",
		"param": fmt.Sprintf("tools[%d].function.parameters", n), "code": "invalid_function_parameters"}
	_, _ = io.WriteString(w, mustJSON(map[string]any{"error": body})) // the caller may have hung up
}

// refuseAnthropicTool returns what Anthropic says about the first tool whose schema it refuses; it is empty if there
// is none.
func (s *Server) refuseAnthropicTool(a *aRequest) string {
	for n, t := range a.Tools {
		if checkDraft(t.Schema) != "" || slices.Contains(s.opts.RefuseTools, t.Name) {
			return fmt.Sprintf("tools.%d.custom.input_schema: JSON schema is invalid. It must match JSON Schema "+
				"draft 2020-12 (https://json-schema.org/draft/2020-12). Learn more about tool use at "+
				"https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview.", n)
		}
	}
	return ""
}

// refuseGeminiTool returns what Gemini says about the first declaration whose schema it refuses; it is empty if there
// is none.
func (s *Server) refuseGeminiTool(list []gDeclaration) string {
	for n, d := range list {
		at := fmt.Sprintf("* GenerateContentRequest.tools[0].function_declarations[%d].parameters", n)
		if slices.Contains(s.opts.RefuseTools, d.Name) {
			return at + ".properties: should be non-empty for OBJECT type"
		}
		if problem := checkDraft(d.JSONSchema); d.JSONSchema != nil && problem != "" {
			return at + "_json_schema: " + problem
		}
	}
	return ""
}

// checkOpenAISchema returns what OpenAI refuses in the schema of a function's parameters; it is empty if it accepts
// it.
func checkOpenAISchema(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	if problem := checkDraft(raw); problem != "" {
		return problem
	}
	var top map[string]any
	_ = json.Unmarshal(raw, &top) // true and false have no type
	if got := top["type"]; got != "object" {
		if got == nil {
			got = "None"
		}
		return fmt.Sprintf("schema must be a JSON Schema of 'type: \"object\"', got 'type: \"%v\"'.", got)
	}
	for _, key := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if top[key] != nil {
			return "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
		}
	}
	if _, ok := top["properties"].(map[string]any); !ok {
		return "In context=(), object schema missing properties."
	}
	return findArrayWithoutItems(top, nil)
}

// findArrayWithoutItems returns what OpenAI says about the first array without items in a schema, at any depth
// (campfirein/byterover-cli#42, PrefectHQ/fastmcp#2464).
func findArrayWithoutItems(v any, context []string) string {
	s, _ := v.(map[string]any)
	in := func(more ...string) string {
		at := strings.Join(slices.Concat(context, more), "', '")
		return fmt.Sprintf("In context=('%s'), array schema missing items.", at)
	}
	if list, _ := s["type"].([]any); s["items"] == nil && slices.Contains(list, any("array")) {
		return in("type", fmt.Sprint(slices.Index(list, any("array"))))
	}
	if s["items"] == nil && s["type"] == "array" {
		return in()
	}
	for key, below := range s {
		inner := map[string]any{}
		switch below := below.(type) {
		case map[string]any:
			if inner = below; !slices.Contains([]string{"properties", "$defs", "definitions", "patternProperties",
				"dependentSchemas"}, key) {
				inner = map[string]any{"": below}
			}
		case []any:
			for i, one := range below {
				inner[fmt.Sprint(i)] = one
			}
		}
		if slices.Contains([]string{"enum", "const", "default", "examples"}, key) {
			continue
		}
		for name, one := range inner {
			at := slices.DeleteFunc(slices.Concat(context, []string{key, name}), func(s string) bool { return s == "" })
			if problem := findArrayWithoutItems(one, at); problem != "" {
				return problem
			}
		}
	}
	return ""
}

// checkDraft returns what is wrong with a schema of draft 2020-12; it is empty for a valid one that refers to nothing
// outside. The words are those of Python's jsonschema, which OpenAI uses, where reports show them.
func checkDraft(raw json.RawMessage) string {
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		return "the schema is no JSON: " + err.Error()
	}
	if top, ok := doc.(map[string]any); ok {
		delete(top, "$schema") // it is checked by draft 2020-12, whatever it names
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(compilePattern)
	const here = "tool:///parameters"
	if err := c.AddResource(here, doc); err != nil {
		return err.Error()
	}
	_, err := c.Compile(here)
	var invalid *jsonschema.SchemaValidationError
	var fault *jsonschema.ValidationError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &invalid) && errors.As(invalid.Err, &fault):
		return describe(doc, fault)
	}
	return err.Error()
}

// describe returns the first fault of a schema.
func describe(doc any, fault *jsonschema.ValidationError) string {
	for len(fault.Causes) > 0 {
		if _, ok := fault.ErrorKind.(*kind.AnyOf); ok {
			break
		}
		fault = fault.Causes[0]
	}
	value := doc
	for _, key := range fault.InstanceLocation {
		switch outer := value.(type) {
		case map[string]any:
			value = outer[key]
		case []any:
			value = nil // the words below name no element of a list
		}
	}
	text := mustJSON(value)
	if s, ok := value.(string); ok {
		text = "'" + s + "'"
	}
	switch k := fault.ErrorKind.(type) {
	case *kind.AnyOf:
		return text + " is not valid under any of the given schemas."
	case *kind.Type:
		return text + " is not of type '" + strings.Join(k.Want, "', '") + "'."
	case *kind.Format:
		return text + " is not a '" + k.Want + "'."
	}
	return text + " is refused at " + strings.Join(fault.InstanceLocation, ".")
}

// noLoader loads nothing: a schema has to be complete.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) { return nil, errors.New("Unresolvable: " + url) }

var (
	// foreignPattern matches what RE2 knows, but not Python's re or ECMAScript.
	foreignPattern = text.Pattern(`\\(?:[pPzAQEaC]|x\{)|\(\?[^:]|\[\[:`)
	escapedPattern = text.Pattern(`\\[\\()\[\]]`)
)

// compilePattern compiles a regular expression that Python, ECMAScript and RE2 can read.
func compilePattern(expression string) (jsonschema.Regexp, error) {
	if foreignPattern().MatchString(escapedPattern().ReplaceAllString(expression, ".")) {
		return nil, errors.New("not portable")
	}
	return regexp.Compile(expression)
}
