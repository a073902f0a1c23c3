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

// The ids of the forms for the two layers that people change in the chat.
const (
	formMe      = "settings/me"
	formChannel = "settings/channel"
)

// Names of fields, and the values of choices.
const (
	fieldModel, fieldLanguage, fieldTools, fieldSteps, fieldPrompt = "model", "language", "tools", "steps", "prompt"

	unset = "default"
	on    = "on"
	off   = "off"

	// maxFormPrompt is the longest text that a form field takes on every platform, in characters: Slack has the
	// lowest limit (plain_text_input, max_length 3000).
	maxFormPrompt = 3000
)

// userError is an error that is shown to the user as it is.
type userError string

func (r userError) Error() string { return string(r) }

const errNotAdmin userError = "Only administrators change the settings of a channel. " +
	"Yours you can change with `/raven settings`."

const errAllLocked userError = "Here administrators set all settings. `/raven settings channel` shows them."

// Form returns the form for `/raven settings` without a key: that of the user's settings or, for an administrator,
// that of the channel's. It returns nil for other commands. It implements chat.Former.
func (r *Repository) Form(_ context.Context, m chat.Message) (*chat.Form, error) {
	if m.Command != "settings" {
		return nil, nil
	}
	switch strings.ToLower(strings.TrimSpace(m.Text)) {
	case "", "me":
		intro := "They hold for you wherever you write to me, before those of the channel."
		f := r.newForm(formMe, "Your settings", intro, m)
		// Platforms refuse a form without fields.
		if len(f.Fields) == 0 {
			return nil, errAllLocked
		}
		return f, nil
	case "channel":
		if !m.Author.Admin {
			return nil, errNotAdmin
		}
		intro := "They hold for everybody in this channel who has not set their own."
		return r.newForm(formChannel, "Channel settings", intro, m), nil
	}
	return nil, nil
}

func (r *Repository) newForm(id, title, intro string, m chat.Message) *chat.Form {
	l, scope := r.layerOf(id, m)
	below := r.inherited(id, m)
	f := &chat.Form{ID: id, Title: title, Intro: intro, Submit: "Save"}
	models := []chat.Option{{Value: unset, Label: "not set here: " + orDefault(below.Model, "as configured")}}
	for _, name := range r.modelsFor(scope) {
		models = append(models, chat.Option{Value: name, Label: name})
	}
	tools := []chat.Option{
		{Value: unset, Label: "not set here: " + orDefault(onOrOff(below.Tools.Enabled), "as configured")},
		{Value: on, Label: "on"},
		{Value: off, Label: "off"},
	}
	steps := ""
	if n := l.Tools.MaxSteps; n != nil {
		steps = strconv.Itoa(*n)
	}
	f.Fields = []chat.Field{
		{
			Name:     fieldModel,
			Label:    "Model",
			Kind:     chat.Choice,
			Value:    orDefault(l.Model, unset),
			Options:  models,
			Required: true,
		},
		{
			Name:  fieldLanguage,
			Label: "Language of answers",
			Help:  "Empty: " + orDefault(below.Language, "that of the question"),
			Kind:  chat.Line,
			Value: l.Language,
			Max:   maxLanguageChars,
		},
		{
			Name:     fieldTools,
			Label:    "Tools",
			Kind:     chat.Choice,
			Value:    orDefault(onOrOff(l.Tools.Enabled), unset),
			Options:  tools,
			Required: true,
		},
		{
			Name:  fieldSteps,
			Label: "Rounds of tool calls",
			Help:  fmt.Sprintf("1 to %d; empty: as configured", maxSteps),
			Kind:  chat.Number,
			Value: steps,
		},
		{
			Name:  fieldPrompt,
			Label: "Your words before the agent's prompt",
			Help:  "Empty: those of the bot",
			Kind:  chat.Text,
			Value: systemPrompt(l),
			Max:   maxFormPrompt,
		},
	}
	// A form that cut the prompt would store the rest of it away.
	if len([]rune(systemPrompt(l))) > maxFormPrompt {
		f.Fields = f.Fields[:len(f.Fields)-1]
		f.Intro += " The prompt is too long for this form; `/raven settings prompt …` sets it."
	}
	if scope.isUser() {
		r.dropLocked(f)
	}
	return f
}

