package discord

import (
	"context"
	"slices"
	"strconv"
	"time"

	"ravenbot/internal/core/chat"
)

// historyTimeout bounds reading back a page of a channel.
const historyTimeout = 15 * time.Second

// History reads back a channel or thread: up to most messages, and pageSize at the most, before the one with an id,
// oldest first; before "" is the end. Messages that Discord does not show to the bot without the Message Content intent
// are hidden ones. A *chat.SetupError says that before is no id.
func (d *Discord) History(ctx context.Context, at chat.Address, before string, most int) ([]chat.Said, error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	if before != "" {
		if _, err := strconv.ParseUint(before, 10, 64); err != nil {
			return nil, &chat.SetupError{
				Reason: "there is no message " + before,
				Remedy: "take an id that was given before",
			}
		}
	}
	page, _, err := d.fetchPage(ctx, channelOf(at), before, min(max(most, 1), pageSize))
	if err != nil {
		return nil, err
	}
	r := d.newContextReader(ctx, chat.Message{Conversation: at})
	list := make([]chat.Said, 0, len(page))
	for _, w := range page {
		list = append(list, r.said(w.wireMessage))
	}
	return slices.DeleteFunc(list, func(s chat.Said) bool { return s.Text == "" && !s.Hidden }), nil
}

// Link returns the address of a message by its ID; empty for what is no message.
func (d *Discord) Link(at chat.Address, id string) string {
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return "" // an interaction, which has no message
	}
	return "https://discord.com/channels/" + at.Workspace + "/" + channelOf(at) + "/" + id
}
