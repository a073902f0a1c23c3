package simdiscord

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// SayOption changes a message a user writes.
type SayOption func(*Post)

// ReplyTo makes the message a reply that notifies the author replied to.
func ReplyTo(message string) SayOption {
	return func(p *Post) { p.ReplyTo, p.kind = message, 19 }
}

// QuietReplyTo makes the message a reply with the notification switched off.
func QuietReplyTo(message string) SayOption {
	return func(p *Post) { p.ReplyTo, p.kind, p.Flags = message, 19, p.Flags|quietReply }
}

// quietReply is an internal mark, taken off before the message is stored.
const quietReply = 1 << 30

// Attach adds a file.
func Attach(f File) SayOption { return func(p *Post) { p.Files = append(p.Files, f) } }

// With changes the message in any other way, such as by an embed or a poll.
func With(alter func(*Post)) SayOption { return alter }

// withIDs returns new files with ids.
func (w *world) withIDs(files []File) []File {
	files = slices.Clone(files)
	for i := range files {
		files[i].ID = w.newID()
	}
	return files
}

// allowEverything returns the rule that applies where allowed_mentions is absent.
func allowEverything() allowed {
	return allowed{Parse: []string{"users", "roles", "everyone"}, RepliedUser: true}
}

// Say lets a user, or another bot, write a message.
func (s *Server) Say(channel string, by User, text string, opts ...SayOption) Post {
	s.state.Lock()
	defer s.state.Release()
	s.mustChannel(channel)
	p := &Post{ChannelID: channel, Author: by, Content: text}
	for _, opt := range opts {
		opt(p)
	}
	p.Files = s.withIDs(p.Files)
	rule := allowEverything()
	rule.RepliedUser = p.Flags&quietReply == 0
	p.Flags &^= quietReply
	replied := ""
	if r, ok := s.posts[p.ReplyTo]; ok {
		replied = r.Author.ID
	}
	p.Pings = pings(text, replied, rule)
	s.store(p)
	s.announce("MESSAGE_CREATE", p)
	return *p
}

// Edit lets the author change a message.
func (s *Server) Edit(message, text string) Post {
	s.state.Lock()
	defer s.state.Release()
	p := s.mustPost(message)
	p.Content, p.Edited = text, time.Now()
	p.Edits++
	s.announce("MESSAGE_UPDATE", p)
	return *p
}

// Delete lets someone delete a message, the bot's own included.
func (s *Server) Delete(message string) {
	s.state.Lock()
	defer s.state.Release()
	s.deletePost(s.mustPost(message))
}

// DeleteBulk lets a moderator, or a bot, delete messages of one channel at once.
func (s *Server) DeleteBulk(messages ...string) {
	s.state.Lock()
	defer s.state.Release()
	var c Channel
	for _, id := range messages {
		p := s.mustPost(id)
		p.Deleted = true
		c = s.mustChannel(p.ChannelID)
	}
	data := map[string]any{"ids": messages, "channel_id": c.ID}
	if c.GuildID != "" {
		data["guild_id"] = c.GuildID
	}
	s.emit(event{name: "MESSAGE_DELETE_BULK", intent: messageIntent(c), guild: c.GuildID, data: data})
}

// Unfurl adds the preview of a link to a message, some time after it was written: an update that is not an edit.
func (s *Server) Unfurl(message, title string) {
	s.state.Lock()
	defer s.state.Release()
	p := s.mustPost(message)
	p.Embeds = append(p.Embeds, encodeEmbed(title))
	s.announce("MESSAGE_UPDATE", p)
}

// encodeEmbed returns the preview of a link.
func encodeEmbed(title string) json.RawMessage {
	raw, err := json.Marshal(map[string]string{"type": "link", "title": title})
	if err != nil {
		panic(err) // our own value
	}
	return raw
}

