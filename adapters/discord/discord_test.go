package discord_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"ravenbot/adapters/discord"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/chattest"
	"ravenbot/internal/testing/sim"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is a simulated server with the adapter connected to it.
type stage struct {
	*simdiscord.Server
	d       *discord.Discord
	guild   simdiscord.Guild
	general simdiscord.Channel
	ann     simdiscord.User
	log     *journal
	got     chan chat.Message // what the default accept was given
	taken   sync.Mutex        // guards known: every shard calls accept
	known   map[string]bool   // to accept, where it forgets nothing
	stop    func() error      // ends Run and gives its error
	ended   func() error      // waits until Run ends of itself
}

// script changes what a stage is set up with.
type script struct {
	sim     simdiscord.Options
	discord discord.Options
	accept  func(context.Context, chat.Message) error
	before  func(*simdiscord.Server)
	// missed is what happens before the bot is there; it returns what the bot heard.
	missed  func(*stage) []chat.LastSeen
	offline bool // a connection is not waited for
	// openWithin replaces the deadline for connecting.
	openWithin time.Duration
	// maxWaiting replaces the number of messages that may wait to be stored.
	maxWaiting int
}

func open(t *testing.T, s script) *stage {
	t.Helper()
	s.sim.OpenAPI = openAPI(t)
	server, err := simdiscord.New(s.sim)
	if err != nil {
		t.Fatal(err)
	}
	st := &stage{Server: server, log: &journal{}, got: make(chan chat.Message, 10_000), known: map[string]bool{}}
	st.guild = server.AddGuild("home")
	st.general = server.AddChannel(st.guild, "general")
	st.ann = server.AddUser("ann")
	if s.before != nil {
		s.before(server)
	}
	if s.discord.Token == "" {
		s.discord.Token = "token"
	}
	if s.missed != nil {
		list := s.missed(st)
		s.discord.LastSeen = func(context.Context) ([]chat.LastSeen, error) { return list, nil }
	}
	if s.missed != nil && s.discord.CatchUp == 0 {
		s.discord.CatchUp = time.Hour
	}
	s.discord.APIBaseURL = server.URL()
	s.discord.Log = st.logger()
	s.discord.Commands, s.discord.MessageCommands = chattest.Commands(), chattest.MessageCommands()
	st.d = discord.New(s.discord)
	if s.openWithin > 0 {
		discord.SetOpenWithin(st.d, s.openWithin)
	}
	if s.maxWaiting > 0 {
		discord.SetMaxWaiting(st.d, s.maxWaiting)
	}
	if s.accept == nil && s.discord.LastSeen != nil {
		s.accept = st.once
	}
	if s.accept == nil {
		s.accept = func(_ context.Context, m chat.Message) error { st.got <- m; return nil }
	}
	st.run(t, s.accept)
	if !s.offline {
		st.connected(t, 1)
	}
	return st
}

func (s *stage) logger() *slog.Logger { return slog.New(slog.NewTextHandler(s.log, nil)) }

// once takes a message unless it is known, as whoever stores them does.
func (s *stage) once(_ context.Context, m chat.Message) error {
	s.taken.Lock()
	defer s.taken.Unlock()
	if !s.known[m.Key()] {
		s.known[m.Key()] = true
		s.got <- m
	}
	return nil
}

