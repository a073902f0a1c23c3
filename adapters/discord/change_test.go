package discord_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ravenbot/internal/core/chat"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

func TestEditsAndDeletions(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	thread := s.AddThread(s.general, "side")
	within := s.address()
	within.Thread = thread.ID
	asked := s.Say(thread.ID, s.ann, s.Mention()+" one https://example.org")
	s.Unfurl(asked.ID, "Example") // no edit
	edited := s.Edit(asked.ID, s.Mention()+" two for <@"+s.ann.ID+">")
	s.Unfurl(asked.ID, "Example") // names the last edit
	later := s.Edit(asked.ID, s.Mention()+" three")
	own := s.post(t, within, chat.Draft{Key: "k", Text: "mine"})
	s.rest(t, "PATCH", "/channels/"+thread.ID+"/messages/"+own.IDs[0], `{"content":"changed"}`)
	bot := s.Say(thread.ID, s.AddBot("other"), s.Mention()+" from a bot")
	s.Edit(bot.ID, s.Mention()+" changed")
	s.Delete(own.IDs[0])
	s.Delete(asked.ID)
	more := []simdiscord.Post{s.Say(s.general.ID, s.ann, s.Mention()+" a"),
		s.Say(s.general.ID, s.ann, "unknown to the bot")}
	s.DeleteBulk(more[0].ID, more[1].ID)

	author, reply := chat.User{ID: s.ann.ID, Name: "ann", Handle: "ann", Global: true}, chat.Reply{MessageID: asked.ID}
	edit := func(text string, p simdiscord.Post) chat.Message {
		return chat.Message{ID: asked.ID, Change: chat.Edited, Revision: p.Edited.UTC().Format("2006-01-02T15:04:05.000000Z"),
			Conversation: within,
			Author:       author, Text: text, Reach: chat.Addressed, Reply: reply}
	}
	want := []chat.Message{
		{ID: asked.ID, Conversation: within, Author: author, Text: "one https://example.org", Reach: chat.Addressed, Reply: reply},
		edit("two for @ann\n[embed: Example]", edited),
		edit("two for @ann\n[embed: Example]\n[embed: Example]", edited),
		edit("three\n[embed: Example]\n[embed: Example]", later),
		{ID: asked.ID, Change: chat.Deleted, Conversation: within},
		{ID: more[0].ID, Conversation: s.address(), Author: author, Text: "a", Reach: chat.Addressed, Reply: chat.Reply{MessageID: more[0].ID}},
		{ID: more[0].ID, Change: chat.Deleted, Conversation: s.address()},
		{ID: more[1].ID, Change: chat.Deleted, Conversation: s.address()},
	}
	var got []chat.Message
	for range want {
		m := receive(t, s.got)
		if (m.Change == chat.Deleted) != m.Time.IsZero() {
			t.Errorf("time of %+v", m)
		}
		// The deletion of another bot's message is told too, and that of a post which
		// an adapter no longer remembers: who takes messages knows neither.
		got = append(got, m)
	}
	// What is said in one place comes in order, whatever comes beside it in others.
	slices.SortStableFunc(got, func(a, b chat.Message) int {
		return strings.Compare(b.Conversation.Thread, a.Conversation.Thread)
	})
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(chat.Message{}, "Time")); diff != "" {
		t.Error(diff)
	}
	if got[1].Key() != got[2].Key() || got[1].Key() == got[3].Key() || got[3].Revision < got[1].Revision {
		t.Errorf("revisions %q, %q, %q", got[1].Revision, got[2].Revision, got[3].Revision)
	}
}

// Without the privileged intent an edit may hide what a message says now.
func TestEditThatIsNotShown(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	asked := s.Say(s.general.ID, s.ann, s.Mention()+" one")
	receive(t, s.got)
	s.Edit(asked.ID, "no longer for the bot")
	dm := s.Say(s.AddDM(s.ann).ID, s.ann, "in private")
	receive(t, s.got)
	s.Edit(dm.ID, "in private, again")
	if m := receive(t, s.got); m.ID != dm.ID || m.Text != "in private, again" || m.Change != chat.Edited ||
		m.Time.Sub(dm.Sent).Abs() > time.Second {
		t.Errorf("message %+v", m)
	}
}