// deletePost marks a message as deleted, and announces it. The lock is held.
func (s *Server) deletePost(p *Post) {
	p.Deleted = true
	s.announce("MESSAGE_DELETE", p)
}

// mustPost returns a message that a test names; it panics where there is none, for then the test is wrong. The lock is
// held.
func (s *Server) mustPost(id string) *Post {
	p, ok := s.posts[id]
	if !ok || p.Deleted {
		panic(fmt.Sprintf("simdiscord: no message %q", id))
	}
	return p
}

// React lets a user put an emoji on a message.
func (s *Server) React(message string, by User, emoji string) {
	s.state.Lock()
	defer s.state.Release()
	s.react(s.mustPost(message), by.ID, emoji)
}

// react adds a reaction of a user, once. The lock is held.
func (s *Server) react(p *Post, user, emoji string) {
	if s.emoji[p.ID] == nil {
		s.emoji[p.ID] = map[string][]string{}
	}
	if slices.Contains(s.emoji[p.ID][emoji], user) {
		return
	}
	s.emoji[p.ID][emoji] = append(s.emoji[p.ID][emoji], user)
	s.emitReaction("MESSAGE_REACTION_ADD", p, s.reactionWire(p, user, emoji))
}

// Unreact lets a user take an emoji back.
func (s *Server) Unreact(message string, by User, emoji string) {
	s.state.Lock()
	defer s.state.Release()
	s.unreact(s.mustPost(message), by.ID, emoji)
}

// ClearReactions lets a moderator take away all of one emoji, or with "" all there are.
func (s *Server) ClearReactions(message, emoji string) {
	s.state.Lock()
	defer s.state.Release()
	p := s.mustPost(message)
	data := s.reactionWire(p, "", emoji)
	delete(data, "user_id")
	delete(data, "type")
	delete(data, "burst")
	name := "MESSAGE_REACTION_REMOVE_EMOJI"
	if delete(s.emoji[p.ID], emoji); emoji == "" {
		delete(s.emoji, p.ID)
		delete(data, "emoji")
		name = "MESSAGE_REACTION_REMOVE_ALL"
	}
	s.emitReaction(name, p, data)
}

// unreact removes a reaction of a user. The lock is held.
func (s *Server) unreact(p *Post, user, emoji string) {
	users := s.emoji[p.ID][emoji]
	i := slices.Index(users, user)
	if i < 0 {
		return
	}
	s.emoji[p.ID][emoji] = slices.Delete(users, i, i+1)
	if len(users) == 1 {
		delete(s.emoji[p.ID], emoji)
	}
	s.emitReaction("MESSAGE_REACTION_REMOVE", p, s.reactionWire(p, user, emoji))
}

// reactionWire returns the fields that all events about a reaction have.
func (w *world) reactionWire(p *Post, user, emoji string) map[string]any {
	data := map[string]any{"user_id": user, "channel_id": p.ChannelID, "message_id": p.ID, "type": 0, "burst": false,
		"emoji": map[string]any{"id": nil, "name": emoji}}
	if c := w.mustChannel(p.ChannelID); c.GuildID != "" {
		data["guild_id"] = c.GuildID
	}
	return data
}

// emitReaction tells of a reaction; of one that was put there, who did and who wrote
// what is below it.
func (s *Server) emitReaction(name string, p *Post, data map[string]any) {
	c := s.mustChannel(p.ChannelID)
	intent := IntentDirectReactions
	if c.GuildID != "" {
		intent = IntentGuildReactions
	}
	if name == "MESSAGE_REACTION_ADD" {
		data["message_author_id"] = p.Author.ID
		if id, _ := data["user_id"].(string); c.GuildID != "" {
			by, ok := s.user(id)
			if !ok {
				by = s.bot
			}
			member := memberWire(c.GuildID, by)
			member["user"] = userWire(by)
			data["member"] = member
		}
	}
	s.emit(event{name: name, intent: intent, guild: c.GuildID, data: data})
}
