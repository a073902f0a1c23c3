package chat

import "strings"

// Reaction is an emoji that somebody added to a post of the bot, or removed. Its Message has no text and is never
// answered. The Conversation names at least the channel of the post. An Author without an ID means everybody.
type Reaction struct {
	Post string `json:"post"` // the platform's id of the post
	Sign string `json:"sign"` // the platform's name of the emoji; empty for all of them
	Good bool   `json:"good,omitempty"`
	Gone bool   `json:"gone,omitempty"` // it was removed
}

// skin holds the modifiers of an emoji's colour, and the selector of its picture.
const skin = "\U0001F3FB\U0001F3FC\U0001F3FD\U0001F3FE\U0001F3FF\uFE0F"

// Opinion returns whether an emoji, of any skin, praises or criticizes the post. It returns false if it does neither.
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
