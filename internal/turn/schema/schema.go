// Package schema checks the arguments of tool calls against the JSON Schema of the tool, and corrects unambiguous
// mistakes. It promises that no input of a tool server or a model makes it panic, overflow the stack, load anything or
// take long; that a tool with an unusable schema can still be called, unchecked; and that its errors are short and
// name the field. The packages of providers prepare schemas for models.
package schema

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxSchema = 1 << 20 // bytes; a larger schema is not used
	maxArgs   = 8 << 20 // bytes; larger arguments are refused
	maxCached = 1024    // compiled schemas
	// maxRounds limits how often arguments are corrected and checked again: each round reaches one level deeper.
	maxRounds = 8
)

// Checker checks arguments, and caches compiled schemas. It is safe for concurrent use.
type Checker struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]*compiled // by hash of the schema; nil if it is unusable
}

// New returns a Checker with an empty cache.
func New() *Checker {
	return &Checker{known: map[[sha256.Size]byte]*compiled{}}
}

// Check returns args as they should be sent: unchanged where they fit the schema, corrected where only one correction
// is possible ("5" for a number, 5 for a text, one value for a list of such values, a string that contains the wanted
// object, null for an optional property, a forbidden property that resembles no allowed one), with the defaults of
// required properties that are missing. Missing args are {}. The
// schema is read as draft 2020-12 unless it names an older one; references to other documents are never loaded and
// accept anything. With a schema that cannot be used, Check only requires that args is an object. The error is for the
// model that made the call.
func (c *Checker) Check(schema, args json.RawMessage) (json.RawMessage, error) {
	given, err := parseArguments(args)
	if err != nil {
		return nil, err
	}
	s := c.schema(schema)
	if s == nil {
		return encode(given.value, given.raw)
	}
	if problem := s.validate(given.value); problem != nil {
		mended, ok := mend(s, given.value, problem)
		if !ok {
			return nil, errors.New(s.describe(problem))
		}
		return encode(mended, nil)
	}
	return encode(given.value, given.raw)
}

// parsedArgs are decoded arguments. raw is the original JSON, or nil if the value differs from it.
type parsedArgs struct {
	value any
	raw   json.RawMessage
}

// parseArguments reads the arguments of a call. None at all are an empty object, and an object within a string is
// accepted, which models write now and then.
func parseArguments(args json.RawMessage) (parsedArgs, error) {
	args = bytes.TrimSpace(args)
	if len(args) == 0 || string(args) == "null" {
		return parsedArgs{value: map[string]any{}}, nil
	}
	if len(args) > maxArgs {
		return parsedArgs{}, fmt.Errorf("the arguments are %d bytes long; at most %d are accepted", len(args), maxArgs)
	}
	value, err := read(args)
	if err != nil {
		return parsedArgs{}, err
	}
	if text, ok := value.(string); ok {
		if inner, err := read([]byte(text)); err == nil {
			value, args = inner, nil
		}
	}
	if _, ok := value.(map[string]any); !ok {
		return parsedArgs{}, fmt.Errorf("the arguments must be a JSON object, not %s", typeName(value))
	}
	return parsedArgs{value, args}, nil
}

// encode returns the arguments as JSON: the original raw if nothing was changed.
func encode(value any, raw json.RawMessage) (json.RawMessage, error) {
	if raw != nil {
		return raw, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, fmt.Errorf("encode the arguments: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// schema returns the compiled schema, or nil when it cannot be used.
func (c *Checker) schema(raw json.RawMessage) *compiled {
	if len(raw) == 0 || len(raw) > maxSchema {
		return nil
	}
	key := sha256.Sum256(raw)
	c.mu.Lock()
	s, known := c.known[key]
	c.mu.Unlock()
	if known {
		return s
	}
	s = compile(raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	for old := range c.known {
		if len(c.known) < maxCached {
			break
		}
		delete(c.known, old)
	}
	c.known[key] = s
	return s
}

// compile returns nil for a schema that cannot be used, also when the library panics: schemas come from strangers.
func compile(raw json.RawMessage) (s *compiled) {
	defer func() {
		if recover() != nil {
			s = nil
		}
	}()
	doc, err := read(raw)
	if err != nil {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(permissiveLoader{})
	c.UseRegexpEngine(compilePattern)
	const here = "tool:///arguments"
	if err := c.AddResource(here, doc); err != nil {
		return nil
	}
	root, err := c.Compile(here)
	if err != nil {
		return nil
	}
	return newCompiled(root)
}

// permissiveLoader loads every other document as a schema that accepts anything.
type permissiveLoader struct{}

func (permissiveLoader) Load(string) (any, error) { return true, nil }

// compilePattern compiles a regular expression. One that only ECMAScript supports, such as a look-ahead, accepts
// anything, so that the rest of the schema stays usable.
func compilePattern(expr string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return matchAnything(expr), nil
	}
	return re, nil
}

type matchAnything string

func (matchAnything) MatchString(string) bool { return true }
func (a matchAnything) String() string        { return string(a) }

// Fits returns an error when a value does not fit a schema. It corrects nothing, and returns nil when the schema cannot
// be used.
func (c *Checker) Fits(schema, value json.RawMessage) error {
	if len(value) > maxArgs {
		return fmt.Errorf("the value is %d bytes long; at most %d are accepted", len(value), maxArgs)
	}
	v, err := read(value)
	if err != nil {
		return err
	}
	if s := c.schema(schema); s != nil {
		if problem := s.validate(v); problem != nil {
			return errors.New(s.describe(problem))
		}
	}
	return nil
}
