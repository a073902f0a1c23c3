package discord

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"ravenbot/internal/core/chat"
)

// What is read of Discord's messages. discordgo's own types are not used for these:
// they refuse a whole message for one component that is newer than the library. For the same
// reason the parts that a message can do without are decoded one by one.
type (
	wireUser struct {
		ID       string     `json:"id"`
		Username string     `json:"username"`
		Global   string     `json:"global_name"`
		Bot      bool       `json:"bot"`
		System   bool       `json:"system"`
		Member   wireMember `json:"member"` // of those whom a message mentions
	}
	wireMember struct {
		User        *wireUser `json:"user"`
		Nick        string    `json:"nick"`
		Roles       []string  `json:"roles"`
		Permissions string    `json:"permissions"` // in interactions alone
		Joined      string    `json:"joined_at"`   // empty where Discord sent no member
	}
	wireMessage struct {
		ID           string        `json:"id"`
		Type         int           `json:"type"`
		ChannelID    string        `json:"channel_id"`
		GuildID      string        `json:"guild_id"`
		WebhookID    string        `json:"webhook_id"`
		Author       wireUser      `json:"author"`
		Member       wireMember    `json:"member"`
		Timestamp    time.Time     `json:"timestamp"`
		Edited       time.Time     `json:"edited_timestamp"` // zero: never
		Mentions     []wireUser    `json:"mentions"`
		MentionRoles []string      `json:"mention_roles"`
		Reference    wireReference `json:"message_reference"`
		// Referenced is the message that this one replies to; absent where Discord did not look
		// it up, null where it is gone.
		Referenced json.RawMessage `json:"referenced_message"`
		// Snapshots are messages that were forwarded.
		Snapshots []struct {
			Message wireContent `json:"message"`
		} `json:"message_snapshots"`
		// Interaction is the command that the message answers; an empty ID: none.
		Interaction struct {
			ID string `json:"id"`
		} `json:"interaction_metadata"`
		wireContent
	}
	wireReference struct {
		MessageID string `json:"message_id"`
	}
	// wireContent is what a message says.
	wireContent struct {
		Content     string            `json:"content"`
		Flags       int               `json:"flags"`
		Attachments []attachment      `json:"attachments"`
		Embeds      []json.RawMessage `json:"embeds"`
		Stickers    []json.RawMessage `json:"sticker_items"`
		Poll        json.RawMessage   `json:"poll"`
		Components  json.RawMessage   `json:"components"`
	}
)

// Message types in which somebody says something.
const (
	typeDefault       = 0
	typeReply         = 19
	typeCommand       = 20 // the answer to a slash command
	typeThreadStarter = 21 // stands in a thread for the message that it began with
	typeContextMenu   = 23
)

// isSpoken reports whether a message says something, unlike a notice of Discord's.
func (w wireMessage) isSpoken() bool {
	switch w.Type {
	case typeDefault, typeReply, typeCommand, typeContextMenu:
		return true
	}
	return false
}

// isEmpty reports whether a message says nothing that Discord shows to the bot.
func (c wireContent) isEmpty() bool {
	return c.Content == "" && len(c.Attachments) == 0 && len(c.Embeds) == 0 && len(c.Stickers) == 0 &&
		len(c.Poll) <= len("null") && len(c.Components) <= len("[]")
}

// messageReader reads one message with the help of what is known about its server.
type messageReader struct {
	d       *Discord
	self    wireUser
	state   *discordgo.State
	w       wireMessage
	answers bool // it refers to a post of the bot
}

// newReader returns what reads w. state may lack its server; then no role is known.
func (d *Discord) newReader(state *discordgo.State, w wireMessage) messageReader {
	// A forwarded message refers to where it came from, too.
	answers := w.Type == typeReply && d.sent.has(w.Reference.MessageID)
	return messageReader{d: d, self: d.botUser(), state: state, w: w, answers: answers}
}

// isSelf reports whether a user is the bot.
func (r messageReader) isSelf(u wireUser) bool { return u.ID == r.self.ID }

