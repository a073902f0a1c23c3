package config

import (
	"reflect"
	"strings"
)

// field is a struct field under the name that the file uses.
type field struct {
	name  string
	index []int
	tag   reflect.StructTag
}

// fieldsByName returns the fields by each name that the file may use, including aliases.
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

// fieldNames returns the names of a struct's fields in the order of their declaration, without aliases.
func fieldNames(t reflect.Type) []string {
	var out []string
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("json"); name != "" && name != "-" {
			out = append(out, name)
		}
	}
	return out
}
