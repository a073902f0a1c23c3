package settings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/core/chat"
)

// The ids of the forms for the two layers that people change in the chat.
const (
	formMe      = "settings/me"
	formChannel = "settings/channel"
)

// Names of fields, and the values of choices.
const (
	fieldModel, fieldLanguage, fieldTools, fieldSteps, fieldPrompt = "model", "language", "tools", "steps", "prompt"

	// wordTimezone is a key of the command alone: Discord's forms have five fields.
	wordTimezone = "timezone"

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

// errNotAdmin and errAllLocked are shown in place of a form.
const errNotAdmin userError = "Only administrators change the settings of a channel. " +
	"Yours you can change with `/raven settings`."

// errBadFields is the error of a form with faulty fields.
var errBadFields = errors.New("the form has faults")

const errAllLocked userError = "Here administrators set all settings. `/raven settings channel` shows them."

// Form returns the form for `/raven settings` without a key: for the user's settings or, for an administrator, for the
// channel's. For the button below a refused form it returns the form with its filled-in values. It returns nil for
// other messages. It implements chat.Former.
func (r *Repository) Form(ctx context.Context, m chat.Message) (*chat.Form, error) {
	words := strings.ToLower(strings.TrimSpace(m.Text))
	if word, form := m.Press(); word == wordAgain+" " {
		f, err := r.Form(ctx, chat.Message{
			Command:      commandName,
			Text:         strings.TrimPrefix(form, "settings/"),
			Author:       m.Author,
			Conversation: m.Conversation,
		})
		if f == nil {
			return nil, err
		}
		for name, value := range r.takeSent(m, form) {
			i := slices.IndexFunc(f.Fields, func(f chat.Field) bool { return f.Name == name })
			// A field for numbers takes no other text.
			if _, bad := strconv.Atoi(value); i >= 0 && (f.Fields[i].Kind != chat.Number || bad == nil) {
				f.Fields[i].Value = value
			}
		}
		return f, nil
	}
	if m.Command != commandName {
		return nil, nil
	}
	switch words {
	case "", "me":
		intro := "They apply to you everywhere, before the channel's settings."
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

// newForm returns the form of a layer with its present values. Empty fields show the value that applies instead.
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
			Help:  fmt.Sprintf("1 to %d; as configured if empty", maxSteps),
			Kind:  chat.Number,
			Value: steps,
		},
		{
			Name:  fieldPrompt,
			Label: "Your words before the agent's prompt",
			Help:  "If empty, the bot's settings apply",
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

// dropLocked removes the fields that members must not set.
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
		f.Intro += " Only administrators set: " + strings.Join(locked, ", ") + "."
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

// orDefault returns value or, if that is empty, otherwise.
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

// systemPrompt returns the prompt that a layer sets, which may be empty.
func systemPrompt(l Layer) string {
	if l.Tools.SystemPrompt == nil {
		return ""
	}
	return *l.Tools.SystemPrompt
}

// HandleForm answers a submitted form of Form. It sets all values of the form, or none and returns the reason. It
// returns false for other forms.
func (r *Repository) HandleForm(ctx context.Context, m chat.Message) (chat.Draft, bool) {
	if m.Text != formMe && m.Text != formChannel {
		return chat.Draft{}, false
	}
	if m.Text == formChannel && !m.Author.Admin {
		return chat.Draft{Ephemeral: true, Failed: true, Text: errNotAdmin.Error()}, true
	}
	_, scope := r.layerOf(m.Text, m)
	var faults map[string]error
	err := r.Change(ctx, scope, func(l *Layer) error {
		if faults = r.setFields(scope, l, m.Values); len(faults) > 0 {
			return errBadFields
		}
		return nil
	})
	if len(faults) > 0 {
		r.keepSent(m)
		return chat.Draft{
			Ephemeral: true,
			Failed:    true,
			Text:      "Nothing was changed. " + joinFaults(faults),
			Buttons:   []chat.Button{{Label: "Open the form again", Value: wordAgain + " " + m.Text, Style: chat.Primary}},
		}, true
	}
	// Values of a refused attempt must not fill in a later form.
	r.takeSent(m, m.Text)
	if err != nil {
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

// CheckForm returns the errors of a submitted form of Form, by its fields.
func (r *Repository) CheckForm(_ context.Context, m chat.Message) map[string]string {
	l, scope := r.layerOf(m.Text, m)
	faults := map[string]string{}
	for name, err := range r.setFields(scope, &l, m.Values) {
		faults[name] = asSentence(err)
	}
	return faults
}

// asSentence returns the text of an error as a sentence.
func asSentence(err error) string {
	words := []rune(err.Error())
	return strings.ToUpper(string(words[:1])) + string(words[1:]) + "."
}

// joinFaults returns all faults in the order of their fields, so that the text is always the same.
func joinFaults(faults map[string]error) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		list = append(list, asSentence(faults[name]))
	}
	return strings.Join(list, " ")
}

// setFields sets the filled-in values. It returns the errors by fields, so that the user can correct them together.
func (r *Repository) setFields(scope Scope, l *Layer, values map[string]string) map[string]error {
	was := *l
	faults := map[string]error{}
	for name, value := range values {
		value = strings.TrimSpace(value)
		if value == "" {
			value = unset
		}
		switch name {
		case fieldPrompt:
			// A form may trim the text, so an unchanged prompt must not be stored again in its trimmed form.
			before := strings.TrimSpace(systemPrompt(was))
			if was.Tools.SystemPrompt != nil && (value == before || value == unset && before == "") {
				continue
			}
		case fieldModel, fieldLanguage, fieldTools, fieldSteps:
		default:
			faults[name] = fmt.Errorf("there is no field %q", name)
			continue
		}
		// Checked apart from the other values, so that a fault belongs to the field that has it.
		var alone Layer
		err := alone.setKey(name, value)
		if err == nil {
			err = r.Check(scope, alone)
		}
		if err == nil {
			err = l.setKey(name, value)
		}
		if err != nil {
			faults[name] = err
		}
	}
	return faults
}

// maxSent bounds the forms that are kept to be opened again.
const maxSent = 256

// keepSent keeps the values of a refused form.
func (r *Repository) keepSent(m chat.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sent) >= maxSent || r.sent == nil {
		r.sent = map[string]map[string]string{}
	}
	r.sent[sentKey(m, m.Text)] = m.Values
}

// takeSent returns and deletes the values of a refused form.
func (r *Repository) takeSent(m chat.Message, form string) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	values := r.sent[sentKey(m, form)]
	delete(r.sent, sentKey(m, form))
	return values
}

// sentKey names a form that one person sent in one channel.
func sentKey(m chat.Message, form string) string {
	return m.Conversation.Base().String() + " " + m.Author.ID + " " + form
}
