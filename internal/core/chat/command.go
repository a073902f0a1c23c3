package chat

import (
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

// Words after /raven that the bot itself handles, in addition to declared commands.
const (
	CommandAsk  = "ask"
	CommandHelp = "help"
	CommandStop = "stop"
)

// CommandSpec describes one command after /raven. Menus, hints, completion, /raven help and docs/commands.md are
// generated from it.
type CommandSpec struct {
	Name    string // the word: lower case, at most 32 characters
	Summary string // at most 100 characters; shown in menus
	Help    string // one or two sentences of Markdown for /raven help
	Options []CommandOption
	// Public means that everybody in the channel sees the answer. Otherwise only the asker does. PublicActions are
	// first words of its text that make the answer public.
	Public        bool
	PublicActions []string
	// Spoken is true if a message to the bot that begins with the name is the command (see Mentioned). If Handle
	// returns no draft, the agent answers the message.
	Spoken bool
}

// IsPublic reports whether everybody in the channel sees the answer to the command with a text.
func (c CommandSpec) IsPublic(text string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	return c.Public || slices.Contains(c.PublicActions, strings.ToLower(first))
}

// MessageCommand describes an entry in the menu of any message. Its event has the Name as Command, and the chosen
// message as Target.
type MessageCommand struct {
	Name    string // lower case letters and -, at most 32 characters; no CommandSpec has it
	Title   string // shown in the menu, at most 24 characters
	Summary string // at most 100 characters
}

// CommandOption is one option of a command. The text of the command is the values of its options in their order,
// separated by spaces.
type CommandOption struct {
	Name     string     // lower case, at most 32 characters
	Summary  string     // at most 100 characters
	Kind     OptionKind // empty for OptionText
	Required bool
	Choices  []string // the only values that are allowed; at most 25
	Complete bool     // values are offered while the user types
	// Label is set if the value has its own line, after the label and a colon.
	Label string
}

// OptionKind is the kind of values of an option.
type OptionKind string

const (
	OptionText   OptionKind = "text"
	OptionThread OptionKind = "thread" // yes or no: the answer opens a thread; not part of the text
)

// FindCommand returns the command with a name, ignoring case, or false.
func FindCommand(commands []CommandSpec, name string) (CommandSpec, bool) {
	for _, c := range commands {
		if strings.EqualFold(c.Name, name) {
			return c, true
		}
	}
	return CommandSpec{}, false
}

// SplitCommand splits "ask what is new" into the command ask and its text. A text without a known command is an ask,
// and an empty text is help.
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

// Typed parses a line from a place without its own slash commands (the web page, the terminal). "/digest list" and
// "/raven digest list" are commands. So is the misspelled "/digets list", whose answer names the nearest command. Any
// other line is plain text with an empty command.
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

// minMisspelled is the minimum length of a misspelled command. A shorter word may be intended, like /tmp.
const minMisspelled = 4

// TypedForm rewrites the commands in Markdown for Typed: `/poll …` instead of `/raven poll …`.
func TypedForm(markdown string) string { return strings.ReplaceAll(markdown, "`/raven ", "`/") }

// Mentioned parses a message to the bot on a platform without slash commands, such as in a thread of Slack. Commands
// are "/forget", "forget" as the whole text, "digest list", and texts that begin with a Spoken command. Any other text
// is plain text with an empty command.
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

// Stops reports whether a message only asks the bot to stop.
func (m Message) Stops() bool {
	return m.Change == "" && (m.Command == "stop" || m.Command == Pressed && m.Text == PressStop ||
		(m.Command == "" || m.Command == "ask") && strings.EqualFold(strings.Trim(m.Text, " \t\n.!"), "stop"))
}
