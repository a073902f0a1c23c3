package config

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"ravenbot/internal/core/text"
	"ravenbot/internal/ops/egress"
)

// mask stands for a secret.
const mask = "***"

// Secret is a value that prints as *** wherever it is printed, logged or marshalled. Only Reveal returns the value.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String returns ***, or "" for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString returns String, for %#v.
func (s Secret) GoString() string { return s.String() }

// Format prints String for every verb: for a verb that does not suit strings, fmt would print the bytes.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// MarshalJSON marshals String.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// LogValue logs String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Masked is a text that may contain a secret: an address or an argument of a command. It prints as it was written, so
// that ${TOKEN} stays a name, with passwords and keys in it as ***. Only Reveal returns the whole text.
type Masked struct{ value, display string }

// Mask returns a Masked for an address or an argument that does not come from a file.
func Mask(s string) Masked { return Masked{s, egress.RedactURL(s)} }

// Reveal returns the text to use.
func (m Masked) Reveal() string { return m.value }

// String returns the text to show.
func (m Masked) String() string { return m.display }

// GoString returns String, for %#v.
func (m Masked) GoString() string { return m.display }

// Format prints String for every verb.
func (m Masked) Format(f fmt.State, _ rune) { io.WriteString(f, m.display) }

// MarshalJSON marshals String.
func (m Masked) MarshalJSON() ([]byte, error) { return marshalPlain(m.display) }

// LogValue logs String.
func (m Masked) LogValue() slog.Value { return slog.StringValue(m.display) }

var secretName = text.Pattern(egress.SecretNamePattern)

// Duration is a time.Duration written like "90s" or "1h30m".
type Duration time.Duration

// Std returns the duration as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the duration without parts that are zero: 15m rather than 15m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	// time.Duration always prints all smaller units.
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalJSON marshals String.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// Args are the arguments of a command. A value after a flag such as --api-key prints as ***.
type Args []Masked

// Reveal returns the arguments to use.
func (a Args) Reveal() []string {
	out := make([]string, len(a))
	for i, arg := range a {
		out[i] = arg.value
	}
	return out
}

// maskFlags masks the values of flags whose names suggest a secret.
func (a Args) maskFlags() {
	before := ""
	for i, arg := range a {
		a[i].display, before = egress.RedactArg(before, arg.display), arg.value
	}
}

// Env is the environment of an MCP server, by variable name.
type Env map[string]Secret

// Headers are the headers sent to an MCP server, by name.
type Headers map[string]Secret

// Object is a JSON object that is passed on unchanged, except that variables are replaced. It prints as written, so
// that ${TOKEN} stays a name. Values whose names suggest a secret print as ***. Only Reveal returns the values.
type Object struct {
	value, display string
	secrets        []string // texts that came from variables
}

// Reveal returns the object to use. It is nil if there is none.
func (o Object) Reveal() json.RawMessage {
	if o.value == "" {
		return nil
	}
	return json.RawMessage(o.value)
}

// MarshalJSON marshals the object as it is shown.
func (o Object) MarshalJSON() ([]byte, error) {
	if o.display == "" {
		return []byte("null"), nil
	}
	return []byte(o.display), nil
}

// decode reads any JSON object.
func (o *Object) decode(d *decoder, n *node, _ reflect.StructTag) {
	if !d.expect(n, '{', "an object") {
		return
	}
	value, _ := marshalPlain(o.read(d, n, "", true)) // cannot fail: it came from JSON
	display, _ := marshalPlain(o.read(d, n, "", false))
	o.value, o.display = string(value), string(display)
}

// read returns the value of a node, with variables replaced (isValue) or as it is shown. name is the member's name.
func (o *Object) read(d *decoder, n *node, name string, isValue bool) any {
	switch n.kind {
	case '{':
		out := map[string]any{}
		for _, m := range n.members {
			out[m.name] = o.read(d, m.value, m.name, isValue)
		}
		return out
	case '[':
		out := []any{}
		for _, e := range n.elems {
			out = append(out, o.read(d, e, name, isValue))
		}
		return out
	case '"':
		if isValue {
			text, _ := d.expand(n)
			if text != n.text && len(text) >= minSecretLength {
				o.secrets = append(o.secrets, text)
			}
			return text
		}
		if secretName().MatchString(name) && !strings.Contains(n.text, "${") {
			return mask
		}
		return n.text
	}
	return json.RawMessage(n.text)
}

// marshalPlain marshals a value without escaping <, > and &: these texts are shown in terminals, not in pages.
func marshalPlain(s any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}
