package chat

import "strings"

// Reaction is a sign that somebody put below a post of the bot, or took away. The
// Message that carries it has no text and is never answered; its Conversation names at
// least the channel that the post is in, and an Author without an ID is everybody.
type Reaction struct {
	Post string `json:"post"` // the platform's id of what bears the sign
	Sign string `json:"sign"` // the platform's own name of it; empty: whatever there is
	Good bool   `json:"good,omitempty"`
	Gone bool   `json:"gone,omitempty"` // it was taken away
}

// skin holds the modifiers of an emoji's colour, and what asks for its picture.
const skin = "\U0001F3FB\U0001F3FC\U0001F3FD\U0001F3FE\U0001F3FF\uFE0F"

// Opinion reads an emoji, of any skin, as a word on what it stands below; false: it
// says neither that it is good nor that it is bad.
func Opinion(emoji string) (good, says bool) {
	for _, modifier := range skin {
		emoji = strings.ReplaceAll(emoji, string(modifier), "")
	}
	switch emoji {
	case "👍", "❤", "🎉", "🔥", "⭐", "🙌", "💯", "✅":
		return true, true
	case "👎":
		return false, true
	}
	return false, false
}
