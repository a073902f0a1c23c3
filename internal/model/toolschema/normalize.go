package toolschema

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// draft is the metaschema that providers use.
const draft = "https://json-schema.org/draft/2020-12/schema"

var metaschema = sync.OnceValue(func() *jsonschema.Schema { return jsonschema.NewCompiler().MustCompile(draft) })

// Keywords that contain schemas by name, a list of schemas, and one schema.
var (
	schemaMaps  = []string{"properties", "$defs", "definitions", "dependentSchemas"}
	schemaLists = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	oneSchema   = []string{"items", "additionalProperties", "not", "contains", "if", "then", "else", "propertyNames",
		"unevaluatedItems", "unevaluatedProperties", "contentSchema"}
)

// identities are keywords that need a resolver, could clash between tools, or mean nothing since draft 2020-12.
// Patterns in patternProperties differ between providers: Anthropic refused "^(.*)$" (openclaw/openclaw#29416).
var identities = []string{"$id", "id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef",
	"$vocabulary", "additionalItems", "dependencies", "patternProperties"}

// compound are the other keywords with an object or a list. Unknown ones are dropped, because some validators look for
// schemas in them.
var compound = []string{"type", "enum", "const", "default", "examples", "required", "dependentRequired"}

// typeNames maps the names of types that authors write to types of JSON Schema. Any other name allows all types.
var typeNames = map[string]string{"string": "string", "integer": "integer", "number": "number", "object": "object",
	"array": "array", "boolean": "boolean", "null": "null",
	"str": "string", "text": "string", "int": "integer", "long": "integer", "float": "number", "double": "number",
	"dict": "object", "map": "object", "list": "array", "tuple": "array", "bool": "boolean", "none": "null"}

type document struct {
	top     object
	schemas []object // all schemas in it, outer ones first
}

// normalize changes a schema to a valid one of draft 2020-12 without outside references.
func normalize(top object) *document {
	doc := &document{top: top}
	doc.normalize(top)
	doc.resolveRefs()
	// Providers look for type and properties at the top.
	for t := doc.target(top); t != nil; t = doc.target(t) {
		addMissing(top, t)
	}
	drop(top, "$ref")
	return doc
}

func (doc *document) normalize(s object) {
	doc.schemas = append(doc.schemas, s)
	drop(s, identities...)
	if uri, _ := s["$schema"].(string); len(doc.schemas) > 1 || uri != draft {
		drop(s, "$schema")
	}
	fitType(s)
	fitEnum(s)
	for _, k := range slices.Sorted(maps.Keys(s)) {
		doc.normalizeBelow(s, k)
	}
	if list := listAt(s, "required"); list != nil {
		unique := []any{}
		for _, v := range list {
			if _, isText := v.(string); isText && !slices.Contains(unique, v) {
				unique = append(unique, v)
			}
		}
		s["required"] = unique
	}
	dropMisfits(s)
	// OpenAI says "array schema missing items" even if there are prefixItems (PrefectHQ/fastmcp#2464).
	if slices.Contains(types(s), "array") && !has(s, "items") {
		s["items"] = object{}
	}
}

// normalizeBelow normalizes the schemas in a keyword. dropMisfits handles other values.
func (doc *document) normalizeBelow(s object, keyword string) {
	v := s[keyword]
	list, isList := v.([]any)
	switch {
	case slices.Contains(schemaMaps, keyword):
		named := objectAt(s, keyword)
		for _, name := range slices.Sorted(maps.Keys(named)) {
			// Up to draft 3 a property itself was marked as required.
			if inner := objectAt(named, name); keyword == "properties" && inner != nil && inner["required"] == true {
				s["required"] = append(listAt(s, "required"), name)
			}
			named[name] = doc.normalizeValue(named[name])
		}
	case slices.Contains(schemaLists, keyword):
		for i := range list {
			list[i] = doc.normalizeValue(list[i])
		}
	case keyword == "items" && isList: // tuples before draft 2020-12
		choices := object{}
		if len(list) > 0 {
			choices["anyOf"] = list
		}
		s[keyword] = doc.normalizeValue(choices)
	case slices.Contains(oneSchema, keyword) && v != nil:
		s[keyword] = doc.normalizeValue(v)
	}
}

