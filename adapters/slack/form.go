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

	"ravenbot/internal/chat"
	"ravenbot/internal/markdown"
)

// Rules of forms. What opens one is good for three seconds.
const (
	formWithin = time.Second
	openWithin = 1500 * time.Millisecond
	formID     = "ravenbot-form"

	formTitle    = 24
	formFields   = 5
	fieldText    = 3000
	fieldLabel   = 150 // Slack takes 2,000, as of help
	fieldHelp    = 500
	mostOptions  = 100
	optionLabel  = 75
	optionValue  = 75 // 150 by the documents of 2026, which were not always so
	stateLength  = 3000
	fieldAction  = "value"
	toggleChosen = "true"
)

// formState is what goes with a form and comes back with it.
type formState struct {
	Form   string       `json:"form"`
	At     chat.Address `json:"at"`
	Post   string       `json:"post,omitempty"` // with the button that was pressed
	Handle handle       `json:"handle"`
}

// prepare adds to a command, a press or a form that was sent what is known of its
// author, and answers it with a form where it asks for one; true: that was all.
func (s *Slack) prepare(ctx context.Context, m *chat.Message) (done bool) {
	m.Author.Admin = !m.IsQuestion() && s.isAdmin(ctx, m.Author.ID)
	if s.o.Former == nil || m.Kind() == chat.EventForm {
		return false
	}
	form, err := s.former(ctx, *m)
	switch {
	case err != nil:
		s.whisper(*m, err.Error())
	case form == nil:
		return false
	default:
		if err := s.openForm(ctx, *m, form); err != nil {
			s.o.Log.Warn("form not opened", "form", form.ID, "error", redacted(err))
			if m.Kind() != chat.EventPress {
				return false // a command has an answer in words, too
			}
			s.whisper(*m, "The form could not be opened; please try again.")
		}
	}
	return true
}

// former asks for the form; where that fails the message goes its way.
func (s *Slack) former(ctx context.Context, m chat.Message) (form *chat.Form, err error) {
	ctx, cancel := context.WithTimeout(ctx, formWithin)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			s.o.Log.Error("panic while making a form", "command", m.Command, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			form, err = nil, nil
		}
	}()
	form, err = s.o.Former(ctx, m)
	if ctx.Err() != nil {
		return nil, nil
	}
	return form, err
}

// whisper tells whoever sent a command or pressed a button something, soon.
func (s *Slack) whisper(m chat.Message, text string) {
	d := chat.Draft{Key: m.Key() + "/form", Reply: m.Reply, Ephemeral: true, Failed: true, Text: text}
	s.chore(func(ctx context.Context) error {
		_, err := s.Post(ctx, m.Conversation, d)
		return err
	})
}

func (s *Slack) openForm(ctx context.Context, m chat.Message, f *chat.Form) error {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	state := formState{Form: f.ID, At: m.Conversation, Post: m.Reply.MessageID}
	if err := json.Unmarshal(m.Reply.Handle, &state.Handle); err != nil {
		return fmt.Errorf("read what answers the command: %w", err)
	}
	kept, err := json.Marshal(state)
	switch {
	case err != nil:
		return fmt.Errorf("keep what answers the form: %w", err)
	case len(kept) > stateLength:
		return fmt.Errorf("keep what answers the form: %d bytes, of which Slack takes %d", len(kept), stateLength)
	}
	view, err := json.Marshal(newView(f, string(kept)))
	if err != nil {
		return fmt.Errorf("write the form: %w", err)
	}
	return s.ask(ctx, "views.open", url.Values{"trigger_id": {triggerOf(m.ID)}, "view": {string(view)}}, nil)
}

func words(text string, most int) *slackgo.TextBlockObject {
	return slackgo.NewTextBlockObject(slackgo.PlainTextType, clip(text, most), false, false)
}

// newView writes a form as Slack takes it. A field whose text is too long to be
// shown whole is left out, so that sending the form changes nothing of it.
func newView(f *chat.Form, state string) slackgo.ModalViewRequest {
	submit := f.Submit
	if submit == "" {
		submit = "Submit"
	}
	v := slackgo.ModalViewRequest{Type: slackgo.VTModal, Title: words(f.Title, formTitle), Submit: words(submit, formTitle),
		Close: words("Cancel", formTitle), CallbackID: formID, PrivateMetadata: state}
	if f.Intro != "" {
		text := slackgo.NewTextBlockObject(slackgo.MarkdownType, clip(escape(markdown.Plain(f.Intro)), sectionText), false, true)
		v.Blocks.BlockSet = append(v.Blocks.BlockSet, slackgo.NewSectionBlock(text, nil, nil))
	}
	for _, field := range f.Fields[:min(len(f.Fields), formFields)] {
		element := newElement(field)
		if element == nil {
			continue
		}
		block := slackgo.NewInputBlock(field.Name, words(field.Label, fieldLabel), nil, element)
		if field.Help != "" {
			block.Hint = words(field.Help, fieldHelp)
		}
		block.Optional = !field.Required || field.Kind == chat.Toggle
		v.Blocks.BlockSet = append(v.Blocks.BlockSet, block)
	}
	return v
}

