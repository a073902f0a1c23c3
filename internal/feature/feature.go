// Package feature holds the features that users have in addition to asking the bot. Each feature is one package that
// declares its commands, buttons and forms, and one line of internal/app registers it. Menus, hints, completion,
// /raven help and docs/commands.md are generated from the Registry. Every declared name has exactly one handler, and a
// message that no feature handles goes to the agent.
package feature

import (
	"context"

	"ravenbot/internal/core/chat"
)

// Feature is an ability of the bot that people use in a chat. What else a feature can do are
// the small interfaces below, which it implements or not. All methods may be called
// concurrently. Commands, Buttons and Forms must not depend on the state of the feature.
type Feature interface {
	// Commands returns the words behind /raven that the feature handles.
	Commands() []chat.CommandSpec
	// Handle carries out a command, press or form that the feature declared, or a message
	// that it called urgent. A nil draft with a nil error passes the message to the agent.
	// An error is logged, and told with a reference number.
	Handle(ctx context.Context, m chat.Message) (*chat.Draft, error)
}

// ButtonHandler is a Feature with buttons below its messages.
type ButtonHandler interface {
	// Buttons returns the buttons that the feature handles.
	Buttons() []Button
}

// FormHandler is a Feature with forms.
type FormHandler interface {
	// Forms returns the first words of the IDs of the forms that the feature handles.
	Forms() []string
}

// UrgentHandler is a Feature that handles some messages immediately, outside the queue of their conversation.
type UrgentHandler interface {
	// Urgent reports whether a message is such: it is about work under way, such as a
	// decision that a call waits for.
	Urgent(m chat.Message) bool
}

// Button declares the buttons whose Value begins with a word.
type Button struct {
	Word string // the first word of chat.Button.Value
	Who  string // who may press it, for docs/commands.md: "everybody", "the asker or an administrator"
	Does string // what a press does, for docs/commands.md
}

// FormOpener is a Feature that answers a command or the press of a button with a form.
type FormOpener interface {
	// OpenForm returns the form for a message, or nil. An error is a sentence that only the asker sees.
	OpenForm(ctx context.Context, m chat.Message) (*chat.Form, error)
}

// FormChecker is a Feature that validates a submitted form before it handles it.
type FormChecker interface {
	// CheckForm returns a sentence for each field of a form whose value cannot be used.
	CheckForm(ctx context.Context, m chat.Message) map[string]string
}

// MessageCommander is a Feature that does something with a message of anybody, from the message's menu. Its Handle and
// OpenForm get a message with that Command and a Target.
type MessageCommander interface {
	// MessageCommands returns the entries of the menu. They must not depend on the state of the feature.
	MessageCommands() []chat.MessageCommand
}

// Asker is a Feature whose form holds a question for the agent.
type Asker interface {
	// Question returns the question that a submitted form represents. It returns false if the form is handled
	// otherwise.
	Question(m chat.Message) (chat.Message, bool)
}

// Completer is a Feature that completes a command's option.
type Completer interface {
	// Complete returns the values that match the typed text, best first.
	Complete(ctx context.Context, at chat.Address, command, option, typed string) []string
}