// reachOf returns how a message reaches the bot: addressed in a direct message, by a mention of it or of its own role,
// and as a reply to it; followed in a thread of its own, where Discord shows it the text; else overheard.
func (r messageReader) reachOf() chat.Reach {
	switch {
	case r.w.GuildID == "",
		slices.ContainsFunc(r.w.Mentions, r.isSelf),
		slices.ContainsFunc(r.w.MentionRoles, r.isOwnRole),
		r.answers,
		r.isSelf(r.referencedAuthor()),
		strings.Contains(r.w.Content, "<@"+r.self.ID+">"),
		strings.Contains(r.w.Content, "<@!"+r.self.ID+">"):
		return chat.Addressed
	case r.d.o.MessageContent && r.isInOwnThread():
		return chat.Followed
	}
	return chat.Overheard
}

// isForOther reports whether a message that is not addressed to the bot speaks to somebody else.
func (r messageReader) isForOther(reach chat.Reach) bool {
	if reach == chat.Addressed {
		return false
	}
	return strings.HasPrefix(strings.TrimSpace(r.w.Content), "<@") || r.w.Type == typeReply ||
		reach == chat.Overheard && len(r.w.Mentions)+len(r.w.MentionRoles) > 0
}

// referencedAuthor returns who wrote the message that this one replies to; nobody where Discord
// does not say.
func (r messageReader) referencedAuthor() wireUser {
	var referenced struct {
		Author wireUser `json:"author"`
	}
	_ = json.Unmarshal(r.w.Referenced, &referenced) // absent, null or of an unexpected form
	return referenced.Author
}

// isInOwnThread reports whether a message was said in a thread that the bot opened.
func (r messageReader) isInOwnThread() bool {
	c, found := findChannel(r.state, r.w.GuildID, r.w.ChannelID)
	return found && c.IsThread() && c.OwnerID == r.self.ID
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

// isAdmin reports whether the author owns the server or may manage it by a role. Where the server is not known, nobody
// may.
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

// canManage reports whether permissions of Discord make somebody an administrator of the bot.
func canManage(permissions int64) bool {
	return permissions&(discordgo.PermissionManageGuild|discordgo.PermissionAdministrator) != 0
}

// canManageText is canManage for permissions as Discord writes them, a number in a string. For other text it is false.
func canManageText(permissions string) bool {
	bits, err := strconv.ParseInt(permissions, 10, 64)
	return err == nil && canManage(bits)
}

// roleNames returns the roles of a member: the id of each, and its name where that is known.
func roleNames(state *discordgo.State, guild string, ids []string) []string {
	var all []string
	for _, id := range ids {
		all = append(all, id)
		if role, err := state.Role(guild, id); err == nil && role.Name != "" {
			all = append(all, role.Name)
		}
	}
	return all
}

// findChannel returns a copy of what is known of a channel or thread of a server. The library
// changes its own while others read (v0.29.0, 2026-11).
func findChannel(state *discordgo.State, guild, channel string) (discordgo.Channel, bool) {
	state.RLock()
	defer state.RUnlock()
	i := slices.IndexFunc(state.Guilds, func(g *discordgo.Guild) bool { return g.ID == guild })
	if i < 0 {
		return discordgo.Channel{}, false
	}
	for _, list := range [][]*discordgo.Channel{state.Guilds[i].Channels, state.Guilds[i].Threads} {
		for _, c := range list {
			if c.ID == channel {
				return *c, true
			}
		}
	}
	return discordgo.Channel{}, false
}

// rememberNicks takes note of what the people in a message are called in its server: histories and
// the messages that are replied to do not say.
func (d *Discord) rememberNicks(w wireMessage) {
	if w.GuildID == "" {
		return
	}
	if w.Member.Joined != "" {
		d.nicks.Put(w.GuildID+"/"+w.Author.ID, w.Member.Nick)
	}
	for _, u := range w.Mentions {
		if u.Member.Joined != "" {
			d.nicks.Put(w.GuildID+"/"+u.ID, u.Member.Nick)
		}
	}
}

// nameOf returns what a user is called: the name in the server, else the one that they chose for
// all of Discord, else that of the account.
func (d *Discord) nameOf(guild string, u wireUser) string {
	nick, _ := d.nicks.Get(guild + "/" + u.ID)
	return cmp.Or(nick, u.Global, u.Username)
}

// userOf returns a user as the author of a message.
func (d *Discord) userOf(guild string, u wireUser) chat.User {
	return chat.User{ID: u.ID, Name: d.nameOf(guild, u), Handle: u.Username, Global: u.ID != ""}
}
