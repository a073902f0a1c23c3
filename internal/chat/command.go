package chat

import "strings"

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
