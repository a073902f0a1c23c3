package schema

import (
	"errors"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// maxSteps limits the work of one check. In a schema that branches at every reference, the steps double with each; this
// many take a fraction of a second.
const maxSteps = 1 << 18

// compiled is a schema whose check stops after maxSteps.
type compiled struct {
	mu     sync.Mutex
	schema *jsonschema.Schema
	at     map[string]*jsonschema.Schema // its parts by location
	left   int
}

// exhausted is the panic that ends a check after maxSteps: the library has no other way to be stopped.
type exhausted struct{}

// newCompiled counts how much work each part of a schema is, so that a check can be refused before it takes too long.
func newCompiled(s *jsonschema.Schema) *compiled {
	c := &compiled{schema: s, at: map[string]*jsonschema.Schema{}}
	seen := map[*jsonschema.Schema]bool{s: true}
	for todo := []*jsonschema.Schema{s}; len(todo) > 0; {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		c.at[next.Location] = next
		inner := parts(next)
		c.count(next, 1+len(inner))
		for _, p := range inner {
			if !seen[p] {
				seen[p] = true
				todo = append(todo, p)
			}
		}
	}
	return c
}

// count makes each use of s count as steps. It does so with a format, the one part of a schema that is a function of
// ours and is called for every value that is checked.
func (c *compiled) count(s *jsonschema.Schema, steps int) {
	format := &jsonschema.Format{Validate: func(any) error { return nil }}
	if s.Format != nil {
		*format = *s.Format
	}
	validate := format.Validate
	format.Validate = func(v any) error {
		if c.left -= steps; c.left < 0 {
			panic(exhausted{})
		}
		return validate(v)
	}
	s.Format = format
}

// validate returns the errors of value, or nil. It also returns nil if the schema makes the library panic, takes too
// many steps, or refers to itself in a circle.
func (c *compiled) validate(value any) (problem *jsonschema.ValidationError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		if recover() != nil {
			problem = nil
		}
	}()
	c.left = maxSteps
	if errors.As(c.schema.Validate(value), &problem) && slices.ContainsFunc(leaves(problem), isCircular) {
		return nil
	}
	return problem
}

// isCircular reports whether a schema leads back to itself without a value in between.
func isCircular(e *jsonschema.ValidationError) bool {
	_, is := e.ErrorKind.(*kind.RefCycle)
	return is
}

// parts returns the schemas that s refers to.
func parts(s *jsonschema.Schema) []*jsonschema.Schema {
	list := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else, s.PropertyNames,
		s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema}
	if s.DynamicRef != nil {
		list = append(list, s.DynamicRef.Ref)
	}
	for _, more := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems} {
		list = append(list, more...)
	}
	for _, p := range s.Properties {
		list = append(list, p)
	}
	for _, p := range s.PatternProperties {
		list = append(list, p)
	}
	for _, p := range s.DependentSchemas {
		list = append(list, p)
	}
	for _, p := range s.Dependencies {
		list = appendAny(list, p)
	}
	list = appendAny(list, s.AdditionalProperties)
	list = appendAny(list, s.Items)
	list = appendAny(list, s.AdditionalItems)
	return slices.DeleteFunc(list, func(p *jsonschema.Schema) bool { return p == nil })
}

// appendAny appends the schemas in a keyword whose value is one schema or a list.
func appendAny(list []*jsonschema.Schema, v any) []*jsonschema.Schema {
	switch v := v.(type) {
	case *jsonschema.Schema:
		return append(list, v)
	case []*jsonschema.Schema:
		return append(list, v...)
	}
	return list
}
