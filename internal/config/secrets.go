package config

import (
	"reflect"
	"slices"
	"strings"
)

// minSecretLength is how long a secret has to be to be looked for in texts: shorter
// ones, such as the word of a test, stand in too many.
const minSecretLength = 8

// Masker gives a function that takes every secret of the configuration out of a
// text.
func (c *Config) Masker() func(string) string {
	found := map[string]bool{}
	collectSecrets(reflect.ValueOf(c).Elem(), found)
	var pairs []string
	list := make([]string, 0, len(found))
	for s := range found {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) }) // one may hold another
	for _, s := range list {
		pairs = append(pairs, s, mask)
	}
	return strings.NewReplacer(pairs...).Replace
}

func collectSecrets(v reflect.Value, found map[string]bool) {
	switch x := v.Interface().(type) {
	case Secret:
		if len(x) >= minSecretLength {
			found[string(x)] = true
		}
		return
	case Masked:
		if x.value != x.display && len(x.value) >= minSecretLength {
			found[x.value] = true
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				collectSecrets(v.Field(i), found)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			collectSecrets(v.Elem(), found)
		}
	case reflect.Slice:
		for i := range v.Len() {
			collectSecrets(v.Index(i), found)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			collectSecrets(v.MapIndex(key), found)
		}
	}
}
