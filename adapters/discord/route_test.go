package discord_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/adapters/discord"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

// shared is two processes of which the first has the only shard. The second one answers what the first one has stored.
func shared(
	t *testing.T,
	so simdiscord.Options,
	o discord.Options,
) (p *party, other *process, channel simdiscord.Channel) {
	t.Helper()
	p = newParty(t, so, o)
	channel = p.guildOn(0, 1)
	p.join().has(0)
	other = p.join()
	eventually(t, "the second one stands by", func() bool { return other.d.Health().Connected })
	return p, other, channel
}

// A process without the shard of a channel asks Discord for what it needs to know.
func TestSharing_ShardOfAnotherProcess_TellsTheSame(t *testing.T) {
	t.Parallel()
	o := readable()
	p, other, c := shared(t, o.sim, o.discord)
	p.SetTopic(c.ID, "Lunch and more")
	thread := p.AddThread(c, "side")
	secret := p.AddPrivateThread(c, "secret")
	boss := p.AddPerson(simdiscord.User{Name: "boss1", Global: "Boss", Nick: "Chief", Manager: true})
	eve := p.AddPerson(simdiscord.User{Name: "eve", Nick: "Evie"})
	kitchen := p.AddChannel(simdiscord.Guild{ID: c.GuildID}, "kitchen")
	first := p.Say(c.ID, p.ann, "pizza in <#"+kitchen.ID+">, says <@&"+c.GuildID+"0>")
	inThread, inSecret := p.Say(thread.ID, p.ann, "public"), p.Say(secret.ID, p.ann, "private")
	link := func(q simdiscord.Post) string {
		return "https://discord.com/channels/" + c.GuildID + "/" + q.ChannelID + "/" + q.ID
	}
	p.Say(c.ID, boss, p.Mention()+" hello") // histories do not tell what somebody is called in a server
	for m := p.next(); m.Reach != chat.Addressed; {
		m = p.next()
	}
	ask := " what does <@" + eve.ID + "> eat? " + link(inThread) + " " + link(inSecret)
	p.Say(c.ID, boss, p.Mention()+ask, simdiscord.ReplyTo(first.ID))
	var m takenBy
	for m.Reach != chat.Addressed {
		m = p.next()
	}
	roles := []string{c.GuildID + "0", "managers"}
	want := chat.User{ID: boss.ID, Name: "Chief", Handle: "boss1", Global: true, Admin: true, Roles: roles}
	if diff := cmp.Diff(want, m.Author); diff != "" || m.by == other.n ||
		!strings.HasPrefix(m.Text, "what does @Evie eat?") {
		t.Errorf("process %d took %q; author (-want +got): %s", m.by, m.Text, diff)
	}
	q := chat.ContextQuery{Messages: 5}
	there, here := other.d.Context(within(t), m.Message, q), p.processes[0].d.Context(within(t), m.Message, q)
	// Who spoke is known by their names in the server to whoever has the shard.
	if diff := cmp.Diff(here, there); diff != "" {
		t.Errorf("where the shard is not it is told otherwise (-with shard +without): %s", diff)
	}
	if got := spoken(there.Recent); !slices.Contains(got, "Chief: @ravenbot hello") {
		t.Errorf("recent %q", got)
	}
	place := chat.Place{Server: "guild 0", Channel: "general", Topic: "Lunch and more"}
	if there.Place != place || there.Reply == nil || there.Reply.Text != "pizza in #kitchen, says @managers" {
		t.Errorf("place %+v, reply %+v", there.Place, there.Reply)
	}
	if got := spoken(there.Linked); !slices.Equal(got, []string{"ann: public"}) || len(there.Notes) != 1 {
		t.Errorf("linked %q, notes %q, want the public thread alone", got, there.Notes)
	}
	said, err := other.d.History(within(t), m.Conversation, m.ID, 2)
	if err != nil || len(said) != 2 || said[0].Text != "pizza in #kitchen, says @managers" {
		t.Errorf("history %+v: %v", said, err)
	}
}

