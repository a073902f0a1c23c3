package chat

import "context"

// Submitted is the Command of a Message that submits a form. Its Text is the form's ID, and its Values the filled-in
// values.
const Submitted = "form"

// Form is a set of fields that one person fills in: a modal on platforms that have modals, a form on the page.
type Form struct {
	ID     string  `json:"id"`    // returned with the values; at most 90 bytes
	Title  string  `json:"title"` // platforms show 24 characters of it
	Intro  string  `json:"intro,omitempty"`
	Submit string  `json:"submit,omitempty"` // label of the submit button; empty for the platform's own
	Fields []Field `json:"fields"`           // all platforms show at least 5
}

// Field is one field of a form.
type Field struct {
	Name     string    `json:"name"`  // key in Message.Values
	Label    string    `json:"label"` // a few words
	Help     string    `json:"help,omitempty"`
	Kind     FieldKind `json:"kind"`
	Value    string    `json:"value,omitempty"` // the present value, in the form of Message.Values
	Options  []Option  `json:"options,omitempty"`
	Required bool      `json:"required,omitempty"`
	Max      int       `json:"max,omitempty"` // maximum characters of a text; 0 for the platform's limit
}

// Option is one possible value of a field.
type Option struct {
	Value string `json:"value"` // at most 90 bytes
	Label string `json:"label"`
}

// FieldKind is the kind of value of a field.
type FieldKind string

// The kinds of fields. A toggle's value is "true" or "false", a choice has the value of one option, and choices have
// any number of them, one a line. A platform that lacks a kind shows the nearest one.
const (
	Line    FieldKind = "line" // of text
	Text    FieldKind = "text" // several lines
	Number  FieldKind = "number"
	Toggle  FieldKind = "toggle"
	Choice  FieldKind = "choice"
	Choices FieldKind = "choices"
)

// Former returns the form for a message that requests one: a command, or the press of a button. Platforms ask it
// before they pass such a message to accept, and show the form instead. The filled-in form arrives as a Submitted
// message. Nil without an error means that the message requests no form. An error is a sentence that only the asker
// sees. It must return within a second.
type Former func(ctx context.Context, m Message) (*Form, error)

// FormChecker returns the errors of a Submitted message by the names of fields, or nothing if the message is valid.
// Platforms that can show errors in a form ask it before they pass the message to accept. It must return within a
// second.
type FormChecker func(ctx context.Context, m Message) map[string]string
