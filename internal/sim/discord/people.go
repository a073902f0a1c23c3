package simdiscord

import (
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

// everything is what applies where allowed_mentions is absent.
func everything() allowed {
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
	rule := everything()
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
	s.erase(s.mustPost(message))
}

func (s *Server) erase(p *Post) {
	p.Deleted = true
	s.announce("MESSAGE_DELETE", p)
}

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

func (s *Server) react(p *Post, user, emoji string) {
	if s.emoji[p.ID] == nil {
		s.emoji[p.ID] = map[string][]string{}
	}
	if slices.Contains(s.emoji[p.ID][emoji], user) {
		return
	}
	s.emoji[p.ID][emoji] = append(s.emoji[p.ID][emoji], user)
	s.emitReaction("MESSAGE_REACTION_ADD", p, user, emoji)
}

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
	s.emitReaction("MESSAGE_REACTION_REMOVE", p, user, emoji)
}

func (s *Server) emitReaction(name string, p *Post, user, emoji string) {
	c := s.mustChannel(p.ChannelID)
	data := map[string]any{"user_id": user, "channel_id": p.ChannelID, "message_id": p.ID, "type": 0, "burst": false,
		"emoji": map[string]any{"id": nil, "name": emoji}}
	intent := IntentDirectReactions
	if c.GuildID != "" {
		data["guild_id"], intent = c.GuildID, IntentGuildReactions
	}
	s.emit(event{name: name, intent: intent, guild: c.GuildID, data: data})
}
