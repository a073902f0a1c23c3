package settings

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/chat"
)

// Forms of the two layers that people change in the chat.
const (
	formMe      = "settings/me"
	formChannel = "settings/channel"
)

// Names of fields, and values that stand for others.
const (
	fieldModel, fieldLanguage, fieldTools, fieldSteps, fieldPrompt = "model", "language", "tools", "steps", "prompt"

	unset = "default"
	on    = "on"
	off   = "off"

	// maxFormPrompt is the longest prompt that a form holds on every platform, in
	// characters.
	maxFormPrompt = 3000
)

// userError is a sentence for whoever asked for a form.
type userError string

func (r userError) Error() string { return string(r) }

const errNotAdmin userError = "Only administrators change the settings of a channel. Yours you can change with `/raven settings`."

// Form is a chat.Former: it gives the form of a person's settings, or that of the
// channel's to an administrator, for `/raven settings` without anything to set.
func (b *Repository) Form(_ context.Context, m chat.Message) (*chat.Form, error) {
	if m.Command != "settings" {
		return nil, nil
	}
	switch strings.ToLower(strings.TrimSpace(m.Text)) {
	case "", "me":
		return b.newForm(formMe, "Your settings", "They hold for you wherever you write to me, before those of the channel.", m), nil
	case "channel":
		if !m.Author.Admin {
			return nil, errNotAdmin
		}
		return b.newForm(formChannel, "Channel settings", "They hold for everybody in this channel who has not set their own.", m), nil
	}
	return nil, nil
}

func (b *Repository) newForm(id, title, intro string, m chat.Message) *chat.Form {
	l, _ := b.layerOf(id, m)
	below := b.inherited(id, m)
	f := &chat.Form{ID: id, Title: title, Intro: intro, Submit: "Save"}
	models := []chat.Option{{Value: unset, Label: "not set here: " + orDefault(below.Model, "as configured")}}
	for _, name := range b.models() {
		models = append(models, chat.Option{Value: name, Label: name})
	}
	tools := []chat.Option{{Value: unset, Label: "not set here: " + orDefault(onOrOff(below.Tools.Enabled), "as configured")}, {Value: on, Label: "on"}, {Value: off, Label: "off"}}
	steps := ""
	if n := l.Tools.MaxSteps; n != nil {
		steps = strconv.Itoa(*n)
	}
	f.Fields = []chat.Field{
		{Name: fieldModel, Label: "Model", Kind: chat.Choice, Value: orDefault(l.Model, unset), Options: models, Required: true},
		{Name: fieldLanguage, Label: "Language of answers", Help: "Empty: " + orDefault(below.Language, "that of the question"), Kind: chat.Line, Value: l.Language, Max: maxLanguageChars},
		{Name: fieldTools, Label: "Tools", Kind: chat.Choice, Value: orDefault(onOrOff(l.Tools.Enabled), unset), Options: tools, Required: true},
		{Name: fieldSteps, Label: "Rounds of tool calls", Help: fmt.Sprintf("1 to %d; empty: as configured", maxSteps), Kind: chat.Number, Value: steps},
		{Name: fieldPrompt, Label: "Your words before the agent's prompt", Help: "Empty: those of the bot", Kind: chat.Text, Value: systemPrompt(l), Max: maxFormPrompt},
	}
	if len([]rune(systemPrompt(l))) > maxFormPrompt {
		f.Fields = f.Fields[:len(f.Fields)-1]
		f.Intro += " The prompt is too long for this form; `/raven settings prompt …` sets it."
	}
	return f
}

// layerOf is the layer that a form is about.
func (b *Repository) layerOf(id string, m chat.Message) (Layer, Scope) {
	s := User(m.Conversation.Platform, m.Author.ID)
	if id == formChannel {
		s = Channel(m.Conversation)
	}
	return b.Layer(s), s
}

// inherited is what holds where that layer leaves something open.
func (b *Repository) inherited(id string, m chat.Message) Layer {
	if id == formChannel {
		return b.Layer(Instance)
	}
	return b.Layer(Channel(m.Conversation)).withDefaults(b.Layer(Instance))
}

func orDefault(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

func onOrOff(is *bool) string {
	switch {
	case is == nil:
		return ""
	case *is:
		return on
	}
	return off
}

func systemPrompt(l Layer) string {
	if l.Tools.SystemPrompt == nil {
		return ""
	}
	return *l.Tools.SystemPrompt
}

// HandleForm takes a form of Form that was sent: it sets the layer as a whole, but for
// what the form did not show, or says what keeps it from that. False: it is none of
// those forms.
func (b *Repository) HandleForm(ctx context.Context, m chat.Message) (chat.Draft, bool) {
	if m.Text != formMe && m.Text != formChannel {
		return chat.Draft{}, false
	}
	if m.Text == formChannel && !m.Author.Admin {
		return chat.Draft{Ephemeral: true, Failed: true, Text: errNotAdmin.Error()}, true
	}
	l, scope := b.layerOf(m.Text, m)
	err := l.setFields(m.Values)
	if err == nil {
		err = b.Check(l)
	}
	if err != nil {
		return chat.Draft{Ephemeral: true, Failed: true, Text: "Nothing was changed. " + asSentence(err) + " `/raven settings` opens the form again."}, true
	}
	if err := b.Set(ctx, scope, l); err != nil {
		return chat.Draft{Ephemeral: true, Failed: true, Text: "Nothing was changed: the settings could not be stored. Please try again."}, true
	}
	whose := "you"
	if m.Text == formChannel {
		whose = "this channel"
	}
	return chat.Draft{Ephemeral: true, Text: "Set for " + whose + ".\n\n" + b.describe(m)}, true
}

// asSentence is an error, or several, as people write.
func asSentence(err error) string {
	words := []rune(strings.ReplaceAll(err.Error(), "\n", "; "))
	return strings.ToUpper(string(words[:1])) + string(words[1:]) + "."
}

// setFields takes over what was filled in; all faults are told at once.
func (l *Layer) setFields(values map[string]string) error {
	was := *l
	var faults []error
	for name, value := range values {
		value = strings.TrimSpace(value)
		if value == "" && name != fieldPrompt {
			value = unset
		}
		switch name {
		case fieldPrompt:
			if value != strings.TrimSpace(systemPrompt(was)) || was.Tools.SystemPrompt == nil {
				faults = append(faults, l.setKey([]string{fieldPrompt, orDefault(value, unset)}))
			}
		case fieldModel, fieldLanguage, fieldTools, fieldSteps:
			faults = append(faults, l.setKey([]string{name, value}))
		default:
			faults = append(faults, fmt.Errorf("there is no field %q", name))
		}
	}
	faults = slices.DeleteFunc(faults, func(err error) bool { return err == nil })
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}
