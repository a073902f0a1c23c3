package feature

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Document returns docs/commands.md: every command with its options, every entry in the menu of a message, and every
// button.
func (r *Registry) Document() string {
	var b strings.Builder
	b.WriteString("# Commands and buttons\n\n")
	b.WriteString(
		"This page is generated from the features that the bot has (`go test ./internal/app -run Document -update`).\n",
	)
	b.WriteString(
		"On Discord and Slack a command is written `/raven NAME …`; on the web page and in the terminal `/NAME …` does " +
			"the same.\n",
	)
	for _, c := range r.Commands() {
		fmt.Fprintf(&b, "\n## /raven %s\n\n%s.\n", c.Name, c.Summary)
		if c.Help != "" && !strings.EqualFold(c.Help, c.Summary) {
			fmt.Fprintf(&b, "In `/raven help`: %s.\n", strings.TrimSuffix(c.Help, "."))
		}
		if len(c.Options) == 0 {
			continue
		}
		b.WriteString("\n| option | meaning |\n| --- | --- |\n")
		for _, o := range c.Options {
			notes := []string{o.Summary}
			if o.Required {
				notes = append(notes, "required")
			}
			if len(o.Choices) > 0 {
				notes = append(notes, "one of "+strings.Join(o.Choices, ", "))
			}
			if o.Complete {
				notes = append(notes, "completed while you type")
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", o.Name, strings.Join(notes, "; "))
		}
	}
	b.WriteString("\n## Menu of a message\n\nOn Discord under *Apps*, on Slack under *More message shortcuts*.\n\n" +
		"| entry | what it does |\n| --- | --- |\n")
	for _, c := range MessageCommands(r.modules...) {
		fmt.Fprintf(&b, "| %s | %s |\n", c.Title, c.Summary)
	}
	b.WriteString("\n## Buttons\n\n| button | what it does | who may press it |\n| --- | --- | --- |\n")
	buttons := r.Buttons()
	slices.SortFunc(buttons, func(x, y Button) int { return cmp.Compare(x.Word, y.Word) })
	for _, button := range buttons {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", button.Word, button.Does, button.Who)
	}
	return b.String()
}
