package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"ravenbot/internal/core/text"
)

const (
	maxProblems = 5
	maxMessage  = 160 // characters a problem
	maxValue    = 40  // characters of a name or value that is quoted
)

// describe lists a few errors with their places in one line.
func (c *compiled) describe(problem *jsonschema.ValidationError) string {
	var lines []string
	more := 0
	for _, leaf := range leaves(problem) {
		line := text.Shorten(field(leaf.InstanceLocation)+": "+c.reason(leaf), maxMessage)
		switch {
		case slices.Contains(lines, line):
		case len(lines) == maxProblems:
			more++
		default:
			lines = append(lines, line)
		}
	}
	problems := strings.Join(lines, "; ")
	if more > 0 {
		problems += fmt.Sprintf("; and %d more", more)
	}
	return problems
}

// field writes a location as people do: items[0].name.
func field(location []string) string {
	if len(location) == 0 {
		return "arguments"
	}
	var b strings.Builder
	for i, part := range location {
		if n, err := strconv.Atoi(part); err == nil && i > 0 {
			fmt.Fprintf(&b, "[%d]", n)
			continue
		}
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(shorten(part))
	}
	return b.String()
}

// reason returns an error that a model can act on: a missing or unknown field, or a wrong type, with a similar name if
// there is one.
func (c *compiled) reason(leaf *jsonschema.ValidationError) string {
	switch k := leaf.ErrorKind.(type) {
	case *kind.Required:
		return "missing " + names(k.Missing)
	case *kind.AdditionalProperties:
		reason := "unknown " + names(k.Properties)
		if meant := closestName(k.Properties[0], c.propertiesAt(leaf.SchemaURL)); meant != "" {
			reason += fmt.Sprintf(", did you mean %q?", shorten(meant))
		}
		return reason
	case *kind.Type:
		return fmt.Sprintf("must be %s, not %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		var want []string
		for _, w := range k.Want {
			want = append(want, shorten(fmt.Sprint(w)))
		}
		return "must be one of " + strings.Join(want, ", ")
	case *kind.Pattern:
		return "must match " + shorten(k.Want)
	case *kind.FalseSchema:
		return "must not be there"
	}
	return leaf.ErrorKind.LocalizedString(message.NewPrinter(language.English))
}

// names returns names in quotes, shortened, for a message.
func names(list []string) string {
	var quoted []string
	for _, n := range list {
		quoted = append(quoted, strconv.Quote(shorten(n)))
	}
	return strings.Join(quoted, ", ")
}

func shorten(s string) string { return text.Shorten(s, maxValue) }

// typeName returns the type of a value in words.
func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "text"
	case []any:
		return "a list"
	}
	return "an object"
}
