package discord

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/turn/markdown"
)

// Rules of forms.
const (
	formTimeout    = time.Second // of the three that Discord waits
	maxFormTitle   = 45
	maxFormFields  = 5
	maxFieldLabel  = 45
	maxFieldHelp   = 100
	maxFieldText   = 4000
	maxOptions     = 25
	maxOptionLabel = 100
	maxOptionValue = 100
)

// Component types of forms, and the looks of a text input.
const (
	componentSelect  = 3
	componentInput   = 4
	componentDisplay = 10
	componentLabel   = 18

	inputLine = 1
	inputText = 2
)

// modal is a form in Discord's own form: its parts are labels, each around one input or menu, and texts.
type modal struct {
	ID    string `json:"custom_id"`
	Title string `json:"title"`
	Parts []any  `json:"components"` // of labelled and display
}

// textComponent is a part of a modal that is only read (Text Display).
type textComponent struct {
	Type int    `json:"type"`
	Text string `json:"content"`
}

// labelComponent is a part of a modal that names and explains another one.
type labelComponent struct {
	Type  int    `json:"type"`
	Label string `json:"label"`
	Help  string `json:"description,omitempty"`
	Part  any    `json:"component"` // an input or a menu
}

// inputComponent is a field for text. Max is in characters.
type inputComponent struct {
	Type     int    `json:"type"`
	Name     string `json:"custom_id"`
	Look     int    `json:"style"`
	Value    string `json:"value,omitempty"`
	Required bool   `json:"required"`
	Max      int    `json:"max_length"`
}

// selectComponent is a menu, of which Least to Most options are chosen.
type selectComponent struct {
	Type     int            `json:"type"`
	Name     string         `json:"custom_id"`
	Options  []selectOption `json:"options"`
	Least    int            `json:"min_values"`
	Most     int            `json:"max_values"`
	Required bool           `json:"required"`
}

// selectOption is an option of a menu.
type selectOption struct {
	Label  string `json:"label"`
	Value  string `json:"value"`
	Chosen bool   `json:"default,omitempty"`
}

// newModal returns a form as Discord takes it. A field whose text is too long to be shown whole is
// left out, so that sending the form does not change it. The introduction takes the place of a
// field.
func newModal(f *chat.Form) modal {
	m := modal{ID: f.ID, Title: cutText(f.Title, maxFormTitle)}
	fields := f.Fields[:min(len(f.Fields), maxFormFields)]
	intro := f.Intro
	if intro != "" && len(fields) < maxFormFields {
		m.Parts, intro = append(
			m.Parts,
			textComponent{Type: componentDisplay, Text: cutText(markdown.Discord(intro), maxFieldText)},
		), ""
	}
	for n, field := range fields {
		if n == 0 && intro != "" {
			field.Help = strings.TrimSpace(intro + " " + field.Help)
		}
		part := newField(field)
		if part == nil {
			continue
		}
		m.Parts = append(
			m.Parts,
			labelComponent{
				Type:  componentLabel,
				Label: cutText(field.Label, maxFieldLabel),
				Help:  cutText(field.Help, maxFieldHelp),
				Part:  part,
			},
		)
	}
	return m
}

// newField returns the component in which a field is filled in; nil if its value is too long.
func newField(f chat.Field) any {
	if f.Kind == chat.Toggle {
		f.Options = []chat.Option{{Value: "true", Label: "Yes"}, {Value: "false", Label: "No"}}
	}
	if choices := f.Kind == chat.Choices; (choices || f.Kind == chat.Choice || f.Kind == chat.Toggle) &&
		fitsMenu(f.Options) {
		return newMenu(f, choices)
	}
	in := inputComponent{
		Type:     componentInput,
		Name:     f.Name,
		Look:     inputLine,
		Value:    f.Value,
		Required: f.Required,
		Max:      maxFieldText,
	}
	if f.Max > 0 {
		in.Max = min(f.Max, maxFieldText)
	}
	if f.Kind == chat.Text || f.Kind == chat.Choices {
		in.Look = inputText
	}
	if markdown.Length(f.Value) > in.Max {
		return nil
	}
	return in
}

