package web

import (
	"context"
	"slices"
	"strconv"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// History reads back a room: up to most lines before the one with a Seq, oldest first; before "" is the end. Lines
// without words are left out, and so are commands, their answers and failures. A *chat.SetupError says that before is no Seq.
func (w *Web) History(ctx context.Context, at chat.Address, before string, most int) ([]chat.Said, error) {
	var seq uint64
	if before != "" {
		var err error
		if seq, err = strconv.ParseUint(before, 10, 64); err != nil || seq == 0 {
			return nil, &chat.SetupError{
				Reason: "there is no message " + before,
				Remedy: "take an id that was given before",
			}
		}
	}
	for {
		lines, err := w.o.Log.Entries(ctx, at.Channel, seq, most)
		if err != nil || len(lines) == 0 {
			return nil, err
		}
		seq = lines[0].Seq
		// Where all are left out, older ones may still have words.
		if said := saidIn(w.conversationOf(lines)); len(said) > 0 || seq == 0 {
			return said, nil
		}
	}
}

// conversationOf returns the lines that are neither commands nor their answers, nor for one person, nor failures.
func (w *Web) conversationOf(lines []store.Entry) []store.Entry {
	commands := map[string]bool{}
	return slices.DeleteFunc(lines, func(e store.Entry) bool {
		if e.Draft != nil {
			return e.Draft.Ephemeral || e.Draft.Failed || commands[e.Draft.Reply.MessageID]
		}
		commands[e.ID] = w.isCommand(e.Text)
		return commands[e.ID]
	})
}
