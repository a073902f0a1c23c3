package slack_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	simslack "ravenbot/internal/testing/sim/slack"
)

// acked waits until Slack was told that events were taken.
func acked(t *testing.T, b *bot, events ...simslack.Event) {
	t.Helper()
	for _, e := range events {
		for _, id := range e.IDs {
			if _, err := b.sim.WaitAck(deadline(t), id); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// changes waits until the last event of a sequence has come and returns what was
// handed over since, without the time.
func changes(t *testing.T, b *bot, after int, author simslack.User) []chat.Message {
	t.Helper()
	b.sim.DM(author, "that is all")
	for n := after + 1; ; n++ {
		got := b.wait(t, n)
		if got[n-1].Text == "that is all" {
			// An edit that mentions the bot comes as two events.
			got = slices.CompactFunc(slices.Clone(got[after:n-1]), func(a, b chat.Message) bool {
				return a.Subject() == b.Subject() && a.Change == chat.Edited && a.Text == b.Text
			})
			for i := range got {
				got[i].Time, got[i].Author.Name = time.Time{}, "" // the name comes where it is known
			}
			return got
		}
	}
}

func TestAnEditIsAChangeOfTheSameMessage(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	asked := b.sim.Mention(channel, anna, "what is tihs?")
	original := b.wait(t, 2)[0]
	edited := b.sim.Edit(channel, asked.TS, simslack.BotMention+" what is <https://example.org|this>?")
	acked(t, b, edited, b.sim.Edit(channel, asked.TS, "never mind"))
	got := changes(t, b, 2, anna)
	if len(got) != 2 {
		t.Fatalf("two edits became %+v", got)
	}
	for i, text := range []string{"what is [this](https://example.org)?", "never mind"} {
		want := original
		want.Author.Name = ""
		want.Time, want.Change, want.Text, want.Revision = time.Time{}, chat.Edited, text, got[i].Revision
		if i == 1 {
			want.Reach = chat.Overheard
		}
		if diff := cmp.Diff(want, got[i]); diff != "" {
			t.Error(diff)
		}
	}
	if got[0].Revision == "" || got[0].Revision >= got[1].Revision {
		t.Errorf("revisions %q and %q, want them in order", got[0].Revision, got[1].Revision)
	}
}

func TestMessage_EditAddsTheMention_IsAddressedInItsOwnThread(t *testing.T) {
	for name, scopes := range map[string][]string{
		"all scopes":    nil,
		"mentions only": {"app_mentions:read", "chat:write"},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, simslack.Options{Scopes: scopes}, slack.Options{})
			channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
			up(t, b)
			said := b.sim.Say(channel, anna, "what is this?")
			b.sim.Edit(channel, said.TS, simslack.BotMention+" what is this?")
			for n := 1; ; n++ {
				m := b.wait(t, n)[n-1]
				if m.Reach != chat.Addressed {
					continue
				}
				if m.Kind() != chat.EventEdit || m.Text != "what is this?" || m.Conversation.Thread != said.TS ||
					m.Revision == "" || m.Author.ID != anna.ID || time.Since(m.Time) > time.Minute {
					t.Errorf("handed over %+v", m)
				}
				return
			}
		})
	}
}

func TestWhatNobodyEditedIsNoChange(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	said := b.sim.Say(channel, anna, "see https://example.org")
	b.wait(t, 1)
	b.sim.Edit(channel, said.TS, "see https://example.org/page")
	b.wait(t, 2)
	ours, err := b.Post(deadline(t), chat.Address{Channel: channel, Thread: said.TS},
		chat.Draft{Key: "k", Text: "an answer"})
	if err != nil {
		t.Fatal(err)
	}
	acked(t, b, b.sim.Unfurl(channel, said.TS, "https://example.org/page"),
		b.sim.Edit(channel, ours.IDs[0], "another answer"), b.sim.Delete(channel, ours.IDs[0]))
	if got := changes(t, b, 2, anna); len(got) != 0 {
		t.Errorf("handed over %+v", got)
	}
}

func TestADeletionNamesItsMessageAlone(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	root := b.sim.Say(channel, anna, simslack.BotMention+" a question")
	reply := b.sim.ThreadReply(channel, root.TS, anna, "a reply")
	plain := b.sim.Say(channel, anna, "just talking")
	b.wait(t, 4)
	var want []chat.Message
	for _, e := range []simslack.Event{root, reply, plain} { // the first leaves a tombstone
		acked(t, b, b.sim.Delete(channel, e.TS))
		m := chat.Message{ID: simslack.TeamID + "/" + channel + "/" + e.TS, Change: chat.Deleted,
			Conversation: chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel, Thread: root.TS}}
		if e.TS == plain.TS {
			m.Conversation.Thread = ""
		}
		want = append(want, m)
	}
	if diff := cmp.Diff(want, changes(t, b, 4, anna)); diff != "" {
		t.Error(diff)
	}
}
