package discord_test

import (
	"context"
	"encoding/json"
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

// readable is a bot that may read what others say.
func readable() script {
	return script{
		sim:     simdiscord.Options{Privileged: simdiscord.IntentMessageContent},
		discord: discord.Options{MessageContent: true},
	}
}

// addressed returns the next message that is for the bot.
func (s *stage) addressed(t *testing.T) chat.Message {
	t.Helper()
	for {
		if m := receive(t, s.got); m.Reach == chat.Addressed {
			return m
		}
	}
}

// spoken are lines of the form "who: what".
func spoken(list []chat.Said) []string {
	lines := []string{}
	for _, one := range list {
		lines = append(lines, one.By+": "+one.Text)
	}
	return lines
}

func (s *stage) linkTo(p simdiscord.Post) string {
	return "https://discord.com/channels/" + s.guild.ID + "/" + p.ChannelID + "/" + p.ID
}

func TestContext_Channel_TellsPlacePeopleAndWhatWasSaid(t *testing.T) {
	t.Parallel()
	s := open(t, readable())
	bob := s.AddPerson(simdiscord.User{Name: "bob123", Global: "Bob", Nick: "Bobby"})
	eve := s.AddPerson(simdiscord.User{Name: "eve", Global: "Eve 🌻"})
	s.SetTopic(s.general.ID, "Lunch and more")
	for _, text := range []string{"too old", "sushi, <@" + eve.ID + ">?", "or pizza"} {
		s.Say(s.general.ID, bob, text)
	}
	s.Say(s.general.ID, eve, "what does <@"+bob.ID+"> want, "+s.Mention()+"?")
	m := s.addressed(t)
	if m.Text != "what does @Bobby want, ?" || m.Author.Name != "Eve 🌻" || m.Author.Handle != "eve" {
		t.Errorf("%s says %q as %s", m.Author.Name, m.Text, m.Author.Handle)
	}
	c := s.d.Context(within(t), m, chat.ContextQuery{Messages: 2})
	if want := (chat.Place{Server: "home", Channel: "general", Topic: "Lunch and more"}); c.Place != want {
		t.Errorf("place %+v, want %+v", c.Place, want)
	}
	if diff := cmp.Diff(map[string]string{eve.ID: "Eve 🌻"}, c.Names); diff != "" {
		t.Errorf("names (-want +got): %s", diff)
	}
	if diff := cmp.Diff([]string{"Bobby: sushi, @Eve 🌻?", "Bobby: or pizza"}, spoken(c.Recent)); diff != "" {
		t.Errorf("recent (-want +got): %s", diff)
	}
	last := c.Recent[1]
	if last.ByID != bob.ID || last.Self || last.Subject != "discord/"+last.ID ||
		!strings.HasSuffix(last.Link, s.general.ID+"/"+last.ID) ||
		c.Root != nil || c.Reply != nil || len(c.Notes) != 0 {
		t.Errorf("the last one is %+v; context %+v", last, c)
	}
	after := chat.ContextQuery{Messages: 5, After: c.Recent[0].ID}
	if got := spoken(s.d.Context(within(t), m, after).Recent); !slices.Equal(got, []string{"Bobby: or pizza"}) {
		t.Errorf("behind the first: %q", got)
	}
}

func TestContext_Command_HasNamesAndWhatWasSaid(t *testing.T) {
	t.Parallel()
	s := open(t, readable())
	s.ann = s.AddPerson(simdiscord.User{Name: "ann", Nick: "Annie", Manager: true})
	s.Say(s.general.ID, s.ann, "the plan is tea")
	receive(t, s.got)
	for _, thread := range []bool{false, true} {
		stranger := s.AddPerson(simdiscord.User{Name: "bob123", Nick: "Bobby"})
		text := "what does <@" + stranger.ID + "> plan for <#" + s.general.ID + ">?"
		m := s.slash(t, "ask", map[string]any{"text": text, "thread": thread})
		if m.Text != "what does @"+stranger.ID+" plan for #general?" {
			t.Errorf("text %q", m.Text)
		}
		want := chat.User{
			ID:     s.ann.ID,
			Name:   "Annie",
			Handle: "ann",
			Global: true,
			Admin:  true,
			Roles:  []string{s.guild.ID + "0", "managers"},
		}
		if diff := cmp.Diff(want, m.Author); diff != "" {
			t.Errorf("author (-want +got): %s", diff)
		}
		c := s.d.Context(within(t), m, chat.ContextQuery{Messages: 20})
		if got := spoken(c.Recent); !slices.Contains(got, "Annie: the plan is tea") || c.Names[s.ann.ID] != "Annie" ||
			c.Names[stranger.ID] != "Bobby" {
			t.Errorf("thread %v: names %v, recent %q", thread, c.Names, got)
		}
	}
}

func TestContext_Reply_QuotesItWhole(t *testing.T) {
	t.Parallel()
	picture := simdiscord.File{Name: "chart.png", ContentType: "image/png", Body: []byte("png")}
	for _, tt := range []struct {
		name   string
		script script
		// quote says what is replied to.
		quote  func(s *stage) simdiscord.Post
		gone   bool
		want   string
		hidden bool
		self   bool
		files  int
		note   string
	}{
		{"with a picture", readable(), func(s *stage) simdiscord.Post {
			return s.Say(s.general.ID, s.AddUser("bob"), "sales fell", simdiscord.Attach(picture))
		}, false, "bob: sales fell", false, false, 1, ""},
		{"of the bot", script{}, func(s *stage) simdiscord.Post {
			_, err := s.d.Post(context.Background(), s.address(), chat.Draft{Key: "k", Text: "an older answer"})
			if err != nil {
				panic(err)
			}
			return s.Posts(s.general.ID)[0]
		}, false, "ravenbot: an older answer", false, true, 0, ""},
		{"not shown", script{}, func(s *stage) simdiscord.Post {
			return s.Say(s.general.ID, s.AddUser("bob"), "sales fell")
		}, false, "bob: ", true, false, 0, "Message Content Intent"},
		// The app may read messages, but no channel asks for it: the event is empty, a request is not.
		{"shown on request", script{sim: simdiscord.Options{Privileged: simdiscord.IntentMessageContent}},
			func(s *stage) simdiscord.Post {
				return s.Say(s.general.ID, s.AddUser("bob"), "sales fell")
			}, false, "bob: sales fell", false, false, 0, ""},
		{"deleted", readable(), func(s *stage) simdiscord.Post {
			return s.Say(s.general.ID, s.AddUser("bob"), "sales fell")
		}, true, "", false, false, 0, "was deleted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, tt.script)
			quoted := tt.quote(s)
			if tt.gone {
				s.Delete(quoted.ID)
			}
			s.Say(s.general.ID, s.ann, s.Mention()+" is this true?", simdiscord.ReplyTo(quoted.ID))
			m := s.addressed(t)
			for _, again := range []string{"", "after a restart"} {
				if again != "" {
					m.ID += "0" // nothing is remembered of it
				}
				c := s.d.Context(within(t), m, chat.ContextQuery{})
				if (len(c.Notes) > 0) != (tt.note != "") || !strings.Contains(strings.Join(c.Notes, " "), tt.note) {
					t.Errorf("notes %q, want %q", c.Notes, tt.note)
				}
				if tt.gone {
					continue
				}
				if c.Reply == nil || c.Reply.By+": "+c.Reply.Text != tt.want || c.Reply.Hidden != tt.hidden ||
					c.Reply.Self != tt.self || len(c.Reply.Files) != tt.files {
					t.Fatalf("%s: reply %+v", again, c.Reply)
				}
				for _, f := range c.Reply.Files {
					if data, err := s.d.Fetch(within(t), f, 100); err != nil || string(data) != "png" {
						t.Errorf("the picture is %q, %v", data, err)
					}
				}
			}
		})
	}
}

