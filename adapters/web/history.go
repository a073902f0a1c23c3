package web

import (
	"context"
	"strconv"
	"strings"

	"ravenbot/internal/chat"
)

// History reads back a room.
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
	var list []chat.Said
	for _, e := range lines {
		said := chat.Said{ID: strconv.FormatUint(e.Seq, 10), Text: e.Text, At: e.At}
		switch {
		case e.User != nil:
			said.By = e.User.Name
			for _, f := range e.Files {
				said.Text += "\n[attached: " + f.Name + "]"
			}
		case e.Draft != nil:
			said.By, said.Bot, said.Text = "ravenbot", true, e.Draft.Text
			for _, c := range e.Draft.Cards {
				said.Text += "\n[" + c.Title + "](" + c.URL + ")"
			}
		}
		if said.Text = strings.TrimSpace(said.Text); said.Text != "" {
			list = append(list, said)
		}
	}
	return list, nil
}
