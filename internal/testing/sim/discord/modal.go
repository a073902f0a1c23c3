package simdiscord

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"
)

// modalField is what is filled in, in a label of a modal.
type modalField struct {
	Type     int    `json:"type"`
	Name     string `json:"custom_id"`
	Style    int    `json:"style"`
	Value    string `json:"value"`
	Required *bool  `json:"required"` // absent: it is
	MinText  int    `json:"min_length"`
	MaxText  int    `json:"max_length"`
	Min      *int   `json:"min_values"`
	Max      *int   `json:"max_values"`
	Options  []struct {
		Label   string `json:"label"`
		Value   string `json:"value"`
		Default bool   `json:"default"`
	} `json:"options"`
}

func (f modalField) required() bool { return f.Required == nil || *f.Required }

type modalPart struct {
	Type        int         `json:"type"`
	Label       string      `json:"label"`
	Description *string     `json:"description"`
	Content     string      `json:"content"`
	Field       *modalField `json:"component"`
}

type modal struct {
	ID    string      `json:"custom_id"`
	Title string      `json:"title"`
	Parts []modalPart `json:"components"`
}

// Component types of modals.
const (
	partSelect  = 3
	partInput   = 4
	partDisplay = 10
	partLabel   = 18
)

// checkModal holds a modal to the limits of Discord's documents: five parts, each a
// label with a field, or a text.
func checkModal(body []byte) *apiError {
	var m modal
	if json.Unmarshal(body, &m) != nil || len(m.Parts) < 1 || len(m.Parts) > 5 {
		return badForm("data.components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
	}
	if !between(m.ID, 1, 100) || !between(m.Title, 1, 45) {
		return badForm(
			"data.title",
			"BASE_TYPE_BAD_LENGTH",
			"A modal needs an id of 1 to 100 and a title of 1 to 45 characters.",
		)
	}
	seen := map[string]bool{}
	for i, p := range m.Parts {
		at := fmt.Sprint("data.components.", i)
		switch {
		case p.Type == partDisplay && between(p.Content, 1, 4000):
			continue
		case p.Type != partLabel || p.Field == nil || !between(p.Label, 1, 45) || p.Description != nil &&
			!between(*p.Description, 1, 100):
			return badForm(
				at,
				"BASE_TYPE_BAD_LENGTH",
				"A label has 1 to 45 characters, a description 1 to 100, and a component.",
			)
		case seen[p.Field.Name] || !between(p.Field.Name, 1, 100):
			return badForm(at, "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated")
		}
		seen[p.Field.Name] = true
		if problem := p.Field.check(); problem != "" {
			return badForm(at+".component", "INVALID", problem)
		}
	}
	return nil
}

// check returns why Discord refuses a field; empty: it does not.
func (f modalField) check() string {
	switch f.Type {
	case partInput:
		if f.Style != 1 && f.Style != 2 || f.MaxText < 0 || f.MaxText > 4000 ||
			f.MaxText > 0 && !between(f.Value, 0, f.MaxText) ||
			!between(f.Value, 0, 4000) {
			return "The style or the length of a text input is wrong."
		}
	case partSelect:
		return f.checkMenu()
	default:
		return "This component cannot stand in a label."
	}
	return ""
}

// checkMenu returns why Discord refuses a select menu: it has 1 to 25 options of 1 to 100 characters, each value once,
// and its bounds fit them.
func (f modalField) checkMenu() string {
	minimum, maximum := f.bounds()
	if len(f.Options) < 1 || len(f.Options) > 25 || minimum < 0 || maximum < 1 || maximum > len(f.Options) ||
		minimum > maximum ||
		f.required() && minimum == 0 {
		return "The number of options or of values is wrong."
	}
	seen, chosen := map[string]bool{}, 0
	for _, o := range f.Options {
		if seen[o.Value] || !between(o.Value, 1, 100) || !between(o.Label, 1, 100) {
			return "An option is too long, empty or there twice."
		}
		seen[o.Value] = true
		if o.Default {
			chosen++
		}
	}
	if chosen > maximum {
		return "Too many options are chosen."
	}
	return ""
}

// bounds returns how many values may be chosen: one where the field does not say.
func (f modalField) bounds() (minimum, maximum int) {
	minimum, maximum = 1, 1
	if f.Min != nil {
		minimum = *f.Min
	}
	if f.Max != nil {
		maximum = *f.Max
	}
	return minimum, maximum
}

// between reports whether a text has minimum to maximum characters.
func between(s string, minimum, maximum int) bool {
	n := utf8.RuneCountInString(s)
	return n >= minimum && n <= maximum
}

// Fill lets a user fill in the modal that answered an interaction, and send it:
// values by custom id, what is not named stays as it was shown. It is an error where
// there is no modal, or where Discord's client would not send it.
func (s *Server) Fill(interaction string, fields map[string][]string) (Interaction, error) {
	s.state.Lock()
	defer s.state.Release()
	in := s.interactions[interaction]
	if in == nil || in.Callback == nil || in.Callback.Type != CallbackModal {
		return Interaction{}, fmt.Errorf("fill in a form: interaction %s has none", interaction)
	}
	var m modal
	if err := json.Unmarshal(in.Callback.Data, &m); err != nil {
		return Interaction{}, fmt.Errorf("fill in a form: %w", err)
	}
	parts := []any{}
	for i, p := range m.Parts {
		if p.Field == nil {
			parts = append(parts, map[string]any{"type": partDisplay, "id": i + 1})
			continue
		}
		values, named := fields[p.Field.Name]
		delete(fields, p.Field.Name)
		field, err := p.Field.fill(values, named)
		if err != nil {
			return Interaction{}, fmt.Errorf("fill in %s: %w", p.Field.Name, err)
		}
		parts = append(parts, map[string]any{"type": partLabel, "id": i + 1, "component": field})
	}
	if len(fields) > 0 {
		return Interaction{}, fmt.Errorf("fill in a form: it has no fields %v", fields)
	}
	return s.interact(
		s.mustChannel(in.ChannelID),
		in.User,
		InteractionModal,
		map[string]any{"custom_id": m.ID, "components": parts},
		in.source,
	), nil
}

// fill returns the field as a submitted form has it. A text that the person did not enter keeps its value; it fails
// when what was entered or chosen is not allowed by the field.
func (f modalField) fill(values []string, named bool) (map[string]any, error) {
	wire := map[string]any{"type": f.Type, "custom_id": f.Name}
	if f.Type == partInput {
		text := f.Value
		if named && len(values) > 0 {
			text = values[0]
		}
		maximum := 4000
		if f.MaxText > 0 {
			maximum = f.MaxText
		}
		if f.required() && text == "" || !between(text, f.MinText, maximum) {
			return nil, fmt.Errorf("a text of %d characters is not taken", utf8.RuneCountInString(text))
		}
		wire["value"] = text
		return wire, nil
	}
	chosen := []string{}
	for _, o := range f.Options {
		if !named && o.Default || slices.Contains(values, o.Value) {
			chosen = append(chosen, o.Value)
		}
	}
	minimum, maximum := f.bounds()
	if named && len(chosen) != len(values) || len(chosen) > maximum ||
		len(chosen) < minimum && (f.required() || len(chosen) > 0) {
		return nil, fmt.Errorf("the choice %v of %v is not taken", chosen, values)
	}
	wire["values"] = chosen
	return wire, nil
}
