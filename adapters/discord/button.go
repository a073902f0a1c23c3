package discord

import (
	"fmt"

	"ravenbot/internal/chat"
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

	lookPrimary = 1
	lookQuiet   = 2
	lookDanger  = 4
)

// row holds the buttons of a message that stand beside one another.
type row struct {
	Type    int      `json:"type"`
	Buttons []button `json:"components"`
}

type button struct {
	Type  int    `json:"type"`
	Look  int    `json:"style"`
	Label string `json:"label"`
	Value string `json:"custom_id"`
}

// rows lays buttons out. One that Discord would refuse the whole message for, or
// whose value another has, is left out: the words matter more.
func rows(buttons []chat.Button) []row {
	var list []row
	seen := map[string]bool{"": true}
	for _, b := range buttons {
		if seen[b.Value] || len(b.Value) > maxButtonValue || b.Label == "" || len(seen) > maxRows*maxRowButtons {
			continue
		}
		seen[b.Value] = true
		last := len(list) - 1
		if last < 0 || len(list[last].Buttons) == maxRowButtons {
			list = append(list, row{Type: componentRow})
			last++
		}
		list[last].Buttons = append(list[last].Buttons, button{Type: componentButton, Look: lookOf(b.Style), Label: cut(b.Label, maxButtonLabel), Value: b.Value})
	}
	return list
}

func lookOf(s chat.Style) int {
	switch s {
	case chat.Primary:
		return lookPrimary
	case chat.Danger:
		return lookDanger
	}
	return lookQuiet
}

// look is all that can be seen of a piece while an answer is written.
func (p piece) look() string { return fmt.Sprintf("%s\x00%v", p.text, p.buttons) }
