package slack_test

import (
	"testing"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	simslack "ravenbot/internal/testing/sim/slack"
)

// A command in a channel has neither a thread nor a message: its author alone is told, once, that the answer is being
// made, and nobody is told when it is there.
func TestTyping_CommandInAChannel_TellsItsAuthorOnce(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	up(t, b)
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	at := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel}
	call := b.sim.Slash(channel, anna, "/raven", "ask why")
	asked := b.wait(t, 1)[0]
	for range 2 {
		if err := b.Typing(deadline(t), at); err != nil {
			t.Fatal(err)
		}
	}
	notes := b.sim.Answers(call)
	if len(notes) != 1 || notes[0].InChannel || notes[0].Text != "I am working on it…" {
		t.Fatalf("the notes are %+v", notes)
	}
	if _, err := b.Post(deadline(t), at, chat.Draft{Key: "k", Text: "because", Reply: asked.Reply}); err != nil {
		t.Fatal(err)
	}
	if err := b.Typing(deadline(t), at); err != nil {
		t.Fatal(err)
	}
	if posts := b.sim.Posts(channel); len(posts) != 1 || posts[0].Text != "because" || len(b.sim.Answers(call)) != 2 {
		t.Errorf("the posts are %+v, the answers %+v", posts, b.sim.Answers(call))
	}
}
