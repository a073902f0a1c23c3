package web

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

var (
	_ chat.ContextReader = (*Web)(nil)
	_ chat.Formatter     = (*Web)(nil)
)

// botName is who the bot's posts are by where a room is read back.
const botName = "ravenbot"

// maxLater is how many lines may have come after a message whose past is read.
const maxLater = 20

// Context returns the room of a message, its author, and the lines before it, q.Messages at most. Nothing of a room is
// hidden from the bot. Lines that the store does not return are named in a note.
func (w *Web) Context(ctx context.Context, m chat.Message, q chat.ContextQuery) chat.Context {
	c := chat.Context{Place: chat.Place{Channel: m.Conversation.Channel}, Names: map[string]string{}}
	if m.Author.Name != "" {
		c.Names[m.Author.ID] = m.Author.Name
	}
	if q.Messages <= 0 {
		return c
	}
	lines, err := w.o.Log.Entries(ctx, m.Conversation.Channel, 0, q.Messages+maxLater)
	if err != nil {
		w.o.Logger.Error("failed to read the lines of a room", "room", m.Conversation.Channel, "error", err)
		c.Notes = []string{"The messages before this one could not be read."}
		return c
	}
	if i := indexOfEntry(lines, m.ID); i >= 0 {
		lines = lines[:i]
	}
	// Not found: what the model knows lies further back.
	lines = lines[indexOfEntry(lines, q.After)+1:]
	c.Recent = saidIn(lines)
	c.Recent = c.Recent[max(0, len(c.Recent)-q.Messages):]
	return c
}

// indexOfEntry returns where the entry of a message is; -1 where it is not.
func indexOfEntry(lines []store.Entry, id string) int {
	return slices.IndexFunc(lines, func(e store.Entry) bool { return e.ID == id && id != "" })
}

// saidIn returns lines of a room as they are read back.
func saidIn(lines []store.Entry) []chat.Said {
	var list []chat.Said
	for _, e := range lines {
		said := chat.Said{ID: strconv.FormatUint(e.Seq, 10), Text: e.Text, At: e.At}
		switch {
		case e.User != nil:
			said.By, said.ByID, said.Subject = e.User.Name, e.User.ID, "web/"+e.ID
			for _, f := range e.Files {
				said.Text += "\n[attached: " + f.Name + "]"
			}
		case e.Draft != nil:
			said.By, said.Bot, said.Self, said.Text = botName, true, true, e.Draft.Text
			if e.Draft.Reply.MessageID != "" {
				said.Subject = "web/" + e.Draft.Reply.MessageID
			}
			for _, c := range e.Draft.Cards {
				said.Text += "\n[" + c.Title + "](" + c.URL + ")"
			}
		}
		if said.Text = strings.TrimSpace(said.Text); said.Text != "" {
			list = append(list, said)
		}
	}
	return list
}

// Formatting returns what the page shows.
func (w *Web) Formatting() string {
	return "The page shows full Markdown, with tables, task lists, links and code; " +
		"it shows no HTML and no pictures in the text."
}
