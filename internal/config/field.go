package config

import (
	"reflect"
	"strings"
)

// field is a struct field as the file knows it.
type field struct {
	name  string
	index []int
	tag   reflect.StructTag
}

// fieldsByName maps each name the file may use, aliases too, to its field.
func fieldsByName(t reflect.Type) map[string]field {
	out := make(map[string]field)
	for _, f := range reflect.VisibleFields(t) {
		name := f.Tag.Get("json")
		if name == "" || name == "-" {
			continue
		}
		known := field{name, f.Index, f.Tag}
		out[name] = known
		if alias := f.Tag.Get("alias"); alias != "" {
			for _, a := range strings.Split(alias, "|") {
				out[a] = known
			}
		}
	}
	return out
}

// fieldNames lists the names of a struct's fields in the order they are declared, without aliases.
func fieldNames(t reflect.Type) []string {
	var out []string
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("json"); name != "" && name != "-" {
			out = append(out, name)
		}
	}
	return out
}
