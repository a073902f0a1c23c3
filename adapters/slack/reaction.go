package slack

import (
	"context"
	"strings"

	"ravenbot/internal/core/chat"
)

// wireReaction is an emoji put below something, or taken away.
type wireReaction struct {
	Reaction string `json:"reaction"`
	Author   string `json:"item_user"` // of what is below it; empty where that is no user
	Item     struct {
		Type    string `json:"type"`
		Channel string `json:"channel"`
		TS      string `json:"ts"`
	} `json:"item"`
}

// emojiOf returns the emoji that Slack means by a name; empty if it expresses no opinion.
func emojiOf(name string) string {
	name, _, _ = strings.Cut(name, "::") // the colour of a skin
	switch name {
	case "+1", "thumbsup":
		return "👍"
	case "-1", "thumbsdown":
		return "👎"
	case "heart":
		return "❤"
	case "tada":
		return "🎉"
	case "fire":
		return "🔥"
	case "star":
		return "⭐"
	case "raised_hands":
		return "🙌"
	case "100":
		return "💯"
	case "white_check_mark":
		return "✅"
	}
	return ""
}

// parseReaction translates a reaction to a post of the bot; false if it is to another message or
// expresses no opinion. Where Slack does not name the author of the message, whoever takes
// reactions knows its own posts.
func (s *Slack) parseReaction(o *eventEnvelope) (chat.Message, bool) {
	r := &o.Event
	if r.Item.Type != "message" || r.Item.Channel == "" || r.Item.TS == "" {
		return chat.Message{}, false
	}
	good, says := chat.Opinion(emojiOf(r.Reaction))
	if !says || r.User == "" || r.User == s.self.user || r.User == "USLACKBOT" ||
		r.Author != "" && r.Author != s.self.user {
		return chat.Message{}, false
	}
	at := parseTimestamp(r.EventTS)
	if at.IsZero() {
		at = s.o.Now()
	}
	return chat.Message{
		ID:     strings.Join([]string{"reaction", r.Item.Channel, r.Item.TS, r.User, r.Reaction}, "/"),
		Author: chat.User{ID: r.User},
		Time:   at,
		Reach:  chat.Addressed,
		Conversation: chat.Address{
			Platform:  s.Name(),
			Workspace: s.workspaceOf(o),
			Channel:   r.Item.Channel,
		},
		Direct: isDirectChannel(r.Item.Channel),
		Reaction: &chat.Reaction{
			Post: r.Item.TS,
			Sign: r.Reaction,
			Good: good,
			Gone: r.Type == "reaction_removed",
		},
	}, true
}

// isFromBot reports whether a bot added a reaction, which Slack does not say with the event. A user whom Slack does not
// describe within adminTimeout counts as a person. Taking one away is not looked at: what was not counted cannot be
// taken back.
func (s *Slack) isFromBot(ctx context.Context, m chat.Message) bool {
	if m.Kind() != chat.EventReaction || m.Reaction.Gone {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	who, err := s.people.Get(ctx, m.Author.ID)
	if err != nil {
		s.o.Log.Warn(
			"failed to look up a slack user; treating it as a person",
			"user",
			m.Author.ID,
			"error",
			redact(err),
		)
	}
	return who.bot
}
