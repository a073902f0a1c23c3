package toolschema

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Limits of the schemas that are read: they bound the time and memory that a stranger's schema costs.
const (
	maxBytes  = 256 << 10
	maxValues = 10_000
	maxNested = 64 // objects and arrays in one another; deeper ones are read as empty
)

// object is a JSON object that keeps the order of its keys. Values are *object, []any, string, json.Number, bool or
// nil.
type object struct {
	keys   []string
	values map[string]any
}

func newObject() *object { return &object{values: map[string]any{}} }

// get returns the value of a key, or nil if there is none.
func (o *object) get(key string) any { return o.values[key] }

// object returns the object at a key, or nil if there is none.
func (o *object) object(key string) *object {
	inner, _ := o.values[key].(*object)
	return inner
}

// list returns the list at a key, or nil if there is none.
func (o *object) list(key string) []any {
	list, _ := o.values[key].([]any)
	return list
}

func (o *object) has(key string) bool {
	_, ok := o.values[key]
	return ok
}

// set sets the value of a key, which keeps its place; a new key comes last.
func (o *object) set(key string, v any) {
	if !o.has(key) {
		o.keys = append(o.keys, key)
	}
	o.values[key] = v
}

func (o *object) delete(keys ...string) {
	before := len(o.values)
	for _, key := range keys {
		delete(o.values, key)
	}
	if len(o.values) < before {
		o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return !o.has(k) })
	}
}

// clone returns a copy with the same values.
func (o *object) clone() *object {
	c := newObject()
	c.add(o)
	return c
}

// add sets the keys of another object that o does not have.
func (o *object) add(other *object) {
	for _, k := range other.keys {
		if !o.has(k) {
			o.set(k, other.values[k])
		}
	}
}

// read returns the JSON object in raw. It fails for anything else, and for an object that is too large.
func read(raw json.RawMessage) (*object, bool) {
	if len(raw) > maxBytes || !json.Valid(raw) {
		return nil, false
	}
	r := reader{tokens: json.NewDecoder(bytes.NewReader(raw)), left: maxValues}
	r.tokens.UseNumber() // limits may be larger than a float64 holds
	top, ok := r.value(maxNested).(*object)
	return top, ok && r.left >= 0
}

// reader reads valid JSON, so that no token fails.
type reader struct {
	tokens *json.Decoder
	left   int // values that may still come
}

// value returns the next value, with at most the given number of levels.
func (r *reader) value(levels int) any {
	r.left--
	token, _ := r.tokens.Token()
	switch token := token.(type) {
	case json.Number:
		return readNumber(token.String())
	case json.Delim:
		o, list := newObject(), []any{}
		for r.tokens.More() {
			key := json.Token("")
			if token == '{' {
				key, _ = r.tokens.Token()
			}
			switch v := r.value(levels - 1); {
			case levels == 0 || r.left < 0:
			case token == '{':
				o.set(key.(string), v)
			default:
				list = append(list, v)
			}
		}
		_, _ = r.tokens.Token() // the closing bracket
		if token == '[' {
			return list
		}
		return o
	}
	return token
}

// readNumber returns a number that costs little to calculate with: exact as long as it is short and has no exponent,
// otherwise as a float64, and nil if that cannot hold it.
func readNumber(s string) any {
	if len(s) <= 32 && !strings.ContainsAny(s, "eE") {
		return json.Number(s)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}

// encode returns a value as JSON without white space.
func encode(v any) []byte {
	var b bytes.Buffer
	write(&b, v)
	return b.Bytes()
}

func write(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case *object:
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteByte(',')
			}
			write(b, k)
			b.WriteByte(':')
			write(b, v.values[k])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, inner := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			write(b, inner)
		}
		b.WriteByte(']')
	default:
		e := json.NewEncoder(b)
		e.SetEscapeHTML(false)
		_ = e.Encode(v)         // cannot fail: it is a text, a number, true, false or null
		b.Truncate(b.Len() - 1) // the line break
	}
}
