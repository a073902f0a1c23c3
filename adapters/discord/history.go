package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"ravenbot/internal/chat"
)

// historyTimeout bounds reading back a page of a channel.
const historyTimeout = 15 * time.Second

// History reads back a channel or thread. Messages that Discord does not show the bot without the
// Message Content intent are left out.
func (d *Discord) History(ctx context.Context, at chat.Address, before string, most int) ([]chat.Said, error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	path := "/channels/" + channelOf(at) + "/messages"
	r := request{
		method: "GET",
		path:   path + "?limit=" + strconv.Itoa(min(max(most, 1), pageSize)),
		route:  "GET" + path,
	}
	if before != "" {
		if _, err := strconv.ParseUint(before, 10, 64); err != nil {
			return nil, &chat.SetupError{
				Reason: "there is no message " + before,
				Remedy: "take an id that was given before",
			}
		}
		r.path += "&before=" + before
	}
	var raw []json.RawMessage
	if err := d.api.do(ctx, r, &raw); err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		return nil, d.checkReadable(ctx, channelOf(at), "")
	}
	list := make([]chat.Said, 0, len(raw))
	hidden := 0
	for _, data := range raw { // newest first
		var w wirePost
		if json.Unmarshal(data, &w) != nil {
			continue
		}
		text := d.textOf(w)
		if text == "" {
			hidden++
			continue
		}
		list = append(
			[]chat.Said{
				{
					ID:   w.ID,
					By:   cmp.Or(w.Author.Username, w.Author.ID),
					Bot:  w.Author.Bot || w.WebhookID != "",
					Text: text,
					At:   w.Timestamp,
				},
			},
			list...)
	}
	if len(list) == 0 && hidden > 0 && !d.o.MessageContent {
		return nil, &chat.SetupError{Reason: "Discord does not show the bot what others say here",
			Remedy: `switch the Message Content Intent on for the app, and set "respondTo": "all" for this channel, or mention the bot`}
	}
	return list, nil
}

// textOf returns the text of a message with the titles of its embeds.
func (d *Discord) textOf(w wirePost) string {
	_, rest, err := w.parseFiles()
	if err != nil {
		rest = nil
	}
	text := messageReader{self: d.botUser(), state: discordgo.NewState(), w: w.wireMessage}.plainText(rest)
	for _, e := range w.Embeds {
		if e.Title != "" && !strings.Contains(text, e.Title) {
			text += "\n[" + e.Title + "](" + e.URL + ")"
		}
	}
	return strings.TrimSpace(text)
}

// Link returns the address of a message by its ID.
func (d *Discord) Link(at chat.Address, id string) string {
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return "" // an interaction, which has no message
	}
	return "https://discord.com/channels/" + at.Workspace + "/" + channelOf(at) + "/" + id
}
