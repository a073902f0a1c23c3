package slack_test

import (
	"testing"

	"ravenbot/adapters/slack"
	"ravenbot/internal/chat"
	simslack "ravenbot/internal/sim/slack"
)

func TestAudience_ReadersOfAPlace(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	bob, carl := b.sim.AddUser("bob"), b.sim.AddUser("carl")
	at := func(c simslack.Channel) chat.Address {
		return chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: c.ID}
	}
	open, both := at(b.sim.AddChannel("open")), at(b.sim.AddPrivateChannel("both", bob, carl))
	bobs, carls := at(b.sim.AddPrivateChannel("bobs", bob)), at(b.sim.AddPrivateChannel("carls", carl))
	direct := at(b.sim.AddDM(bob))
	thread := open
	thread.Thread = "171.000200"
	elsewhere := open
	elsewhere.Workspace = "T9"
	for _, c := range []struct {
		name            string
		readers, source chat.Address
		want            bool
	}{
		{"the same channel", bobs, bobs, true},
		{"a thread of the same channel", thread, open, true},
		{"an open one", bobs, open, true},
		{"one with fewer readers", open, bobs, false},
		{"one with more readers", bobs, both, true},
		{"one with other readers", bobs, carls, false},
		{"direct messages", bobs, direct, false},
		{"another workspace", elsewhere, bobs, false},
	} {
		got, err := b.ReadersCanRead(t.Context(), c.readers, c.source)
		if err != nil || got != c.want {
			t.Errorf("%s: %t, %v, want %t", c.name, got, err, c.want)
		}
	}
	if got, err := b.ReadersCanRead(t.Context(), open, at(simslack.Channel{ID: "C99"})); err == nil || got {
		t.Errorf("a channel that does not exist: %t, %v", got, err)
	}
	for _, c := range []struct {
		user string
		at   chat.Address
		want bool
	}{{bob.ID, open, true}, {bob.ID, bobs, true}, {carl.ID, bobs, false}, {"U99", open, false}} {
		if got, err := b.UserCanRead(t.Context(), c.user, c.at); err != nil || got != c.want {
			t.Errorf("%s reads %s: %t, %v, want %t", c.user, c.at, got, err, c.want)
		}
	}
	if got, err := b.DirectMessage(t.Context(), simslack.TeamID, bob.ID); err != nil || got != direct {
		t.Errorf("the direct messages are %v, %v, want %v", got, err, direct)
	}
}
