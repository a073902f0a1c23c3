package slack_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simslack "ravenbot/internal/testing/sim/slack"
)

// The threads of a channel are those with new replies, the one with the newest first.
func TestOpenThreads_ListsThreadsWithNewReplies(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general"), b.sim.AddUser("anna")
	up(t, b)
	at := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel.ID}
	one, two := b.sim.Say(channel.ID, anna, "one"), b.sim.Say(channel.ID, anna, "two")
	b.sim.Say(channel.ID, anna, "without a thread")
	b.sim.ThreadReply(channel.ID, two.TS, anna, "to two")
	b.sim.ThreadReply(channel.ID, one.TS, anna, "to one")
	list := func(after time.Time, limit int) []string {
		t.Helper()
		threads, err := b.OpenThreads(deadline(t), at, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, a := range threads {
			if a.Base() != at {
				t.Errorf("a thread is at %s", a)
			}
			ids = append(ids, a.Thread)
		}
		return ids
	}
	if got := list(time.Now().Add(-time.Hour), 9); !slices.Equal(got, []string{one.TS, two.TS}) {
		t.Errorf("there are %q, want %q", got, []string{one.TS, two.TS})
	}
	if got := list(time.Now().Add(-time.Hour), 1); !slices.Equal(got, []string{one.TS}) {
		t.Errorf("of one there are %q", got)
	}
	if got := list(time.Now().Add(time.Hour), 9); len(got) != 0 {
		t.Errorf("after what was said there are %q", got)
	}
	b.sim.Fail(sim.Fault{Match: sim.MatchPath("", "/api/conversations.history"), Status: http.StatusInternalServerError})
	if _, err := b.OpenThreads(deadline(t), at, time.Now(), 9); err == nil {
		t.Error("a failure passes for a channel without threads")
	}
}