func TestContext_WithoutTheIntent_CountsWhatIsHidden(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	s.Say(s.general.ID, s.ann, s.Mention()+" hello")
	first := s.addressed(t)
	s.post(t, s.address(), chat.Draft{Key: "k", Text: "hello back", Reply: first.Reply})
	for range 5 {
		s.Say(s.general.ID, s.ann, "not for the bot")
	}
	s.Say(s.general.ID, s.ann, s.Mention()+" what did we decide?")
	c := s.d.Context(within(t), s.addressed(t), chat.ContextQuery{Messages: 20})
	if diff := cmp.Diff([]string{"ann: @ravenbot hello", "ravenbot: hello back"}, spoken(c.Recent)); diff != "" {
		t.Errorf("recent (-want +got): %s", diff)
	}
	if !c.Recent[1].Self || len(c.Notes) != 1 || !strings.HasPrefix(c.Notes[0],
		"5 messages of others are not shown to me, because ") {
		t.Errorf("self %v, notes %q", c.Recent[1].Self, c.Notes)
	}
}

// What the bot answered stands in a history under its question, and must go with it.
func TestContext_OwnAnswers_NameTheirQuestionAndGoWithIt(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	var asked []chat.Message
	for _, text := range []string{"one", "two"} {
		s.Say(s.general.ID, s.ann, s.Mention()+" "+text)
		m := s.addressed(t)
		s.post(t, m.Conversation, chat.Draft{Key: m.Key(), Text: "re: " + text, Reply: m.Reply})
		asked = append(asked, m)
	}
	command := s.slash(t, "ask", map[string]any{"text": "three"})
	s.post(t, command.Conversation, chat.Draft{Key: command.Key(), Text: "re: three", Reply: command.Reply})
	s.Delete(asked[0].ID)
	s.Say(s.general.ID, s.ann, s.Mention()+" and now?")
	var last chat.Message
	for last.Kind() != chat.EventMessage || last.Text == "" {
		last = receive(t, s.got)
	}
	c := s.d.Context(within(t), last, chat.ContextQuery{Messages: 20})
	got := map[string]string{}
	for _, said := range c.Recent {
		if said.Self {
			got[said.Text] = said.Subject
		}
	}
	want := map[string]string{"re: two": asked[1].Subject(), "re: three": command.Subject()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("own posts and what they answer (-want +got): %s", diff)
	}
}

