package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/turn/markdown"
)

// Rules of forms. What opens one is good for three seconds.
const (
	// formerTimeout and openFormTimeout together leave half a second of the three for what comes before and for the
	// network.
	formerTimeout   = time.Second
	openFormTimeout = 1500 * time.Millisecond
	formID          = "ravenbot-form"

	maxFormTitle  = 24
	maxFormFields = 5
	// Limits of Slack's blocks, in characters (reference of 2026).
	maxFieldText   = 3000
	maxFieldLabel  = 150 // Slack takes 2,000, as of help
	maxFieldHelp   = 500
	maxOptions     = 100
	maxOptionLabel = 75
	maxOptionValue = 75 // 150 by the documents of 2026, which were not always so
	maxFormState   = 3000
	// fieldAction is the action id of each element; the block has the name of its field.
	fieldAction = "value"
	// toggleChosen is the value of a toggle that is on.
	toggleChosen = "true"
)

// formState goes with a form as its private_metadata and comes back when it is sent, because Slack does not say where
// the form was opened. People cannot change it.
type formState struct {
	Form   string       `json:"form"`
	At     chat.Address `json:"at"`
	Post   string       `json:"post,omitempty"` // with the button that was pressed
	Handle handle       `json:"handle"`
}

// openFormFor opens the form that a command or a press asks for. It adds to the message the roles of its author, and
// whether they are an administrator. It returns true if the form, or a note why there is none, is all there is to
// answer; false: the message is to be accepted.
func (s *Slack) openFormFor(ctx context.Context, m *chat.Message) (done bool) {
	// Questions need no rights, and the look-up costs a call.
	m.Author.Admin = !m.IsQuestion() && s.isAdmin(ctx, m.Author.ID)
	m.Author.Roles = s.rolesOf(m.Author.ID)
	if s.o.Former == nil || m.Kind() == chat.EventForm {
		return false
	}
	form, err := s.askForm(ctx, *m)
	switch {
	case err != nil:
		s.queueNote(*m, err.Error())
	case form == nil:
		return false
	default:
		if err := s.openForm(ctx, *m, form); err != nil {
			s.o.Log.Warn("failed to open a slack form", "form", form.ID, "error", redact(err))
			if m.Kind() != chat.EventPress {
				return false // a command has an answer in words, too
			}
			s.queueNote(*m, "I could not open the form. Please try again.")
		}
	}
	return true
}

// checkForm returns the answer by which Slack shows the faults of a form inside of it, so that
// nothing of what was filled in is lost; nil where there are none.
func (s *Slack) checkForm(ctx context.Context, m *chat.Message) json.RawMessage {
	if s.o.CheckForm == nil || m.Kind() != chat.EventForm {
		return nil
	}
	m.Author.Admin, m.Author.Roles = s.isAdmin(ctx, m.Author.ID), s.rolesOf(m.Author.ID)
	ctx, cancel := context.WithTimeout(ctx, formerTimeout)
	defer cancel()
	shown := map[string]string{}
	for name, fault := range s.o.CheckForm(ctx, *m) {
		// Slack takes faults of the blocks that the form has, and no others.
		if _, ok := m.Values[name]; ok {
			shown[name] = cutText(fault, maxFieldHelp)
		}
	}
	if len(shown) == 0 {
		return nil
	}
	raw, err := json.Marshal(map[string]any{"response_action": "errors", "errors": shown})
	if err != nil {
		return nil
	}
	return raw
}

// askForm returns the form that a message asks for; nil if it asks for none, or if there was no
// answer in time.
func (s *Slack) askForm(ctx context.Context, m chat.Message) (form *chat.Form, err error) {
	ctx, cancel := context.WithTimeout(ctx, formerTimeout)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			s.o.Log.Error(
				"panic while making a form",
				"command",
				m.Command,
				"panic",
				fmt.Sprint(r),
				"stack",
				string(debug.Stack()),
			)
			form, err = nil, nil
		}
	}()
	form, err = s.o.Former(ctx, m)
	if ctx.Err() != nil {
		return nil, nil
	}
	return form, err
}

// queueNote tells the author of a command or a press something, as soon as there is time.
func (s *Slack) queueNote(m chat.Message, text string) {
	d := chat.Draft{Key: m.Key() + "/form", Reply: m.Reply, Ephemeral: true, Failed: true, Text: text}
	s.queueChore(func(ctx context.Context) error {
		_, err := s.Post(ctx, m.Conversation, d)
		return err
	})
}

