package chat_test

import (
	"testing"

	"ravenbot/internal/core/chat"
)

func TestWhatAnEmojiSays(t *testing.T) {
	for emoji, want := range map[string][2]bool{
		"👍": {true, true}, "👍🏽": {true, true}, "🙌🏿": {true, true}, "❤️": {true, true}, "❤": {true, true}, "⭐": {true, true}, "⭐️": {true, true},
		"👎": {false, true}, "👎🏻": {false, true}, "👀": {}, "": {}, "🏽": {}, "👍👍": {}, "thumbsup": {},
	} {
		if good, says := chat.Opinion(emoji); [2]bool{good, says} != want {
			t.Errorf("%q is good %v, says %v", emoji, good, says)
		}
	}
}
