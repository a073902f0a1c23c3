package simslack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Limits of what is filled in, and of a view around it.
const (
	maxInput    = 3000
	maxOptions  = 100
	maxMetadata = 3000
)

type optionObject struct {
	Text  textObject `json:"text"`
	Value string     `json:"value"`
}

// element is what is filled in, in an input block.
type element struct {
	Type      string         `json:"type"`
	ActionID  string         `json:"action_id"`
	Initial   string         `json:"initial_value"`
	Max       int            `json:"max_length"`
	Multiline bool           `json:"multiline"`
	Decimal   *bool          `json:"is_decimal_allowed"`
	Options   []optionObject `json:"options"`
	One       *optionObject  `json:"initial_option"`
	Several   []optionObject `json:"initial_options"`
}

type inputBlock struct {
	Type     string      `json:"type"`
	BlockID  string      `json:"block_id"`
	Label    *textObject `json:"label"`
	Hint     *textObject `json:"hint"`
	Optional bool        `json:"optional"`
	Element  *element    `json:"element"`
}

type viewObject struct {
	Type     string          `json:"type"`
	Title    textObject      `json:"title"`
	Submit   *textObject     `json:"submit"`
	Close    *textObject     `json:"close"`
	Callback string          `json:"callback_id"`
	Metadata string          `json:"private_metadata"`
	Blocks   json.RawMessage `json:"blocks"`
}

// checkView refuses views that Slack would refuse: titles and labels over 24 characters, metadata over 3,000 and too
// many or wrong blocks.
func checkView(raw string) *slackError {
	var v viewObject
	if json.Unmarshal([]byte(raw), &v) != nil || v.Type != "modal" && v.Type != "home" {
		return refuse("invalid_arguments")
	}
	if v.Type == "modal" && (v.Title.Type != "plain_text" || v.Title.Text == "" || runes(v.Title.Text) > 24) {
		return invalidBlocks("title must be between 1 and 24 characters of plain_text")
	}
	for _, label := range []*textObject{v.Submit, v.Close} {
		if label != nil && (label.Type != "plain_text" || label.Text == "" || runes(label.Text) > 24) {
			return invalidBlocks("submit and close must be between 1 and 24 characters of plain_text")
		}
	}
	if len(v.Metadata) > maxMetadata || runes(v.Callback) > 255 {
		return invalidBlocks("private_metadata must be less than 3001 characters, callback_id less than 256")
	}
	// A view holds twice as many blocks as a message.
	var list []json.RawMessage
	if json.Unmarshal(v.Blocks, &list) != nil || len(list) > 100 {
		return invalidBlocks("no more than 100 items allowed [json-pointer:/view/blocks]")
	}
	for part := range splitBlocks(list) {
		if err := checkBlocks(part); err != nil {
			return err
		}
	}
	return checkInputs(v)
}

// checkInputs holds the input blocks of a view to the limits of Slack's documents.
func checkInputs(v viewObject) *slackError {
	var list []inputBlock
	if json.Unmarshal(v.Blocks, &list) != nil {
		return refuse("invalid_arguments")
	}
	var faults []string
	seen := map[string]bool{}
	for i, b := range list {
		if b.BlockID != "" && seen[b.BlockID] {
			faults = append(faults, "block_id `"+b.BlockID+"` already exists")
		}
		seen[b.BlockID] = true
		if b.Type != "input" {
			continue
		}
		if problem := b.check(v); problem != "" {
			faults = append(faults, problem+" [json-pointer:/view/blocks/"+strconv.Itoa(i)+"]")
		}
	}
	if len(faults) > 0 {
		return invalidBlocks(faults...)
	}
	return nil
}

// check returns what is wrong with an input; empty: nothing. A modal with an input needs a button that submits it.
func (b inputBlock) check(v viewObject) string {
	switch {
	case v.Type == "modal" && v.Submit == nil:
		return "missing required field: submit"
	case b.Label == nil || b.Label.Type != "plain_text" || b.Label.Text == "" || runes(b.Label.Text) > 2000:
		return "label must be between 1 and 2000 characters of plain_text"
	case b.Hint != nil && (b.Hint.Type != "plain_text" || b.Hint.Text == "" || runes(b.Hint.Text) > 2000):
		return "hint must be between 1 and 2000 characters of plain_text"
	case b.Element == nil:
		return "missing required field: element"
	}
	return b.Element.check()
}

