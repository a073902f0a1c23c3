package simdiscord

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Violation is a request that Discord's OpenAPI document does not allow.
type Violation struct{ Method, Path, Problem string }

const documentURL = "discord.json"

// validator holds the document. Upstream calls it a preview: unions are
// meant as "exactly one" yet overlap, and numbers may arrive as strings, so
// both are relaxed before use.
type validator struct {
	paths    []apiPattern
	mu       sync.Mutex // guards the compiler, which compiles at first use
	compiler *jsonschema.Compiler
}

type apiPattern struct {
	template string
	segments []string
	shared   []parameter
	methods  map[string]operation
}

type operation struct {
	Parameters []parameter `json:"parameters"`
	Body       *struct {
		Content  map[string]json.RawMessage `json:"content"`
		Required bool                       `json:"required"`
	} `json:"requestBody"`
}

type parameter struct {
	Name     string `json:"name"`
	In       string `json:"in"`
	Required bool   `json:"required"`
	Schema   struct {
		Type any `json:"type"`
	} `json:"schema"`
	pointer string
}

// validators are those made so far, by the hash of their document. All servers of a process share them: Discord's
// document has 1.2 MB, and to read it for each server takes seconds under the race detector.
var validators sync.Map // [sha256.Size]byte to func() (*validator, error)

// findValidator returns the validator of a document, which all servers share.
func findValidator(document []byte) (*validator, error) {
	made, _ := validators.LoadOrStore(sha256.Sum256(document), sync.OnceValues(func() (*validator, error) {
		return newValidator(document)
	}))
	return made.(func() (*validator, error))()
}

// newValidator reads Discord's OpenAPI document. Schemas are compiled when a request needs them: all of them would take
// seconds.
func newValidator(document []byte) (*validator, error) {
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(document, &doc); err != nil || len(doc.Paths) == 0 {
		return nil, fmt.Errorf("decode: no paths found: %w", err)
	}
	v := &validator{compiler: jsonschema.NewCompiler()}
	if err := v.compiler.AddResource(documentURL, relax(tree)); err != nil {
		return nil, fmt.Errorf("add document: %w", err)
	}
	for template, item := range doc.Paths {
		p, err := readPattern(template, item)
		if err != nil {
			return nil, fmt.Errorf("path %s: %w", template, err)
		}
		v.paths = append(v.paths, p)
	}
	return v, nil
}

// readPattern reads a path of the document with its methods.
func readPattern(template string, item map[string]json.RawMessage) (apiPattern, error) {
	p := apiPattern{template: template, segments: strings.Split(template, "/"), methods: map[string]operation{}}
	base := documentURL + "#/paths/" + escape(template)
	for key, raw := range item {
		if key == "parameters" {
			if err := json.Unmarshal(raw, &p.shared); err != nil {
				return p, err
			}
			setPointers(p.shared, base)
			continue
		}
		var op operation
		if err := json.Unmarshal(raw, &op); err != nil {
			return p, fmt.Errorf("%s: %w", key, err)
		}
		setPointers(op.Parameters, base+"/"+key)
		p.methods[strings.ToUpper(key)] = op
	}
	return p, nil
}

// setPointers notes where in the document the schema of each parameter stands.
func setPointers(list []parameter, base string) {
	for i := range list {
		list[i].pointer = base + "/parameters/" + strconv.Itoa(i) + "/schema"
	}
}

// escape makes a JSON pointer token that is safe in a URL fragment.
func escape(token string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D", "@", "%40").Replace(token)
}

// relax turns oneOf into anyOf and lets integers be numeric strings.
func relax(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = relax(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = relax(v[k])
		}
		if union, ok := v["oneOf"].([]any); ok {
			delete(v, "oneOf")
			v["anyOf"] = union
		}
		if list, ok := v["type"].([]any); v["type"] == "integer" || ok && slices.Contains(list, any("integer")) {
			return map[string]any{"anyOf": []any{v, map[string]any{"type": "string", "pattern": "^-?[0-9]+$"}}}
		}
	}
	return v
}