// openForm has Slack show a form. It fails where Slack refuses it, for example because the trigger is older than three
// seconds.
func (s *Slack) openForm(ctx context.Context, m chat.Message, f *chat.Form) error {
	ctx, cancel := context.WithTimeout(ctx, openFormTimeout)
	defer cancel()
	state := formState{Form: f.ID, At: m.Conversation, Post: m.Reply.MessageID}
	if err := json.Unmarshal(m.Reply.Handle, &state.Handle); err != nil {
		return fmt.Errorf("read what answers the command: %w", err)
	}
	kept, err := json.Marshal(state)
	switch {
	case err != nil:
		return fmt.Errorf("keep what answers the form: %w", err)
	// Slack refuses a longer private_metadata (reference of 2026).
	case len(kept) > maxFormState:
		return fmt.Errorf("keep what answers the form: %d bytes, of which Slack takes %d", len(kept), maxFormState)
	}
	view, err := json.Marshal(newView(f, string(kept)))
	if err != nil {
		return fmt.Errorf("write the form: %w", err)
	}
	return s.callAPI(ctx, "views.open", url.Values{"trigger_id": {triggerOf(m.ID)}, "view": {string(view)}}, nil)
}

// plainTextObject returns a text without formatting, cut to so many characters.
func plainTextObject(text string, most int) *slackgo.TextBlockObject {
	return slackgo.NewTextBlockObject(slackgo.PlainTextType, cutText(text, most), false, false)
}

// newView returns a form as Slack takes it. A field whose text is too long to be shown whole is
// left out, so that sending the form does not change it.
func newView(f *chat.Form, state string) slackgo.ModalViewRequest {
	submit := f.Submit
	if submit == "" {
		submit = "Submit"
	}
	v := slackgo.ModalViewRequest{
		Type:            slackgo.VTModal,
		Title:           plainTextObject(f.Title, maxFormTitle),
		Submit:          plainTextObject(submit, maxFormTitle),
		Close:           plainTextObject("Cancel", maxFormTitle),
		CallbackID:      formID,
		PrivateMetadata: state,
	}
	if f.Intro != "" {
		text := slackgo.NewTextBlockObject(
			slackgo.MarkdownType,
			cutText(escape(markdown.Plain(f.Intro)), maxSectionText),
			false,
			true,
		)
		v.Blocks.BlockSet = append(v.Blocks.BlockSet, slackgo.NewSectionBlock(text, nil, nil))
	}
	for _, field := range f.Fields[:min(len(f.Fields), maxFormFields)] {
		element := newElement(field)
		if element == nil {
			continue
		}
		block := slackgo.NewInputBlock(field.Name, plainTextObject(field.Label, maxFieldLabel), nil, element)
		if field.Help != "" {
			block.Hint = plainTextObject(field.Help, maxFieldHelp)
		}
		block.Optional = !field.Required || field.Kind == chat.Toggle
		v.Blocks.BlockSet = append(v.Blocks.BlockSet, block)
	}
	return v
}

// newElement returns the element in which a field is filled in; nil if its value is too long. A choice that does not
// fit in a menu becomes a line of text, several choices become one a line.
func newElement(f chat.Field) slackgo.BlockElement {
	switch {
	case f.Kind == chat.Toggle:
		box := slackgo.NewCheckboxGroupsBlockElement(
			fieldAction,
			slackgo.NewOptionBlockObject(toggleChosen, plainTextObject("Yes", maxOptionLabel), nil),
		)
		if f.Value == toggleChosen {
			box.InitialOptions = box.Options
		}
		return box
	case f.Kind == chat.Choice && fitsMenu(f.Options):
		menu := slackgo.NewOptionsSelectBlockElement(
			slackgo.OptTypeStatic,
			nil,
			fieldAction,
			optionObjects(f.Options)...)
		if n := slices.IndexFunc(f.Options, func(o chat.Option) bool { return o.Value == f.Value }); n >= 0 {
			menu.InitialOption = menu.Options[n]
		}
		return menu
	case f.Kind == chat.Choices && fitsMenu(f.Options):
		menu := slackgo.NewOptionsMultiSelectBlockElement(
			slackgo.MultiOptTypeStatic,
			nil,
			fieldAction,
			optionObjects(f.Options)...)
		chosen := strings.Split(f.Value, "\n")
		for n, o := range f.Options {
			if slices.Contains(chosen, o.Value) {
				menu.InitialOptions = append(menu.InitialOptions, menu.Options[n])
			}
		}
		return menu
	case f.Kind == chat.Number:
		return slackgo.NewNumberInputBlockElement(nil, fieldAction, true).WithInitialValue(f.Value)
	}
	in := slackgo.NewPlainTextInputBlockElement(nil, fieldAction).
		WithInitialValue(f.Value).
		WithMaxLength(maxFieldText).
		WithMultiline(f.Kind == chat.Text || f.Kind == chat.Choices)
	if f.Max > 0 {
		in = in.WithMaxLength(min(f.Max, maxFieldText))
	}
	if len([]rune(f.Value)) > in.MaxLength {
		return nil
	}
	return in
}

