package elicit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"ravenbot/internal/core/chat"
)

// maxFields is how many fields a question may have.
const maxFields = 20

// property is a field as the MCP specification describes it: plain types only. The forms of
// choices differ by version: enum with enumNames up to 2025-06-18, oneOf and anyOf since
// 2025-11-25.
type property struct {
	Type        string        `json:"type"`
	Title       string        `json:"title"`
	Description string        `json:"description"`
	Default     any           `json:"default"`
	Format      string        `json:"format"` // email, uri, date, date-time
	Min         *float64      `json:"minimum"`
	Max         *float64      `json:"maximum"`
	MinLength   int           `json:"minLength"`
	MaxLength   int           `json:"maxLength"`
	Enum        []string      `json:"enum"`
	EnumNames   []string      `json:"enumNames"`
	OneOf       []titledValue `json:"oneOf"`
	Items       *itemSchema   `json:"items"`
	MinItems    int           `json:"minItems"`
	MaxItems    int           `json:"maxItems"`
}

// titledValue is a choice with the words that people are shown for it.
type titledValue struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// itemSchema is the schema of the items of a list: the choices of which several may be made.
type itemSchema struct {
	Enum  []string      `json:"enum"`
	AnyOf []titledValue `json:"anyOf"`
}

// field is one field of a question.
type field struct {
	formField chat.Field
	property  property
}

// parseFields returns the fields of a schema in the order in which they are written, the
// required ones first: some platforms show only the first five. It returns an error if
// people cannot be asked for a field.
func parseFields(schema json.RawMessage) ([]field, error) {
	var s struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, err
	}
	// A map would lose the order, which is how the server wants the fields to be read.
	names, err := keys(s.Properties)
	if err != nil {
		return nil, err
	}
	if len(names) > maxFields {
		return nil, fmt.Errorf("it asks for %d things at once; %d are shown at most", len(names), maxFields)
	}
	var properties map[string]property
	if len(s.Properties) > 0 {
		if err := json.Unmarshal(s.Properties, &properties); err != nil {
			return nil, err
		}
	}
	var list []field
	for _, name := range names {
		p := properties[name]
		x, err := p.formField(name)
		if err != nil {
			return nil, err
		}
		x.Required = slices.Contains(s.Required, name)
		list = append(list, field{x, p})
	}
	// Stable: within required and optional fields the server's order stays.
	slices.SortStableFunc(list, func(a, b field) int {
		return cmp.Compare(rank(a.formField.Required), rank(b.formField.Required))
	})
	return list, nil
}

// rank sorts required fields before others.
func rank(required bool) int {
	if required {
		return 0
	}
	return 1
}

// keys returns the keys of an object in the order in which they are written.
func keys(object json.RawMessage) ([]string, error) {
	if len(object) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var list []string
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return nil, err
		}
		list = append(list, fmt.Sprint(name))
	}
	return list, nil
}

// formField returns the form field of a property, or an error if no form can ask for it.
func (p property) formField(name string) (chat.Field, error) {
	x := chat.Field{Name: name, Label: cmp.Or(p.Title, name), Help: p.Description, Value: defaultText(p.Default)}
	choices := p.choices()
	switch {
	case p.Type == "boolean":
		x.Kind = chat.Toggle
	case p.Type == "integer", p.Type == "number":
		x.Kind = chat.Number
	case p.Type == "array" && len(choices) > 0:
		x.Kind, x.Options = chat.Choices, choices
	case p.Type == "string" && len(choices) > 0:
		x.Kind, x.Options = chat.Choice, choices
	case p.Type == "string":
		x.Kind, x.Max = chat.Line, p.MaxLength
	default:
		return x, fmt.Errorf("%q is of type %q, which people cannot be asked for", name, p.Type)
	}
	return x, nil
}

// choices returns the values that a field may have, with their labels.
func (p property) choices() []chat.Option {
	var list []chat.Option
	for i, v := range p.values() {
		list = append(list, chat.Option{Value: v, Label: cmp.Or(p.label(i), v)})
	}
	return list
}

// values returns the choices in the order of the schema; none: anything may be entered.
func (p property) values() []string {
	var list []string
	of, enum := p.OneOf, p.Enum
	if p.Items != nil {
		of, enum = p.Items.AnyOf, p.Items.Enum
	}
	for _, t := range of {
		list = append(list, t.Const)
	}
	return append(list, enum...)
}

// label returns the words for the i-th choice, or "" if the schema has none.
func (p property) label(i int) string {
	of := p.OneOf
	if p.Items != nil {
		of = p.Items.AnyOf
	}
	switch {
	case i < len(of):
		return of[i].Title
	case i < len(p.EnumNames):
		return p.EnumNames[i]
	}
	return ""
}

