package discord

import (
	"fmt"

	"ravenbot/internal/core/chat"
)

// Limits of what can be pressed below a message.
const (
	maxRows        = 5
	maxRowButtons  = 5
	maxButtonValue = 100
	maxButtonLabel = 80
)

// Component types, and the looks of buttons.
const (
	componentRow    = 1
	componentButton = 2

	stylePrimary = 1
	styleQuiet   = 2
	styleDanger  = 4
)

// buttonRow holds the buttons of a message that stand beside one another.
type buttonRow struct {
	Type    int      `json:"type"`
	Buttons []button `json:"components"`
}

// button is a button as Discord takes it (Components Reference, Button). Value comes back when it is pressed.
type button struct {
	Type  int    `json:"type"`
	Look  int    `json:"style"`
	Label string `json:"label"`
	Value string `json:"custom_id"`
}

// buttonRows returns the rows of buttons. A button for which Discord would refuse the whole
// message, or whose value another one has, is left out: the words matter more.
func buttonRows(buttons []chat.Button) []buttonRow {
	var list []buttonRow
	seen := map[string]bool{"": true}
	for _, b := range buttons {
		if seen[b.Value] || len(b.Value) > maxButtonValue || b.Label == "" || len(seen) > maxRows*maxRowButtons {
			continue
		}
		seen[b.Value] = true
		last := len(list) - 1
		if last < 0 || len(list[last].Buttons) == maxRowButtons {
			list = append(list, buttonRow{Type: componentRow})
			last++
		}
		list[last].Buttons = append(
			list[last].Buttons,
			button{
				Type:  componentButton,
				Look:  buttonStyle(b.Style),
				Label: cutText(b.Label, maxButtonLabel),
				Value: b.Value,
			},
		)
	}
	return list
}

// buttonStyle returns Discord's number of a style; an unknown style is a quiet button.
func buttonStyle(s chat.Style) int {
	switch s {
	case chat.Primary:
		return stylePrimary
	case chat.Danger:
		return styleDanger
	}
	return styleQuiet
}

// appearance returns all that people can see of a piece while an answer is written.
func (p piece) appearance() string { return fmt.Sprintf("%s\x00%v", p.text, p.buttons) }
