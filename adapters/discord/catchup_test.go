package discord_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/adapters/discord"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

// all says that everything in a place is to be read.
func all(at chat.Address) chat.LastSeen { return chat.LastSeen{Conversation: at} }

// history matches requests that read a channel.
func history(channel string) func(sim.Request) bool {
	return sim.MatchPath("GET", "/channels/"+channel+"/messages")
}

func (s *stage) logged(t *testing.T, text string) {
	t.Helper()
	if err := s.log.Wait(within(t), func() bool { return strings.Contains(s.log.b.String(), text) }); err != nil {
		t.Fatalf("%q is not in the log", text)
	}
}

// texts receives so many messages.
func (s *stage) texts(t *testing.T, n int) []string {
	t.Helper()
	var list []string
	for range n {
		list = append(list, receive(t, s.got).Text)
	}
	return list
}

func (s *stage) numbered(channel string, from, to int) {
	for i := from; i < to; i++ {
		s.Say(channel, s.ann, s.Mention()+strconv.Itoa(i))
	}
}

func TestMissedMessagesAreRead(t *testing.T) {
	t.Parallel()
	want := map[string]chat.Message{}
	s := open(t, script{missed: func(s *stage) []chat.LastSeen {
		boss, thread, dm := s.AddManager("boss"), s.AddThread(s.general, "side"), s.AddDM(s.ann)
		side := s.address()
		side.Thread = thread.ID
		private := chat.Address{Platform: "discord", Workspace: "@me", Channel: dm.ID}
		taken := s.Say(s.general.ID, s.ann, s.Mention()+" taken already")
		s.Say(s.general.ID, s.ann, "not for the bot")
		s.Say(s.general.ID, s.AddBot("other"), s.Mention()+" from a bot")
		answered := s.Say(s.general.ID, s.ann, s.Mention()+" answered already")
		s.rest(t, "POST", "/channels/"+s.general.ID+"/messages",
			`{"content":"an answer","message_reference":{"message_id":"`+answered.ID+`"}}`)
		expect := func(p simdiscord.Post, at chat.Address, text string) {
			author := chat.User{ID: p.Author.ID, Name: p.Author.Name, Handle: p.Author.Name, Global: true}
			if p.Author.ID == boss.ID && at != private {
				author.Admin, author.Roles = true, []string{s.guild.ID + "0", "managers"}
			}
			want[p.ID] = chat.Message{
				ID:           p.ID,
				Conversation: at,
				Author:       author,
				Text:         text,
				Reach:        chat.Addressed,
				Reply:        chat.Reply{MessageID: p.ID},
			}
		}
		expect(s.Say(s.general.ID, boss, s.Mention()+" see <#"+s.general.ID+">"), s.address(), "see #general")
		expect(s.Say(s.general.ID, s.ann, "go on", simdiscord.ReplyTo(s.Posts(s.general.ID)[0].ID)), s.address(), "go on")
		edited := s.Say(s.general.ID, s.ann, s.Mention()+" before")
		expect(s.Edit(edited.ID, s.Mention()+" after"), s.address(), "after")
		s.Delete(s.Say(s.general.ID, s.ann, s.Mention()+" deleted").ID)
		expect(s.Say(thread.ID, s.ann, s.Mention()+" in the thread"), side, "in the thread")
		expect(s.Say(dm.ID, boss, "in private"), private, "in private")
		return []chat.LastSeen{{Conversation: s.address(), Message: taken.ID}, all(private),
			{Conversation: chat.Address{Platform: "slack", Workspace: "T", Channel: "C"}}}
	}})
	last := map[chat.Address]string{}
	for range len(want) {
		m := receive(t, s.got)
		expected, known := want[m.ID]
		if expected.Time = m.Time; !known || m.Key() != expected.Key() || m.Text != expected.Text ||
			m.Conversation != expected.Conversation ||
			!cmp.Equal(m.Author, expected.Author) || m.Reach != expected.Reach || m.Reply.MessageID != expected.Reply.MessageID {
			t.Errorf("message %+v, want %+v", m, expected)
		}
		if m.ID < last[m.Conversation] {
			t.Errorf("%q came out of order", m.Text)
		}
		last[m.Conversation] = m.ID
	}
	s.logged(t, `msg="caught up"`)
	s.exchange(t, 0, 1)
}

