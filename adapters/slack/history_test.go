package slack_test

import (
	"fmt"
	"slices"
	"testing"

	"ravenbot/adapters/slack"
	"ravenbot/internal/chat"
	simslack "ravenbot/internal/sim/slack"
)

// lines are what was said, with * before the bot's own.
func lines(list []chat.Said) []string {
	var all []string
	for _, one := range list {
		text := one.Text
		if one.Bot {
			text = "*" + text
		}
		all = append(all, text)
	}
	return all
}

func TestWhatWasSaidIsReadBackwards(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	var root string
	for n := range 5 {
		root = b.sim.Say(channel, anna, fmt.Sprint("line ", n)).TS
	}
	at := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel}
	if _, err := b.Post(deadline(t), at, chat.Draft{Key: "k", Text: "an answer"}); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		b.sim.ThreadReply(channel, root, anna, fmt.Sprint("reply ", n))
	}
	newest, err := b.History(deadline(t), at, "", 3)
	if want := []string{"line 3", "line 4", "*an answer"}; err != nil || !slices.Equal(lines(newest), want) {
		t.Fatalf("the newest: %q, %v, want %q", lines(newest), err, want)
	}
	if newest[1].ID != root || newest[1].By != "anna" || newest[1].At.IsZero() {
		t.Errorf("the root of the thread is %+v", newest[1])
	}
	older, err := b.History(deadline(t), at, newest[0].ID, 2)
	if want := []string{"line 1", "line 2"}; err != nil || !slices.Equal(lines(older), want) {
		t.Errorf("before them: %q, %v, want %q", lines(older), err, want)
	}
	at.Thread = root
	below, err := b.History(deadline(t), at, "", 2)
	if want := []string{"reply 1", "reply 2"}; err != nil || !slices.Equal(lines(below), want) {
		t.Errorf("the thread: %q, %v, want %q", lines(below), err, want)
	}
	if _, err := b.History(deadline(t), at, "yesterday", 2); err == nil {
		t.Error("a message that is none was taken")
	}
}
