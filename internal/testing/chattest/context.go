package chattest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
)

// reader returns the platform as one that tells what a message is about.
func (s *stage) reader(t *testing.T) chat.ContextReader {
	t.Helper()
	r, can := s.Platform.(chat.ContextReader)
	if !can {
		t.Skip("nothing is told of messages")
	}
	return r
}

// overhear says something beside the bot; where there is no such thing it says it to the bot.
func (s *stage) overhear(t *testing.T, text string) string {
	t.Helper()
	if s.Overhear != nil {
		return s.Overhear(s.Channel, text)
	}
	id := s.say(t, s.Channel, text)
	s.next(t, text, hasText(text))
	return id
}

// within the time that a turn has for it, and some more for a busy machine.
func (s *stage) context(t *testing.T, m chat.Message, q chat.ContextQuery) chat.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return s.reader(t).Context(ctx, m, q)
}

// "Names are display names by user ID: of the author …"
func contextNamesAuthor(t *testing.T, s *stage) {
	s.reader(t)
	s.start(t)
	s.say(t, s.Channel, "who am I?")
	m := s.next(t, "the question", hasText("who am I?"))
	c := s.context(t, m, chat.ContextQuery{})
	if c.Names[m.Author.ID] != s.Name || c.Place.Channel == "" || c.Place.InThread {
		t.Errorf("names %v, place %+v", c.Names, c.Place)
	}
	if c.Reply != nil || c.Root != nil || len(c.Recent)+len(c.Linked) > 0 {
		t.Errorf("more than was asked for: %+v", c)
	}
}

// "Recent are the newest messages before this one, oldest first, those of the bot included", and
// "Notes say … what could not be read, and why".
func contextRecentInOrder(t *testing.T, s *stage) {
	s.reader(t)
	s.start(t)
	for _, text := range []string{"one", "two", "three"} {
		s.overhear(t, text)
	}
	own := s.post(t, chat.Draft{Key: "k", Text: "a post"})
	s.say(t, s.Channel, "what was said?")
	m := s.next(t, "the question", hasText("what was said?"))
	s.overhear(t, "said afterwards")
	c := s.context(t, m, chat.ContextQuery{Messages: 3})
	var texts []string
	for _, said := range c.Recent {
		texts = append(texts, said.Text)
		if said.By == "" || said.At.IsZero() || said.Self != slices.Contains(own.IDs, said.ID) || said.Hidden {
			t.Errorf("said %+v", said)
		}
	}
	want, note := []string{"two", "three", "a post"}, ""
	if s.Hides {
		want, note = []string{"a post"}, "2 messages of others are not shown to me, because "
	}
	notes := strings.Join(c.Notes, "")
	if !slices.Equal(texts, want) || (notes != "") != s.Hides || !strings.HasPrefix(notes, note) {
		t.Errorf("recent %q, notes %q, want %q and %q", texts, c.Notes, want, note)
	}
	// "Recent begins behind" the message that is known.
	s.say(t, s.Channel, "and now?")
	next := s.next(t, "the second question", hasText("and now?"))
	c = s.context(t, next, chat.ContextQuery{Messages: 10, After: m.ID})
	isKnown := func(said chat.Said) bool { return said.Text == "a post" || said.Subject == m.Subject() }
	if slices.ContainsFunc(c.Recent, isKnown) {
		t.Errorf("behind the first question: %+v", c.Recent)
	}
}

// "Reply is the message that this one replies to."
func contextQuotesReply(t *testing.T, s *stage) {
	s.reader(t)
	if s.Reply == nil {
		t.Skip("there are no replies to single messages")
	}
	s.start(t)
	quoted := s.overhear(t, "the sky is green")
	s.Reply(s.Channel, quoted, "is this true?")
	m := s.next(t, "the question", hasText("is this true?"))
	c := s.context(t, m, chat.ContextQuery{})
	if m.ReplyTo != quoted || c.Reply == nil || c.Reply.ID != quoted || c.Reply.Hidden != s.Hides || c.Reply.By == "" ||
		!s.Hides && c.Reply.Text != "the sky is green" || (len(c.Notes) > 0) != s.Hides {
		t.Errorf("%q replies to %+v, notes %q", m.ReplyTo, c.Reply, c.Notes)
	}
}

// "Context ends with ctx: what could not be read by then is missing."
func contextEnds(t *testing.T, s *stage) {
	s.reader(t)
	s.start(t)
	s.say(t, s.Channel, "hello")
	m := s.next(t, "the question", hasText("hello"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	s.reader(t).Context(ctx, m, chat.ContextQuery{Messages: 10})
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v after the end", took)
	}
}
