package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/tailscale/hujson"

	"ravenbot/internal/core/text"
)

// Change sets one value of config.json.
type Change struct {
	Path  []string // names of members, from the root
	Value any      // anything that encoding/json can encode; nil removes the member
}

// Edit sets values in the text of a configuration and leaves everything else, comments included, as it is written. It
// does not rewrite values that are right already, so a text that needs no change is returned unchanged. It fails where
// the text is no JSON, or a path leads through something that is no object. The result is not checked otherwise: see
// Parse.
func Edit(text []byte, changes ...Change) ([]byte, error) {
	for _, c := range changes {
		v, err := hujson.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("read the configuration to be changed: %w", err)
		}
		// One change at a time: a patch refers to the text as the changes before it left it.
		patch, err := c.patch(&v)
		if err == nil && patch != nil {
			err = v.Patch(patch)
		}
		if err != nil {
			return nil, fmt.Errorf("set %s: %w", strings.Join(c.Path, "."), err)
		}
		if patch != nil {
			text = v.Pack()
		}
	}
	return text, nil
}

// patch returns the change as a JSON Patch, including the objects that are missing on the way. It returns nil where
// nothing has to change.
func (c Change) patch(v *hujson.Value) ([]byte, error) {
	at, is := jsonPointer(c.Path), v.Find(jsonPointer(c.Path))
	if c.Value == nil {
		if is == nil {
			return nil, nil
		}
		return fmt.Appendf(nil, `[{"op":"remove","path":%q}]`, at), nil
	}
	var value bytes.Buffer
	e := json.NewEncoder(&value)
	e.SetEscapeHTML(false)
	e.SetIndent(strings.Repeat("  ", len(c.Path)), "  ")
	if err := e.Encode(c.Value); err != nil {
		return nil, err
	}
	if is != nil && isSameJSON(*is, value.Bytes()) {
		return nil, nil
	}
	patch := []byte("[")
	// JSON Patch refuses to add a member to an object that does not exist.
	for n := 1; n < len(c.Path); n++ {
		if parent := jsonPointer(c.Path[:n]); v.Find(parent) == nil {
			patch = fmt.Appendf(patch, `{"op":"add","path":%q,"value":{}},`, parent)
		}
	}
	return fmt.Appendf(patch, `{"op":"add","path":%q,"value":%s}]`, at, bytes.TrimSpace(value.Bytes())), nil
}

// jsonPointer returns a path in the form of RFC 6901.
func jsonPointer(path []string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	return b.String()
}

// isSameJSON reports whether a value equals other JSON, ignoring white space and comments.
func isSameJSON(v hujson.Value, other []byte) bool {
	v = v.Clone()
	v.Minimize()
	var compact bytes.Buffer
	return json.Compact(&compact, other) == nil && bytes.Equal(v.Pack(), compact.Bytes())
}

// RawString returns a string of a configuration as it is written, before ${…} is replaced. It returns "" where there
// is none.
func RawString(text []byte, path ...string) string {
	v, err := hujson.Parse(text)
	if err != nil {
		return ""
	}
	found := v.Find(jsonPointer(path))
	if found == nil {
		return ""
	}
	literal, ok := found.Value.(hujson.Literal)
	if !ok || literal.Kind() != '"' {
		return ""
	}
	return literal.String()
}

// ParseEnvFile parses the NAME=value lines of a .env file. The error never quotes the file, and says which line is
// wrong.
func ParseEnvFile(text []byte) (map[string]string, error) {
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, errors.New("it contains a zero byte")
	}
	vars, ok := parseEnv(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	if !ok {
		return nil, fmt.Errorf("line %d is not of the form NAME=value", malformedLine(text))
	}
	return vars, nil
}

// plainValue matches what needs no quotes in a .env file.
var plainValue = text.Pattern(`^[A-Za-z0-9._~:/+=@%-]*$`)

// SetVariable sets one variable in the text of a .env file and leaves all other lines as they are. It returns an
// error if the text cannot be changed without changing another variable too.
func SetVariable(text []byte, name, value string) ([]byte, error) {
	want, err := ParseEnvFile(text)
	if err != nil {
		return nil, err
	}
	if old, is := want[name]; is && old == value {
		return text, nil
	}
	line := name + "=" + value
	if !plainValue().MatchString(value) {
		line = name + "='" + value + "'"
	}
	place := regexp.MustCompile(`(?m)^[ \t]*(?:export[ \t]+)?` + regexp.QuoteMeta(name) + `[ \t]*=.*$`)
	changed := place.ReplaceAllLiteral(text, []byte(line))
	if !place.Match(text) {
		if len(changed) > 0 && !bytes.HasSuffix(changed, []byte("\n")) {
			changed = append(changed, '\n')
		}
		changed = append(changed, line+"\n"...)
	}
	// Parse the result: a line that looks like the variable may be part of another one's quoted value.
	want[name] = value
	if got, err := ParseEnvFile(changed); err != nil || !maps.Equal(got, want) {
		return nil, fmt.Errorf("the line of %s has a form that is not changed here: change it yourself", name)
	}
	return changed, nil
}
