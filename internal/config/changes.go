package config

import (
	"reflect"
	"slices"
)

// keysAtStart are the parts of the configuration that are read at start alone.
func keysAtStart() []string {
	return []string{"backup", "egress", "feeds", "http", "log", "mcp", "store"}
}

// ChangedKeys returns the keys of the configuration whose values differ from those of another one, and those of them
// that wait for the next start.
func (c *Config) ChangedKeys(from *Config) (changed, waiting []string) {
	before, after := reflect.ValueOf(*from), reflect.ValueOf(*c)
	for i := range before.NumField() {
		field := before.Type().Field(i)
		key := field.Tag.Get("json")
		if !field.IsExported() || key == "-" ||
			reflect.DeepEqual(before.Field(i).Interface(), after.Field(i).Interface()) {
			continue
		}
		if changed = append(changed, key); slices.Contains(keysAtStart(), key) {
			waiting = append(waiting, key)
		}
	}
	return changed, waiting
}
