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

// structFields are the fields of a struct.
type structFields struct {
	all    []reflect.StructField
	byName map[string]field // by each name that the file may use, including aliases
	names  []string         // in the order of their declaration, without aliases
}

// fieldsOf returns the fields of a struct. They are read once for each type: a file may have thousands of digests, and
// reading their fields again and again took half of the memory that parsing it took.
func (d *decoder) fieldsOf(t reflect.Type) structFields {
	if known, ok := d.structs[t]; ok {
		return known
	}
	s := structFields{all: reflect.VisibleFields(t), byName: map[string]field{}}
	for _, f := range s.all {
		name := f.Tag.Get("json")
		if name == "" || name == "-" {
			continue
		}
		s.names = append(s.names, name)
		one := field{name, f.Index, f.Tag}
		s.byName[name] = one
		if alias := f.Tag.Get("alias"); alias != "" {
			for _, a := range strings.Split(alias, "|") {
				s.byName[a] = one
			}
		}
	}
	if d.structs == nil {
		d.structs = map[reflect.Type]structFields{}
	}
	d.structs[t] = s
	return s
}