func (s *stage) run(t *testing.T, accept func(context.Context, chat.Message) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.d.Run(ctx, accept) }()
	s.ended = sync.OnceValue(func() error { return receive(t, done) })
	s.stop = func() error { cancel(); return s.ended() }
	t.Cleanup(func() {
		_ = s.stop()
		s.Close()
		if v := s.Violations(); len(v) > 0 {
			t.Errorf("requests that Discord's document does not allow: %+v", v)
		}
		if strings.Contains(s.log.String(), "panic") {
			t.Error(s.log.String())
		}
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
}

// journal is a log that can be waited for.
type journal struct {
	sim.Watch
	b bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.Lock()
	defer j.Release()
	return j.b.Write(p)
}

func (j *journal) String() string {
	j.Lock()
	defer j.Unlock()
	return j.b.String()
}

// forget drops what was logged so far.
func (j *journal) forget() {
	j.Lock()
	defer j.Release()
	j.b.Reset()
}

// connected waits until the adapter has been connected so often.
func (s *stage) connected(t *testing.T, times int) {
	t.Helper()
	err := s.log.Wait(within(t), func() bool { return strings.Count(s.log.b.String(), "discord connected") >= times })
	if err != nil {
		t.Fatalf("not connected %d times: %v", times, err)
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-within(t).Done():
		t.Fatal("nothing arrived in time")
		panic("unreachable")
	}
}

// openAPI is Discord's own document, or nothing where it is not at hand.
func openAPI(t testing.TB) []byte {
	t.Helper()
	dir := os.Getenv("RAVENBOT_CORPORA")
	if dir == "" {
		return nil
	}
	return unzip(t, filepath.Join(dir, "discord/openapi.json.gz"))
}

func unzip(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func anyPost(simdiscord.Post) bool { return true }

func (s *stage) post(t *testing.T, to chat.Address, d chat.Draft) chat.Ref {
	t.Helper()
	ref, err := s.d.Post(within(t), to, d)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func (s *stage) address() chat.Address {
	return chat.Address{Platform: "discord", Workspace: s.guild.ID, Channel: s.general.ID}
}

func TestMentionIsAnsweredAsReply(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	asked := s.Say(s.general.ID, s.ann, s.Mention()+" what is new?")
	m := receive(t, s.got)
	want := chat.Message{ID: asked.ID, Conversation: s.address(),
		Author: chat.User{ID: s.ann.ID, Name: "ann", Handle: "ann", Global: true}, Text: "what is new?",
		Reach: chat.Addressed, Reply: chat.Reply{MessageID: asked.ID}, Time: m.Time}
	if diff := cmp.Diff(want, m); diff != "" || m.Time.Sub(asked.Sent).Abs() > time.Second {
		t.Errorf("message %s, time %v", diff, m.Time)
	}
	ref := s.post(t, m.Conversation, chat.Draft{Key: m.Key(), Text: "Nothing, @everyone <@" + s.ann.ID + ">.",
		Reply: m.Reply})
	posts := s.Posts(s.general.ID)
	if len(posts) != 1 || posts[0].ID != ref.IDs[0] {
		t.Fatalf("posts %+v, ref %+v", posts, ref)
	}
	p := posts[0]
	if p.ReplyTo != asked.ID || p.Flags != simdiscord.FlagSuppressEmbeds || p.Pings.Everyone || len(p.Pings.Users) > 0 ||
		len(p.Nonce) > 25 || p.Nonce == "" {
		t.Errorf("post %+v", p)
	}
}

func TestReach(t *testing.T) {
	t.Parallel()
	s := open(t, script{discord: discord.Options{MessageContent: true},
		sim: simdiscord.Options{Privileged: simdiscord.IntentMessageContent}})
	own := chat.Ref{IDs: s.post(t, s.address(), chat.Draft{Key: "k", Text: "hello"}).IDs}
	bob, thread, dm := s.AddManager("bob"), s.AddThread(s.general, "side"), s.AddDM(s.ann)
	s.Say(s.general.ID, s.AddBot("other"), s.Mention()+" from a bot")
	cases := []struct {
		say   simdiscord.Post
		reach chat.Reach
		text  string
		where string
	}{
		{s.Say(s.general.ID, bob, "hi "+s.Mention()+", see <#"+s.general.ID+"> and <@"+s.ann.ID+"> <:raven:123>"), chat.Addressed, "hi , see #general and @ann :raven:", s.address().String()},
		{s.Say(s.general.ID, s.ann, "go on", simdiscord.ReplyTo(own.IDs[0])), chat.Addressed, "go on", s.address().String()},
		{s.Say(s.general.ID, s.ann, "quietly", simdiscord.QuietReplyTo(own.IDs[0])), chat.Addressed, "quietly", s.address().String()},
		{s.Say(s.general.ID, s.ann, "just talk"), chat.Overheard, "just talk", s.address().String()},
		{s.Say(s.general.ID, s.ann, "<@"+bob.ID+"> lunch?"), chat.Overheard, "@bob lunch?", s.address().String()},
		{s.Say(thread.ID, s.ann, s.Mention()+" in the thread"), chat.Addressed, "in the thread", s.address().String() + "/" + thread.ID},
		{s.Say(dm.ID, s.ann, "in private", simdiscord.Attach(simdiscord.File{Name: "a.zip", Body: []byte("x")})), chat.Addressed, "in private\n[attached: a.zip]", "discord:@me/" + dm.ID},
	}
	got := map[string]chat.Message{} // those of different places come side by side
	for range cases {
		m := receive(t, s.got)
		got[m.ID] = m
	}
	for _, c := range cases {
		m := got[c.say.ID]
		if m.ID != c.say.ID || m.Reach != c.reach || !strings.HasPrefix(m.Text, c.text) ||
			m.Conversation.String() != c.where ||
			m.Author.Admin != (c.say.Author.ID == bob.ID) || m.ForOther != strings.HasPrefix(c.text, "@bob") {
			t.Errorf("%q became %+v", c.say.Content, m)
		}
	}
}

// Without the privileged intent what does not concern the bot arrives empty.
func TestWithoutMessageContent(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	if got := s.Identifies()[0].Intents; got != simdiscord.IntentGuilds|simdiscord.IntentGuildMessages|
		simdiscord.IntentDirectMessages|simdiscord.IntentGuildReactions|simdiscord.IntentDirectReactions {
		t.Errorf("intents %b", got)
	}
	own := s.post(t, s.address(), chat.Draft{Key: "k", Text: "hello"})
	s.Say(s.general.ID, s.ann, "not for the bot")
	s.Say(s.general.ID, s.ann, "hidden", simdiscord.QuietReplyTo(own.IDs[0]))
	reply := s.Say(s.general.ID, s.ann, "go on", simdiscord.ReplyTo(own.IDs[0]))
	if m := receive(t, s.got); m.ID != reply.ID || m.Text != "go on" || m.Reach != chat.Addressed {
		t.Errorf("message %+v", m)
	}
}

// Every event may come more than once; what identifies a message stays the same.
func TestRepeatedEvents(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	s.SetFaults(simdiscord.GatewayFaults{Repeat: 3})
	said := s.Say(s.general.ID, s.ann, s.Mention()+" hi")
	for range 3 {
		if m := receive(t, s.got); m.ID != said.ID {
			t.Errorf("id %s, want %s", m.ID, said.ID)
		}
	}
}

func TestHealthAndTyping(t *testing.T) {
	t.Parallel()
	s := open(t, script{sim: simdiscord.Options{HeartbeatInterval: 2 * time.Second}})
	if err := s.WaitHeartbeats(within(t), 2); err != nil {
		t.Fatal(err)
	}
	if h := s.d.Health(); !h.Connected || h.Since.IsZero() {
		t.Errorf("health %+v", h)
	}
	if err := s.d.Typing(within(t), s.address()); err != nil || s.Typing(s.general.ID) != 1 {
		t.Errorf("typing %d times: %v", s.Typing(s.general.ID), err)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if h := s.d.Health(); h.Connected {
		t.Errorf("health after the end %+v", h)
	}
}

func TestRefusedToken(t *testing.T) {
	t.Parallel()
	s := open(t, script{discord: discord.Options{Token: "wrong"}, offline: true})
	err := s.ended()
	var setup *chat.SetupError
	if !errors.As(err, &setup) || !strings.Contains(setup.Remedy, "Reset Token") || len(s.Identifies()) != 0 {
		t.Errorf("error %v after %d identifies", err, len(s.Identifies()))
	}
	if _, err := s.d.Post(within(t), s.address(), chat.Draft{Key: "k", Text: "x"}); !errors.As(err, &setup) {
		t.Errorf("post: %v", err)
	}
	if text := s.log.String() + err.Error(); strings.Contains(text, "wrong") {
		t.Errorf("the token is shown: %s", text)
	}
}

func TestRefusedIntent(t *testing.T) {
	t.Parallel()
	s := open(t, script{discord: discord.Options{MessageContent: true}, offline: true})
	err := s.ended()
	var setup *chat.SetupError
	if !errors.As(err, &setup) || !strings.Contains(err.Error(), "Message Content Intent") {
		t.Errorf("error %v", err)
	}
}

func TestAddressThatIsNone(t *testing.T) {
	d := discord.New(discord.Options{Token: "token", APIBaseURL: "discord.com", Log: slog.New(slog.DiscardHandler)})
	var setup *chat.SetupError
	if err := d.Run(within(t), nil); !errors.As(err, &setup) {
		t.Errorf("run: %v", err)
	}
	var post *chat.PostError
	if _, err := d.Post(within(t), chat.Address{Platform: "discord", Channel: "1"},
		chat.Draft{Text: "x"}); !errors.As(err, &post) {
		t.Errorf("post: %v", err)
	}
}

func TestRegistersOnce(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	if err := s.WaitCommand(within(t), chattest.MessageCommands()[0].Title); err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	if err := discord.Register(within(t), s.another(t), s.Bot().ID); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Requests() {
		if r.At.After(before) && r.Method != "GET" {
			t.Errorf("%s %s although nothing differs", r.Method, r.Path)
		}
	}
}
