package web

import (
	"context"
	"strconv"

	"ravenbot/internal/chat"
)

// History reads back a room: up to most lines before the one with a Seq, oldest first; before "" is the end. Lines
// without words are left out. A *chat.SetupError says that before is no Seq.
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
	lines, err := w.o.Log.Entries(ctx, at.Channel, seq, most)
	if err != nil {
		return nil, err
	}
	return saidIn(lines), nil
}
