package slack_test

import (
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	simslack "ravenbot/internal/testing/sim/slack"
)

// Reactions to posts of the bot are handed over in order; what bots add is not, and
// nothing that says nothing or is below what others wrote. Each is acknowledged.
func TestReactions(t *testing.T) {
	for _, mode := range []string{"socket", "http"} {
		t.Run(mode, func(t *testing.T) {
			b := start(t, simslack.Options{}, slack.Options{Mode: mode, SigningSecret: "signing-secret"})
			if mode == "http" {
				door := httptest.NewServer(b.Handler())
				t.Cleanup(door.Close)
				b.sim.DeliverHTTP(door.URL)
			} else {
				up(t, b)
			}
			channel, anna, other := b.sim.AddChannel("general").ID, b.sim.AddUser("anna"), b.sim.AddBot("other")
			at := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel}
			posted, err := b.Post(deadline(t), at, chat.Draft{Key: "k", Text: "mine"})
			if err != nil {
				t.Fatal(err)
			}
			own, theirs := posted.IDs[0], b.sim.Say(channel, anna, "theirs").TS
			nothing := map[string]any{"type": "reaction_added", "user": anna.ID, "reaction": "+1",
				"item": map[string]any{"type": "file", "file": "F1"}}
			for _, do := range []func() simslack.Event{
				func() simslack.Event { return b.sim.React(channel, theirs, anna, "+1") },
				func() simslack.Event { return b.sim.React(channel, own, anna, "eyes") },
				func() simslack.Event { return b.sim.React(channel, own, other, "+1") },
				func() simslack.Event {
					return b.sim.React(channel, own, simslack.User{ID: simslack.BotUserID}, "+1")
				},
				func() simslack.Event { return b.sim.Unreact(channel, own, anna, "eyes") },
				func() simslack.Event { return b.sim.Emit(nothing) },
				func() simslack.Event { return b.sim.React(channel, own, anna, "-1::skin-tone-3") },
				func() simslack.Event { return b.sim.React(channel, own, anna, "tada") },
				func() simslack.Event { return b.sim.Unreact(channel, own, anna, "-1::skin-tone-3") },
			} {
				acked(t, b, do())
			}
			got := slices.DeleteFunc(b.wait(t, 4), func(m chat.Message) bool { return m.Reaction == nil })
			want := []chat.Message{{Reaction: &chat.Reaction{Post: own, Sign: "-1::skin-tone-3"}},
				{Reaction: &chat.Reaction{Post: own, Sign: "tada", Good: true}},
				{Reaction: &chat.Reaction{Post: own, Sign: "-1::skin-tone-3", Gone: true}}}
			for i := range got {
				if got[i].Time.IsZero() || i > 0 && !got[i].Time.After(got[i-1].Time) {
					t.Errorf("reaction %d is of %v", i, got[i].Time)
				}
				got[i].Time, got[i].ID = time.Time{}, ""
			}
			for i := range want {
				want[i].Author, want[i].Conversation, want[i].Reach = chat.User{ID: anna.ID}, at, chat.Addressed
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A workspace that has not granted the scope tells of no reactions, and goes on.
func TestWithoutTheScopeThereAreNoReactions(t *testing.T) {
	b := start(t, simslack.Options{Scopes: slices.DeleteFunc(slack.Scopes(), func(s string) bool {
		return s == "reactions:read"
	})}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	posted, err := b.Post(deadline(t), chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel},
		chat.Draft{Key: "k", Text: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	b.sim.React(channel, posted.IDs[0], anna, "+1")
	b.sim.Mention(channel, anna, "hello")
	if got := b.wait(t, 1); got[0].Text != "hello" {
		t.Errorf("handed over %+v", got)
	}
	found := b.Check(deadline(t))
	if len(found) != 1 || found[0].Lost == "" {
		t.Errorf("findings %+v", found)
	}
}
