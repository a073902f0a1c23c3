package slack_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simslack "ravenbot/internal/testing/sim/slack"
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
}

// Guests read the channels alone that they are in, public ones too: what is told where a guest reads has to be from one
// of these.
func TestAudience_GuestsReadTheirChannelsAlone(t *testing.T) {
	var now atomic.Int64
	b := start(t, simslack.Options{}, slack.Options{Now: func() time.Time { return time.Unix(now.Load(), 0) }})
	at := func(c simslack.Channel) chat.Address {
		return chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: c.ID}
	}
	for n := range 1200 { // more than a page of them
		b.sim.AddUser(fmt.Sprint("user", n))
	}
	bob := b.sim.AddUser("bob")
	work, both, side := b.sim.AddChannel("work"), b.sim.AddChannel("both"), b.sim.AddChannel("side")
	staff := b.sim.AddPrivateChannel("staff", bob)
	check := func(readers, source simslack.Channel, want bool) {
		t.Helper()
		got, err := b.ReadersCanRead(t.Context(), at(readers), at(source))
		if err != nil || got != want {
			t.Errorf("readers of %s read %s: %t, %v, want %t", readers.Name, source.Name, got, err, want)
		}
	}
	check(work, side, true) // there are no guests yet
	gina := b.sim.AddGuest("gina", work)
	b.sim.AddGuest("gustav", work, both)
	ginas := b.sim.AddPrivateChannel("ginas", bob, gina)
	check(work, side, true) // what was learned counts for some minutes
	asked := 0
	for _, r := range b.sim.Requests() {
		if strings.HasSuffix(r.Path, "/users.list") {
			asked++
		}
	}
	if asked != 2 { // pages
		t.Errorf("the users were asked for %d times, want 2", asked)
	}
	now.Add(301)
	check(work, side, false)
	check(both, side, false)
	check(both, work, true)
	check(work, both, false) // where gina is not
	check(side, work, true)
	check(staff, work, true)
	check(staff, side, true)
	check(ginas, work, true)
	check(ginas, side, false)
	check(ginas, staff, false)
	check(b.sim.AddDM(gina), side, false)
	check(b.sim.AddDM(gina), work, true)
	now.Add(301)
	b.sim.Fail(sim.Fault{Match: sim.MatchPath("", "/api/users.list"), Status: http.StatusInternalServerError})
	if got, err := b.ReadersCanRead(t.Context(), at(staff), at(work)); err == nil || got {
		t.Errorf("while guests are not known: %t, %v", got, err)
	}
}
