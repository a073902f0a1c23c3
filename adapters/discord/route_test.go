package discord_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/adapters/discord"
	"ravenbot/internal/chat"
	"ravenbot/internal/sim"
	simdiscord "ravenbot/internal/sim/discord"
)

// shared is two processes of which the first has the only shard, and the second a channel.
func shared(
	t *testing.T,
	so simdiscord.Options,
	o discord.Options,
) (p *party, owner *process, channel simdiscord.Channel) {
	t.Helper()
	p = newParty(t, so, o)
	channel = p.guildOn(0, 1)
	p.join().has(0)
	owner = p.join()
	eventually(t, "the second one stands by", func() bool { return owner.d.Health().Connected })
	p.give(channel, owner)
	return p, owner, channel
}

// What the owner of a channel lacks, because another process has the shard, it is handed or asks Discord for.
func TestSharing_ChannelOfAnotherProcess_TellsTheSame(t *testing.T) {
	t.Parallel()
	o := readable()
	p, owner, c := shared(t, o.sim, o.discord)
	p.SetTopic(c.ID, "Lunch and more")
	thread := p.AddThread(c, "side")
	secret := p.AddPrivateThread(c, "secret")
	boss := p.AddPerson(simdiscord.User{Name: "boss1", Global: "Boss", Nick: "Chief", Manager: true})
	eve := p.AddPerson(simdiscord.User{Name: "eve", Nick: "Evie"})
	other := p.AddChannel(simdiscord.Guild{ID: c.GuildID}, "kitchen")
	first := p.Say(c.ID, p.ann, "pizza in <#"+other.ID+">, says <@&"+c.GuildID+"0>")
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
	want := chat.User{ID: boss.ID, Name: "Chief", Handle: "boss1", Admin: true, Roles: roles}
	if diff := cmp.Diff(want, m.Author); diff != "" || m.by != owner.n ||
		!strings.HasPrefix(m.Text, "what does @Evie eat?") {
		t.Errorf("process %d took %q; author (-want +got): %s", m.by, m.Text, diff)
	}
	q := chat.ContextQuery{Messages: 5}
	there, here := owner.d.Context(within(t), m.Message, q), p.processes[0].d.Context(within(t), m.Message, q)
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
	said, err := owner.d.History(within(t), m.Conversation, m.ID, 2)
	if err != nil || len(said) != 2 || said[0].Text != "pizza in #kitchen, says @managers" {
		t.Errorf("history %+v: %v", said, err)
	}
}

// What happens in threads of a channel, and below posts of the process that owns it, comes to that one, too; and it
// posts in forums whose shard another one has.
func TestSharing_ChannelOfAnotherProcess_HasItsThreadsAndReactions(t *testing.T) {
	t.Parallel()
	p, owner, c := shared(t, simdiscord.Options{}, discord.Options{})
	thread := p.AddThread(c, "side")
	said := p.Say(thread.ID, p.ann, p.Mention()+" in the thread")
	at := chat.Address{Platform: "discord", Workspace: c.GuildID, Channel: c.ID, Thread: thread.ID}
	m := p.next()
	if m.by != owner.n || m.Conversation != at {
		t.Errorf("process %d took %+v, want it from %s", m.by, m.Message, at)
	}
	ref, err := owner.d.Post(within(t), at, chat.Draft{Key: m.Key(), Text: "an answer", Reply: m.Reply})
	if err != nil {
		t.Fatal(err)
	}
	p.React(ref.IDs[0], p.ann, "👍")
	if m = p.next(); m.by != owner.n || m.Reaction == nil || m.Reaction.Post != ref.IDs[0] || m.Conversation != at {
		t.Errorf("process %d took %+v", m.by, m.Message)
	}
	p.Archive(thread.ID)
	p.Delete(said.ID)
	if m = p.next(); m.by != owner.n || m.Change != chat.Deleted || m.Conversation != at {
		t.Errorf("process %d took %+v", m.by, m.Message)
	}
	forum := p.AddForum(simdiscord.Guild{ID: c.GuildID}, "posts")
	to := chat.Address{Platform: "discord", Workspace: c.GuildID, Channel: forum.ID}
	if _, err := owner.d.Post(within(t), to, chat.Draft{Key: "k", Title: "News", Text: "hello"}); err != nil {
		t.Fatal(err)
	}
	if threads := p.Threads(forum.ID); len(threads) != 1 || threads[0].Name != "News" {
		t.Errorf("threads %+v", threads)
	}
}

// Who may not read a channel's history is not told of it by a process without its shard either; nor is anybody where
// Discord does not say who may.
func TestSharing_ChannelOfAnotherProcess_HistoryOfThoseWhoMayReadIt(t *testing.T) {
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
			p, owner, c := shared(t, o.sim, o.discord)
			hide(p, c)
			p.Say(c.ID, p.ann, "not for all")
			p.Say(c.ID, p.ann, p.Mention()+" what was said?")
			var m takenBy
			for m.Reach != chat.Addressed {
				m = p.next()
			}
			told := owner.d.Context(within(t), m.Message, chat.ContextQuery{Messages: 5})
			if len(told.Recent) != 0 || len(told.Notes) != 1 {
				t.Errorf("told %q, notes %q", spoken(told.Recent), told.Notes)
			}
		})
	}
}

