package simmodel

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

var schemaKeys = []string{
	"anyOf",
	"default",
	"description",
	"enum",
	"example",
	"format",
	"items",
	"maxItems",
	"maxLength",
	"maxProperties",
	"maximum",
	"minItems",
	"minLength",
	"minProperties",
	"minimum",
	"nullable",
	"pattern",
	"properties",
	"propertyOrdering",
	"required",
	"title",
	"type",
}

var jsonSchemaKeys = []string{
	"$id",
	"$defs",
	"$ref",
	"$anchor",
	"type",
	"format",
	"title",
	"description",
	"enum",
	"items",
	"prefixItems",
	"minItems",
	"maxItems",
	"minimum",
	"maximum",
	"anyOf",
	"oneOf",
	"properties",
	"additionalProperties",
	"required",
	"propertyOrdering",
}

var schemaTypes = []string{"TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"}

type object = map[string]json.RawMessage

func sortedKeys(o object) []string { return slices.Sorted(maps.Keys(o)) }

// checkSchema holds `parameters` to Gemini's own subset of OpenAPI schemas.
func checkSchema(raw json.RawMessage, at string) string {
	var o object
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return fmt.Sprintf("Invalid value at '%s': not an object", at)
	}
	for _, key := range sortedKeys(o) {
		if !slices.Contains(schemaKeys, key) {
			return fmt.Sprintf("Invalid JSON payload received. Unknown name %q at '%s': Cannot find field.", key, at)
		}
	}
	var kind string
	if o["type"] != nil &&
		(json.Unmarshal(o["type"], &kind) != nil || !slices.Contains(schemaTypes, strings.ToUpper(kind))) {
		return fmt.Sprintf(
			"Invalid value at '%s.type' (type.googleapis.com/google.ai.generativelanguage.v1beta.Type), %s",
			at,
			o["type"],
		)
	}
	var texts []string
	if o["enum"] != nil && json.Unmarshal(o["enum"], &texts) != nil {
		return fmt.Sprintf("Invalid value at '%s.enum' (TYPE_STRING), %s", at, o["enum"])
	}
	if strings.EqualFold(kind, "ARRAY") && o["items"] == nil {
		return fmt.Sprintf("* GenerateContentRequest.%s.items: missing field.", at)
	}
	if problem := checkRequired(o, at); problem != "" {
		return problem
	}
	return eachSubschema(o, at, []string{"properties"}, checkSchema)
}

// checkRequired returns which required field has no property, which Gemini refuses; empty: none.
func checkRequired(o object, at string) string {
	var required []string
	var properties object
	if o["required"] != nil && json.Unmarshal(o["required"], &required) != nil {
		return fmt.Sprintf("Invalid value at '%s.required'", at)
	}
	if o["properties"] != nil && json.Unmarshal(o["properties"], &properties) != nil {
		return fmt.Sprintf("Invalid value at '%s.properties'", at)
	}
	for i, name := range required {
		if properties[name] == nil {
			return fmt.Sprintf("* GenerateContentRequest.%s.required[%d]: property is not defined", at, i)
		}
	}
	return ""
}

// parameterName matches the names that Gemini documents for parameters.
var parameterName = text.Pattern(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// checkJSONSchema holds `parametersJsonSchema` to the keywords supported there.
func checkJSONSchema(raw json.RawMessage, at string) string {
	var flag bool
	if json.Unmarshal(raw, &flag) == nil {
		return "" // additionalProperties: false
	}
	var o object
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return fmt.Sprintf("Invalid value at '%s': not a schema", at)
	}
	for _, key := range sortedKeys(o) {
		if !slices.Contains(jsonSchemaKeys, key) {
			return fmt.Sprintf("%s: unsupported keyword %q", at, key)
		}
		if o["$ref"] != nil && !strings.HasPrefix(key, "$") {
			return fmt.Sprintf("%s: only keys starting with $ may stand beside $ref", at)
		}
	}
	var kind string
	if o["type"] != nil &&
		(json.Unmarshal(o["type"], &kind) != nil || !slices.Contains(schemaTypes, strings.ToUpper(kind))) {
		return fmt.Sprintf("Invalid value at '%s.type', %s", at, o["type"])
	}
	var properties object
	_ = json.Unmarshal(o["properties"], &properties) // eachSubschema refuses what is no object
	for _, name := range sortedKeys(properties) {
		if !parameterName().MatchString(name) {
			return fmt.Sprintf("* GenerateContentRequest.%s.properties: Invalid name %q", at, name)
		}
	}
	if problem := checkRequired(o, at); problem != "" {
		return problem
	}
	return eachSubschema(o, at, []string{"properties", "$defs"}, checkJSONSchema)
}

// eachSubschema applies a check to all that lies within a schema.
func eachSubschema(o object, at string, maps []string, check func(json.RawMessage, string) string) string {
	for _, key := range maps {
		var named object
		if o[key] != nil && json.Unmarshal(o[key], &named) != nil {
			return fmt.Sprintf("Invalid value at '%s.%s'", at, key)
		}
		for _, name := range sortedKeys(named) {
			if problem := check(named[name], at+"."+key+"."+name); problem != "" {
				return problem
			}
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if o[key] != nil {
			if problem := check(o[key], at+"."+key); problem != "" {
				return problem
			}
		}
	}
	for _, key := range []string{"anyOf", "oneOf", "prefixItems"} {
		var list []json.RawMessage
		if o[key] != nil && json.Unmarshal(o[key], &list) != nil {
			return fmt.Sprintf("Invalid value at '%s.%s'", at, key)
		}
		for i, sub := range list {
			if problem := check(sub, fmt.Sprintf("%s.%s[%d]", at, key, i)); problem != "" {
				return problem
			}
		}
	}
	return ""
}