// newElement is where a field is filled in; nil where it cannot be.
func newElement(f chat.Field) slackgo.BlockElement {
	switch {
	case f.Kind == chat.Toggle:
		box := slackgo.NewCheckboxGroupsBlockElement(fieldAction, slackgo.NewOptionBlockObject(toggleChosen, words("Yes", optionLabel), nil))
		if f.Value == toggleChosen {
			box.InitialOptions = box.Options
		}
		return box
	case f.Kind == chat.Choice && fitMenu(f.Options):
		menu := slackgo.NewOptionsSelectBlockElement(slackgo.OptTypeStatic, nil, fieldAction, options(f.Options)...)
		if n := slices.IndexFunc(f.Options, func(o chat.Option) bool { return o.Value == f.Value }); n >= 0 {
			menu.InitialOption = menu.Options[n]
		}
		return menu
	case f.Kind == chat.Choices && fitMenu(f.Options):
		menu := slackgo.NewOptionsMultiSelectBlockElement(slackgo.MultiOptTypeStatic, nil, fieldAction, options(f.Options)...)
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
	in := slackgo.NewPlainTextInputBlockElement(nil, fieldAction).WithInitialValue(f.Value).WithMaxLength(fieldText).
		WithMultiline(f.Kind == chat.Text || f.Kind == chat.Choices)
	if f.Max > 0 {
		in = in.WithMaxLength(min(f.Max, fieldText))
	}
	if len([]rune(f.Value)) > in.MaxLength {
		return nil
	}
	return in
}

// fitMenu tells whether Slack takes options as a menu.
func fitMenu(list []chat.Option) bool {
	seen := map[string]bool{"": true}
	for _, o := range list {
		if seen[o.Value] || len(o.Value) > optionValue || o.Label == "" {
			return false
		}
		seen[o.Value] = true
	}
	return len(list) > 0 && len(list) <= mostOptions
}

func options(list []chat.Option) []*slackgo.OptionBlockObject {
	var all []*slackgo.OptionBlockObject
	for _, o := range list {
		all = append(all, slackgo.NewOptionBlockObject(o.Value, words(o.Label, optionLabel), nil))
	}
	return all
}

// filled is what a form that was sent holds in one field.
type filled struct {
	Type  string `json:"type"`
	Value string `json:"value"`
	One   struct {
		Value string `json:"value"`
	} `json:"selected_option"`
	Several []struct {
		Value string `json:"value"`
	} `json:"selected_options"`
}

func (f filled) text() string {
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

// submission is a form that was sent.
type submission struct {
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
			Values map[string]map[string]filled `json:"values"`
		} `json:"state"`
	} `json:"view"`
}

// submitted translates a form of ours; false says that it was none. It is answered
// where the command or the press was that opened it, to whoever sent it alone.
func (s *Slack) submitted(payload []byte) (chat.Message, bool) {
	var sent submission
	var state formState
	if json.Unmarshal(payload, &sent) != nil || sent.View.Callback != formID || sent.View.ID == "" || sent.User.ID == "" ||
		json.Unmarshal([]byte(sent.View.Kept), &state) != nil || state.At.Channel == "" {
		return chat.Message{}, false
	}
	state.Handle.User, state.Handle.Press = sent.User.ID, true
	raw, err := json.Marshal(state.Handle)
	if err != nil {
		return chat.Message{}, false
	}
	values := map[string]string{}
	for name, block := range sent.View.State.Values {
		values[name] = block[fieldAction].text()
	}
	id := onceID("form", sent.View.ID, sent.View.Hash, sent.View.Kept, sent.User.ID, fmt.Sprint(values))
	return chat.Message{ID: id, Author: chat.User{ID: sent.User.ID, Name: sent.User.Name}, Time: s.o.Now(), Reach: chat.Addressed,
		Command: chat.Submitted, Text: state.Form, Values: values, Reply: chat.Reply{MessageID: state.Post, Handle: raw}, Conversation: state.At, Direct: direct(state.At.Channel)}, true
}
