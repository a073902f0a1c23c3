package config

import (
	_ "embed"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

//go:embed config.go
var source string

// Schema returns the JSON Schema (draft 2020-12) of config.json, made from the structs and their comments, indented and
// with a line end. It is the same each time.
func Schema() []byte {
	g := generator{docs: parseDocs(source), defs: make(map[string]any)}
	root := g.object(reflect.TypeFor[Config]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "ravenbot configuration"
	root["$defs"] = g.defs
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("config: schema: " + err.Error()) // maps of plain values always marshal
	}
	return append(out, '\n')
}

// parseDocs returns the comments of types and fields of config.go, by Type and Type.Field.
func parseDocs(source string) map[string]string {
	docs := make(map[string]string)
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", source, parser.ParseComments)
	if err != nil {
		panic("config: schema: " + err.Error()) // the file was compiled into this program
	}
	for _, decl := range file.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, spec := range g.Specs {
			t := spec.(*ast.TypeSpec)
			docs[t.Name.Name] = oneLine(g.Doc)
			if s, ok := t.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						docs[t.Name.Name+"."+name.Name] = oneLine(f.Doc)
					}
				}
			}
		}
	}
	return docs
}

// oneLine returns a comment with single spaces; empty for nil.
func oneLine(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }

// generator builds the schema; docs are the descriptions, defs the types used so far.
type generator struct {
	docs map[string]string
	defs map[string]any
}

// object returns the schema of a struct, and adds to defs those that it refers to.
func (g generator) object(t reflect.Type) map[string]any {
	properties, required := make(map[string]any), []string{}
	for _, f := range reflect.VisibleFields(t) {
		name := f.Tag.Get("json")
		if name == "" || name == "-" {
			continue
		}
		s := g.field(f)
		s["description"] = g.docs[t.Name()+"."+f.Name]
		properties[name] = s
		if _, defaulted := f.Tag.Lookup("default"); f.Tag.Get("required") != "" && !defaulted {
			required = append(required, name)
		}
		for alias := range strings.SplitSeq(f.Tag.Get("alias"), "|") {
			if alias != "" {
				properties[alias] = map[string]any{"description": "Another name for " + name + ".", "$ref": "#/$defs/anything"}
				g.defs["anything"] = true
			}
		}
	}
	out := map[string]any{"type": "object", "properties": properties, "description": g.docs[t.Name()]}
	if len(required) > 0 {
		out["required"] = required
	}
	switch t {
	case reflect.TypeFor[MCPServer]():
		g.widenServerEntry(properties)
		return out // keys of other hosts are allowed
	case reflect.TypeFor[Digest]():
		// The same rule as checkHasTask: feeds, a prompt, or the style weekly.
		something := map[string]any{
			"properties": map[string]any{"feeds": map[string]any{"minItems": 1}},
			"required":   []string{"feeds"},
		}
		weekly := map[string]any{
			"properties": map[string]any{"style": map[string]any{"const": styleWeekly}},
			"required":   []string{"style"},
		}
		out["anyOf"] = []any{something, map[string]any{"required": []string{"prompt"}}, weekly}
	case reflect.TypeFor[Config]():
		properties["inputs"] = map[string]any{"description": "Ignored; other hosts ask their user for these."}
	}
	out["additionalProperties"] = false
	return out
}

// widenServerEntry adds to an entry of mcpServers what its decoding accepts beyond the struct.
func (g generator) widenServerEntry(properties map[string]any) {
	properties["timeout"].(map[string]any)["type"] = []string{"string", "number"}
	delete(properties["type"].(map[string]any), "enum") // streamable-http and other names of the three count too
	properties["transport"] = map[string]any{"type": []string{"string", "object"},
		"description": "type, url, headers and the like in an object of their own, or the type alone."}
	properties["httpUrl"] = map[string]any{"type": "string", "description": "The Streamable HTTP address; wins over url."}
	properties["enabled"] = map[string]any{"type": "boolean", "description": "false is disabled."}
}

// field returns the schema of a struct field, with what its tags say.
func (g generator) field(f reflect.StructField) map[string]any {
	s := g.value(f.Type)
	inner := s
	if items, ok := s["items"].(map[string]any); ok {
		inner = items
	}
	if enum := f.Tag.Get("enum"); enum != "" {
		inner["enum"] = strings.Split(enum, "|")
	}
	// Limits of durations are strings and have no keyword in JSON Schema.
	if s["type"] != "string" {
		for tag, keyword := range map[string]string{"min": "minimum", "max": "maximum"} {
			if n, err := strconv.ParseFloat(f.Tag.Get(tag), 64); err == nil {
				s[keyword] = n
			}
		}
	}
	if text, ok := f.Tag.Lookup("default"); ok {
		s["default"] = defaultValue(f.Type.Kind(), text)
	}
	return s
}

// defaultValue returns the text of a default tag as a value of its kind. A default of a list has one element.
func defaultValue(kind reflect.Kind, text string) any {
	switch kind {
	case reflect.Slice:
		return []string{text}
	case reflect.Bool:
		return text == "true"
	case reflect.Int:
		n, _ := strconv.Atoi(text)
		return n
	case reflect.Float64:
		x, _ := strconv.ParseFloat(text, 64)
		return x
	}
	return text
}

// value returns the schema of a type, as the decoder reads it: some structs may also be written as a string.
func (g generator) value(t reflect.Type) map[string]any {
	str := map[string]any{"type": "string"}
	switch t {
	case reflect.TypeFor[Duration](), reflect.TypeFor[Lifetime](), reflect.TypeFor[Masked]():
		return str
	case reflect.TypeFor[Args]():
		return map[string]any{"type": "array", "items": str}
	case reflect.TypeFor[Env]():
		return map[string]any{
			"type":                 "object",
			"additionalProperties": map[string]any{"type": []string{"string", "number", "boolean", "null"}},
		}
	case reflect.TypeFor[Object]():
		return map[string]any{"type": []string{"object", "null"}}
	case reflect.TypeFor[Headers]():
		return map[string]any{"type": []string{"object", "array"}, "additionalProperties": str, "items": str}
	case reflect.TypeFor[ServerEgress]():
		return map[string]any{"anyOf": []any{map[string]any{"const": egressNone}, g.value(reflect.TypeFor[Egress]())}}
	case reflect.TypeFor[ServerLink](), reflect.TypeFor[FileRoot](), reflect.TypeFor[DigestFeed]():
		return map[string]any{"anyOf": []any{str, g.object(t)}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		s := g.value(t.Elem())
		s["type"] = []any{s["type"], "null"}
		return s
	case reflect.Struct:
		g.defs[t.Name()] = g.object(t)
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": g.value(t.Elem())}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": g.value(t.Elem())}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	}
	return str
}