// check returns what is wrong with a request whose API prefix is stripped.
func (v *validator) check(r *http.Request, c *call) []Violation {
	var found []Violation
	blame := func(format string, args ...any) {
		found = append(found, Violation{r.Method, r.URL.Path, fmt.Sprintf(format, args...)})
	}
	p, values, ok := v.match(r.URL.Path)
	if !ok {
		blame("unknown path")
		return found
	}
	op, ok := p.methods[r.Method]
	if !ok {
		blame("unknown method for %s", p.template)
		return found
	}
	params := slices.Concat(p.shared, op.Parameters)
	v.checkParameters(r, params, values, blame)
	if op.Body == nil {
		if len(c.body) > 0 && string(c.body) != "null" {
			blame("%s takes no body", p.template)
		}
		return found
	}
	if len(c.body) == 0 {
		if op.Body.Required && len(c.files) == 0 {
			blame("body is missing")
		}
		return found
	}
	if _, ok := op.Body.Content["application/json"]; !ok {
		return found
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.body))
	if err != nil {
		blame("body is not JSON")
		return found
	}
	at := documentURL + "#/paths/" + escape(p.template) + "/" + strings.ToLower(
		r.Method,
	) + "/requestBody/content/application~1json/schema"
	if err := v.validate(at, body); err != nil {
		blame("body: %s", explain(err))
	}
	return found
}

// checkParameters reports parameters of the path and the query that are missing, unknown or not as the document has
// them. Headers are not checked.
func (v *validator) checkParameters(
	r *http.Request,
	params []parameter,
	path map[string]string,
	blame func(string, ...any),
) {
	query := r.URL.Query()
	known := map[string]bool{}
	for _, p := range params {
		var texts []string
		switch p.In {
		case "query":
			known[p.Name] = true
			texts = query[p.Name]
		case "path":
			texts = []string{path[p.Name]}
		default:
			continue
		}
		if len(texts) == 0 && p.Required {
			blame("%s parameter %s is missing", p.In, p.Name)
		}
		for _, text := range texts {
			if err := v.validateText(p, text); err != nil {
				blame("%s parameter %s: %s", p.In, p.Name, explain(err))
			}
		}
	}
	for name := range query {
		if !known[name] {
			blame("unknown query parameter %s", name)
		}
	}
}

// validateText takes a parameter for any of the things its text may mean, but
// a number for a number only, so that its limits count.
func (v *validator) validateText(p parameter, text string) error {
	err := v.validate(p.pointer, text)
	if err == nil && p.Schema.Type != "integer" {
		return nil
	}
	var decoded any
	if json.Unmarshal([]byte(text), &decoded) != nil {
		return fmt.Errorf("%q is not of the type wanted", text)
	}
	return v.validate(p.pointer, decoded)
}

// validate checks a value against the schema at a place of the document, compiled once.
func (v *validator) validate(pointer string, value any) error {
	v.mu.Lock()
	schema, err := v.compiler.Compile(pointer)
	v.mu.Unlock()
	if err != nil {
		return fmt.Errorf("compile schema: %w", err)
	}
	return schema.Validate(value)
}

// match finds the most literal template for a path.
func (v *validator) match(path string) (apiPattern, map[string]string, bool) {
	segments := strings.Split(path, "/")
	var best apiPattern
	var values map[string]string
	literal := -1
	for _, p := range v.paths {
		if got, n, ok := p.fit(segments); ok && n > literal {
			best, values, literal = p, got, n
		}
	}
	return best, values, literal >= 0
}

// fit returns the values of the parameters in a path, and how many of its segments stand literally in the pattern: of
// several patterns that fit, the one with the most is meant.
func (p apiPattern) fit(segments []string) (values map[string]string, literal int, ok bool) {
	if len(segments) != len(p.segments) {
		return nil, 0, false
	}
	values = map[string]string{}
	for i, want := range p.segments {
		switch {
		case strings.HasPrefix(want, "{"):
			values[strings.Trim(want, "{}")] = segments[i]
		case want == segments[i]:
			literal++
		default:
			return nil, 0, false
		}
	}
	return values, literal, true
}

// explain shortens a validation error to its places and reasons.
func explain(err error) string {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(invalid.Error()) {
		if text := strings.TrimSpace(line); strings.HasPrefix(text, "- ") {
			lines = append(lines, strings.TrimPrefix(text, "- "))
		}
	}
	return strings.Join(lines, "; ")
}
