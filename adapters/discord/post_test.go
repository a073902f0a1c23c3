package discord_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

func (s *stage) messages() func(sim.Request) bool {
	return sim.MatchPath("POST", "/channels/"+s.general.ID+"/messages")
}

// repeat posts until it is done or refused for good, without asking the adapter
// to look for an earlier attempt.
func (s *stage) repeat(t *testing.T, d chat.Draft) chat.Ref {
	t.Helper()
	for range 5 {
		ref, err := s.d.Post(within(t), s.address(), d)
		if err == nil {
			return ref
		}
		var refused *chat.PostError
		if !errors.As(err, &refused) || refused.Permanent {
			t.Fatalf("post: %v", err)
		}
		if !refused.Maybe {
			t.Errorf("the outcome is unknown, not %v", err)
		}
		d.Again = true
	}
	t.Fatal("no attempt succeeded")
	return chat.Ref{}
}

func TestLongAnswerIsSplit(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	asked := s.Say(s.general.ID, s.ann, s.Mention()+" tell me everything")
	text := "# Everything\n\n" + strings.Repeat("Some [linked words](https://example.org/a/page) and more of them. ", 40) +
		"\n\n```go\n" + strings.Repeat("fmt.Println(\"a line of code\")\n", 100) + "```\n\n| a | b |\n|---|---|\n" +
		strings.Repeat("| some cell | another cell |\n", 60)
	ref := s.post(t, s.address(), chat.Draft{Key: "long", Text: text, Footer: "answered by a test",
		Reply: chat.Reply{MessageID: asked.ID},
		Tools: []chat.ToolRun{{Name: "web_fetch", State: chat.Done}, {Name: "web_fetch", State: chat.Done},
			{Name: "files_read", State: chat.Failed, Note: "3 of 10: reading"}}})
	posts := s.Posts(s.general.ID)
	if len(posts) < 4 || len(posts) != len(ref.IDs) {
		t.Fatalf("%d posts, ref %v", len(posts), ref)
	}
	var all strings.Builder
	for i, p := range posts {
		if n := utf8.RuneCountInString(p.Content); n > 2000 || strings.Count(p.Content, "```")%2 != 0 {
			t.Errorf("piece %d has %d characters or an open fence:\n%s", i, n, p.Content)
		}
		if p.ID != ref.IDs[i] || (p.ReplyTo != "") != (i == 0) || p.Flags != simdiscord.FlagSuppressEmbeds {
			t.Errorf("piece %d: %+v", i, p)
		}
		if strings.Count(p.Content, "](") != strings.Count(p.Content, "[linked words](https://example.org/a/page)") {
			t.Errorf("piece %d holds half a link:\n%s", i, p.Content)
		}
		all.WriteString(p.Content + "\n")
	}
	for what, n := range map[string]int{"linked words": 40, "a line of code": 100, "another cell": 60} {
		if got := strings.Count(all.String(), what); got != n {
			t.Errorf("%q came %d times, want %d", what, got, n)
		}
	}
	if want := "\n-# ✓ web_fetch ×2 · ✗ files_read (3 of 10: reading) · answered by a test"; !strings.HasSuffix(posts[len(posts)-1].Content, want) {
		t.Errorf("ends with %q", posts[len(posts)-1].Content)
	}
}

func TestNothingPings(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	asked := s.Say(s.general.ID, s.ann, s.Mention()+" ping them")
	receive(t, s.got)
	calls := "@everyone @here <@" + s.ann.ID + "> <@!" + s.ann.ID + "> <@&" + s.guild.ID + "0>"
	s.post(t, s.address(), chat.Draft{Key: "1", Text: calls, Footer: calls, Reply: chat.Reply{MessageID: asked.ID}})
	s.post(t, s.address(), chat.Draft{Key: "2", Text: calls, Failed: true})
	s.post(t, s.address(), chat.Draft{
		Key:   "3",
		Text:  calls,
		Cards: []chat.Card{{Title: calls, Text: calls, URL: "https://example.org", Source: calls}},
	})
	if err := s.WaitCommand(within(t), "raven"); err != nil {
		t.Fatal(err)
	}
	m := s.slash(t, "ask", map[string]any{"text": "ping"})
	s.post(t, m.Conversation, chat.Draft{Key: "4", Text: strings.Repeat(calls+"\n\n", 50), Reply: m.Reply})
	posts := s.Posts(s.general.ID)
	if len(posts) < 5 {
		t.Fatalf("%d posts", len(posts))
	}
	for _, p := range posts {
		if p.Pings.Everyone || len(p.Pings.Users) > 0 || len(p.Pings.Roles) > 0 {
			t.Errorf("%q notified %+v", p.Content, p.Pings)
		}
	}
}

