package discord_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ravenbot/adapters/discord"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/chattest"
	"ravenbot/internal/testing/sim"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

// slash runs a subcommand of /raven and returns the message it became.
func (s *stage) slash(t *testing.T, sub string, options map[string]any) chat.Message {
	t.Helper()
	in := s.interact(t, sub, options)
	m := receive(t, s.got)
	if m.ID != in.ID {
		t.Fatalf("message %+v of interaction %s", m, in.ID)
	}
	return m
}

func (s *stage) interact(t *testing.T, sub string, options map[string]any) simdiscord.Interaction {
	t.Helper()
	if err := s.WaitCommand(within(t), "raven"); err != nil {
		t.Fatal(err)
	}
	in, err := s.Slash(s.general.ID, s.ann, "raven", sub, options)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// another is an adapter that knows nothing of what the first one did.
func (s *stage) another(t *testing.T) *discord.Discord {
	t.Helper()
	return discord.New(discord.Options{Token: "token", APIBaseURL: s.URL(), Commands: chattest.Commands(),
		MessageCommands: chattest.MessageCommands(), Log: s.logger()})
}

func (s *stage) rest(t *testing.T, method, path, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), method, s.URL()+"/api/v10"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bot token")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s", method, path, resp.Status)
	}
}

func TestSlashCommands(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	cases := []struct {
		sub       string
		options   map[string]any
		text      string
		ephemeral bool
	}{
		{sub: "ask", options: map[string]any{"text": "what is new?"}, text: "what is new?"},
		{sub: "digest", options: map[string]any{"action": "run", "name": "morning"}, text: "run morning", ephemeral: true},
		{sub: "digest", options: map[string]any{"action": "edit", "name": "morning", "more": "style titles"}, text: "edit morning style titles", ephemeral: true},
		{sub: "digest", options: map[string]any{"action": "list"}, text: "list", ephemeral: true},
		{sub: "tools", ephemeral: true},
		{sub: "help", ephemeral: true},
	}
	for _, c := range cases {
		m := s.slash(t, c.sub, c.options)
		if m.Command != c.sub || m.Text != c.text || m.Reach != chat.Addressed || m.Conversation != s.address() ||
			m.Author.Name != "ann" {
			t.Errorf("/raven %s became %+v", c.sub, m)
		}
		back, err := s.WaitCallback(within(t), m.ID)
		if err != nil || back.Type != simdiscord.CallbackDeferred || back.After > 3*time.Second {
			t.Errorf("callback %+v: %v", back, err)
		}
		ref := s.post(t, m.Conversation, chat.Draft{Key: m.Key(), Text: "the answer to " + c.text, Reply: m.Reply,
			Ephemeral: c.ephemeral})
		p, err := s.WaitAnswer(within(t), m.ID, anyPost)
		if err != nil || p.ID != ref.IDs[0] || p.Edits != 1 || p.Ephemeral() != c.ephemeral ||
			!strings.HasPrefix(p.Content, "the answer to") {
			t.Errorf("answer %+v: %v", p, err)
		}
	}
}

func TestSlashInThreadAndDirectMessage(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	if err := s.WaitCommand(within(t), "raven"); err != nil {
		t.Fatal(err)
	}
	thread, dm, boss := s.AddThread(s.general, "side"), s.AddDM(s.ann), s.AddManager("boss")
	for channel, want := range map[string]string{thread.ID: s.address().String() + "/" + thread.ID,
		dm.ID: "discord:@me/" + dm.ID} {
		if _, err := s.Slash(channel, boss, "raven", "help", nil); err != nil {
			t.Fatal(err)
		}
		if m := receive(t, s.got); m.Conversation.String() != want || m.Author.Admin != (channel == thread.ID) {
			t.Errorf("message %+v, want %s", m, want)
		}
	}
}

// The store may hang; Discord does not wait.
func TestDeferredWhileTheStoreHangs(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	s := open(t, script{accept: func(context.Context, chat.Message) error { <-gate; return nil }})
	first := s.interact(t, "ask", map[string]any{"text": "one"})
	second := s.interact(t, "ask", map[string]any{"text": "two"})
	for _, in := range []simdiscord.Interaction{first, second} {
		back, err := s.WaitCallback(within(t), in.ID)
		if err != nil || back.After < 1500*time.Millisecond || back.After > 3*time.Second {
			t.Errorf("callback %+v: %v", back, err)
		}
	}
	close(gate)
}

// An answer may be ready before Discord has taken the deferral.
func TestAnswerWaitsForDeferral(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	s.Fail(sim.Fault{Match: sim.MatchPath("POST", "/callback"), Times: 2, Status: 500})
	m := s.slash(t, "ask", map[string]any{"text": "quick"})
	s.post(t, m.Conversation, chat.Draft{Key: m.Key(), Text: "quick answer", Reply: m.Reply})
	if posts := s.Posts(s.general.ID); len(posts) != 1 || posts[0].Interaction != m.ID || posts[0].Loading() {
		t.Errorf("posts %+v", posts)
	}
}

func TestLongAnswerToInteraction(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	m := s.slash(t, "help", nil)
	s.Fail(sim.Fault{Match: sim.MatchPath("PATCH", "@original"), Times: 1, Status: 502, Accept: true})
	ref := s.repeat(t, chat.Draft{Key: m.Key(), Text: strings.Repeat("a lot of help. ", 300), Reply: m.Reply,
		Ephemeral: true})
	posts := s.Posts(s.general.ID)
	if len(posts) != 3 || len(ref.IDs) != 3 {
		t.Fatalf("%d posts, ref %v", len(posts), ref)
	}
	for _, p := range posts {
		if p.Interaction != m.ID || !p.Ephemeral() || p.Flags&simdiscord.FlagSuppressEmbeds == 0 {
			t.Errorf("post %+v", p)
		}
	}
}

