package discord_test

import (
	"errors"
	"slices"
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

// pages is a text of so many messages, each beginning with its number.
func pages(word string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strconv.Itoa(i) + " " + strings.TrimSpace(strings.Repeat(word+" ", 1900/(len(word)+1))) + "\n\n")
	}
	return b.String()
}

// shown lists the beginnings of the bot's posts in a channel that are still there.
func (s *stage) shown(channel string) []string {
	var list []string
	for _, p := range s.Posts(channel) {
		if !p.Deleted {
			list = append(list, p.Content[:min(len(p.Content), 3)])
		}
	}
	return list
}

func TestEditedInPlace(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	asked := s.Say(s.general.ID, s.ann, s.Mention()+" hi")
	first := s.post(t, s.address(), chat.Draft{Key: "1", Text: pages("a", 3), Reply: chat.Reply{MessageID: asked.ID}})
	calls := " @everyone <@" + s.ann.ID + "> https://example.org"
	d := chat.Draft{Key: "2", Text: pages("b", 1) + calls, Reply: chat.Reply{MessageID: asked.ID}, Replaces: first}
	second := s.post(t, s.address(), d)
	if diff := cmp.Diff(chat.Ref{IDs: first.IDs[:len(second.IDs)]}, second); diff != "" {
		t.Error(diff)
	}
	grown := s.post(t, s.address(), chat.Draft{Key: "3", Text: pages("c", 3), Reply: chat.Reply{MessageID: asked.ID},
		Replaces: second})
	if got := s.shown(s.general.ID); len(grown.IDs) != 3 || grown.IDs[0] != first.IDs[0] ||
		!slices.Equal(got, []string{"0 c", "1 c", "2 c"}) {
		t.Errorf("shows %q, ref %v", got, grown)
	}
	cards := s.post(t, s.address(), chat.Draft{Key: "4", Cards: []chat.Card{{Title: "A story",
		URL: "https://example.org"}}, Replaces: grown})
	p := s.Posts(s.general.ID)[0]
	if len(cards.IDs) != 1 || p.Content != "" || len(p.Embeds) != 1 || p.Flags&simdiscord.FlagSuppressEmbeds != 0 {
		t.Errorf("cards are %+v", p)
	}
	s.post(t, s.address(), chat.Draft{Key: "5", Text: "words" + calls, Replaces: cards})
	for _, p := range s.Posts(s.general.ID) {
		if p.Pings.Everyone || len(p.Pings.Users) > 0 || !p.Deleted &&
			(len(p.Embeds) > 0 || p.Flags != simdiscord.FlagSuppressEmbeds || p.ReplyTo != asked.ID) {
			t.Errorf("in the end %+v", p)
		}
	}
	for _, r := range s.Requests() {
		if r.Method == "PATCH" && strings.Contains(r.Path, "/messages/") &&
			!strings.Contains(string(r.Body), `"allowed_mentions":{"parse":[],"replied_user":false}`) {
			t.Errorf("an edit that may ping: %s", r.Body)
		}
	}
}

// Of what is to be replaced something may be gone, or have never been a post.
func TestReplacedPostsThatAreGone(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	for name, c := range map[string]struct {
		spoil func(chat.Ref) chat.Ref
		kept  int // pieces at the beginning that keep their post
	}{
		"first":         {func(r chat.Ref) chat.Ref { s.Delete(r.IDs[0]); return r }, 0},
		"second":        {func(r chat.Ref) chat.Ref { s.Delete(r.IDs[1]); return r }, 1},
		"no ids":        {func(chat.Ref) chat.Ref { return chat.Ref{IDs: []string{"response/1", "x", ""}} }, 0},
		"not the bot's": {func(chat.Ref) chat.Ref { return chat.Ref{IDs: []string{s.Say(s.general.ID, s.ann, "hi").ID}} }, 0},
	} {
		at := s.address()
		if name != "not the bot's" {
			at.Channel = s.AddChannel(s.guild, name).ID
		}
		old := s.post(t, at, chat.Draft{Key: name + "1", Text: pages("a", 3)})
		spoilt := c.spoil(old)
		d := chat.Draft{Key: name + "2", Text: pages("b", 3), Replaces: spoilt}
		ref := s.post(t, at, d)
		got := s.shown(at.Channel)
		if len(ref.IDs) != 3 || !slices.Equal(got[len(got)-3:], []string{"0 b", "1 b", "2 b"}) ||
			!slices.Equal(ref.IDs[:c.kept], old.IDs[:c.kept]) {
			t.Errorf("%s: shows %q, ref %v of %v", name, got, ref, old)
		}
		if spoilt.IDs[0] == old.IDs[0] && len(got) != 3 {
			t.Errorf("%s: %q are left", name, got)
		}
		d.Again = true
		again, err := s.another(t).Post(within(t), at, d)
		if err != nil || !slices.Equal(again.IDs, ref.IDs) || len(s.shown(at.Channel)) != len(got) {
			t.Errorf("%s: repeated as %v, want %v: %v", name, again, ref, err)
		}
	}
}

