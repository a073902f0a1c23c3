package discord_test

import (
	"slices"
	"strings"
	"testing"

	"ravenbot/adapters/discord"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

func TestThreadIsOpenedForTheAnswer(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	question := "what about @everyone and " + strings.Repeat("many other words ", 30)
	m := s.slash(t, "ask", map[string]any{"text": question, "thread": true})
	if m.Conversation.Base() != s.address() || m.Conversation.Thread == "" || m.Command != "ask" ||
		m.Text != strings.TrimSpace(question) {
		t.Fatalf("message %+v", m)
	}
	thread := m.Conversation.Thread
	p, err := s.WaitAnswer(within(t), m.ID, anyPost)
	if err != nil || p.ChannelID != s.general.ID || !strings.HasSuffix(p.Content, "…\n→ <#"+thread+">") ||
		p.Pings.Everyone || p.Flags != simdiscord.FlagSuppressEmbeds {
		t.Errorf("in the channel %+v: %v", p, err)
	}
	s.post(t, m.Conversation, chat.Draft{Key: m.Key(), Text: "the answer", Reply: m.Reply})
	s.post(t, m.Conversation, chat.Draft{Key: "another", Text: "another answer"})
	posts := s.Posts(thread)
	if len(posts) != 2 || posts[0].Content != "the answer\n-# To go on here, reply to me or mention me." ||
		posts[1].Content != "another answer" {
		t.Errorf("in the thread %+v", posts)
	}
	s.Say(thread, s.ann, s.Mention()+" go on")
	if next := receive(t, s.got); next.Conversation != m.Conversation {
		t.Errorf("said in the thread: %+v", next)
	}
}

// Where the bot hears everything a thread goes on by itself.
func TestOpenThread_MessageContent_FollowedWithoutAHint(t *testing.T) {
	t.Parallel()
	s := open(t, readable())
	m := s.slash(t, "ask", map[string]any{"text": "what now?", "thread": true})
	s.post(t, m.Conversation, chat.Draft{Key: m.Key(), Text: "the answer", Reply: m.Reply})
	if posts := s.Posts(m.Conversation.Thread); len(posts) != 1 || posts[0].Content != "the answer" {
		t.Errorf("in the thread %+v", posts)
	}
	s.Say(m.Conversation.Thread, s.ann, "and then?")
	if next := receive(t, s.got); next.Reach != chat.Followed || next.Conversation != m.Conversation {
		t.Errorf("said in the thread: %+v", next)
	}
}

// A command that comes again, as after a lost connection, has its thread.
func TestThreadIsOpenedOnce(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	s.SetFaults(simdiscord.GatewayFaults{Repeat: 3})
	s.interact(t, "ask", map[string]any{"text": "once", "thread": true})
	first := receive(t, s.got)
	for range 2 {
		if m := receive(t, s.got); m.Conversation != first.Conversation {
			t.Errorf("once in %v, once in %v", first.Conversation, m.Conversation)
		}
	}
}

func TestWhereNoThreadIsOpened(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	if err := s.WaitCommand(within(t), "raven"); err != nil {
		t.Fatal(err)
	}
	thread, dm := s.AddThread(s.general, "side"), s.AddDM(s.ann)
	off := s.Fail(sim.Fault{Match: sim.MatchPath("POST", "/threads"), Status: 403,
		Body: `{"code":50013,"message":"Missing Permissions"}`})
	for channel, want := range map[string]string{thread.ID: s.address().String() + "/" + thread.ID,
		dm.ID: "discord:@me/" + dm.ID, s.general.ID: s.address().String()} {
		if _, err := s.Slash(channel, s.ann, "raven", "ask", map[string]any{"text": "hi", "thread": true}); err != nil {
			t.Fatal(err)
		}
		m := receive(t, s.got)
		if m.Conversation.String() != want || len(m.Reply.Handle) == 0 {
			t.Errorf("message %+v, want it in %s", m, want)
		}
	}
	s.logged(t, "Create Public Threads")
	off()
	if m := s.slash(t, "ask", map[string]any{"text": "hi", "thread": false}); m.Conversation != s.address() {
		t.Errorf("not asked for: %+v", m)
	}
}

// What is below a post goes to one thread, however often that is asked for, and where
// there can be none to the channel itself.
func TestAThreadBelowAPost(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	head := s.post(t, s.address(), chat.Draft{Key: "head", Text: "head"})
	below := s.address()
	below.Thread = head.IDs[0]
	for range 2 {
		if to, err := s.d.Thread(within(t), s.address(), head, "Morning,  2 March"); err != nil || to != below {
			t.Fatalf("the thread is %v, %v; want %v", to, err, below)
		}
	}
	s.post(t, below, chat.Draft{Key: "rest", Text: "rest"})
	if posts := s.Posts(head.IDs[0]); len(posts) != 1 || posts[0].Content != "rest" {
		t.Errorf("in the thread there is %+v", posts)
	}
	other := s.post(t, s.address(), chat.Draft{Key: "other", Text: "other"})
	s.Fail(sim.Fault{Match: sim.MatchPath("POST", "/threads"), Times: 1, Status: 403,
		Body: `{"code":50013,"message":"Missing Permissions"}`})
	if to, err := s.d.Thread(within(t), s.address(), other, "x"); err != nil || to != s.address() {
		t.Errorf("without the permission: %v, %v", to, err)
	}
	s.logged(t, "Create Public Threads")
	s.Fail(sim.Fault{Match: sim.MatchPath("POST", "/threads"), Times: 1, Status: 502})
	if to, err := s.d.Thread(within(t), s.address(), other, ""); err == nil {
		if to.Thread != other.IDs[0] {
			t.Errorf("after a fault: %v", to)
		}
	}
}

// A post in a forum is a thread, and the message that it begins with may be for
// the bot.
func TestForumPosts(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	forum := s.AddForum(s.guild, "help")
	post, starter := s.AddForumPost(forum, s.ann, "How does it work?", s.Mention()+" tell me")
	m := receive(t, s.got)
	want := chat.Address{Platform: "discord", Workspace: s.guild.ID, Channel: forum.ID, Thread: post.ID}
	if m.ID != starter.ID || m.Conversation != want || m.Text != "tell me" {
		t.Fatalf("message %+v, want it in %v", m, want)
	}
	ref := s.post(t, m.Conversation, chat.Draft{Key: m.Key(), Text: "like this", Reply: m.Reply})
	posts := s.Posts(post.ID)
	if len(posts) != 1 || posts[0].ReplyTo != starter.ID {
		t.Errorf("posts %+v", posts)
	}
	s.Say(post.ID, s.ann, "and then?", simdiscord.ReplyTo(ref.IDs[0]))
	if m := receive(t, s.got); m.Conversation != want || m.Reach != chat.Addressed {
		t.Errorf("message %+v", m)
	}
}

// A fault while a thread is looked up is not taken for an answer for ever.
func TestThreadIsLookedUpAgainAfterAFault(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	thread := s.AddThread(s.general, "side")
	d := s.another(t)
	s.Fail(sim.Fault{Match: sim.MatchPath("GET", "/channels/"+thread.ID), Times: 1, Status: 503})
	var got []string
	for range 2 {
		got = append(got, discord.Locate(within(t), d, s.guild.ID, thread.ID).Thread)
	}
	if !slices.Equal(got, []string{"", thread.ID}) {
		t.Errorf("threads %q", got)
	}
}
