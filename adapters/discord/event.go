package discord

import (
	"context"
	"encoding/json"
	"time"

	"github.com/bwmarrin/discordgo"

	"ravenbot/internal/core/chat"
)

// directGuild stands in an address for the server of a direct message.
const directGuild = "@me"

// botUser returns the bot's account; without an id before the first READY.
func (d *Discord) botUser() wireUser {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.self
}

// onMessage queues a message that concerns the bot. It runs in the goroutine that changes the
// state, which may therefore be read without further care.
func (d *shard) onMessage(state *discordgo.State, data []byte) {
	var w wirePost
	if err := json.Unmarshal(data, &w); err != nil {
		d.o.Log.Warn("failed to decode a discord message", "platform", "discord", "error", err)
		return
	}
	d.noteOwn(w)
	// Also what is not for the bot: a question brings along what was said before it.
	d.noteMessage(w.wireMessage)
	m, ok := d.parseMessage(state, w.wireMessage)
	if !ok || m.Reach == chat.Overheard && !d.o.MessageContent {
		return
	}
	d.enqueue(state, inbound{message: m}, w.GuildID, w.ChannelID)
}

// parseMessage returns what a person said, without the conversation; false if no person said anything, or if Discord
// does not show it to the bot. state may not change meanwhile.
func (d *Discord) parseMessage(state *discordgo.State, w wireMessage) (chat.Message, bool) {
	if w.Author.Bot || w.Author.System || w.WebhookID != "" || w.Type != typeDefault && w.Type != typeReply {
		return chat.Message{}, false
	}
	if w.isEmpty() && !d.o.MessageContent && w.GuildID != "" {
		return chat.Message{}, false // a reply with its ping switched off, for example
	}
	d.rememberNicks(w)
	r := d.newReader(state, w)
	m := chat.Message{
		ID:     w.ID,
		Author: d.userOf(w.GuildID, w.Author),
		Text:   r.incomingText(),
		Files:  w.parseFiles(),
		Reach:  r.reachOf(),
		Reply:  chat.Reply{MessageID: w.ID},
		Time:   w.Timestamp,
	}
	m.Author.Admin, m.Author.Roles = r.isAdmin(), roleNames(state, w.GuildID, w.Member.Roles)
	m.ForOther = r.isForOther(m.Reach)
	if w.Type == typeReply {
		m.ReplyTo = w.Reference.MessageID
		// The event brings what is replied to, which need not be fetched then.
		if m.Reach == chat.Addressed && len(w.Referenced) > len("null") {
			d.quoted.Put(w.ID, w.Referenced)
		}
	}
	return m, true
}

// revisionLayout writes times so that they sort as text.
const revisionLayout = "2006-01-02T15:04:05.000000Z"

// onUpdate queues the edit of a message. Discord reports link previews and pins in the same way,
// with the time of the last edit or none, and may leave out what has not changed.
func (d *shard) onUpdate(state *discordgo.State, data []byte) {
	var w struct {
		wireMessage
		Text *string `json:"content"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		d.o.Log.Warn("failed to decode a discord edit", "platform", "discord", "error", err)
		return
	}
	isWhole := w.Text != nil
	if isWhole {
		w.Content = *w.Text
	}
	d.noteUpdate(w.wireMessage, isWhole)
	// Link previews and pins come without an edit time or a text.
	if !isWhole || w.Edited.IsZero() || w.Author.ID == d.botUser().ID || d.sent.has(w.ID) {
		return
	}
	m, ok := d.parseMessage(state, w.wireMessage)
	if !ok {
		return
	}
	m.Change, m.Revision = chat.Edited, w.Edited.UTC().Format(revisionLayout)
	d.enqueue(state, inbound{message: m}, w.GuildID, w.ChannelID)
}

// onDelete queues the deletion of one message or of several at once.
func (d *shard) onDelete(state *discordgo.State, data []byte) {
	var w struct {
		ID        string   `json:"id"`
		IDs       []string `json:"ids"`
		ChannelID string   `json:"channel_id"`
		GuildID   string   `json:"guild_id"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		d.o.Log.Warn("failed to decode a discord deletion", "platform", "discord", "error", err)
		return
	}
	if w.ID != "" {
		w.IDs = append(w.IDs, w.ID)
	}
	for _, id := range w.IDs {
		d.noteDeletion(w.GuildID, w.ChannelID, id)
		if !d.sent.has(id) {
			d.enqueue(state, inbound{message: chat.Message{ID: id, Change: chat.Deleted}}, w.GuildID, w.ChannelID)
		}
	}
}