func TestEditThatFailsForTheMomentIsRepeated(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"PATCH", "DELETE"} {
		s := open(t, script{})
		old := s.post(t, s.address(), chat.Draft{Key: "1", Text: pages("a", 2)})
		s.Fail(sim.Fault{Match: sim.MatchPath(method, "/messages/"), Times: 1, Status: 503})
		d := chat.Draft{Key: "2", Text: "short", Replaces: old}
		_, err := s.d.Post(within(t), s.address(), d)
		var refused *chat.PostError
		if !errors.As(err, &refused) || refused.Permanent {
			t.Fatalf("%s: %v", method, err)
		}
		d.Again = true
		if ref := s.post(t, s.address(), d); !slices.Equal(ref.IDs, old.IDs[:1]) || len(s.shown(s.general.ID)) != 1 {
			t.Errorf("%s: ref %v, shows %q", method, ref, s.shown(s.general.ID))
		}
	}
}

// An answer to a command is edited as one, and later as a message of the channel.
// One for the asker alone can then no longer be reached.
func TestAnswersToCommandsAreEdited(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	later := func() *discord.Discord {
		return discord.New(discord.Options{Token: "token", APIBaseURL: s.URL(), Log: s.logger(), Now: func() time.Time {
			return time.Now().Add(time.Hour)
		}})
	}
	for _, ephemeral := range []bool{false, true} {
		sub, options := "ask", map[string]any{"text": "why?"}
		if ephemeral {
			sub, options = "tools", nil
		}
		m := s.slash(t, sub, options)
		d := chat.Draft{Key: m.Key(), Text: pages("a", 2), Reply: m.Reply, Ephemeral: ephemeral}
		old := s.post(t, m.Conversation, d)
		d.Key, d.Text, d.Replaces = m.Key()+"2", pages("b", 2), old
		if ref := s.post(t, m.Conversation, d); !slices.Equal(ref.IDs, old.IDs) {
			t.Errorf("ephemeral %v: ref %v, want %v", ephemeral, ref, old)
		}
		before := len(s.Posts(s.general.ID))
		d.Key, d.Text = m.Key()+"3", pages("c", 2)
		ref, err := later().Post(within(t), m.Conversation, d)
		if err != nil || slices.Equal(ref.IDs, old.IDs) == ephemeral ||
			len(s.Posts(s.general.ID))-before != map[bool]int{true: 2}[ephemeral] {
			t.Errorf("an hour later, ephemeral %v: %v: %v", ephemeral, ref, err)
		}
	}
}

// The more is said since, the further the adapter looks.
func TestEarlierAttemptInABusyChannel(t *testing.T) {
	t.Parallel()
	s := open(t, script{sim: simdiscord.Options{NonceLife: time.Nanosecond}})
	asked := s.Say(s.general.ID, s.ann, s.Mention()+" hi")
	chatter := func(n int) {
		for range n {
			s.Say(s.general.ID, s.ann, "chatter")
		}
	}
	chatter(250)
	d := chat.Draft{
		Key:   "k",
		Text:  pages("a", 2),
		Reply: chat.Reply{MessageID: asked.ID},
		Again: true,
		Since: time.Now().Add(72 * time.Hour),
	} // by a wrong clock
	ref := s.post(t, s.address(), d)
	chatter(250)
	if got, err := s.another(t).Post(within(t), s.address(), d); err != nil ||
		!slices.Equal(got.IDs, ref.IDs) || got.Repeated {
		t.Errorf("ref %v, want %v: %v", got, ref, err)
	}
	d.Since, d.Reply.MessageID = time.Now(), "" // a digest answers nothing
	if got, err := s.another(t).Post(within(t), s.address(), d); err != nil ||
		!slices.Equal(got.IDs, ref.IDs) || got.Repeated {
		t.Errorf("ref %v, want %v: %v", got, ref, err)
	}
	// What is further away than is read may be there.
	first := s.Say(s.general.ID, s.ann, s.Mention()+" hi")
	chatter(501)
	d = chat.Draft{Key: "far", Text: "an answer", Reply: chat.Reply{MessageID: first.ID}, Again: true}
	if got, err := s.another(t).Post(within(t), s.address(), d); err != nil || !got.Repeated {
		t.Errorf("ref %+v: %v", got, err)
	}
}