// defaultText returns a default in the form of chat.Message.Values.
func defaultText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []any:
		var lines []string
		for _, one := range v {
			lines = append(lines, fmt.Sprint(one))
		}
		return strings.Join(lines, "\n")
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// buildContent returns the values of a form in the server's types. Its error is for the person who filled it in.
func buildContent(fields []field, values map[string]string) (json.RawMessage, error) {
	content := map[string]any{}
	for _, x := range fields {
		raw, given := values[x.formField.Name]
		raw = strings.TrimSpace(raw)
		if raw == "" && !given {
			raw = x.formField.Value // the platform has not shown this field
		}
		if raw == "" {
			if x.formField.Required {
				return nil, fmt.Errorf("%s is missing", x.formField.Label)
			}
			continue
		}
		v, err := x.property.parseValue(raw)
		if err != nil {
			return nil, fmt.Errorf("%s %w", x.formField.Label, err)
		}
		content[x.formField.Name] = v
	}
	return json.Marshal(content)
}

// parseValue returns one value in its type. The text of an error continues the name of the
// field.
func (p property) parseValue(raw string) (any, error) {
	switch p.Type {
	case "boolean":
		switch strings.ToLower(raw) {
		case "true", "yes", "on":
			return true, nil
		case "false", "no", "off":
			return false, nil
		}
		return nil, fmt.Errorf("is %q, want yes or no", raw)
	case "integer", "number":
		return p.parseNumber(raw)
	case "array":
		// chat.Message.Values separates several choices by line breaks.
		list := strings.Split(raw, "\n")
		for _, v := range list {
			if !slices.Contains(p.values(), v) {
				return nil, fmt.Errorf("may not be %q", v)
			}
		}
		if len(list) < p.MinItems || p.MaxItems > 0 && len(list) > p.MaxItems {
			return nil, fmt.Errorf("has %d choices, want %s", len(list), describeRange(p.MinItems, p.MaxItems))
		}
		return list, nil
	}
	if values := p.values(); len(values) > 0 && !slices.Contains(values, raw) {
		return nil, fmt.Errorf("may be %s", strings.Join(values, ", "))
	}
	if n := utf8.RuneCountInString(raw); n < p.MinLength || p.MaxLength > 0 && n > p.MaxLength {
		return nil, fmt.Errorf("has %d characters, want %s", n, describeRange(p.MinLength, p.MaxLength))
	}
	return raw, p.checkFormat(raw)
}

// describeRange returns a range in words; a maximum of 0 means none.
func describeRange(minimum, maximum int) string {
	if maximum == 0 {
		return fmt.Sprintf("at least %d", minimum)
	}
	return fmt.Sprintf("%d to %d", minimum, maximum)
}

// parseNumber returns a number that the schema allows, or an error text that follows the name of the field.
func (p property) parseNumber(raw string) (any, error) {
	f, err := strconv.ParseFloat(raw, 64)
	switch {
	case err != nil || math.IsInf(f, 0) || math.IsNaN(f):
		return nil, fmt.Errorf("is %q, want a number", raw)
	case p.Type == "integer" && f != math.Trunc(f):
		return nil, fmt.Errorf("is %q, want a whole number", raw)
	case p.Min != nil && f < *p.Min:
		return nil, fmt.Errorf("is below %v", *p.Min)
	case p.Max != nil && f > *p.Max:
		return nil, fmt.Errorf("is above %v", *p.Max)
	}
	// Without an exponent: many JSON decoders, Go's among them, refuse 1e+06 as an integer.
	return json.Number(strconv.FormatFloat(f, 'f', -1, 64)), nil
}

// checkFormat checks a text against one of MCP's formats. A text without a format, or with an unknown one, is always
// valid.
func (p property) checkFormat(raw string) error {
	var err error
	switch p.Format {
	case "email":
		var a *mail.Address
		// ParseAddress also accepts "Name <address>", which the format does not mean.
		if a, err = mail.ParseAddress(raw); err == nil && a.Address != raw {
			err = fmt.Errorf("more than an address")
		}
	case "uri":
		var u *url.URL
		if u, err = url.Parse(raw); err == nil && u.Scheme == "" {
			err = fmt.Errorf("no scheme")
		}
	case "date":
		_, err = time.Parse(time.DateOnly, raw)
	case "date-time":
		_, err = time.Parse(time.RFC3339, raw)
	}
	if err != nil {
		return fmt.Errorf("is %q, want %s", raw, map[string]string{
			"email":     "an e-mail address",
			"uri":       "an address such as https://example.org",
			"date":      "a date such as 2026-01-31",
			"date-time": "a time such as 2026-01-31T15:04:05Z",
		}[p.Format])
	}
	return nil
}
