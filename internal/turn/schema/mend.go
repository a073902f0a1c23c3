package schema

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// mend corrects wrong types that have only one possible correction, and fills in required fields with their defaults.
// It returns the result and true if the result fits the schema. The passed value is not changed.
func mend(s *compiled, value any, problem *jsonschema.ValidationError) (any, bool) {
	for range maxRounds {
		changes := slices.Concat(changes(value, problem), s.forbiddenProperties(problem), s.defaults(problem))
		if len(changes) == 0 {
			return nil, false
		}
		for _, c := range changes {
			value = replace(value, c.at, c.with)
		}
		if problem = s.validate(value); problem == nil {
			return value, true
		}
	}
	return nil, false
}

// change puts a value at a location, or removes the present one if with is a drop.
type change struct {
	at   []string
	with any
}

type drop struct{}

// changes returns possible corrections of a value, from its errors.
func changes(value any, problem *jsonschema.ValidationError) []change {
	wanted := map[string][]string{}
	at := map[string][]string{}
	for _, leaf := range leaves(problem) {
		key := strings.Join(leaf.InstanceLocation, "\x00")
		at[key] = leaf.InstanceLocation
		if t, ok := leaf.ErrorKind.(*kind.Type); ok {
			wanted[key] = append(wanted[key], t.Want...)
		}
	}
	var list []change
	for _, key := range slices.Sorted(maps.Keys(at)) {
		location := at[key]
		if len(location) == 0 {
			continue
		}
		if with, ok := onlyChoice(value, location, wanted[key]); ok {
			list = append(list, change{location, with})
		}
	}
	return list
}

// forbiddenProperties returns changes that remove forbidden properties. A property that resembles an allowed name is
// kept, because the model probably meant that and should get an error. If the schema has alternatives, nothing is
// removed, since another alternative may require the property.
func (c *compiled) forbiddenProperties(problem *jsonschema.ValidationError) []change {
	switch k := problem.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not:
		return nil
	case *kind.AdditionalProperties:
		var list []change
		known := c.propertiesAt(problem.SchemaURL)
		for _, name := range k.Properties {
			if closestName(name, known) != "" {
				return nil
			}
			list = append(list, change{append(slices.Clone(problem.InstanceLocation), name), drop{}})
		}
		return list
	}
	var list []change
	for _, cause := range problem.Causes {
		list = append(list, c.forbiddenProperties(cause)...)
	}
	return list
}

// defaults returns changes that add the required properties which are missing and have a default in the schema, as
// generators of schemas write them. If the schema has alternatives, nothing is added, since that could decide which
// of them is meant, unless the value has the type of only one, as with an object that may be null.
func (c *compiled) defaults(problem *jsonschema.ValidationError) []change {
	causes := problem.Causes
	var list []change
	switch k := problem.ErrorKind.(type) {
	case *kind.Not:
		return nil
	case *kind.AnyOf, *kind.OneOf:
		causes = slices.DeleteFunc(slices.Clone(causes), func(e *jsonschema.ValidationError) bool {
			_, otherType := leaves(e)[0].ErrorKind.(*kind.Type)
			return otherType && len(leaves(e)[0].InstanceLocation) == len(problem.InstanceLocation)
		})
		if len(causes) > 1 {
			return nil
		}
	case *kind.Required:
		for _, name := range k.Missing {
			if with, ok := c.defaultOf(problem.SchemaURL, name); ok {
				list = append(list, change{append(slices.Clone(problem.InstanceLocation), name), with})
			}
		}
	}
	for _, cause := range causes {
		list = append(list, c.defaults(cause)...)
	}
	return list
}

// defaultOf returns the default of a property of the schema at a location, and false if it has no default.
func (c *compiled) defaultOf(at, name string) (any, bool) {
	s := c.at[at]
	if s == nil {
		return nil, false
	}
	p := s.Properties[name]
	for range maxRounds { // references may lead in a circle
		if p == nil || p.Default != nil {
			break
		}
		p = p.Ref
	}
	if p == nil || p.Default == nil {
		return nil, false
	}
	return *p.Default, true
}

// onlyChoice returns what may replace the value at a location, if there is only one choice.
func onlyChoice(root any, at, wanted []string) (any, bool) {
	value, parent, ok := find(root, at)
	if !ok {
		return nil, false
	}
	if value == nil {
		// Only properties are removed: in a list, the later values would move.
		_, inObject := parent.(map[string]any)
		return drop{}, inObject
	}
	slices.Sort(wanted)
	var choice any
	found := 0
	for _, want := range slices.Compact(wanted) {
		if v, ok := convert(value, want); ok && (found == 0 || !isSame(choice, v)) {
			choice, found = v, found+1
		}
	}
	return choice, found == 1
}

// convert converts value to a type of JSON Schema, if that is unambiguous.
func convert(value any, want string) (any, bool) {
	text, isText := value.(string)
	text = strings.TrimSpace(text)
	switch want {
	case "number", "integer":
		if n, err := read([]byte(text)); isText && err == nil {
			number, ok := n.(json.Number)
			return number, ok
		}
	case "string":
		if n, ok := value.(json.Number); ok {
			return n.String(), true
		}
	case "boolean":
		if lower := strings.ToLower(text); lower == "true" || lower == "false" {
			return lower == "true", true
		}
	case "object":
		if v, err := read([]byte(text)); isText && err == nil {
			object, ok := v.(map[string]any)
			return object, ok
		}
	case "array":
		if v, err := read([]byte(text)); isText && err == nil {
			if list, ok := v.([]any); ok {
				return list, true
			}
		}
		return []any{value}, true
	}
	return nil, false
}

// isSame reports whether two values are the same JSON.
func isSame(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errors.Join(errX, errY) == nil && string(x) == string(y)
}

// find returns the value at a location and what contains it.
func find(root any, at []string) (value, parent any, ok bool) {
	value = root
	for _, name := range at {
		parent = value
		switch p := parent.(type) {
		case map[string]any:
			if value, ok = p[name]; !ok {
				return nil, nil, false
			}
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(p) {
				return nil, nil, false
			}
			value = p[i]
		default:
			return nil, nil, false
		}
	}
	return value, parent, true
}

// replace returns root with a value put at one location, copying only what leads to it.
func replace(root any, at []string, with any) any {
	if len(at) == 0 {
		return with
	}
	switch r := root.(type) {
	case map[string]any:
		inner, there := r[at[0]]
		if !there && len(at) > 1 {
			return root
		}
		copied := maps.Clone(r)
		if _, gone := with.(drop); gone && len(at) == 1 {
			delete(copied, at[0])
			return copied
		}
		copied[at[0]] = replace(inner, at[1:], with)
		return copied
	case []any:
		i, err := strconv.Atoi(at[0])
		if err != nil || i < 0 || i >= len(r) {
			return root
		}
		copied := slices.Clone(r)
		copied[i] = replace(r[i], at[1:], with)
		return copied
	}
	return root
}

// leaves returns the errors at the ends of the tree, a few hundred at most.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	const enough = 256
	var list []*jsonschema.ValidationError
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 && len(list) < enough {
			list = append(list, e)
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	walk(e)
	return list
}