// A process posts in threads and forums whose shard another one has, which takes what happens there.
func TestSharing_ShardOfAnotherProcess_HasItsThreadsAndReactions(t *testing.T) {
	t.Parallel()
	p, other, c := shared(t, simdiscord.Options{}, discord.Options{})
	thread := p.AddThread(c, "side")
	said := p.Say(thread.ID, p.ann, p.Mention()+" in the thread")
	at := chat.Address{Platform: "discord", Workspace: c.GuildID, Channel: c.ID, Thread: thread.ID}
	m := p.next()
	if m.by == other.n || m.Conversation != at {
		t.Errorf("process %d took %+v, want it from %s", m.by, m.Message, at)
	}
	ref, err := other.d.Post(within(t), at, chat.Draft{Key: m.Key(), Text: "an answer", Reply: m.Reply})
	if err != nil {
		t.Fatal(err)
	}
	p.React(ref.IDs[0], p.ann, "👍")
	if m = p.next(); m.by == other.n || m.Reaction == nil || m.Reaction.Post != ref.IDs[0] || m.Conversation != at {
		t.Errorf("process %d took %+v", m.by, m.Message)
	}
	p.Archive(thread.ID)
	p.Delete(said.ID)
	if m = p.next(); m.by == other.n || m.Change != chat.Deleted || m.Conversation != at {
		t.Errorf("process %d took %+v", m.by, m.Message)
	}
	forum := p.AddForum(simdiscord.Guild{ID: c.GuildID}, "posts")
	to := chat.Address{Platform: "discord", Workspace: c.GuildID, Channel: forum.ID}
	if _, err := other.d.Post(within(t), to, chat.Draft{Key: "k", Title: "News", Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	if threads := p.Threads(forum.ID); len(threads) != 1 || threads[0].Name != "News" {
		t.Errorf("threads %+v", threads)
	}
}

// Who may not read a channel's history is not told of it by a process without its shard either; nor is anybody where
// Discord does not say who may.
func TestSharing_ShardOfAnotherProcess_HistoryOfThoseWhoMayReadIt(t *testing.T) {
	t.Parallel()
	for name, hide := range map[string]func(*party, simdiscord.Channel){
		"not allowed": func(p *party, c simdiscord.Channel) { p.HideHistoryFromPeople(c.ID) },
		"not known": func(p *party, c simdiscord.Channel) {
			p.Fail(sim.Fault{Match: sim.MatchPath("GET", "/guilds/"+c.GuildID), Status: 500})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := readable()
			p, other, c := shared(t, o.sim, o.discord)
			hide(p, c)
			p.Say(c.ID, p.ann, "not for all")
			p.Say(c.ID, p.ann, p.Mention()+" what was said?")
			var m takenBy
			for m.Reach != chat.Addressed {
				m = p.next()
			}
			told := other.d.Context(within(t), m.Message, chat.ContextQuery{Messages: 5})
			if len(told.Recent) != 0 || len(told.Notes) != 1 {
				t.Errorf("told %q, notes %q", spoken(told.Recent), told.Notes)
			}
		})
	}
}

// A command is acknowledged within Discord's three seconds, and answered by another process than that with the shard.
func TestSharing_InteractionsOfAnotherProcess(t *testing.T) {
	t.Parallel()
	p, other, c := shared(t, simdiscord.Options{}, discord.Options{Former: former(allKinds())})
	if err := p.WaitCommand(within(t), "raven"); err != nil {
		t.Fatal(err)
	}
	deferred := func(in simdiscord.Interaction) {
		t.Helper()
		back, err := p.WaitCallback(within(t), in.ID)
		if err != nil || back.After > 3*time.Second || back.Type != simdiscord.CallbackDeferred {
			t.Fatalf("answered with %+v: %v", back, err)
		}
	}
	ask := must(p.Slash(c.ID, p.ann, "raven", "ask", map[string]any{"text": "hi"}))
	m := p.next()
	if m.by == other.n || m.ID != ask.ID || m.Text != "hi" {
		t.Errorf("process %d took %+v", m.by, m.Message)
	}
	if _, err := other.d.Post(within(t), m.Conversation, chat.Draft{
		Key:   m.Key(),
		Text:  "Hello.",
		Reply: m.Reply,
	}); err != nil {
		t.Fatal(err)
	}
	deferred(ask)
	if _, err := p.WaitAnswer(within(t), ask.ID, func(q simdiscord.Post) bool {
		return q.Content == "Hello."
	}); err != nil {
		t.Error(err)
	}

	set := must(p.Slash(c.ID, p.ann, "raven", "settings", nil))
	back, err := p.WaitCallback(within(t), set.ID)
	if err != nil || back.Type != simdiscord.CallbackModal || back.After > 3*time.Second {
		t.Fatalf("answered with %+v: %v", back, err)
	}
	sent := must(p.Fill(set.ID, map[string][]string{"line": {"words"}, "toggle": {"false"}, "choices": {}}))
	if m = p.next(); m.by == other.n || m.ID != sent.ID || m.Values["line"] != "words" {
		t.Errorf("process %d took %+v", m.by, m.Message)
	}
	deferred(sent)

	threaded := must(p.Slash(c.ID, p.ann, "raven", "ask", map[string]any{"text": "at length", "thread": true}))
	m = p.next()
	if m.by == other.n || m.Conversation.Thread == "" || m.ID != threaded.ID {
		t.Fatalf("process %d took %+v", m.by, m.Message)
	}
	if _, err := other.d.Post(within(t), m.Conversation, chat.Draft{Key: m.Key(), Text: "Long."}); err != nil {
		t.Fatal(err)
	}
	p.idle()
}