// normalizeValue returns the schema for a value in the place of a schema. A name or list of types becomes a schema of
// that type, another text a description. The rest allows anything.
func (doc *document) normalizeValue(v any) any {
	s := object{}
	switch v := v.(type) {
	case object:
		s = v
	case bool:
		return v
	case string, []any:
		s["type"] = v
	}
	doc.normalize(s)
	if words, ok := v.(string); ok && !has(s, "type") {
		s["description"] = words
	}
	return s
}

// fitType maps the names of types. It removes them if one is unknown.
func fitType(s object) {
	given, ok := s["type"].([]any)
	if name, isText := s["type"].(string); isText {
		ok = true
		for name := range strings.SplitSeq(name, "|") {
			given = append(given, name)
		}
	}
	if !ok {
		drop(s, "type")
	}
	if s["nullable"] == true && len(given) > 0 { // OpenAPI
		given = append(slices.Clone(given), "null")
	}
	drop(s, "nullable")
	list := []any{}
	for _, one := range given {
		name, _ := one.(string)
		kind := typeNames[strings.ToLower(strings.TrimSpace(name))]
		if kind == "" {
			list = nil
			break
		}
		if !slices.Contains(list, any(kind)) {
			list = append(list, kind)
		}
	}
	switch {
	case len(list) == 0:
		drop(s, "type")
	case len(list) == 1:
		s["type"] = list[0]
	default:
		s["type"] = list
	}
}

// types returns the types that a schema allows, or nil for all.
func types(s object) (names []string) {
	if name, ok := s["type"].(string); ok {
		return []string{name}
	}
	for _, one := range listAt(s, "type") {
		names = append(names, one.(string)) // fitType leaves texts only
	}
	return names
}

// fitEnum removes duplicates and values of other types. If no value would stay, it removes the type.
func fitEnum(s object) {
	var all, allowed []any
	seen := map[string]bool{}
	kinds := types(s)
	for _, v := range listAt(s, "enum") {
		if key := string(encode(v)); !seen[key] {
			seen[key] = true
			all = append(all, v)
			if len(kinds) == 0 || isOfType(v, kinds) {
				allowed = append(allowed, v)
			}
		}
	}
	switch {
	case len(all) == 0:
		drop(s, "enum")
	case len(allowed) == 0:
		drop(s, "type")
		s["enum"] = all
	default:
		s["enum"] = allowed
	}
}

func isOfType(v any, kinds []string) bool {
	kind := "null"
	switch v := v.(type) {
	case string:
		kind = "string"
	case bool:
		kind = "boolean"
	case json.Number:
		kind = "number"
		if f, _ := v.Float64(); f == float64(int64(f)) && slices.Contains(kinds, "integer") {
			return true
		}
	case []any:
		kind = "array"
	case object:
		kind = "object"
	}
	return slices.Contains(kinds, kind)
}

// dropMisfits removes the keywords that the metaschema refuses. Schemas in it are normalized already.
func dropMisfits(s object) {
	own, misfits := map[string]any{}, []string{}
	for k, v := range s {
		_, isObject := v.(object)
		list, isList := v.([]any)
		_, isBool := v.(bool)
		isMap, isOne := slices.Contains(schemaMaps, k), slices.Contains(oneSchema, k)
		isLists := slices.Contains(schemaLists, k)
		switch {
		case isMap && isObject, isLists && len(list) > 0, isOne && (isObject || isBool):
		case isMap, isLists, isOne, (isObject || isList) && !slices.Contains(compound, k):
			misfits = append(misfits, k)
		default:
			own[k] = v
		}
	}
	var problem *jsonschema.ValidationError
	if errors.As(metaschema().Validate(own), &problem) {
		misfits = appendLocations(misfits, problem)
	}
	drop(s, misfits...)
}

func appendLocations(list []string, problem *jsonschema.ValidationError) []string {
	if len(problem.InstanceLocation) > 0 {
		list = append(list, problem.InstanceLocation[0])
	}
	for _, cause := range problem.Causes {
		list = appendLocations(list, cause)
	}
	return list
}