// The bot may read more than whoever asks it.
func TestContext_AskerMayNotReadHistory_NothingIsTold(t *testing.T) {
	t.Parallel()
	s := open(t, readable())
	boss := s.AddManager("boss")
	secret := s.Say(s.general.ID, boss, "said before ann came")
	s.HideHistoryFromPeople(s.general.ID)
	s.Say(s.general.ID, s.ann, s.Mention()+" what was said? "+s.linkTo(secret))
	c := s.d.Context(within(t), s.addressed(t), chat.ContextQuery{Messages: 20})
	if len(c.Recent)+len(c.Linked) > 0 || len(c.Notes) != 1 ||
		!strings.Contains(c.Notes[0], "the asker cannot read them") {
		t.Errorf("recent %q, linked %q, notes %q", spoken(c.Recent), spoken(c.Linked), c.Notes)
	}
}

func TestContext_Thread_BringsItsRoot(t *testing.T) {
	t.Parallel()
	s := open(t, readable())
	head := s.Say(s.general.ID, s.ann, "where shall we eat?")
	s.rest(t, "POST", "/channels/"+s.general.ID+"/messages/"+head.ID+"/threads", `{"name":"Lunch"}`)
	forum := s.AddForum(s.guild, "ideas")
	_, opening := s.AddForumPost(forum, s.ann, "Dinner", "what about dinner?")
	for thread, want := range map[string]struct{ channel, title, root string }{
		head.ID:    {"general", "Lunch", "where shall we eat?"},
		opening.ID: {"ideas", "Dinner", "what about dinner?"},
	} {
		s.Say(thread, s.ann, "somewhere new")
		s.Say(thread, s.ann, s.Mention()+" what do you think?")
		m := s.addressed(t)
		c := s.d.Context(within(t), m, chat.ContextQuery{Messages: 20})
		if c.Root == nil || c.Root.Text != want.root || c.Place.Thread != want.title || c.Place.Channel != want.channel ||
			!c.Place.InThread {
			t.Errorf("root %+v in %+v, want %+v", c.Root, c.Place, want)
		}
		if got := spoken(c.Recent); !slices.Contains(got, "ann: somewhere new") {
			t.Errorf("recent %q", got)
		}
	}
}

func TestContext_Links_AreReadInTheSameChannelAlone(t *testing.T) {
	t.Parallel()
	s := open(t, readable())
	other := s.AddChannel(s.guild, "secret")
	thread := s.AddThread(s.general, "side")
	plan := s.Say(s.general.ID, s.ann, "the plan")
	detail := s.Say(thread.ID, s.ann, "a detail")
	secret := s.Say(other.ID, s.ann, "nobody's business")
	links := strings.Join([]string{s.linkTo(plan), s.linkTo(detail), s.linkTo(secret)}, " ")
	s.Say(s.general.ID, s.ann, s.Mention()+" compare "+links)
	c := s.d.Context(within(t), s.addressed(t), chat.ContextQuery{})
	if diff := cmp.Diff([]string{"ann: the plan", "ann: a detail"}, spoken(c.Linked)); diff != "" {
		t.Errorf("linked (-want +got): %s", diff)
	}
	if len(c.Notes) != 1 || !strings.Contains(c.Notes[0], other.ID) || !strings.Contains(c.Notes[0], "another channel") {
		t.Errorf("notes %q", c.Notes)
	}
}

