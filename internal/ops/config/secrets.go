package config

import (
	"reflect"
	"slices"
	"strings"
)

// minSecretLength is how long a secret must be to be masked in texts: shorter ones, such as the word "test", occur in
// too many places.
const minSecretLength = 8

// Masker returns a function that masks every secret of the configuration in a text, as it was loaded. The function may
// be called concurrently; making it walks the whole configuration, so that it is made once.
func (c *Config) Masker() func(string) string {
	found := map[string]bool{}
	collectSecrets(reflect.ValueOf(c).Elem(), found)
	var pairs []string
	list := make([]string, 0, len(found))
	for s := range found {
		list = append(list, s)
	}
	// longest first: one secret may contain another
	slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	for _, s := range list {
		pairs = append(pairs, s, mask)
	}
	return strings.NewReplacer(pairs...).Replace
}

// collectSecrets adds the secrets in a value to found.
func collectSecrets(v reflect.Value, found map[string]bool) {
	switch x := v.Interface().(type) {
	case Secret:
		if len(x) >= minSecretLength {
			found[string(x)] = true
		}
		return
	case Object:
		for _, s := range x.secrets {
			found[s] = true
		}
		return
	case Masked:
		// A Masked that is shown in full holds no secret.
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