// What has to wait is not lost: a process that is busy says so through the one that has the shard.
func TestSharing_ChannelOfAnotherProcess_IsBusy(t *testing.T) {
	t.Parallel()
	p := newParty(t, simdiscord.Options{}, discord.Options{})
	c := p.guildOn(0, 1)
	first := p.join()
	first.has(0)
	d := discord.New(discord.Options{Token: "token", APIBaseURL: p.URL(), Log: (&stage{log: first.log}).logger(),
		Sharing: &discord.Sharing{Router: first, Shards: &process{party: p, n: 2}, Leads: make(chan struct{})}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx, func(context.Context, chat.Message) error { return chat.ErrBusy }) }()
	p.mu.Lock()
	p.processes = append(p.processes, &process{party: p, n: 2, d: d, log: first.log, stop: func() { cancel(); <-done }})
	p.mu.Unlock()
	p.give(c, p.processes[1])
	p.Say(c.ID, p.ann, p.Mention()+" hi")
	if _, err := p.WaitPost(within(t), c.ID, func(q simdiscord.Post) bool {
		return strings.Contains(q.Content, "busy")
	}); err != nil {
		t.Error(err)
	}
}

// A command is answered within Discord's three seconds, though its channel belongs to another process than its shard,
// which posts the answer.
func TestSharing_InteractionsOfAnotherProcess(t *testing.T) {
	t.Parallel()
	p, owner, c := shared(t, simdiscord.Options{}, discord.Options{Former: former(allKinds())})
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
	if m.by != owner.n || m.ID != ask.ID || m.Text != "hi" {
		t.Errorf("process %d took %+v", m.by, m.Message)
	}
	if _, err := owner.d.Post(within(t), m.Conversation, chat.Draft{
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

	// The form is opened where the channel belongs, and by nobody else.
	set := must(p.Slash(c.ID, p.ann, "raven", "settings", nil))
	back, err := p.WaitCallback(within(t), set.ID)
	if err != nil || back.Type != simdiscord.CallbackModal || back.After > 3*time.Second {
		t.Fatalf("answered with %+v: %v", back, err)
	}
	sent := must(p.Fill(set.ID, map[string][]string{"line": {"words"}, "toggle": {"false"}, "choices": {}}))
	if m = p.next(); m.by != owner.n || m.ID != sent.ID || m.Values["line"] != "words" {
		t.Errorf("process %d took %+v", m.by, m.Message)
	}
	deferred(sent)

	// A thread that was opened for the answer is known to whoever answers in it.
	threaded := must(p.Slash(c.ID, p.ann, "raven", "ask", map[string]any{"text": "at length", "thread": true}))
	m = p.next()
	if m.by != owner.n || m.Conversation.Thread == "" || m.ID != threaded.ID {
		t.Fatalf("process %d took %+v", m.by, m.Message)
	}
	ref, err := owner.d.Post(within(t), m.Conversation, chat.Draft{Key: m.Key(), Text: "Long."})
	if err != nil {
		t.Fatal(err)
	}
	posts := p.Posts(m.Conversation.Thread)
	if i := slices.IndexFunc(posts, func(q simdiscord.Post) bool { return q.ID == ref.IDs[0] }); i < 0 ||
		!strings.Contains(posts[i].Content, "To go on here") {
		t.Errorf("posted %+v, want how to go on", posts)
	}
	p.idle()
}

// Where the owner of a channel does not answer, a command is acknowledged, and taken when it does.
func TestSharing_OwnerDoesNotAnswer_InteractionWaits(t *testing.T) {
	t.Parallel()
	p, owner, c := shared(t, simdiscord.Options{}, discord.Options{Former: former(allKinds())})
	if err := p.WaitCommand(within(t), "raven"); err != nil {
		t.Fatal(err)
	}
	p.setRefuse(errors.New("nobody answers"))
	ask := must(p.Slash(c.ID, p.ann, "raven", "ask", map[string]any{"text": "hi"}))
	back, err := p.WaitCallback(within(t), ask.ID)
	if err != nil || back.After > 3*time.Second || back.Type != simdiscord.CallbackDeferred {
		t.Fatalf("answered with %+v: %v", back, err)
	}
	p.setRefuse(nil)
	m := p.next()
	if m.by != owner.n || m.ID != ask.ID {
		t.Errorf("process %d took %+v", m.by, m.Message)
	}
	if _, err := owner.d.Post(within(t), m.Conversation, chat.Draft{
		Key:   m.Key(),
		Text:  "Hello.",
		Reply: m.Reply,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.WaitAnswer(within(t), ask.ID, func(q simdiscord.Post) bool {
		return q.Content == "Hello."
	}); err != nil {
		t.Error(err)
	}
}

func TestTakeRequest_ThatCannotBeTaken_IsAnError(t *testing.T) {
	t.Parallel()
	d := discord.New(discord.Options{Token: "token"}) // does not run
	if _, err := d.TakeRequest(t.Context(), []byte("{")); err == nil {
		t.Error("what is no request was taken")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.TakeRequest(ended, []byte("{}")); !errors.Is(err, context.Canceled) {
		t.Errorf("a process that does not run took a request: %v", err)
	}
}