// What is slow is missing, and the rest is there when the time is over.
func TestContext_SlowHistory_ComesBackInTime(t *testing.T) {
	t.Parallel()
	s := open(t, readable())
	quoted := s.Say(s.general.ID, s.ann, "before")
	s.Say(s.general.ID, s.ann, s.Mention()+" hello", simdiscord.ReplyTo(quoted.ID))
	m := s.addressed(t)
	s.Fail(sim.Fault{Match: history(s.general.ID), Hang: time.Minute})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	c := s.d.Context(ctx, m, chat.ContextQuery{Messages: 5})
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if c.Place.Channel != "general" || c.Reply == nil || c.Reply.Text != "before" || len(c.Notes) != 1 {
		t.Errorf("place %+v, reply %+v, notes %q", c.Place, c.Reply, c.Notes)
	}
}

func TestMessage_EmbedPollStickerVoice_AreNamedInWords(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	s.Say(s.general.ID, s.ann, s.Mention()+" see", simdiscord.With(func(p *simdiscord.Post) {
		p.Embeds = []json.RawMessage{[]byte(`{"title":"Release 2","url":"https://example.org/2","description":"Faster",` +
			`"fields":[{"name":"Size","value":"3 MB"}]}`)}
		p.Poll = []byte(`{"question":{"text":"Lunch?"},"answers":[{"answer_id":1,"poll_media":{"text":"Pizza"}},{"answer_id":2,"poll_media":{"text":"Sushi"}}],
			"results":{"answer_counts":[{"id":1,"count":3}]}}`)
		p.Stickers = []string{"Wave"}
	}))
	want := "see\n[embed: [Release 2](https://example.org/2)\nFaster\nSize: 3 MB]\n" +
		"[poll: Lunch? Answers: Pizza (3 votes); Sushi (0 votes)]\n[sticker: Wave]"
	if m := receive(t, s.got); m.Text != want {
		t.Errorf("text %q, want %q", m.Text, want)
	}
	voice := simdiscord.File{Name: "voice-message.ogg", ContentType: "audio/ogg", Seconds: 11.6}
	s.Say(s.AddDM(s.ann).ID, s.ann, "", simdiscord.Attach(voice), simdiscord.With(func(p *simdiscord.Post) {
		p.Flags |= 1 << 13
	}))
	if m := receive(t, s.got); m.Text != "[attached: voice message, 12 s]" {
		t.Errorf("a voice message is %q", m.Text)
	}
}

func TestMessage_EditAddsTheMention_IsAddressed(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	thread := s.AddThread(s.general, "side")
	said := s.Say(thread.ID, s.ann, "what is this?")
	s.Edit(said.ID, s.Mention()+" what is this?")
	m := receive(t, s.got)
	if m.Kind() != chat.EventEdit || m.Reach != chat.Addressed || m.Text != "what is this?" ||
		m.Conversation.Thread != thread.ID ||
		time.Since(m.Time) > time.Minute {
		t.Errorf("handed over %+v", m)
	}
}

func TestMessage_InAThreadOfTheBot_IsFollowed(t *testing.T) {
	t.Parallel()
	s := open(t, readable())
	bob := s.AddUser("bob")
	own, foreign := s.AddThread(s.general, "mine"), s.AddThreadBy(s.general, bob, "theirs")
	first := s.Say(own.ID, s.ann, "go on")
	s.Say(own.ID, s.ann, "<@"+bob.ID+"> and you?")
	s.Say(own.ID, bob, "fine", simdiscord.ReplyTo(first.ID))
	s.Say(foreign.ID, s.ann, "in a thread of bob's")
	s.Say(s.general.ID, s.ann, "did <@"+bob.ID+"> say so?")
	s.Say(s.general.ID, s.ann, "to all")
	type view struct {
		Text     string
		Reach    chat.Reach
		ForOther bool
	}
	got := map[view]bool{}
	for range 6 {
		m := receive(t, s.got)
		got[view{m.Text, m.Reach, m.ForOther}] = true
	}
	want := map[view]bool{
		{"go on", chat.Followed, false}:                 true,
		{"@bob and you?", chat.Followed, true}:          true,
		{"fine", chat.Followed, true}:                   true,
		{"in a thread of bob's", chat.Overheard, false}: true,
		{"did @bob say so?", chat.Overheard, true}:      true,
		{"to all", chat.Overheard, false}:               true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("handed over (-want +got): %s", diff)
	}
}
