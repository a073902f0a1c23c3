package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
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

// Sums returns a hash of the value of each key, by key, as it is in effect: with variables filled in, and secrets too. Equal
// hashes are equal values. What may differ between processes that share a store is left out: the address to listen on, how
// the store is reached, backups and the log, and the folder of the file.
func (c *Config) Sums() map[string]string {
	alike := *c
	alike.HTTP.Listen = ""
	sums := map[string]string{}
	value := reflect.ValueOf(alike)
	for i := range value.NumField() {
		field := value.Type().Field(i)
		key := field.Tag.Get("json")
		if !field.IsExported() || key == "-" || slices.Contains([]string{"$schema", "store", "storeKey", "backup", "log"}, key) {
			continue
		}
		h := sha256.New()
		writeValue(h, value.Field(i), c.Dir)
		sums[key] = hex.EncodeToString(h.Sum(nil))
	}
	return sums
}

// writeValue writes a value, whatever its methods show of it, so that different values are different bytes. Where a text
// begins with a folder that is left out.
func writeValue(w io.Writer, v reflect.Value, folder string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			writeValue(w, v.Field(i), folder)
		}
	case reflect.Pointer, reflect.Interface:
		fmt.Fprint(w, !v.IsNil(), ",")
		if !v.IsNil() {
			writeValue(w, v.Elem(), folder)
		}
	case reflect.Slice, reflect.Array:
		fmt.Fprint(w, v.Len(), ",")
		for i := range v.Len() {
			writeValue(w, v.Index(i), folder)
		}
	case reflect.Map:
		fmt.Fprint(w, v.Len(), ",")
		keys := v.MapKeys() // of strings: there are no others in JSON
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			fmt.Fprintf(w, "%q,", key.String())
			writeValue(w, v.MapIndex(key), folder)
		}
	case reflect.String:
		text := v.String()
		if rest, ok := strings.CutPrefix(text+"/", folder+"/"); ok && folder != "" {
			text = rest
		}
		fmt.Fprintf(w, "%q,", text)
	default:
		// A reflect.Value prints as the value that it holds.
		fmt.Fprint(w, v, ",")
	}
}
