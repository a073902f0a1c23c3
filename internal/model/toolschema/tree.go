package toolschema

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Limits of schemas, which bound their time and memory.
const (
	maxBytes  = 256 << 10
	maxValues = 10_000
	maxNested = 64 // objects and arrays in one another; deeper ones are read as empty
)

// object is a decoded JSON object. Its numbers are json.Number.
type object = map[string]any

func objectAt(o object, key string) object {
	inner, _ := o[key].(object)
	return inner
}

func listAt(o object, key string) []any {
	list, _ := o[key].([]any)
	return list
}

func has(o object, key string) bool {
	_, ok := o[key]
	return ok
}

func drop(o object, keys ...string) {
	for _, key := range keys {
		delete(o, key)
	}
}

func addMissing(o, other object) {
	for k, v := range other {
		if !has(o, k) {
			o[k] = v
		}
	}
}

// read returns the JSON object in raw. It returns false for other JSON, and beyond the limits.
func read(raw json.RawMessage) (object, bool) {
	if len(raw) > maxBytes || !json.Valid(raw) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // limits may be larger than a float64 holds
	var top object
	left := maxValues
	if d.Decode(&top) != nil || top == nil {
		return nil, false
	}
	bound(top, maxNested, &left)
	return top, left >= 0
}

// bound returns a decoded value with bounded numbers and levels. It subtracts the number of values from left.
func bound(v any, levels int, left *int) any {
	*left--
	switch v := v.(type) {
	case json.Number:
		return boundNumber(v)
	case object:
		if levels == 0 {
			return object{}
		}
		for k, inner := range v {
			v[k] = bound(inner, levels-1, left)
		}
	case []any:
		if levels == 0 {
			return []any{}
		}
		for i, inner := range v {
			v[i] = bound(inner, levels-1, left)
		}
	}
	return v
}

// boundNumber returns a number that costs little to calculate with: exact if it is short and has no exponent, otherwise
// a float64, or nil if a float64 is too small.
func boundNumber(n json.Number) any {
	if len(n) <= 32 && !strings.ContainsAny(n.String(), "eE") {
		return n
	}
	f, err := n.Float64()
	if err != nil {
		return nil
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}

// encode returns a decoded value as JSON with sorted keys and without white space.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // cannot fail: it came from JSON
	return bytes.TrimSpace(b.Bytes())
}