// While it cannot be seen what is there, nothing is sent.
func TestLookingThatFailsForTheMoment(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]sim.Fault{
		"502": {Status: 502}, "cut": {Drop: true}, "401": {Status: 401},
		"429": {Status: 429, Header: map[string]string{"Retry-After": "90"}, Body: `{"retry_after":90,"global":false}`},
	} {
		s := open(t, script{})
		asked := s.Say(s.general.ID, s.ann, s.Mention()+" hi")
		fault.Match = history(s.general.ID)
		off := s.Fail(fault)
		d := chat.Draft{Key: "k", Text: "x", Again: true, Reply: chat.Reply{MessageID: asked.ID}}
		_, err := s.d.Post(within(t), s.address(), d)
		var refused *chat.PostError
		if !errors.As(err, &refused) || refused.Permanent || !refused.Maybe ||
			!strings.Contains(err.Error(), "look for an earlier attempt") ||
			name == "429" && refused.After < time.Minute || len(s.Posts(s.general.ID)) != 0 {
			t.Errorf("%s: %v, %d posts", name, err, len(s.Posts(s.general.ID)))
		}
		if off(); name == "429" {
			continue
		}
		if ref := s.post(t, s.address(), d); ref.Repeated || len(s.Posts(s.general.ID)) != 1 {
			t.Errorf("%s: ref %+v", name, ref)
		}
	}
}

// Where nobody can look, a post is sent once more, and says so.
func TestRepeatThatNobodyCanRuleOutIsMarked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		since  time.Duration
		marked bool
	}{
		"nonce remembered": {time.Minute, false}, "nonce forgotten": {3 * time.Minute, true}, "not known": {0, true},
	} {
		s := open(t, script{})
		s.HideHistory(s.general.ID)
		d := chat.Draft{Key: "k", Text: "words", Footer: "a footer",
			Reply: chat.Reply{MessageID: s.Say(s.general.ID, s.ann, "hi").ID}, Again: true}
		if c.since > 0 {
			d.Since = time.Now().Add(-c.since)
		}
		ref := s.post(t, s.address(), d)
		want := "words\n-# a footer"
		if c.marked {
			want += " · " + chat.MayRepeat
		}
		if got := s.Posts(s.general.ID); len(got) != 1 || got[0].Content != want || ref.Repeated != c.marked {
			t.Errorf("%s: ref %+v, posts %+v", name, ref, got)
		}
	}
}

func TestAtMostOneRepeat(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	s := open(t, script{
		sim:     simdiscord.Options{NonceLife: time.Nanosecond},
		discord: discord.Options{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }},
	})
	if err := s.WaitCommand(within(t), "raven"); err != nil {
		t.Fatal(err)
	}
	s.HideHistory(s.general.ID)
	s.Fail(sim.Fault{Match: s.messages(), Accept: true, Status: 502})
	d := chat.Draft{Key: "k", Text: "words"}
	var refused *chat.PostError
	for range 2 {
		if _, err := s.d.Post(within(t), s.address(), d); !errors.As(err, &refused) || refused.Permanent || !refused.Maybe {
			t.Fatalf("error %v", err)
		}
		d.Again = true
	}
	if posts := s.Posts(s.general.ID); len(posts) != 2 || posts[0].Content != "words" ||
		posts[1].Content != "words\n-# "+chat.MayRepeat {
		t.Errorf("posts %+v", posts)
	}
	ahead.Store(int64(5 * time.Minute))
	if _, err := s.d.Post(within(t), s.address(), d); !errors.As(err, &refused) || !refused.Permanent || !refused.Maybe {
		t.Errorf("error %v", err)
	}
	if n := len(s.Posts(s.general.ID)); n != 2 {
		t.Errorf("%d posts", n)
	}
}