// A conversation may begin while the bot is away: Discord tells in which channels something was said lately.
func TestFirstMentionsWhileAway(t *testing.T) {
	t.Parallel()
	want := map[string]chat.Address{}
	var hidden simdiscord.Channel
	s := open(t, script{discord: discord.Options{MessageContent: true},
		sim: simdiscord.Options{Privileged: simdiscord.IntentMessageContent},
		missed: func(s *stage) []chat.LastSeen {
			thread := s.AddThread(s.general, "side")
			hidden = s.AddChannel(s.guild, "hidden")
			s.HideHistory(hidden.ID)
			side := s.address()
			side.Thread = thread.ID
			s.Say(s.general.ID, s.ann, "not for the bot")
			want[s.Say(s.general.ID, s.ann, s.Mention()+" the first ever").ID] = s.address()
			want[s.Say(thread.ID, s.ann, s.Mention()+" in a thread").ID] = side
			s.Say(hidden.ID, s.ann, s.Mention()+" where the bot may not read")
			return nil
		}})
	for range len(want) {
		m := receive(t, s.got)
		if at, ok := want[m.ID]; !ok || m.Conversation != at {
			t.Errorf("%q came from %s", m.Text, m.Conversation)
		}
	}
	s.logged(t, `msg="caught up" platform=discord conversations=2 messages=2 unreadable=0`)
	for _, r := range s.Requests() {
		if history(hidden.ID)(r) {
			t.Errorf("%s %s, which counts against the bot", r.Method, r.Path)
		}
	}
	s.exchange(t, 0, 1)
}

func TestFirstMentionsWhileAway_NotMorePlacesThanTheLimit(t *testing.T) {
	t.Parallel()
	s := open(t, script{missed: func(s *stage) []chat.LastSeen {
		for i := range 60 {
			s.Say(s.AddChannel(s.guild, "c"+strconv.Itoa(i)).ID, s.ann, "hello")
		}
		return nil
	}})
	s.logged(t, `msg="caught up" platform=discord conversations=50 messages=0`)
}

func TestManyMissedMessages(t *testing.T) {
	t.Parallel()
	s := open(t, script{missed: func(s *stage) []chat.LastSeen {
		s.numbered(s.general.ID, 0, 1200)
		return []chat.LastSeen{all(s.address())}
	}})
	s.expect(t, 0, 1000)
	s.logged(t, "too many missed discord messages; the rest is not read")
	s.logged(t, `msg="caught up" platform=discord conversations=1 messages=1000`)
}

func TestNotFurtherBackThanCatchUp(t *testing.T) {
	t.Parallel()
	for limit, want := range map[time.Duration]string{30 * time.Minute: "conversations=1 messages=0",
		2 * time.Hour: "conversations=2 messages=2"} {
		s := open(t, script{discord: discord.Options{CatchUp: limit, Now: func() time.Time {
			return time.Now().Add(time.Hour)
		}},
			missed: func(s *stage) []chat.LastSeen {
				quiet := s.AddThread(s.general, "quiet")
				s.Say(s.general.ID, s.ann, s.Mention()+" an hour ago")
				s.Say(quiet.ID, s.ann, s.Mention()+" then too")
				return []chat.LastSeen{{Conversation: s.address(), Message: s.general.ID}}
			}})
		s.logged(t, `msg="caught up" platform=discord `+want)
	}
	off := open(t, script{discord: discord.Options{LastSeen: func(context.Context) ([]chat.LastSeen, error) {
		panic("asked although switched off")
	}}})
	off.exchange(t, 0, 3)
	for _, r := range off.Requests() {
		if history(off.general.ID)(r) {
			t.Errorf("%s %s", r.Method, r.Path)
		}
	}
}

// Live messages wait for the missed ones of their place, and for no others.
func TestLiveMessagesWaitForTheMissedOnes(t *testing.T) {
	t.Parallel()
	var side simdiscord.Channel
	var off func()
	s := open(t, script{missed: func(s *stage) []chat.LastSeen {
		side = s.AddChannel(s.guild, "side")
		s.numbered(s.general.ID, 0, 150)
		s.Say(side.ID, s.ann, s.Mention()+" missed elsewhere")
		off = s.Fail(sim.Fault{Match: func(r sim.Request) bool {
			return history(s.general.ID)(r) && r.Query.Get("after") != s.general.ID
		}, Status: 502})
		elsewhere := s.address()
		elsewhere.Channel = side.ID
		return []chat.LastSeen{all(s.address()), all(elsewhere)}
	}})
	live := s.Say(s.general.ID, s.ann, s.Mention()+"150")
	s.Edit(live.ID, s.Mention()+"151")
	s.Say(side.ID, s.ann, s.Mention()+" live elsewhere")
	if got := s.texts(t, 2); got[0] != "missed elsewhere" || got[1] != "live elsewhere" {
		t.Errorf("passed %q", got)
	}
	// What was said live may have been in the history that was read there, before that place counted as caught up.
	eventually(t, "one conversation is not caught up", func() bool {
		return strings.Contains(s.d.Health().Detail, "1 conversations not caught up")
	})
	s.logged(t, "retrying")
	off()
	// What was said live is in the history too, where it is edited already.
	s.expect(t, 0, 150)
	if got := s.texts(t, 2); got[0] != "151" || got[1] != "151" {
		t.Errorf("in the end %q", got)
	}
	s.logged(t, `msg="caught up" platform=discord conversations=2`)
}

func TestPlacesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	var list []chat.LastSeen
	s := open(t, script{missed: func(s *stage) []chat.LastSeen {
		gone := s.address()
		gone.Channel = "404"
		hidden := s.address()
		hidden.Channel = s.AddChannel(s.guild, "hidden").ID
		s.Say(hidden.Channel, s.ann, s.Mention()+" missed for good")
		s.HideHistory(hidden.Channel)
		s.Fail(sim.Fault{Match: history(s.general.ID), Status: 403, Body: `{"code":50001,"message":"Missing Access"}`})
		list = []chat.LastSeen{all(s.address()), all(gone), all(hidden)}
		return list
	}})
	s.logged(t, `msg="caught up" platform=discord conversations=0 messages=0 unreadable=3`)
	s.exchange(t, 0, 3)
	s.InvalidateSessions(false)
	s.connected(t, 2)
	if err := s.log.Wait(within(t), func() bool { return strings.Count(s.log.b.String(), "caught up") == 2 }); err != nil {
		t.Fatal(err)
	}
	for _, h := range list {
		line := "failed to read missed discord messages\" platform=discord conversation=" + h.Conversation.String() + " remedy="
		if n := strings.Count(s.log.String(), line); n != 1 {
			t.Errorf("%s told %d times", h.Conversation, n)
		}
	}
}

// Discord replays to a session that is resumed, and to no other.
func TestOutagesAreCaughtUp(t *testing.T) {
	t.Parallel()
	s := open(t, script{missed: func(s *stage) []chat.LastSeen { return []chat.LastSeen{all(s.address())} }})
	s.logged(t, "caught up")
	s.exchange(t, 0, 3)
	reads := func() (n int) {
		for _, r := range s.Requests() {
			if history(s.general.ID)(r) {
				n++
			}
		}
		return n
	}
	before := reads()
	s.Drop(0, 0)
	s.exchange(t, 3, 5)
	s.resumed(t, 1)
	if n := reads(); n != before {
		t.Errorf("%d requests to read after a resumed session", n-before)
	}
	end := s.Outage()
	s.numbered(s.general.ID, 5, 8)
	end()
	s.expect(t, 5, 8)
	if n := len(s.Identifies()); n != 2 {
		t.Errorf("%d identifies", n)
	}
}

// A session that ends before all is read leaves the rest to the next one.
func TestNewSessionWhileCatchingUp(t *testing.T) {
	t.Parallel()
	var off func()
	s := open(t, script{missed: func(s *stage) []chat.LastSeen {
		s.numbered(s.general.ID, 0, 2)
		off = s.Fail(sim.Fault{Match: history(s.general.ID), Drop: true})
		return []chat.LastSeen{all(s.address())}
	}})
	s.numbered(s.general.ID, 2, 4)
	s.logged(t, "retrying")
	end := s.Outage()
	s.numbered(s.general.ID, 4, 6)
	off()
	end()
	s.expect(t, 0, 6)
	s.exchange(t, 6, 8)
}

// What is heard before the places are known must not pass: the next reading would
// begin behind it.
func TestNothingPassesBeforeThePlacesAreKnown(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	var at chat.Address
	known := make(chan struct{})
	s := open(t, script{discord: discord.Options{CatchUp: time.Hour,
		LastSeen: func(context.Context) ([]chat.LastSeen, error) {
			if asked.Add(1) < 3 {
				return nil, errors.New("disk full")
			}
			<-known
			return []chat.LastSeen{all(at)}, nil
		}}})
	at = s.address()
	s.numbered(s.general.ID, 0, 3)
	if err := s.log.Wait(within(t), func() bool { return strings.Count(s.log.b.String(), "disk full") == 2 }); err != nil {
		t.Fatal(err)
	}
	if len(s.got) != 0 {
		t.Error("a message passed")
	}
	close(known)
	s.expect(t, 0, 3)
}

func TestRateLimitWhileCatchingUp(t *testing.T) {
	t.Parallel()
	s := open(t, script{missed: func(s *stage) []chat.LastSeen {
		s.numbered(s.general.ID, 0, 3)
		s.RateLimit(history(s.general.ID), 1, time.Second, "user")
		return []chat.LastSeen{all(s.address())}
	}})
	s.expect(t, 0, 3)
	refused := 0
	for _, r := range s.Requests() {
		if r.Status == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused != 1 || strings.Contains(s.log.String(), "retrying") {
		t.Errorf("refused %d times", refused)
	}
}