// dropLocked removes the fields that members may not set.
func (r *Repository) dropLocked(f *chat.Form) {
	rules := r.members()
	var locked []string
	for _, s := range all {
		if !rules.isLocked(s) {
			continue
		}
		locked = append(locked, s.word)
		f.Fields = slices.DeleteFunc(f.Fields, func(field chat.Field) bool { return field.Name == s.word })
	}
	if len(locked) > 0 {
		f.Intro += " Set by administrators alone: " + strings.Join(locked, ", ") + "."
	}
}

// layerOf returns the layer that a form changes, and its scope.
func (r *Repository) layerOf(id string, m chat.Message) (Layer, Scope) {
	s := User(m.Conversation.Platform, m.Author.ID)
	if id == formChannel {
		s = Channel(m.Conversation)
	}
	return r.Layer(s), s
}

// inherited returns the values that apply where the layer of a form sets none.
func (r *Repository) inherited(id string, m chat.Message) Layer {
	if id == formChannel {
		return r.Layer(Instance)
	}
	return r.Layer(Channel(m.Conversation)).withDefaults(r.Layer(Instance))
}

// orDefault returns value or, where that is empty, otherwise.
func orDefault(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// onOrOff returns "on", "off", or nothing where is is not set.
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

// HandleForm answers a submitted form of Form: it sets all values that the form shows, or says why it cannot. It
// returns false when the form is not one of them.
func (r *Repository) HandleForm(ctx context.Context, m chat.Message) (chat.Draft, bool) {
	if m.Text != formMe && m.Text != formChannel {
		return chat.Draft{}, false
	}
	if m.Text == formChannel && !m.Author.Admin {
		return chat.Draft{Ephemeral: true, Failed: true, Text: errNotAdmin.Error()}, true
	}
	l, scope := r.layerOf(m.Text, m)
	err := l.setFields(m.Values)
	if err == nil {
		err = r.Check(scope, l)
	}
	if err != nil {
		return chat.Draft{
			Ephemeral: true,
			Failed:    true,
			Text:      "Nothing was changed. " + asSentence(err) + " `/raven settings` opens the form again.",
		}, true
	}
	if err := r.Set(ctx, scope, l); err != nil {
		return chat.Draft{
			Ephemeral: true,
			Failed:    true,
			Text:      "Nothing was changed: the settings could not be stored. Please try again.",
		}, true
	}
	whose := "you"
	if m.Text == formChannel {
		whose = "this channel"
	}
	return chat.Draft{Ephemeral: true, Text: "Set for " + whose + ".\n\n" + r.describe(m)}, true
}

// asSentence returns the text of an error, or of several joined ones, as one sentence.
func asSentence(err error) string {
	words := []rune(strings.ReplaceAll(err.Error(), "\n", "; "))
	return strings.ToUpper(string(words[:1])) + string(words[1:]) + "."
}

// setFields sets what was filled in. It returns all faults at once, so that the user can correct them together.
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
			// A form may trim the text, so an unchanged prompt must not be stored again in its trimmed form.
			if value != strings.TrimSpace(systemPrompt(was)) || was.Tools.SystemPrompt == nil {
				faults = append(faults, l.setKey([]string{fieldPrompt, orDefault(value, unset)}))
			}
		case fieldModel, fieldLanguage, fieldTools, fieldSteps:
			faults = append(faults, l.setKey([]string{name, value}))
		default:
			faults = append(faults, fmt.Errorf("there is no field %q", name))
		}
	}
	// Values come from a map: without sorting, the message would differ each time.
	faults = slices.DeleteFunc(faults, func(err error) bool { return err == nil })
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}
