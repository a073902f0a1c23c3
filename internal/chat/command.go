package chat

import "strings"

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
	// Public means that everybody in the channel sees the answer; otherwise only who asked does.
	Public bool
}

// CommandOption is one thing that may follow a command. The text of the command is the
// values of its options in their order, separated by spaces.
type CommandOption struct {
	Name     string // lower case, at most 32 characters
	Summary  string // at most 100 characters
	Kind     OptionKind
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

// SplitCommand reads "ask what is new" as the command ask with its text. Words
// lists the commands; a text that begins with none of them is an ask as a whole,
// and an empty one is help.
func SplitCommand(text string, words []string) (command, rest string) {
	text = strings.TrimSpace(text)
	if text == "" {
		return "help", ""
	}
	first, rest, _ := strings.Cut(text, " ")
	for _, w := range words {
		if strings.EqualFold(first, w) {
			return w, strings.TrimSpace(rest)
		}
	}
	return "ask", text
}

// Typed reads a line from a place without slash commands of its own (the web
// page, the terminal): "/digest list" and "/raven digest list" are commands,
// anything else is plain text with an empty command.
func Typed(line string, words []string) (command, text string) {
	rest, slash := strings.CutPrefix(strings.TrimSpace(line), "/")
	if !slash {
		return "", strings.TrimSpace(line)
	}
	if after, ok := strings.CutPrefix(rest, "raven"); ok && (after == "" || after[0] == ' ') {
		return SplitCommand(after, words)
	}
	first, _, _ := strings.Cut(rest, " ")
	for _, w := range words {
		if strings.EqualFold(first, w) {
			return SplitCommand(rest, words)
		}
	}
	return "", strings.TrimSpace(line)
}

// Commands are the words that every platform offers behind /raven.
func Commands() []string {
	return []string{"ask", "digest", "settings", "tools", "usage", "memory", "forget", "stop", "help"}
}

// Stops reports that a message asks for nothing but that the bot stops.
func (m Message) Stops() bool {
	return m.Change == "" && (m.Command == "stop" || m.Command == Pressed && m.Text == PressStop ||
		(m.Command == "" || m.Command == "ask") && strings.EqualFold(strings.Trim(m.Text, " \t\n.!"), "stop"))
}
