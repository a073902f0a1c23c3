package simmodel

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

var geminiFields = []string{
	"contents",
	"systemInstruction",
	"system_instruction",
	"tools",
	"toolConfig",
	"tool_config",
	"safetySettings",
	"generationConfig",
	"cachedContent",
	"store",
	"serviceTier",
	"model",
}

// readGemini takes a body apart and returns the first rule it breaks.
func (s *Server) readGemini(raw []byte, api, model string) (Request, string) {
	var fields map[string]json.RawMessage
	var g gRequest
	if json.Unmarshal(raw, &fields) != nil {
		return Request{}, "Invalid JSON payload received."
	}
	for name := range fields {
		// Vertex AI stores nothing (https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.endpoints/
		// generateContent lists no such field, seen 2026-11).
		if !slices.Contains(geminiFields, name) || name == "store" && api == Vertex {
			return Request{}, fmt.Sprintf("Invalid JSON payload received. Unknown name %q: Cannot find field.", name)
		}
	}
	if err := json.Unmarshal(raw, &g); err != nil {
		return Request{}, "Invalid JSON payload received. " + err.Error()
	}
	var declarations []gDeclaration
	for _, t := range g.Tools {
		declarations = append(declarations, t.Functions...)
	}
	for _, check := range []func() string{
		func() string { return checkDeclarations(declarations) },
		func() string { return s.refuseGeminiTool(declarations) },
		func() string { return checkConfig(g, declarations) },
		func() string { return checkTurns(g.Contents) },
		func() string { return s.checkSignatures(g.Contents, signerOf(api, model)) },
	} {
		if problem := check(); problem != "" {
			return Request{}, problem
		}
	}
	req := Request{API: api, Model: model, Store: g.Store, Raw: raw, ToolMode: g.ToolConfig.Calling.Mode,
		Temperature: g.Config.Temperature}
	if g.System != nil {
		req.System = textOf(g.System.Parts)
	}
	for _, c := range g.Contents {
		req.Messages = append(req.Messages, newMessage(c))
	}
	for _, d := range declarations {
		schema := d.Parameters
		if schema == nil {
			schema = d.JSONSchema
		}
		req.Tools = append(req.Tools, Tool{Name: d.Name, Description: d.Description, Schema: schema})
	}
	return req, ""
}

// textOf returns the text of parts, without that of thoughts.
func textOf(parts []gPart) string {
	var b strings.Builder
	for _, p := range parts {
		if p.Text != nil && !p.Thought {
			b.WriteString(*p.Text)
		}
	}
	return b.String()
}

// newMessage returns a content as the script sees it. Results of functions come from the user for Gemini, from the tool
// here.
func newMessage(c gContent) Message {
	m := Message{Role: c.Role, Text: textOf(c.Parts)}
	if m.Role == "" {
		m.Role = RoleUser
	}
	for _, p := range c.Parts {
		if p.Call != nil {
			m.Calls = append(m.Calls, Call{ID: p.Call.ID, Name: p.Call.Name, Args: p.Call.Args})
		}
		if p.Response != nil {
			m.Role = RoleTool
			m.Results = append(m.Results, Result{ID: p.Response.ID, Name: p.Response.Name, Content: string(p.Response.Response)})
		}
	}
	return m
}

var functionName = text.Pattern(`^[A-Za-z_][A-Za-z0-9_.:-]*$`) // of 64 at most

// checkDeclarations returns what is wrong with the declared functions; empty: nothing.
func checkDeclarations(list []gDeclaration) string {
	seen := map[string]bool{}
	for i, d := range list {
		at := fmt.Sprintf("tools[0].function_declarations[%d]", i)
		switch {
		case !functionName().MatchString(d.Name) || len(d.Name) > 64:
			return fmt.Sprintf(
				"* GenerateContentRequest.%s.name: Invalid function name %q. Must start with a letter or an underscore, "+
					"alphanumeric, underscores, dots, colons or dashes, at most 64.",
				at,
				d.Name,
			)
		case seen[d.Name]:
			return fmt.Sprintf("* GenerateContentRequest.%s: Duplicate function declaration found: %s", at, d.Name)
		case d.Parameters != nil && d.JSONSchema != nil:
			return fmt.Sprintf("* GenerateContentRequest.%s: only one of parameters and parameters_json_schema may be set", at)
		}
		seen[d.Name] = true
		if d.Parameters != nil {
			if problem := checkSchema(d.Parameters, at+".parameters"); problem != "" {
				return problem
			}
		}
		if d.JSONSchema != nil {
			if problem := checkJSONSchema(d.JSONSchema, at+".parameters_json_schema"); problem != "" {
				return problem
			}
		}
	}
	return ""
}

