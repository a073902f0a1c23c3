package discord

import (
	"encoding/json"
	"strings"

	"github.com/bwmarrin/discordgo"

	"ravenbot/internal/core/chat"
)

// wireReaction is an emoji put below a message, or taken away: by one person, or all
// of one emoji, or all there were.
type wireReaction struct {
	UserID    string      `json:"user_id"`
	ChannelID string      `json:"channel_id"`
	MessageID string      `json:"message_id"`
	GuildID   string      `json:"guild_id"`
	AuthorID  string      `json:"message_author_id"` // of the message, where Discord says so
	Member    *wireMember `json:"member"`
	Emoji     struct {
		ID   string `json:"id"` // of an emoji that a server has for itself
		Name string `json:"name"`
	} `json:"emoji"`
}

// onReaction queues a reaction to a post of the bot. Reactions of bots, to other people's messages,
// or that express no opinion are dropped here; where Discord does not name the author of the
// message, whoever takes reactions knows its own posts. Discord gives no time.
func (d *shard) onReaction(state *discordgo.State, event string, data []byte) {
	var w wireReaction
	if err := json.Unmarshal(data, &w); err != nil {
		d.o.Log.Warn("failed to decode a discord reaction", "platform", "discord", "error", err)
		return
	}
	self := d.botUser().ID
	good, says := chat.Opinion(w.Emoji.Name)
	whole := event == "MESSAGE_REACTION_REMOVE_ALL"
	everybody := whole || event == "MESSAGE_REACTION_REMOVE_EMOJI"
	switch {
	case w.MessageID == "" || w.ChannelID == "" || (w.UserID == "") != everybody,
		!whole && (w.Emoji.ID != "" || !says),
		w.UserID == self,
		w.Member != nil && w.Member.User != nil && w.Member.User.Bot,
		w.AuthorID != "" && w.AuthorID != self:
		return
	}
	m := chat.Message{
		ID:     strings.Join([]string{"reaction", w.MessageID, w.UserID, w.Emoji.Name}, "/"),
		Author: chat.User{ID: w.UserID, Global: w.UserID != ""},
		Reach:  chat.Addressed,
		Time:   d.o.Now(),
		Reaction: &chat.Reaction{
			Post: w.MessageID,
			Sign: w.Emoji.Name,
			Good: good,
			Gone: event != "MESSAGE_REACTION_ADD",
		},
	}
	if w.Member != nil && w.Member.User != nil {
		m.Author.Name, m.Author.Handle = w.Member.User.Username, w.Member.User.Username
	}
	d.enqueue(state, inbound{message: m}, w.GuildID, w.ChannelID)
}
