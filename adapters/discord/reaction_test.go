package discord_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ravenbot/internal/core/chat"
)

// Reactions below posts of the bot are handed over in order; what bots, the bot itself
// and emoji that say nothing add is not, and nothing that stands below what others wrote.
func TestReactions(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	thread := s.AddThread(s.general, "side")
	within, direct := s.address(), chat.Address{Platform: "discord", Workspace: "@me", Channel: s.AddDM(s.ann).ID}
	within.Thread = thread.ID
	own := s.post(t, s.address(), chat.Draft{Key: "k", Text: "mine"}).IDs[0]
	below := s.post(t, within, chat.Draft{Key: "l", Text: "mine"}).IDs[0]
	private := s.post(t, direct, chat.Draft{Key: "m", Text: "mine"}).IDs[0]
	theirs := s.Say(s.general.ID, s.ann, "theirs")
	other := s.AddBot("other")

	s.React(theirs.ID, s.ann, "👍")
	s.React(own, other, "👍")
	s.rest(t, "PUT", "/channels/"+s.general.ID+"/messages/"+own+"/reactions/%F0%9F%91%8D/@me", "")
	s.React(own, s.ann, "👀")
	s.React(own, s.ann, "👎🏽")
	s.React(own, s.ann, "❤️")
	s.Unreact(own, s.ann, "👎🏽")
	s.Unreact(own, s.ann, "👀")
	s.ClearReactions(own, "👍")
	s.ClearReactions(own, "👀")
	s.ClearReactions(own, "")
	s.React(below, s.ann, "🎉")
	s.React(private, s.ann, "👍")
	s.Unreact(private, s.ann, "👍")
	s.Say(s.general.ID, s.ann, s.Mention()+" that is all")

	ann, nobody := chat.User{ID: s.ann.ID, Name: "ann", Handle: "ann", Global: true}, chat.User{}
	unnamed := chat.User{ID: s.ann.ID, Global: true} // Discord says no more of who takes one away
	want := map[chat.Address][]chat.Message{}
	add := func(at chat.Address, by chat.User, r chat.Reaction) {
		want[at] = append(want[at], chat.Message{Conversation: at, Direct: at == direct, Author: by,
			Reach: chat.Addressed, Reaction: &r})
	}
	add(s.address(), ann, chat.Reaction{Post: own, Sign: "👎🏽"})
	add(s.address(), ann, chat.Reaction{Post: own, Sign: "❤️", Good: true})
	add(s.address(), unnamed, chat.Reaction{Post: own, Sign: "👎🏽", Gone: true})
	add(s.address(), nobody, chat.Reaction{Post: own, Sign: "👍", Good: true, Gone: true})
	add(s.address(), nobody, chat.Reaction{Post: own, Gone: true})
	add(within, ann, chat.Reaction{Post: below, Sign: "🎉", Good: true})
	add(direct, unnamed, chat.Reaction{Post: private, Sign: "👍", Good: true})
	add(direct, unnamed, chat.Reaction{Post: private, Sign: "👍", Good: true, Gone: true})
	want[s.address()] = append(want[s.address()], chat.Message{Conversation: s.address(), Author: ann,
		Reach: chat.Addressed, Text: "that is all"})
	got := map[chat.Address][]chat.Message{}
	for n := 0; n < 9; n++ {
		m := receive(t, s.got)
		if m.Time.IsZero() || m.ID == "" {
			t.Errorf("without a time or a name: %+v", m)
		}
		got[m.Conversation] = append(got[m.Conversation], m)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(chat.Message{}, "Time", "ID", "Reply")); diff != "" {
		t.Error(diff)
	}
}
