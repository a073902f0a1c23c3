package chat

import (
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

// Words behind /raven that the bot itself knows, beside those that features declare.
const (
	CommandAsk  = "ask"
	CommandHelp = "help"
	CommandStop = "stop"
)

// CommandSpec describes one word behind /raven. Menus, hints, completion, /raven help and
// docs/commands.md are made from it.
type CommandSpec struct {
	Name    string // the word: lower case, at most 32 characters
	Summary string // what it does, at most 100 characters; shown in menus
	Help    string // one or two sentences of Markdown for /raven help
	Options []CommandOption
	// Public means that everybody in the channel sees the answer; otherwise only who asked does. PublicActions are first
	// words of its text for which everybody does.
	Public        bool
	PublicActions []string
	// Spoken: a message to the bot that begins with the name is the command where Mentioned reads it. Handle returns no
	// draft for one that it does not understand, which the agent answers then.
	Spoken bool
}

// IsPublic reports whether everybody in the channel sees the answer to the command with a text.
func (c CommandSpec) IsPublic(text string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	return c.Public || slices.Contains(c.PublicActions, strings.ToLower(first))
}

// MessageCommand describes something that people do with a message of anybody: an entry in its menu. The Message that
// it sends has its Name as Command, and what it was done with as Target.
type MessageCommand struct {
	Name    string // lower case letters and -, at most 32 characters; no CommandSpec has it
	Title   string // what the menu shows, at most 24 characters
	Summary string // what it does, at most 100 characters
}

// CommandOption is one thing that may follow a command. The text of the command is the
// values of its options in their order, separated by spaces.
type CommandOption struct {
	Name     string     // lower case, at most 32 characters
	Summary  string     // at most 100 characters
	Kind     OptionKind // empty: OptionText
	Required bool
	Choices  []string // the only values that are allowed; at most 25
	Complete bool     // values are offered while somebody types
	// Label is set where the value does not follow the others but stands on a line of its
	// own, behind the label and a colon.
	Label string
}

// OptionKind is what an option of a command takes.
type OptionKind string

// The kinds of options.
const (
	OptionText   OptionKind = "text"
	OptionThread OptionKind = "thread" // yes or no: the answer opens a thread; it adds nothing to the text
)

// FindCommand returns the command with a name, in capitals or not; false if there is none.
func FindCommand(commands []CommandSpec, name string) (CommandSpec, bool) {
	for _, c := range commands {
		if strings.EqualFold(c.Name, name) {
			return c, true
		}
	}
	return CommandSpec{}, false
}

// SplitCommand reads "ask what is new" as the command ask with its text. A text that
// begins with none of the commands is an ask as a whole, and an empty one is help.
func SplitCommand(text string, commands []CommandSpec) (command, rest string) {
	text = strings.TrimSpace(text)
	if text == "" {
		return CommandHelp, ""
	}
	first, rest, _ := strings.Cut(text, " ")
	if c, ok := FindCommand(commands, first); ok {
		return c.Name, strings.TrimSpace(rest)
	}
	return CommandAsk, text
}

// Typed reads a line from a place without slash commands of its own (the web
// page, the terminal): "/digest list" and "/raven digest list" are commands, and
// so is "/digets list", which nobody handles and whose answer names the nearest;
// anything else is plain text with an empty command.
func Typed(line string, commands []CommandSpec) (command, said string) {
	line = strings.TrimSpace(line)
	rest, slash := strings.CutPrefix(line, "/")
	if !slash {
		return "", line
	}
	if after, ok := strings.CutPrefix(rest, "raven"); ok && (after == "" || after[0] == ' ') {
		return SplitCommand(after, commands)
	}
	first, _, _ := strings.Cut(rest, " ")
	if _, ok := FindCommand(commands, first); ok {
		return SplitCommand(rest, commands)
	}
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
	}
	if len(first) >= minMisspelled && text.Nearest(first, names) != "" {
		return first, strings.TrimSpace(strings.TrimPrefix(rest, first))
	}
	return "", line
}

// minMisspelled is the least length of a word that counts as a misspelled command; a shorter one may be meant, like /tmp.
const minMisspelled = 4

// TypedForm returns Markdown with its commands as Typed reads them: `/poll …` in the place of `/raven poll …`.
func TypedForm(markdown string) string { return strings.ReplaceAll(markdown, "`/raven ", "`/") }

// Mentioned reads what was said to the bot where its platform has no slash commands, such as in a thread of Slack:
// "/forget", "forget" and nothing else, "digest list", and what begins with a Spoken command. Anything else is plain
// text with an empty command.
func Mentioned(line string, commands []CommandSpec) (command, text string) {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "/") {
		return Typed(line, commands)
	}
	name, rest, _ := strings.Cut(line, " ")
	c, ok := FindCommand(commands, name)
	action, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	isAction := len(c.Options) > 0 && slices.Contains(c.Options[0].Choices, strings.ToLower(action))
	if ok && c.Name != CommandAsk && c.Name != CommandStop && (rest == "" || isAction || c.Spoken) {
		return c.Name, strings.TrimSpace(rest)
	}
	return "", line
}

// Stops reports that a message asks for nothing but that the bot stops.
func (m Message) Stops() bool {
	return m.Change == "" && (m.Command == "stop" || m.Command == Pressed && m.Text == PressStop ||
		(m.Command == "" || m.Command == "ask") && strings.EqualFold(strings.Trim(m.Text, " \t\n.!"), "stop"))
}