// check returns what is wrong with an element; empty: nothing.
func (e element) check() string {
	switch e.Type {
	case "plain_text_input":
		maximum := e.Max
		if maximum == 0 {
			maximum = maxInput
		}
		if maximum < 1 || maximum > maxInput || runes(e.Initial) > maximum {
			return "max_length must be between 1 and 3000, initial_value no longer"
		}
		return ""
	case "number_input":
		if _, err := strconv.ParseFloat(e.Initial, 64); err != nil && e.Initial != "" || e.Decimal == nil {
			return "is_decimal_allowed is required, initial_value must be a number"
		}
		return ""
	case "static_select", "multi_static_select":
		return e.checkOptions(maxOptions)
	case "checkboxes", "radio_buttons":
		return e.checkOptions(10)
	}
	return "unsupported type: " + e.Type
}

// checkOptions returns what is wrong with at most maximum options; empty: nothing.
func (e element) checkOptions(maximum int) string {
	if len(e.Options) == 0 || len(e.Options) > maximum {
		return fmt.Sprintf("between 1 and %d options required", maximum)
	}
	for _, o := range e.Options {
		if o.Text.Type != "plain_text" || o.Text.Text == "" || runes(o.Text.Text) > 75 || o.Value == "" ||
			runes(o.Value) > 150 {
			return "an option has 1 to 75 characters of plain_text and a value of 1 to 150"
		}
	}
	for _, o := range e.initial() {
		if !slices.Contains(e.Options, o) {
			return "initial_option must be one of the options"
		}
	}
	if e.Several != nil && len(e.Several) == 0 {
		return "initial_options must not be empty"
	}
	return ""
}

// initial returns the options that are chosen from the beginning.
func (e element) initial() []optionObject {
	if e.One != nil {
		return []optionObject{*e.One}
	}
	return e.Several
}

// FillView lets a user fill in a form and send it: values by block id, what is not
// named stays as it was shown. It is an error where Slack's client would not send it.
func (s *Server) FillView(v View, by User, values map[string][]string) (Call, error) {
	var shown viewObject
	var list []inputBlock
	if json.Unmarshal(v.Raw, &shown) != nil || json.Unmarshal(shown.Blocks, &list) != nil {
		return Call{}, fmt.Errorf("fill in view %s: it cannot be read", v.ID)
	}
	state := map[string]map[string]any{}
	for _, b := range list {
		if b.Type != "input" {
			continue
		}
		given, named := values[b.BlockID]
		delete(values, b.BlockID)
		field, empty, err := b.Element.fill(given, named)
		if err != nil || empty && !b.Optional {
			return Call{}, fmt.Errorf("fill in %s: it is not taken (empty: %v): %w", b.BlockID, empty, err)
		}
		state[b.BlockID] = map[string]any{b.Element.ActionID: field}
	}
	if len(values) > 0 {
		return Call{}, fmt.Errorf("fill in view %s: it has no fields %v", v.ID, values)
	}
	return s.SubmitView(v, by, state), nil
}

// fill returns a field as Slack sends it.
func (e element) fill(given []string, named bool) (field map[string]any, empty bool, err error) {
	field = map[string]any{"type": e.Type}
	if e.Type == "plain_text_input" || e.Type == "number_input" {
		text := e.Initial
		if named {
			text = given[0]
		}
		if _, bad := strconv.ParseFloat(text, 64); e.Type == "number_input" && text != "" && bad != nil {
			return nil, false, fmt.Errorf("%q is not a number", text)
		}
		if e.Max > 0 && runes(text) > e.Max {
			return nil, false, fmt.Errorf("%d characters are too many", runes(text))
		}
		field["value"] = text
		if text == "" {
			field["value"] = nil
		}
		return field, text == "", nil
	}
	chosen := e.initial()
	if named {
		chosen = nil
		for _, o := range e.Options {
			if slices.Contains(given, o.Value) {
				chosen = append(chosen, o)
			}
		}
		if len(chosen) != len(given) {
			return nil, false, fmt.Errorf("%v are not among the options", given)
		}
	}
	if e.Type == "static_select" || e.Type == "radio_buttons" {
		field["selected_option"] = nil
		if len(chosen) > 0 {
			field["selected_option"] = chosen[0]
		}
		return field, len(chosen) == 0, nil
	}
	field["selected_options"] = append([]optionObject{}, chosen...)
	return field, len(chosen) == 0, nil
}
