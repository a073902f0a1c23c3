package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"ravenbot/internal/core/text"
	"ravenbot/internal/ops/egress"
)

// Change is a field that has changed. Secrets are masked, and long values are cut.
type Change struct {
	Field string `json:"field"` // names of nested fields are joined by dots
	Old   string `json:"old"`   // empty if there was none
	New   string `json:"new"`   // empty if there is none any more
}

// Limits of changes.
const (
	maxChanges = 50
	maxValue   = 200 // characters
	mask       = "***"
)

var secretName = text.Pattern(egress.SecretNamePattern)

// bookkeeping are fields of stored items that nobody changes on purpose. The entry says who, and when.
var bookkeeping = []string{"version", "id", "hash", "created", "since", "used", "done", "seen", "by", "giver", "on", "source"}

// field is the value of a field: as it is, and as it may be shown.
type field struct{ raw, shown string }

// fields are the values of a JSON object by their names.
type fields struct {
	values map[string]field
	// isPrivate reports whether a field holds somebody's own words, which are shown by their length only. nil: none does.
	isPrivate func(name string) bool
}

// Diff returns the fields in which two JSON values differ, by name. nil stands for no value.
func Diff(was, now json.RawMessage) []Change { return diff(was, now, nil) }

// diff is Diff, in which the words of private fields are not shown.
func diff(was, now json.RawMessage, isPrivate func(string) bool) []Change {
	before, after := readFields(was, isPrivate), readFields(now, isPrivate)
	names := maps.Clone(before)
	maps.Copy(names, after)
	var list []Change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if before[name].raw != after[name].raw {
			list = append(list, Change{name, before[name].shown, after[name].shown})
		}
	}
	if more := len(list) - maxChanges; more > 0 {
		list = append(list[:maxChanges], Change{Field: fmt.Sprintf("%d more fields", more)})
	}
	return list
}

// readFields returns the fields of a JSON value. One that is no object is a field without a name.
func readFields(raw json.RawMessage, isPrivate func(string) bool) map[string]field {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	_ = d.Decode(&v) // nothing, or what is no JSON, has no fields
	if object, ok := v.(map[string]any); ok {
		for _, name := range bookkeeping {
			delete(object, name)
		}
	}
	f := fields{map[string]field{}, isPrivate}
	f.add("", v, false)
	return f.values
}

// add adds a value under its name; empty ones are left out.
func (f fields) add(name string, v any, isSecret bool) {
	switch v := v.(type) {
	case nil:
	case map[string]any:
		for key, inner := range v {
			// Programs take secrets in variables and headers of any name.
			secret := isSecret || name == "env" || name == "headers" || secretName().MatchString(key)
			f.add(strings.TrimPrefix(name+"."+key, "."), inner, secret)
		}
	case []any:
		if len(v) > 0 {
			f.values[name] = field{encode(v), cut(encode(f.redactList(v, isSecret)))}
		}
	case string:
		if v != "" {
			f.values[name] = field{v, cut(f.redact(name, v, isSecret))}
		}
	default:
		f.values[name] = field{encode(v), encode(v)}
	}
}

// redact returns a text as it may be shown.
func (f fields) redact(name, s string, isSecret bool) string {
	switch {
	case isSecret:
		return mask
	case f.isPrivate != nil && f.isPrivate(name) && strings.ContainsFunc(s, unicode.IsSpace):
		return describeText(s)
	}
	return egress.RedactURL(s)
}

// redactList returns a list as it may be shown. A text in it may be the argument of a command.
func (f fields) redactList(list []any, isSecret bool) []any {
	shown, before := make([]any, len(list)), ""
	for n, v := range list {
		switch v := v.(type) {
		case string:
			if shown[n] = f.redact("", v, isSecret); shown[n] != mask {
				shown[n] = egress.RedactArg(before, shown[n].(string))
			}
			before = v
		case []any:
			shown[n] = f.redactList(v, isSecret)
		case map[string]any:
			inner := fields{map[string]field{}, f.isPrivate}
			inner.add("", v, isSecret)
			flat := map[string]string{}
			for name, one := range inner.values {
				flat[name] = one.shown
			}
			shown[n] = flat
		default:
			shown[n] = v
		}
	}
	return shown
}

// encode returns the JSON of a decoded value.
func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // it was decoded from JSON
	return strings.TrimSpace(b.String())
}

// cut shortens a value that is too long to be shown.
func cut(s string) string {
	if r := []rune(s); len(r) > maxValue {
		return string(r[:maxValue]) + "…"
	}
	return s
}

// describeText returns what is shown in place of somebody's own words.
func describeText(s string) string { return fmt.Sprintf("(%d characters)", len([]rune(s))) }
