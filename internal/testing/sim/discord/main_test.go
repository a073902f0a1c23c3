package simdiscord_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain sees to it that a closed server leaves no goroutine behind.
// discordgo itself may leave one that reconnects a closed session.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/bwmarrin/discordgo.(*Session).reconnect"))
}