// fitsMenu reports whether Discord takes options as a menu.
func fitsMenu(options []chat.Option) bool {
	seen := map[string]bool{"": true}
	for _, o := range options {
		if seen[o.Value] || markdown.Length(o.Value) > maxOptionValue || o.Label == "" {
			return false
		}
		seen[o.Value] = true
	}
	return len(options) > 0 && len(options) <= maxOptions
}

// newMenu returns a menu of a field's options, of which one or several may be chosen.
func newMenu(f chat.Field, several bool) selectComponent {
	m := selectComponent{Type: componentSelect, Name: f.Name, Most: 1, Required: f.Required}
	if several {
		m.Most = len(f.Options)
	}
	if f.Required {
		m.Least = 1
	}
	chosen := strings.Split(f.Value, "\n")
	for _, o := range f.Options {
		m.Options = append(
			m.Options,
			selectOption{
				Label:  cutText(o.Label, maxOptionLabel),
				Value:  o.Value,
				Chosen: slices.Contains(chosen, o.Value),
			},
		)
	}
	return m
}

// wireField is a component of a form that was sent, or holds others.
type wireField struct {
	Name   string          `json:"custom_id"`
	Value  json.RawMessage `json:"value"`
	Values *[]string       `json:"values"`
	Part   *wireField      `json:"component"`
	Parts  []wireField     `json:"components"`
}

// read stores what was filled in by name, also in the components within: several choices one a line.
func (f wireField) read(values map[string]string) {
	var text string
	switch {
	case f.Name == "":
	case f.Values != nil:
		values[f.Name] = strings.Join(*f.Values, "\n")
	case json.Unmarshal(f.Value, &text) == nil:
		values[f.Name] = text
	default: // a kind of field that this bot does not make
		values[f.Name] = string(f.Value)
	}
	if f.Part != nil {
		f.Part.read(values)
	}
	for _, part := range f.Parts {
		part.read(values)
	}
}

// formResult tells once whether an interaction was answered with a form, or with the reason why
// there is none, and is therefore no message. A nil formResult says that it was not.
type formResult chan bool

// newVerdict returns where to wait for the result of a command or a press, which may ask for a
// form.
func (d *Discord) newVerdict(m chat.Message) formResult {
	if d.o.Former == nil || m.Kind() == chat.EventForm {
		return nil
	}
	return make(formResult, 1)
}

// wait returns the result; false if ctx ends first.
func (v formResult) wait(ctx context.Context) bool {
	if v == nil {
		return false
	}
	select {
	case is := <-v:
		return is
	case <-ctx.Done():
		return false
	}
}

// showForm answers an interaction with the form that it asks for, or with the reason why there is none. It returns
// false if it asks for none, or if there was no form in time; then the interaction is a message.
func (d *Discord) showForm(ctx context.Context, w wireInteraction, arrived time.Time, m chat.Message) bool {
	type outcome struct {
		form *chat.Form
		err  error
	}
	limited, cancel := context.WithTimeout(ctx, formTimeout)
	defer cancel()
	// With room: Former may answer when nobody waits for it any more.
	found := make(chan outcome, 1)
	d.startWork(func() {
		defer func() {
			if r := recover(); r != nil {
				d.o.Log.Error(
					"panic while making a form",
					"platform",
					"discord",
					"command",
					m.Command,
					"panic",
					fmt.Sprint(r),
					"stack",
					string(debug.Stack()),
				)
				found <- outcome{}
			}
		}()
		form, err := d.o.Former(limited, m)
		found <- outcome{form, err}
	})
	select {
	case o := <-found:
		switch {
		case o.err != nil:
			d.sendCallback(ctx, w, arrived, noteCallback(o.err.Error()))
		case o.form == nil:
			return false
		case !d.sendCallback(ctx, w, arrived, callback{Type: answerModal, Data: newModal(o.form)}):
			d.sendCallback(ctx, w, arrived, noteCallback("I could not open the form. Please try again."))
		}
		return true
	case <-limited.Done():
		return false
	}
}
