package web

import (
	"context"
	"fmt"
	"strconv"

	"ravenbot/internal/chat"
)

// History reads the lines of a room.
func (w *Web) History(ctx context.Context, at chat.Address, before string, n int) ([]chat.Said, error) {
	var seq uint64
	if before != "" {
		var err error
		if seq, err = strconv.ParseUint(before, 10, 64); err != nil {
			return nil, fmt.Errorf("read room %s: %q names no line", at.Channel, before)
		}
	}
	entries, err := w.o.Log.Entries(ctx, at.Channel, seq, n)
	if err != nil {
		return nil, err
	}
	list := make([]chat.Said, len(entries))
	for i, e := range entries {
		list[i] = chat.Said{ID: strconv.FormatUint(e.Seq, 10), Own: e.User == nil, Time: e.At, Text: e.Text}
		if e.User != nil {
			list[i].Author = *e.User
		}
		if e.Draft != nil {
			list[i].Text = e.Draft.Text
		}
	}
	return list, nil
}
