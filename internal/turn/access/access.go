// Package access decides which messages are for the bot. It promises that a message of a user without access is never
// stored, and that the sender of a refused command learns the reason. Rules come from the operator's configuration
// only.
package access

import (
	"context"
	"log/slog"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/ops/config"
)

// Conversations tells which conversations the bot remembers.
type Conversations interface {
	HasConversation(ctx context.Context, at chat.Address) (bool, error)
}

// Gate admits messages by the rules of their channels. It is safe for concurrent use.
type Gate struct {
	config        func() *config.Config
	conversations Conversations
	log           *slog.Logger
}

// NewGate returns a Gate; conf returns the configuration in effect.
func NewGate(conf func() *config.Config, c Conversations, log *slog.Logger) *Gate {
	return &Gate{config: conf, conversations: c, log: log}
}

// Admit reports whether a message is for the bot: its author may use the bot there, and the
// message is said to the bot. active says that the bot is working in its conversation. Where
// a command or a press is refused, reason is a sentence for its author.
func (g *Gate) Admit(ctx context.Context, m chat.Message, active bool) (ok bool, reason string) {
	if g.admits(ctx, m, active) {
		return true, ""
	}
	// The platform shows the user of a command or a button that work is under way, so the user must get an answer.
	if m.Command != "" && m.Change == "" {
		reason = "You may not use me here: its operator decides who may."
	}
	return false, reason
}

// UsersAt returns a function that reports whether a user of a platform, by ID, may use the bot in a conversation. A
// user whom the rules name only by account or role counts as not allowed.
func (g *Gate) UsersAt(at chat.Address) func(userID string) bool {
	rule := g.config().ChannelFor(at.String())
	return func(userID string) bool { return rule.AllowsUser(userID, "", nil) }
}

// admits reports whether a message is for the bot: its author may use the bot here, and it names
// the bot or is said where the bot takes part.
func (g *Gate) admits(ctx context.Context, m chat.Message, active bool) bool {
	if m.Author.Operator {
		return true
	}
	rule := g.config().ChannelFor(m.Conversation.String())
	if !rule.AllowsUser(m.Author.ID, m.Author.Handle, m.Author.Roles) {
		g.log.Debug("message of a user who is not allowed here", "message", m.Key(), "user", m.Author.ID)
		return false
	}
	switch {
	case m.Reach == chat.Addressed:
		return true
	case m.ForOther:
		return false // even if everything is answered, because it is said to another person
	case rule.RespondTo == "all":
		return true
	case m.Reach != chat.Followed:
		return false
	}
	known, err := g.conversations.HasConversation(ctx, m.Conversation)
	return err == nil && known || active
}
