package chat

import "context"

// Submitted is the Command of a Message with which somebody sent a form: its Text
// is the form's ID, its Values are what was filled in.
const Submitted = "form"

// Form is a few fields that one person fills in: a modal where the platform has
// them, a form on the page.
type Form struct {
	ID     string  `json:"id"`    // comes back with what was filled in; at most 90 bytes
	Title  string  `json:"title"` // platforms show 24 characters of it
	Intro  string  `json:"intro,omitempty"`
	Submit string  `json:"submit,omitempty"` // label of the button that sends it; empty: the platform's own
	Fields []Field `json:"fields"`           // at most 5 are shown everywhere
}

// Field is one thing to fill in.
type Field struct {
	Name     string    `json:"name"`  // key in Message.Values
	Label    string    `json:"label"` // a few words
	Help     string    `json:"help,omitempty"`
	Kind     FieldKind `json:"kind"`
	Value    string    `json:"value,omitempty"` // as it stands, in the form of Message.Values
	Options  []Option  `json:"options,omitempty"`
	Required bool      `json:"required,omitempty"`
	Max      int       `json:"max,omitempty"` // characters of a text; 0: the platform's own
}

// Option is one of the values that a field may have.
type Option struct {
	Value string `json:"value"` // at most 90 bytes
	Label string `json:"label"`
}

// FieldKind is what a field takes.
type FieldKind string

// The kinds of fields. A toggle's value is "true" or "false", that of a choice is
// one of its options', that of choices is any number of them, a line each. A
// platform that lacks a kind shows the nearest that it has.
const (
	Line    FieldKind = "line" // of text
	Text    FieldKind = "text" // several lines
	Number  FieldKind = "number"
	Toggle  FieldKind = "toggle"
	Choice  FieldKind = "choice"
	Choices FieldKind = "choices"
)

// Former gives the form that a message asks for: a command, or the press of a
// button. Platforms ask it before they hand such a message to accept, and show the
// form instead; what is sent comes back as a Submitted message. Nil with a nil
// error: the message asks for none. An error is a sentence for whoever asked,
// shown to them alone. It must answer within a second.
type Former func(ctx context.Context, m Message) (*Form, error)

// FormChecker returns what is wrong with a Submitted message, by the names of fields; nothing where
// it can be handled. Platforms that can show faults inside of a form ask it before they hand the
// message to accept. It must answer within a second.
type FormChecker func(ctx context.Context, m Message) map[string]string
