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

// historyWithin bounds reading back a page of a channel.
const historyWithin = 15 * time.Second

// History reads back a channel or thread. What Discord does not show the bot, the words of
// messages that do not concern it without the Message Content intent, is left out.
func (d *Discord) History(ctx context.Context, at chat.Address, before string, most int) ([]chat.Said, error) {
	ctx, cancel := context.WithTimeout(ctx, historyWithin)
	defer cancel()
	path := "/channels/" + place(at) + "/messages"
	r := request{method: "GET", path: path + "?limit=" + strconv.Itoa(min(max(most, 1), pageSize)), route: "GET" + path}
	if before != "" {
		if _, err := strconv.ParseUint(before, 10, 64); err != nil {
			return nil, &chat.SetupError{Reason: "there is no message " + before, Remedy: "take an id that was given before"}
		}
		r.path += "&before=" + before
	}
	var raw []json.RawMessage
	if err := d.api.do(ctx, r, &raw); err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		return nil, d.readable(ctx, place(at), "")
	}
	list := make([]chat.Said, 0, len(raw))
	hidden := 0
	for _, data := range raw { // newest first
		var w wirePost
		if json.Unmarshal(data, &w) != nil {
			continue
		}
		text := d.shownIn(w)
		if text == "" {
			hidden++
			continue
		}
		list = append([]chat.Said{{ID: w.ID, By: cmp.Or(w.Author.Username, w.Author.ID), Bot: w.Author.Bot || w.WebhookID != "", Text: text, At: w.Timestamp}}, list...)
	}
	if len(list) == 0 && hidden > 0 && !d.o.MessageContent {
		return nil, &chat.SetupError{Reason: "Discord does not show the bot what others say here",
			Remedy: `switch the Message Content Intent on for the app, and set "respondTo": "all" for this channel, or mention the bot`}
	}
	return list, nil
}

// shownIn is what a message of a history says, with the titles of what is embedded.
func (d *Discord) shownIn(w wirePost) string {
	_, rest, err := w.files()
	if err != nil {
		rest = nil
	}
	text := reader{self: d.bot(), state: discordgo.NewState(), w: w.wireMessage}.text(rest)
	for _, e := range w.Embeds {
		if e.Title != "" && !strings.Contains(text, e.Title) {
			text += "\n[" + e.Title + "](" + e.URL + ")"
		}
	}
	return strings.TrimSpace(text)
}