// checkConfig returns what is wrong with the mode of function calling; empty: nothing.
func checkConfig(g gRequest, declarations []gDeclaration) string {
	calling := g.ToolConfig.Calling
	if !slices.Contains([]string{"", "MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"}, calling.Mode) {
		return fmt.Sprintf("Invalid value at 'tool_config.function_calling_config.mode': %q", calling.Mode)
	}
	for _, name := range calling.Allowed {
		if !slices.ContainsFunc(declarations, func(d gDeclaration) bool { return d.Name == name }) {
			return fmt.Sprintf("allowed_function_names: %q is not declared", name)
		}
	}
	return ""
}

// calls returns the parts that call a function.
func (c gContent) calls() (calls []gPart) {
	for _, p := range c.Parts {
		if p.Call != nil {
			calls = append(calls, p)
		}
	}
	return calls
}

// responses returns the results of functions.
func (c gContent) responses() (list []*gResponse) {
	for _, p := range c.Parts {
		if p.Response != nil {
			list = append(list, p.Response)
		}
	}
	return list
}

// checkTurns looks at the order of turns and at the pairing of calls and responses.
func checkTurns(contents []gContent) string {
	if len(contents) == 0 {
		return "* GenerateContentRequest.contents: contents is not specified"
	}
	var open []gPart // calls of the turn before
	for i, c := range contents {
		at := fmt.Sprintf("* GenerateContentRequest.contents[%d]", i)
		if problem := c.check(at); problem != "" {
			return problem
		}
		calls, responses := c.calls(), c.responses()
		switch {
		case i == 0 && (c.Role == "model" || len(responses) > 0):
			return at + ": the first turn must be a user turn"
		case len(responses) > 0 && len(open) == 0:
			return "Please ensure that function response turn comes immediately after a function call turn."
		case len(open) > 0 && len(responses) != len(open):
			return "Please ensure that the number of function response parts is equal to the number of function call parts " +
				"of the function call turn."
		case len(calls) > 0 && contents[i-1].Role == "model":
			return "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
		}
		if problem := checkPairs(open, responses); problem != "" {
			return problem
		}
		open = calls
	}
	if len(open) > 0 || contents[len(contents)-1].Role == "model" {
		return "Please ensure that the last turn is a user turn or a function response turn."
	}
	return ""
}

// check returns what is wrong with a content, at being its place in the request; empty: nothing.
func (c gContent) check(at string) string {
	if !slices.Contains([]string{"", "user", "model", "function"}, c.Role) {
		return at + ": Please use a valid role: user, model."
	}
	if len(c.Parts) == 0 {
		return at + ".parts: must not be empty"
	}
	for j, p := range c.Parts {
		switch {
		case p.Text == nil && p.Call == nil && p.Response == nil && p.Inline == nil && p.File == nil && p.Signature == "":
			return fmt.Sprintf("%s.parts[%d].data: required oneof field 'data' must have one initialized field", at, j)
		case p.Call != nil && c.Role != "model":
			return at + ": a function call must be in a model turn"
		case p.Response != nil && c.Role == "model":
			return at + ": a function response must not be in a model turn"
		case p.Response != nil && !isObject(p.Response.Response):
			return fmt.Sprintf("%s.parts[%d].function_response.response: must be an object", at, j)
		case p.Call != nil && p.Call.Args != nil && !isObject(p.Call.Args):
			return fmt.Sprintf("%s.parts[%d].function_call.args: must be an object", at, j)
		}
	}
	return ""
}

// isObject reports whether JSON is an object.
func isObject(raw json.RawMessage) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(raw, &m) == nil && m != nil
}

// checkPairs checks that every call has a response, by name and id.
func checkPairs(calls []gPart, responses []*gResponse) string {
	left := slices.Clone(responses)
	for _, p := range calls {
		i := slices.IndexFunc(left, func(r *gResponse) bool { return r.Name == p.Call.Name && r.ID == p.Call.ID })
		if i < 0 {
			return fmt.Sprintf("No function response matches the function call %s with id %q.", p.Call.Name, p.Call.ID)
		}
		left = slices.Delete(left, i, i+1)
	}
	return ""
}

// checkSignatures looks at the calls of the current turn: what follows the
// user's last own words.
func (s *Server) checkSignatures(contents []gContent, model string) string {
	start := 0
	for i, c := range contents {
		if c.Role != "model" && len(c.responses()) == 0 {
			start = i
		}
	}
	for i, c := range contents[start:] {
		for j, p := range c.calls() {
			if p.Signature == "" && j == 0 {
				return fmt.Sprintf(
					"Function call is missing a thought_signature in functionCall parts. This is required for tools to work "+
						"correctly. Additional data, function call `%s`, position %d.",
					p.Call.Name,
					start+i+1,
				)
			}
			if p.Signature != "" && !s.isGenuine(p.Signature, model, p.Call.Name) {
				return "Corrupted thought signature."
			}
		}
	}
	return ""
}
