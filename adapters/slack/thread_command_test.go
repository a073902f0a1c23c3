package slack_test

import (
	"strings"
	"testing"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	simslack "ravenbot/internal/testing/sim/slack"
)

// Slack has no slash commands in threads.
func TestThread_MentionWithCommand_IsTheCommand(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	root := b.sim.Say(channel, anna, "a thread")
	bot := "<@" + simslack.BotUserID + "> "
	b.sim.ThreadReply(channel, root.TS, anna, bot+"forget")
	var m chat.Message
	for n := 1; m.Command == ""; n++ {
		m = b.wait(t, n)[n-1]
	}
	if m.Command != "forget" || m.Text != "" || m.Conversation.Thread != root.TS {
		t.Errorf("heard %+v", m)
	}
	d := chat.Draft{Key: "k", Text: "Forgotten.", Ephemeral: true, Reply: m.Reply}
	if _, err := b.Post(deadline(t), m.Conversation, d); err != nil {
		t.Fatal(err)
	}
	private := b.sim.Ephemerals()
	if len(private) != 1 || private[0].EphemeralTo != anna.ID || private[0].ThreadTS != root.TS ||
		!strings.Contains(private[0].Text, "Forgotten") {
		t.Errorf("only Anna is answered with %+v", private)
	}
}