func TestInteractionTokenIsOver(t *testing.T) {
	t.Parallel()
	s := open(t, script{sim: simdiscord.Options{TokenLife: time.Nanosecond}})
	m := s.slash(t, "ask", map[string]any{"text": "slow"})
	s.post(t, m.Conversation, chat.Draft{Key: m.Key(), Text: "late", Reply: m.Reply})
	if _, err := s.WaitPost(within(t), s.general.ID, func(p simdiscord.Post) bool {
		return p.Content == "late" && p.Interaction == ""
	}); err != nil {
		t.Error(err)
	}
}

func TestAnswerAfterAQuarterOfAnHour(t *testing.T) {
	t.Parallel()
	var late atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(late.Load())) }
	s := open(t, script{discord: discord.Options{Now: now}})
	m := s.slash(t, "ask", map[string]any{"text": "very slow"})
	late.Store(int64(15 * time.Minute))
	s.post(t, m.Conversation, chat.Draft{Key: m.Key(), Text: "late", Reply: m.Reply})
	if _, err := s.WaitPost(within(t), s.general.ID, func(p simdiscord.Post) bool {
		return p.Content == "late" && p.Interaction == ""
	}); err != nil {
		t.Error(err)
	}
	for _, r := range s.Requests() {
		if strings.Contains(r.Path, "/webhooks/") {
			t.Errorf("%s %s with a token that is over", r.Method, r.Path)
		}
	}
}

// After a crash the answer to an interaction is found by the interaction's id.
func TestInteractionAnsweredOnceOverARestart(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	text := strings.Repeat("words of an answer. ", 150)
	for i := range 2 { // twice the same answer, to two questions
		m := s.slash(t, "ask", map[string]any{"text": "again?"})
		d := chat.Draft{Key: m.Key(), Text: text, Reply: m.Reply}
		if _, err := s.WaitCallback(within(t), m.ID); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			s.post(t, m.Conversation, d)
		}
		d.Again = true
		if _, err := s.another(t).Post(within(t), m.Conversation, d); err != nil {
			t.Fatal(err)
		}
	}
	if posts := s.Posts(s.general.ID); len(posts) != 4 {
		t.Errorf("%d posts, want two answers of two pieces", len(posts))
	}
}

func TestOldButtons(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	in := s.Submit(s.general.ID, s.ann, "old", map[string]string{"field": "x"})
	p, err := s.WaitAnswer(within(t), in.ID, anyPost)
	if err != nil || !p.Ephemeral() || p.Content != "This button or form no longer works." {
		t.Errorf("answer %+v: %v", p, err)
	}
}

func TestCommandsAreReplacedWhereTheyDiffer(t *testing.T) {
	t.Parallel()
	s := open(t, script{discord: discord.Options{Token: "wrong"}, offline: true})
	_ = s.ended()
	app := "/applications/" + s.Bot().ID + "/commands"
	s.rest(t, "POST", app, `{"name":"other","description":"of another program"}`)
	s.rest(t, "POST", app, `{"name":"raven","description":"of an earlier version"}`)
	before := time.Now()
	s.d = s.another(t)
	s.run(t, func(context.Context, chat.Message) error { return nil })
	changed := func(r sim.Request) bool {
		return r.Method == "PATCH" && strings.Contains(r.Path, "/commands/") && r.At.After(before)
	}
	if r, err := s.WaitRequest(within(t), changed); err != nil || r.Status >= 300 {
		t.Errorf("changing the command: %d, %v", r.Status, err)
	}
	if _, err := s.Slash(s.general.ID, s.ann, "raven", "help", nil); err != nil {
		t.Error(err)
	}
	if _, err := s.Slash(s.general.ID, s.ann, "other", "", nil); err != nil {
		t.Errorf("a command that is not ours was touched: %v", err)
	}
}

func TestManyInteractionsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	const many = 1500
	if err := s.WaitCommand(within(t), "raven"); err != nil {
		t.Fatal(err)
	}
	for i := range many {
		if _, err := s.Slash(s.general.ID, s.ann, "raven", "ask", map[string]any{"text": fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for range many {
		m := receive(t, s.got)
		s.post(t, m.Conversation, chat.Draft{Key: m.Key(), Text: "x", Reply: m.Reply})
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if n := discord.Kept(s.d); n != 0 {
		t.Errorf("%d entries are left of %d interactions", n, many)
	}
}

// A thread that was archived when the bot came is in no event.
func TestUnknownThreadIsLookedUpOnce(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	thread := s.AddThread(s.general, "side")
	d := s.another(t)
	for range 2 {
		if a := discord.Locate(within(t), d, s.guild.ID, thread.ID); a.String() != s.address().String()+"/"+thread.ID {
			t.Errorf("address %v", a)
		}
	}
	if a := discord.Locate(within(t), d, s.guild.ID, s.general.ID); a != s.address() {
		t.Errorf("address %v", a)
	}
	if a := discord.Locate(within(t), d, "1", "404"); a.String() != "discord:1/404" {
		t.Errorf("address %v", a)
	}
	n := 0
	for _, r := range s.Requests() {
		if r.Method == "GET" && strings.HasSuffix(r.Path, "/channels/"+thread.ID) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("asked %d times", n)
	}
}