// fitsMenu reports whether Slack takes options as a menu: not too many, with labels, and with short values of which no
// two are alike.
func fitsMenu(list []chat.Option) bool {
	seen := map[string]bool{"": true}
	for _, o := range list {
		if seen[o.Value] || len(o.Value) > maxOptionValue || o.Label == "" {
			return false
		}
		seen[o.Value] = true
	}
	return len(list) > 0 && len(list) <= maxOptions
}

// optionObjects returns options in Block Kit's form, their labels cut to what Slack takes.
func optionObjects(list []chat.Option) []*slackgo.OptionBlockObject {
	var all []*slackgo.OptionBlockObject
	for _, o := range list {
		all = append(all, slackgo.NewOptionBlockObject(o.Value, plainTextObject(o.Label, maxOptionLabel), nil))
	}
	return all
}

// wireField is what a form that was sent holds in one field.
type wireField struct {
	Type  string `json:"type"`
	Value string `json:"value"`
	One   struct {
		Value string `json:"value"`
	} `json:"selected_option"`
	Several []struct {
		Value string `json:"value"`
	} `json:"selected_options"`
}

// text returns what was filled in, as newElement takes it: several choices one a line, an empty toggle as "false".
func (f wireField) text() string {
	var several []string
	for _, o := range f.Several {
		several = append(several, o.Value)
	}
	switch f.Type {
	case "checkboxes": // the only kind that has no value until it is chosen
		if len(several) == 0 {
			return "false"
		}
	case "static_select":
		return f.One.Value
	case "plain_text_input", "number_input":
		return f.Value
	}
	return strings.Join(several, "\n")
}

// wireSubmission is a form that was sent.
type wireSubmission struct {
	Team struct {
		ID string `json:"id"`
	} `json:"team"`
	User struct {
		ID   string `json:"id"`
		Name string `json:"username"`
	} `json:"user"`
	View struct {
		ID       string `json:"id"`
		Hash     string `json:"hash"`
		Callback string `json:"callback_id"`
		Kept     string `json:"private_metadata"`
		State    struct {
			Values map[string]map[string]wireField `json:"values"`
		} `json:"state"`
	} `json:"view"`
}

// parseSubmission translates a form of ours that was sent; false if it is another one. The answer goes to the sender,
// where the command or the press was that opened the form. A form that is sent again with other values is another
// message: the values are part of its id.
func (s *Slack) parseSubmission(payload []byte) (chat.Message, bool) {
	var sent wireSubmission
	var state formState
	if json.Unmarshal(payload, &sent) != nil || sent.View.Callback != formID || sent.View.ID == "" || sent.User.ID == "" ||
		json.Unmarshal([]byte(sent.View.Kept), &state) != nil ||
		state.At.Channel == "" {
		return chat.Message{}, false
	}
	// The answer to a form is for its sender alone, like that to a press.
	state.Handle.User, state.Handle.Press = sent.User.ID, true
	raw, err := json.Marshal(state.Handle)
	if err != nil {
		return chat.Message{}, false
	}
	values := map[string]string{}
	for name, block := range sent.View.State.Values {
		values[name] = block[fieldAction].text()
	}
	id := interactionID("form", sent.View.ID, sent.View.Hash, sent.View.Kept, sent.User.ID, fmt.Sprint(values))
	return chat.Message{
		ID:           id,
		Author:       chat.User{ID: sent.User.ID, Name: sent.User.Name, Handle: sent.User.Name},
		Time:         s.o.Now(),
		Reach:        chat.Addressed,
		Command:      chat.Submitted,
		Text:         state.Form,
		Values:       values,
		Reply:        chat.Reply{MessageID: state.Post, Handle: raw},
		Conversation: state.At,
		Direct:       isDirectChannel(state.At.Channel),
	}, true
}