// enqueue queues a message of a channel.
func (d *shard) enqueue(state *discordgo.State, in inbound, guild, channel string) {
	d.setAddress(state, &in, guild, channel)
	d.push(in)
}

// setAddress sets the conversation of a message as far as it is known without asking, and has guild say where it has to
// be looked up. A change of a message that is known needs no thread: that message has it.
func (d *shard) setAddress(state *discordgo.State, in *inbound, guild, channel string) {
	a, known := d.addressOf(state, guild, channel)
	// An edit by which a message speaks to the bot may be a question of its own.
	kind := in.message.Kind()
	needsThread := kind != chat.EventDelete && (kind != chat.EventEdit || in.message.Reach == chat.Addressed)
	if !known && needsThread {
		in.guild = guild
	}
	in.message.Conversation = a
	in.message.Direct = guild == "" && !isGroup(state, channel)
}

// isGroup reports whether a channel is known to be a direct message of several people.
// Bots are no members of such groups, but an app that a user has installed for
// themselves gets interactions from there.
func isGroup(state *discordgo.State, channel string) bool {
	c, err := state.Channel(channel)
	return err == nil && c.Type == discordgo.ChannelTypeGroupDM
}

// addressOf returns where a channel is; false if it may be a thread, which then stands as a channel. A direct message
// has directGuild for its workspace.
func (d *Discord) addressOf(state *discordgo.State, guild, channel string) (chat.Address, bool) {
	a := chat.Address{Platform: "discord", Workspace: guild, Channel: channel}
	if guild == "" {
		a.Workspace = directGuild
		return a, true
	}
	if c, err := state.Channel(channel); err == nil {
		if c.IsThread() && c.ParentID != "" {
			a.Channel, a.Thread = c.ParentID, c.ID
		}
		return a, true
	}
	parent, known := d.parents.Get(channel)
	if parent != "" {
		a.Channel, a.Thread = parent, channel
	}
	return a, known
}

const (
	lookupTimeout = 5 * time.Second
	// maxParents is how many channels are remembered to be threads, or none.
	maxParents = 5000
)

// lookUpAddress asks Discord whether a channel that no event has shown is a thread. One that cannot
// be looked up counts as a channel.
func (d *Discord) lookUpAddress(ctx context.Context, guild, channel string) chat.Address {
	a := chat.Address{Platform: "discord", Workspace: guild, Channel: channel}
	parent, known := d.parents.Get(channel)
	if !known {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		var c struct {
			Type   discordgo.ChannelType `json:"type"`
			Parent string                `json:"parent_id"`
		}
		if err := d.api.do(ctx, request{method: "GET", path: "/channels/" + channel}, &c); err != nil {
			d.o.Log.Warn(
				"failed to look up a discord channel; treating it as no thread",
				"platform",
				"discord",
				"channel",
				channel,
				"error",
				err,
			)
			if isRetryable(err) {
				return a // it may be known the next time
			}
		} else if isThread(c.Type) {
			parent = c.Parent
		}
		// A refusal is remembered, too: else each message of the channel would ask again.
		d.parents.Put(channel, parent)
	}
	if parent != "" {
		a.Channel, a.Thread = parent, channel
	}
	return a
}
