package discord

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"ravenbot/internal/chat"
)

// What is read of Discord's events. discordgo's own types are not used for these:
// they refuse a whole message for one component that is newer than the library.
type (
	wireUser struct {
		ID       string `json:"id"`
		Username string `json:"username"`
		Bot      bool   `json:"bot"`
		System   bool   `json:"system"`
	}
	wireMember struct {
		User        *wireUser `json:"user"`
		Roles       []string  `json:"roles"`
		Permissions string    `json:"permissions"` // in interactions alone
	}
	wireMessage struct {
		ID           string       `json:"id"`
		Type         int          `json:"type"`
		ChannelID    string       `json:"channel_id"`
		GuildID      string       `json:"guild_id"`
		WebhookID    string       `json:"webhook_id"`
		Author       wireUser     `json:"author"`
		Member       wireMember   `json:"member"`
		Content      string       `json:"content"`
		Timestamp    time.Time    `json:"timestamp"`
		Edited       time.Time    `json:"edited_timestamp"` // zero: never
		Mentions     []wireUser   `json:"mentions"`
		MentionRoles []string     `json:"mention_roles"`
		Attachments  []attachment `json:"attachments"`
		Reference    struct {
			MessageID string `json:"message_id"`
		} `json:"message_reference"`
		Referenced *struct {
			Author wireUser `json:"author"`
		} `json:"referenced_message"` // absent where Discord did not look it up
		Snapshots []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"message_snapshots"` // of messages that were forwarded
	}
)

// Message types that people write.
const (
	typeDefault = 0
	typeReply   = 19
)

// directGuild stands in an address for the server of a direct message.
const directGuild = "@me"

func (d *Discord) botUser() wireUser {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.self
}

// onMessage queues a message that concerns the bot. It runs in the goroutine that changes the
// state, which may therefore be read without further care.
func (d *shard) onMessage(state *discordgo.State, data []byte) {
	var w wireMessage
	if err := json.Unmarshal(data, &w); err != nil {
		d.o.Log.Warn("discord message not decoded", "platform", "discord", "error", err)
		return
	}
	m, ok := d.parseMessage(state, w)
	if !ok || m.Reach == chat.Overheard && !d.o.MessageContent {
		return
	}
	d.enqueue(state, inbound{message: m}, w.GuildID, w.ChannelID)
}

// parseMessage returns what a person said, without the conversation; false if no person said
// anything, or if Discord does not show it to the bot.
func (d *Discord) parseMessage(state *discordgo.State, w wireMessage) (chat.Message, bool) {
	if w.Author.Bot || w.Author.System || w.WebhookID != "" || w.Type != typeDefault && w.Type != typeReply {
		return chat.Message{}, false
	}
	if w.Content == "" && len(w.Attachments) == 0 && !d.o.MessageContent && w.GuildID != "" {
		return chat.Message{}, false // a reply with its ping switched off, for example
	}
	files, rest, err := w.parseFiles()
	if err != nil {
		d.o.Log.Warn("files of a discord message not read", "platform", "discord", "message", w.ID, "error", err)
	}
	r := messageReader{self: d.botUser(), state: state, w: w, answers: d.sent.has(w.Reference.MessageID)}
	m := chat.Message{ID: w.ID, Author: chat.User{ID: w.Author.ID, Name: w.Author.Username, Admin: r.isAdmin()},
		Text: r.plainText(
			rest,
		), Files: files, Reach: r.reachOf(), Reply: chat.Reply{MessageID: w.ID}, Time: w.Timestamp}
	m.ForOther = m.Reach == chat.Overheard && strings.HasPrefix(strings.TrimSpace(w.Content), "<@")
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
		d.o.Log.Warn("discord edit not decoded", "platform", "discord", "error", err)
		return
	}
	// Link previews and pins come without an edit time or a text.
	if w.Text == nil || w.Edited.IsZero() || w.Author.ID == d.botUser().ID || d.sent.has(w.ID) {
		return
	}
	w.Content = *w.Text
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
		d.o.Log.Warn("discord deletion not decoded", "platform", "discord", "error", err)
		return
	}
	if w.ID != "" {
		w.IDs = append(w.IDs, w.ID)
	}
	for _, id := range w.IDs {
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

// setAddress sets the conversation of a message as far as it is known without asking. A change
// needs no thread: the message that it changes has it.
func (d *shard) setAddress(state *discordgo.State, in *inbound, guild, channel string) {
	a, known := d.addressOf(state, guild, channel)
	if kind := in.message.Kind(); !known && kind != chat.EventEdit && kind != chat.EventDelete {
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

// addressOf returns where a channel is; false if it may be a thread.
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
	maxParents    = 5000
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
				"discord channel not looked up, treated as no thread",
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
		d.parents.Put(channel, parent)
	}
	if parent != "" {
		a.Channel, a.Thread = parent, channel
	}
	return a
}

// messageReader reads one message with the help of what is known about its server.
type messageReader struct {
	self    wireUser
	state   *discordgo.State
	w       wireMessage
	answers bool // it refers to a post of the bot
}

func (r messageReader) reachOf() chat.Reach {
	mine := func(u wireUser) bool { return u.ID == r.self.ID }
	switch {
	case r.w.GuildID == "",
		slices.ContainsFunc(r.w.Mentions, mine),
		slices.ContainsFunc(r.w.MentionRoles, r.isOwnRole),
		r.answers,
		r.w.Referenced != nil && mine(r.w.Referenced.Author),
		strings.Contains(r.w.Content, "<@"+r.self.ID+">"),
		strings.Contains(r.w.Content, "<@!"+r.self.ID+">"):
		return chat.Addressed
	}
	return chat.Overheard
}

// isOwnRole reports whether a role is the one that Discord made for the bot alone.
func (r messageReader) isOwnRole(id string) bool {
	role, err := r.state.Role(r.w.GuildID, id)
	if err != nil || !role.Managed {
		return false
	}
	member, err := r.state.Member(r.w.GuildID, r.self.ID)
	return err == nil && slices.Contains(member.Roles, id)
}

func (r messageReader) isAdmin() bool {
	g, err := r.state.Guild(r.w.GuildID)
	if err != nil {
		return false
	}
	var bits int64
	for _, role := range g.Roles {
		if role.ID == g.ID || slices.Contains(r.w.Member.Roles, role.ID) {
			bits |= role.Permissions
		}
	}
	return g.OwnerID == r.w.Author.ID || canManage(bits)
}

func canManage(permissions int64) bool {
	return permissions&(discordgo.PermissionManageGuild|discordgo.PermissionAdministrator) != 0
}

func canManageText(permissions string) bool {
	bits, err := strconv.ParseInt(permissions, 10, 64)
	return err == nil && canManage(bits)
}

// mentionPattern matches users, roles, channels and custom emoji in a text, with the
// space after them.
var mentionPattern = regexp.MustCompile(`<(@!?|@&|#|a?:)(\w+)(?::\d+)?>([ \t]*)`)

// plainText returns the message as people read it, without the mention of the bot, and with the
// names of files that cannot be read.
func (r messageReader) plainText(unread []string) string {
	text := mentionPattern.ReplaceAllStringFunc(r.w.Content, func(s string) string {
		parts := mentionPattern.FindStringSubmatch(s)
		kind, id, space := parts[1], parts[2], parts[3]
		if id == r.self.ID || kind == "@&" && r.isOwnRole(id) {
			return ""
		}
		return r.mentionName(kind, id) + space
	})
	text = strings.TrimSpace(text)
	for _, name := range unread {
		text += "\n[attached: " + name + "]"
	}
	for _, s := range r.w.Snapshots {
		text += "\n[forwarded message: " + strings.TrimSpace(s.Message.Content) + "]"
	}
	return strings.TrimSpace(text)
}

func (r messageReader) mentionName(kind, id string) string {
	switch kind {
	case "#":
		if c, err := r.state.Channel(id); err == nil {
			return "#" + c.Name
		}
		return "#" + id
	case "@&":
		if role, err := r.state.Role(r.w.GuildID, id); err == nil {
			return "@" + role.Name
		}
		return "@" + id
	case "@", "@!":
		i := slices.IndexFunc(r.w.Mentions, func(u wireUser) bool { return u.ID == id })
		if i >= 0 {
			return "@" + r.w.Mentions[i].Username
		}
		return "@" + id
	}
	return ":" + id + ":" // an emoji's name
}
