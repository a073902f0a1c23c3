package settings

import (
	"context"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/feature"
	"ravenbot/internal/store"
)

// commandName is the word behind /raven.
const commandName = "settings"

// Module returns the ability to set what the bot does for a person, in a channel or everywhere.
func (r *Repository) Module() feature.Module {
	return feature.Module{
		Features: []feature.Feature{r},
		Shared:   []store.Shared{r},
		Checks:   map[string]feature.Check{"setting": CheckStored},
	}
}

// Commands returns the command that shows and changes settings.
func (*Repository) Commands() []chat.CommandSpec {
	return []chat.CommandSpec{{
		Name:    commandName,
		Summary: "See or change settings",
		Help:    "your model, language and tools",
		Options: []chat.CommandOption{{
			Name:     "text",
			Summary:  "Nothing opens a form; or, for example: language Norwegian; channel",
			Complete: true,
		}},
	}}
}

// wordAgain begins the value of the button that opens a refused form again.
const wordAgain = "settings_again"

// Buttons returns the button below a form that could not be taken.
func (*Repository) Buttons() []feature.Button {
	return []feature.Button{{
		Word: wordAgain,
		Who:  "the sender of the form",
		Does: "opens the form again with its entries",
	}}
}

// Forms returns the forms of a person's and of a channel's settings.
func (*Repository) Forms() []string { return []string{formMe, formChannel} }

// Handle carries out the command, or takes a form that was sent.
func (b *Repository) Handle(ctx context.Context, m chat.Message) (*chat.Draft, error) {
	if m.Kind() == chat.EventForm {
		d, _ := b.HandleForm(ctx, m) // the registry brings only the forms declared above
		return &d, nil
	}
	if m.Kind() == chat.EventPress { // no form was opened
		return &chat.Draft{Ephemeral: true, Text: "I could not open the form. `/raven settings` opens it."}, nil
	}
	d := b.Command(ctx, m)
	return &d, nil
}

// OpenForm returns the form that a message asks for, as Form does.
func (b *Repository) OpenForm(ctx context.Context, m chat.Message) (*chat.Form, error) {
	return b.Form(ctx, m)
}

// Complete returns the settings that match the typed text.
func (b *Repository) Complete(_ context.Context, _ chat.Address, command, _, typed string) []string {
	if command != commandName {
		return nil
	}
	return b.Suggest(typed)
}