func TestNaughtyStrings(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("RAVENBOT_CORPORA")
	if dir == "" {
		t.Skip("RAVENBOT_CORPORA is not set")
	}
	data, err := os.ReadFile(filepath.Join(dir, "text/naughty-strings/blns.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	s := open(t, script{})
	s.post(t, s.address(), chat.Draft{Key: "all", Text: strings.Join(list, "\n\n"), Footer: list[len(list)-1]})
	var cards []chat.Card
	for i, text := range list {
		cards = append(cards, chat.Card{
			Title:  text,
			Text:   text,
			URL:    "https://example.org/" + text,
			Source: text,
			Also:   []chat.Link{{Title: text, URL: text}},
		})
		if i%20 == 0 {
			s.post(t, s.address(), chat.Draft{Key: "one" + text, Text: text})
		}
	}
	s.post(t, s.address(), chat.Draft{Key: "cards", Text: "cards", Cards: cards})
	n := 0
	for _, p := range s.Posts(s.general.ID) {
		n += len(p.Embeds)
	}
	if n != len(list) {
		t.Errorf("%d embeds of %d cards", n, len(list))
	}
}

func TestDigestCards(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var cards []chat.Card
	for range 23 {
		cards = append(cards, chat.Card{Title: "A story with [brackets](https://evil.example)",
			URL: "https://example.org/story", Text: strings.Repeat("Words of it. ", 60),
			N: 3, Image: "https://example.org/1.png", Source: "The Feed", Time: when, Also: []chat.Link{{
				Title: "Elsewhere",
				URL:   "https://example.com/a_(b)",
			}, {Title: "No link"}}})
	}
	ref := s.post(t, s.address(), chat.Draft{Key: "d", Text: "**Morning** news", Footer: "made by a test", Cards: cards})
	posts := s.Posts(s.general.ID)
	if len(posts) != len(ref.IDs) || posts[0].Content != "**Morning** news\n-# made by a test" || posts[1].Content != "" {
		t.Fatalf("posts %+v", posts)
	}
	n := 0
	for _, p := range posts {
		n += len(p.Embeds)
		if p.Flags&simdiscord.FlagSuppressEmbeds != 0 {
			t.Error("the cards are hidden by their message's flags")
		}
	}
	want := `{"title":"3. A story with [brackets\\]\\(https://evil.example)","url":"https://example.org/story",` +
		`"description":"` +
		strings.TrimSpace(strings.Repeat("Words of it. ", 60)) +
		` \nalso: [Elsewhere](https://example.com/a_%28b%29), No link","timestamp":"2026-01-02T03:04:05Z",` +
		`"footer":{"text":"The Feed"},"thumbnail":{"url":"https://example.org/1.png"}}`
	if got := string(posts[2].Embeds[0]); n != len(cards) || got != want {
		t.Errorf("%d embeds, one is\n%s\nwant\n%s", n, got, want)
	}
}

// The answer to a request got lost, but the message was posted.
func TestLostAnswerIsNotPostedTwice(t *testing.T) {
	for name, fault := range map[string]sim.Fault{
		"502":         {Accept: true, Status: 502},
		"503":         {Accept: true, Status: 503, Body: "<html>"},
		"cut":         {Accept: true, Drop: true},
		"not at all":  {Status: 502},
		"bad gateway": {Status: 504, Body: "<html>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, script{})
			fault.Match, fault.Times = s.messages(), 1
			s.Fail(fault)
			ref := s.repeat(t, chat.Draft{Key: "k", Text: "once"})
			if posts := s.Posts(s.general.ID); len(posts) != 1 || len(ref.IDs) != 1 || posts[0].ID != ref.IDs[0] {
				t.Errorf("posts %+v, ref %v", posts, ref)
			}
		})
	}
}

// A crash takes the process's memory, and minutes later Discord's is gone too.
func TestEarlierAttemptIsFound(t *testing.T) {
	t.Parallel()
	s := open(t, script{sim: simdiscord.Options{NonceLife: time.Nanosecond}})
	asked := s.Say(s.general.ID, s.ann, s.Mention()+" hi")
	d := chat.Draft{Key: "k", Text: strings.Repeat("words of an answer. ", 150), Reply: chat.Reply{MessageID: asked.ID}}
	ref := s.post(t, s.address(), d)
	later := s.another(t)
	d.Again = true
	got, err := later.Post(within(t), s.address(), d)
	if err != nil || strings.Join(got.IDs, " ") != strings.Join(ref.IDs, " ") || len(s.Posts(s.general.ID)) != 2 {
		t.Errorf("ref %v, want %v, %d posts: %v", got, ref, len(s.Posts(s.general.ID)), err)
	}
	d.Key, d.Reply.MessageID = "other", s.Say(s.general.ID, s.ann, s.Mention()+" hi").ID
	if _, err := later.Post(within(t), s.address(), d); err != nil || len(s.Posts(s.general.ID)) != 4 {
		t.Errorf("the same answer to another question: %d posts: %v", len(s.Posts(s.general.ID)), err)
	}
}

// The second of three messages was posted, but its answer got lost for so long
// that Discord has forgotten the nonce.
func TestLostAnswerInTheMiddle(t *testing.T) {
	t.Parallel()
	s := open(t, script{sim: simdiscord.Options{NonceLife: time.Nanosecond}})
	n := 0
	s.Fail(sim.Fault{Match: func(r sim.Request) bool {
		if s.messages()(r) {
			n++
		}
		return n == 2
	}, Times: 1, Accept: true, Drop: true})
	ref := s.repeat(t, chat.Draft{Key: "k", Text: strings.Repeat("words of an answer. ", 250)})
	if posts := s.Posts(s.general.ID); len(posts) != 3 || len(ref.IDs) != 3 || posts[1].ID != ref.IDs[1] {
		t.Errorf("%d posts, ref %v, want three of each", len(posts), ref)
	}
}

// Discord does not show the nonce to who reads a channel. Of messages that are
// alike the first is the first.
func TestEarlierAttemptOfMessagesThatAreAlike(t *testing.T) {
	t.Parallel()
	s := open(t, script{sim: simdiscord.Options{NonceLife: time.Nanosecond}})
	d := chat.Draft{Key: "k", Text: strings.TrimSpace(strings.Repeat(strings.Repeat("x", 1999)+"\n", 4))}
	ref := s.post(t, s.address(), d)
	var shown []string
	for _, p := range s.Posts(s.general.ID) {
		shown = append([]string{fmt.Sprintf(`{"id":%q,"author":{"id":%q,"bot":true},"content":%q}`, p.ID,
			p.Author.ID, p.Content)}, shown...)
	}
	s.Fail(sim.Fault{Match: sim.MatchPath("GET", "/messages"), Status: 200, Body: "[" + strings.Join(shown, ",") + "]",
		Header: map[string]string{"Content-Type": "application/json"}})
	d.Again = true
	got, err := s.another(t).Post(within(t), s.address(), d)
	if err != nil || len(ref.IDs) != 4 || strings.Join(got.IDs, " ") != strings.Join(ref.IDs, " ") {
		t.Errorf("ref %v, want %v: %v", got, ref, err)
	}
}

func TestFailureInTheMiddle(t *testing.T) {
	t.Parallel()
	s := open(t, script{sim: simdiscord.Options{NonceLife: time.Nanosecond}})
	n := 0
	s.Fail(sim.Fault{Match: func(r sim.Request) bool {
		if !s.messages()(r) {
			return false
		}
		n++
		return n == 2
	}, Times: 1, Status: 500})
	ref := s.repeat(t, chat.Draft{Key: "k", Text: strings.Repeat("words of an answer. ", 300)})
	posts := s.Posts(s.general.ID)
	if len(posts) != 4 && len(posts) != 3 || len(ref.IDs) != len(posts) {
		t.Errorf("%d posts, ref %v", len(posts), ref)
	}
}

func TestRefusedPosts(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	gone := chat.Address{Platform: "discord", Workspace: "1", Channel: "404"}
	cases := []struct {
		to    chat.Address
		fault sim.Fault
		want  string
	}{
		{to: gone, want: "channel does not exist"},
		{to: s.address(), fault: sim.Fault{Status: 403, Body: `{"code":50013,"message":"Missing Permissions"}`}, want: "Send Messages"},
		{to: s.address(), fault: sim.Fault{Status: 400, Body: `{"code":50035,"message":"Invalid Form Body","errors":{"content":"x"}}`}, want: "form"},
		{to: chat.Address{Platform: "slack", Channel: "C1"}, want: "not a Discord address"},
	}
	for _, c := range cases {
		off := func() {}
		if c.fault.Status != 0 {
			c.fault.Match = s.messages()
			off = s.Fail(c.fault)
		}
		_, err := s.d.Post(within(t), c.to, chat.Draft{Key: c.want, Text: "x"})
		off()
		var refused *chat.PostError
		if !errors.As(err, &refused) || !refused.Permanent || !strings.Contains(err.Error(), c.want) {
			t.Errorf("post to %v: %v", c.to, err)
		}
	}
}

// What is refused for a while is not given up: the bot's address may be blocked, or sending switched off.
func TestPostsRefusedForAWhile(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	for _, c := range []struct {
		fault sim.Fault
		after time.Duration
	}{
		{sim.Fault{Status: 403, Body: "<html>Access denied | Cloudflare</html>"}, time.Minute},
		{sim.Fault{Status: 403, Body: "error code: 1010"}, time.Minute},
		{sim.Fault{Status: 400, Body: `{"code":40004,"message":"Send messages has been temporarily disabled"}`}, 0},
	} {
		c.fault.Match = s.messages()
		off := s.Fail(c.fault)
		draft := chat.Draft{Key: c.fault.Body, Text: c.fault.Body}
		_, err := s.d.Post(within(t), s.address(), draft)
		off()
		var refused *chat.PostError
		if !errors.As(err, &refused) || refused.Permanent || refused.Maybe || refused.After != c.after {
			t.Errorf("%s: error %+v", c.fault.Body, err)
		}
		s.post(t, s.address(), draft)
	}
}

func TestRateLimitOfARoute(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	side := s.AddChannel(s.guild, "side")
	const rest = 3 * time.Second
	s.RateLimit(s.messages(), 2, rest, "user")
	done := make(chan error, 1)
	began := time.Now()
	go func() {
		for _, text := range []string{"one", "two", "three"} {
			if _, err := s.d.Post(within(t), s.address(), chat.Draft{Key: text, Text: text}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	if _, err := s.WaitRequest(within(t), s.messages()); err != nil {
		t.Fatal(err)
	}
	s.post(t, chat.Address{
		Platform:  "discord",
		Workspace: s.guild.ID,
		Channel:   side.ID,
	}, chat.Draft{Key: "side", Text: "at once"})
	if posts := s.Posts(side.ID); posts[0].Sent.Sub(began) >= rest {
		t.Errorf("another channel waited %v", posts[0].Sent.Sub(began))
	}
	if err := receive(t, done); err != nil {
		t.Fatal(err)
	}
	posts := s.Posts(s.general.ID)
	if len(posts) != 3 || posts[0].Content != "one" || posts[2].Content != "three" || posts[0].Sent.Sub(began) < 2*rest {
		t.Errorf("posts %+v", posts)
	}
}

func TestGlobalRateLimit(t *testing.T) {
	for name, limit := range map[string]func(s *stage, rest time.Duration){
		"global": func(s *stage, rest time.Duration) { s.RateLimit(s.messages(), 1, rest, "global") },
		"before Discord, as HTML": func(s *stage, _ time.Duration) {
			s.Fail(sim.Fault{
				Match:  s.messages(),
				Times:  1,
				Status: 429,
				Header: map[string]string{"Retry-After": "5"},
				Body:   "<html>slow down</html>",
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, script{})
			if err := s.WaitCommand(within(t), "raven"); err != nil {
				t.Fatal(err)
			}
			side := s.AddChannel(s.guild, "side")
			const rest = 5 * time.Second
			limit(s, rest)
			done := make(chan error, 1)
			began := time.Now()
			go func() {
				_, err := s.d.Post(within(t), s.address(), chat.Draft{Key: "a", Text: "limited"})
				done <- err
			}()
			if err := s.log.Wait(within(t), func() bool {
				return strings.Contains(s.log.b.String(), "rate limit")
			}); err != nil {
				t.Fatal(err)
			}
			m := s.slash(t, "ask", map[string]any{"text": "interactions are not held up"})
			s.post(t, m.Conversation, chat.Draft{Key: m.Key(), Text: "here", Reply: m.Reply})
			if took := time.Since(began); took >= rest {
				t.Errorf("an interaction waited %v", took)
			}
			s.post(t, chat.Address{
				Platform:  "discord",
				Workspace: s.guild.ID,
				Channel:   side.ID,
			}, chat.Draft{Key: "b", Text: "held back"})
			if posts := s.Posts(side.ID); posts[0].Sent.Sub(began) < rest {
				t.Errorf("another channel did not wait: %v", posts[0].Sent.Sub(began))
			}
			if err := receive(t, done); err != nil {
				t.Error(err)
			}
		})
	}
}

// A wait that the caller cannot sit out is handed to the caller.
func TestRateLimitBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	s.RateLimit(s.messages(), 1, time.Minute, "user")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := s.d.Post(ctx, s.address(), chat.Draft{Key: "k", Text: "x"})
	var refused *chat.PostError
	if !errors.As(err, &refused) || refused.Permanent || refused.Maybe || refused.After < 50*time.Second ||
		ctx.Err() != nil {
		t.Errorf("error %+v", err)
	}
}

// TestRefusedReplyIsPostedWithoutReference: without the permission to read a
// channel's history Discord refuses a reply, but takes the same text as a post.
func TestRefusedReplyIsPostedWithoutReference(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	asked := s.Say(s.general.ID, s.ann, "hello")
	s.Fail(sim.Fault{Match: func(r sim.Request) bool {
		return s.messages()(r) && strings.Contains(string(r.Body), "message_reference")
	}, Status: 400, Body: `{"code":160002,"message":"Cannot reply without permission to read message history"}`})
	if _, err := s.d.Post(within(t), s.address(), chat.Draft{
		Key:   "k",
		Text:  "an answer",
		Reply: chat.Reply{MessageID: asked.ID},
	}); err != nil {
		t.Fatal(err)
	}
	posts := s.Posts(s.general.ID)
	if last := posts[len(posts)-1]; last.Content != "an answer" || last.ReplyTo != "" {
		t.Errorf("posted %+v, want the answer without its reference", last)
	}
}

// Who invited the bot may have left out Embed Links: the stories come as text.
func TestWithoutThePermissionForEmbeds(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"refuse", "drop"} {
		s := open(t, script{sim: simdiscord.Options{NoEmbeds: how}})
		d := chat.Draft{Key: "d", Text: "**Morning** news", Footer: "made by a test"}
		for n := range 12 {
			d.Cards = append(d.Cards, chat.Card{Title: fmt.Sprintf("Story %d [x](y)", n),
				URL: fmt.Sprint("https://example.org/", n), Text: strings.Repeat("Words. ", 50),
				Source: "Letters", Also: []chat.Link{{Title: "elsewhere", URL: "https://example.com/"}}})
		}
		ref := s.post(t, s.address(), d)
		all := ""
		for _, p := range s.Posts(s.general.ID) {
			if !p.Deleted {
				all += p.Content + "\n"
			}
			if p.Flags&simdiscord.FlagSuppressEmbeds == 0 || len(p.Embeds) > 0 {
				t.Errorf("%s: previews in %+v", how, p)
			}
		}
		for n := range 12 {
			if strings.Count(all, fmt.Sprintf("https://example.org/%d)", n)) != 1 {
				t.Errorf("%s: story %d is not there once:\n%s", how, n, all)
			}
		}
		if len(ref.IDs) != len(s.Posts(s.general.ID)) || !strings.HasPrefix(all, "**Morning** news") ||
			!strings.HasSuffix(all, "-# made by a test\n") {
			t.Errorf("%s: %d posts, %q", how, len(s.Posts(s.general.ID)), all)
		}
	}
}

// A post notifies whom it is meant to notify and nobody else, however many messages it has and whatever its text says.
func TestPost_Notify_NotifiesThoseAlone(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	d := chat.Draft{
		Key:    "ping",
		Text:   "@everyone <@&111> <@222> " + strings.Repeat("News of the day. ", 300),
		Notify: []string{"role:333", "user:444"},
	}
	s.post(t, s.address(), d)
	posts := s.Posts(s.general.ID)
	if len(posts) < 2 {
		t.Fatalf("%d messages, want several", len(posts))
	}
	for n, p := range posts {
		got := fmt.Sprint(p.Pings.Everyone, p.Pings.Roles, p.Pings.Users)
		want := "false [] []"
		if n == 0 {
			want = "false [333] [444]"
		}
		if got != want {
			t.Errorf("message %d notifies %s, want %s", n, got, want)
		}
	}
}