// The first answer to a command can be repeated at will; those that follow cannot
// be looked up when they are for the asker alone.
func TestRepeatedAnswersToCommands(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	for n, marked := range map[int]bool{1: false, 2: true} {
		m := s.slash(t, "tools", nil)
		d := chat.Draft{Key: m.Key(), Text: pages("a", n), Reply: m.Reply, Ephemeral: true}
		s.post(t, m.Conversation, d)
		d.Again, d.Since = true, time.Now()
		ref, err := s.another(t).Post(within(t), m.Conversation, d)
		posts := s.Posts(s.general.ID)
		last := posts[len(posts)-1]
		if err != nil || len(ref.IDs) != n || ref.Repeated != marked ||
			strings.HasSuffix(last.Content, "\n-# "+chat.MayRepeat) != marked || !last.Ephemeral() {
			t.Errorf("%d messages: ref %+v, last %+v: %v", n, ref, last, err)
		}
	}
	m := s.slash(t, "ask", map[string]any{"text": "why?"})
	d := chat.Draft{Key: m.Key(), Text: pages("a", 2), Reply: m.Reply}
	ref := s.post(t, m.Conversation, d)
	d.Again = true
	if got, err := s.another(t).Post(within(t), m.Conversation, d); err != nil ||
		!slices.Equal(got.IDs, ref.IDs) || got.Repeated {
		t.Errorf("everybody sees %+v, found %+v: %v", ref, got, err)
	}
}

// The beginning of an answer may be there although showing it failed; the whole answer takes its place.
func TestPost_ShowingTheBeginningFailed_WholeAnswerTakesItsPlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		pages int
		fault sim.Fault
	}{
		{"posted without an answer", 1, sim.Fault{Accept: true, Status: 502, Times: 1}},
		{"refused after the first message", 2, sim.Fault{Status: 403, Times: 1,
			Body: `{"code":50013,"message":"Missing Permissions"}`}},
	} {
		s := open(t, script{sim: simdiscord.Options{NonceLife: time.Nanosecond}})
		asked := s.Say(s.general.ID, s.ann, s.Mention()+" hi")
		receive(t, s.got)
		var posts atomic.Int32
		tt.fault.Match = func(r sim.Request) bool {
			return r.Method == "POST" && strings.HasSuffix(r.Path, "/messages") && int(posts.Add(1)) == tt.pages
		}
		s.Fail(tt.fault)
		d := chat.Draft{Key: "k", Text: pages("a", tt.pages), Reply: chat.Reply{MessageID: asked.ID}, Partial: true}
		if ref, err := s.d.Post(within(t), s.address(), d); err == nil {
			t.Fatalf("%s: no failure, %v", tt.name, ref)
		}
		d.Partial, d.Text = false, "9 the whole answer"
		if ref := s.post(t, s.address(), d); ref.Repeated {
			t.Errorf("%s: the answer says that it may be a repeat", tt.name)
		}
		if got := s.shown(s.general.ID); !slices.Equal(got, []string{"9 t"}) {
			t.Errorf("%s: the channel shows %q, want the whole answer alone", tt.name, got)
		}
	}
}

// A crash leaves the beginning of an answer, and another message joins the question before the next start answers it.
func TestPost_BeginningRepliesToAnEarlierMessage_IsReplaced(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	first := s.Say(s.general.ID, s.ann, s.Mention()+" hi")
	d := chat.Draft{Key: "k", Text: "so far", Reply: chat.Reply{MessageID: first.ID}, Partial: true}
	s.post(t, s.address(), d)
	second := s.Say(s.general.ID, s.ann, s.Mention()+" and you?")
	d.Partial, d.Again, d.Text = false, true, "9 the whole answer"
	d.Reply, d.Answers = chat.Reply{MessageID: second.ID}, []chat.Reply{d.Reply}
	s.post(t, s.address(), d)
	if got := s.shown(s.general.ID); !slices.Equal(got, []string{"9 t"}) {
		t.Errorf("the channel shows %q, want the whole answer alone", got)
	}
}

// Where the history cannot be read, the nonce tells whether the beginning of an answer is there: either way one message
// is left, and it shows the whole answer.
func TestPost_BeginningOfUnknownOutcome_HistoryHidden_OneMessageIsLeft(t *testing.T) {
	t.Parallel()
	for name, accept := range map[string]bool{"the beginning was posted": true, "it was not": false} {
		s := open(t, script{})
		s.HideHistory(s.general.ID)
		off := s.Fail(sim.Fault{Match: s.messages(), Accept: accept, Status: 502})
		// Without a reply: Discord refuses those where the history may not be read, and takes the second request.
		d := chat.Draft{Key: "k", Text: "so far", Partial: true}
		if ref, err := s.d.Post(within(t), s.address(), d); err == nil {
			t.Fatalf("%s: no failure, %v", name, ref)
		}
		off()
		d.Partial, d.Text = false, "the whole answer"
		var own []string
		ref := s.post(t, s.address(), d)
		for _, p := range s.Posts(s.general.ID) {
			if p.Author.Bot && !p.Deleted {
				own = append(own, p.Content)
			}
		}
		if ref.Repeated || !slices.Equal(own, []string{"the whole answer"}) {
			t.Errorf("%s: ref %+v, posts %q", name, ref, own)
		}
	}
}
