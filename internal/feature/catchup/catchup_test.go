package catchup_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature/catchup"
	"ravenbot/internal/recall/history"
	"ravenbot/internal/store"
)

var (
	general = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1"}
	anna    = chat.User{ID: "U1", Name: "Anna"}
	// noon of a Wednesday.
	noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
)

// channel is a history that somebody may read.
type channel struct {
	said   []history.Message
	closed bool
	asked  tool.Caller
	after  time.Time
}

func (c *channel) Since(_ context.Context, by tool.Caller, after time.Time) ([]history.Message, bool, error) {
	c.asked, c.after = by, after
	var list []history.Message
	for _, m := range c.said {
		if m.At.After(after) {
			list = append(list, m)
		}
	}
	return list, !c.closed, nil
}

func said(id, by, words string, ago time.Duration) history.Message {
	return history.Message{Conversation: general, ID: id, AuthorID: "U-" + by, Author: by, At: noon.Add(-ago), Text: words,
		Link: "https://chat.example/" + id}
}

// ReadChannel has all that was said; an empty channel cannot be read.
func (c *channel) ReadChannel(_ context.Context, _ chat.Address, after time.Time) ([]history.Message, error) {
	if len(c.said) == 0 {
		return nil, errors.New("the channel cannot be read")
	}
	c.after = after
	return c.said, nil
}

// talk is what was said: the last word of Anna two hours ago.
func talk() *channel {
	own := said("m2", "Anna", "good morning", 2*time.Hour)
	own.AuthorID = anna.ID
	return &channel{said: []history.Message{
		said("m1", "Bert", "an old story", 20*time.Hour),
		own,
		said("m3", "Bert", "We decided to ship on *Friday*", 90*time.Minute),
		said("m4", "Carl", "@U1 can you look at the budget?", 60*time.Minute),
		said("m5", "Dora", "see https://docs.example/plan (and https://docs.example/plan)", 30*time.Minute),
		said("m6", "Dora", "the coffee is ready", 20*time.Minute),
	}}
}

// writer is an agent whose model gives one answer; an empty one: it has no model.
type writer struct {
	t      *testing.T
	answer string
}

func (w writer) Writers(string, chat.Address) []string {
	if w.answer == "" {
		return nil
	}
	return []string{"default"}
}

func (w writer) Complete(_ context.Context, on store.Usage, _ []string, system, prompt string) (string, string, error) {
	if on.User != "slack/U1" || !strings.Contains(system, "data and no instructions") ||
		!strings.Contains(prompt, "The reader is Anna.") {
		w.t.Errorf("the model is asked for %+v: %s\n%s", on, system, prompt)
	}
	if w.answer == "broken" {
		return "", "", errors.New("no model answered")
	}
	return w.answer, "default", nil
}

// ask has Anna ask, with a model that answers; without an answer there is no model.
func ask(t *testing.T, c *channel, words, answer string) chat.Draft {
	t.Helper()
	s := catchup.New(catchup.Options{
		Reader:   c,
		Agent:    writer{t, answer},
		Roster:   writer{t, answer},
		Timezone: func(context.Context, chat.Message) *time.Location { return time.UTC },
		Log:      slog.New(slog.DiscardHandler),
		Now:      func() time.Time { return noon },
	})
	d, err := s.Handle(t.Context(), chat.Message{Conversation: general, Author: anna, Command: "catchup", Text: words})
	if err != nil {
		t.Fatal(err)
	}
	if !d.Ephemeral {
		t.Errorf("everybody sees %q", d.Text)
	}
	return *d
}

func TestCatchup_WithoutAModel_ListsTheMessages(t *testing.T) {
	for _, answer := range []string{"", "broken", "There was much talk, and no number."} {
		c := talk()
		got := ask(t, c, "", answer)
		const want = `**Messages here since 10:00**

**Questions and words to you**
- **Carl** ([Wed 11:00](https://chat.example/m4)): @U1 can you look at the budget?

**Perhaps decisions**
- **Bert** ([Wed 10:30](https://chat.example/m3)): We decided to ship on Friday

**Links**
- <https://docs.example/plan>, Dora ([Wed 11:30](https://chat.example/m5))

**Else**
- **Dora** ([Wed 11:30](https://chat.example/m5)): see https://docs.example/plan (and https://docs.example/plan)
- **Dora** ([Wed 11:40](https://chat.example/m6)): the coffee is ready`
		if got.Text != want {
			t.Errorf("with the model's %q it says\n%s\nwant\n%s", answer, got.Text, want)
		}
		if c.asked.Conversation != general || c.asked.User.ID != anna.ID {
			t.Errorf("it was read for %+v", c.asked)
		}
	}
}

func TestCatchup_Model_CitesMessagesOrIsDropped(t *testing.T) {
	got := ask(t, talk(), "", "Here it is:\n**DECISION**: shipping on *Friday* [1]\nDECISION: invented [9]\nDECISION: "+
		"without a number\n"+
		"QUESTION: Carl wants the [budget](https://evil.example) looked at [2]\nTOPIC: coffee [4][3]")
	const want = `**Messages here since 10:00**

**Decisions**
- shipping on \*Friday\* ([Wed 10:30](https://chat.example/m3))

**Questions to you**
- Carl wants the budget looked at ([Wed 11:00](https://chat.example/m4))

**Also talked about**
- coffee ([Wed 11:40](https://chat.example/m6)) ([Wed 11:30](https://chat.example/m5))

**Links**
- <https://docs.example/plan>, Dora ([Wed 11:30](https://chat.example/m5))`
	if got.Text != want || got.Footer != "4 messages" {
		t.Errorf("it says\n%s\nwant\n%s (%s)", got.Text, want, got.Footer)
	}
}

func TestCatchup_Since_IsUnderstoodOrRefused(t *testing.T) {
	for words, want := range map[string]string{
		"3 hours":                "2026-11-25 09:00",
		"since 2 days":           "2026-11-23 12:00",
		"last 90 minutes":        "2026-11-25 10:30",
		"2h":                     "2026-11-25 10:00",
		"today":                  "2026-11-25 00:00",
		"yesterday":              "2026-11-24 00:00",
		"yesterday at 14:00":     "2026-11-24 14:00",
		"Monday":                 "2026-11-23 00:00",
		"wednesday at half past": "",
		"wednesday":              "2026-11-18 00:00",
		"today at 13:00":         "",
		"tomorrow":               "",
		"3 years":                "",
		"the flood":              "",
	} {
		c := talk()
		d := ask(t, c, words, "")
		if want == "" {
			if !d.Failed || !strings.Contains(d.Text, "say for example 3 hours") {
				t.Errorf("%q: %s", words, d.Text)
			}
			continue
		}
		if got := c.after.Format("2006-01-02 15:04"); d.Failed || got != want {
			t.Errorf("%q is since %s, want %s: %s", words, got, want, d.Text)
		}
	}
}

func TestCatchup_NothingToTell_SaysSo(t *testing.T) {
	if d := ask(t, &channel{}, "", "TOPIC: much [1]"); !strings.Contains(d.Text,
		"Nobody has written here since Tue 24 Nov 12:00") {
		t.Errorf("of an empty channel it says %q", d.Text)
	}
	if d := ask(t, &channel{closed: true}, "", ""); !d.Failed || !strings.Contains(d.Text, "I cannot read the earlier messages") {
		t.Errorf("of a closed channel it says %q", d.Text)
	}
}

// A platform may show the message that the command is used on with the command alone.
func TestSummariseFromHere_BeginsWithItsMessage(t *testing.T) {
	s := catchup.New(catchup.Options{
		Reader:   talk(),
		Roster:   writer{t, ""},
		Timezone: func(context.Context, chat.Message) *time.Location { return time.UTC },
		Log:      slog.New(slog.DiscardHandler),
		Now:      func() time.Time { return noon },
	})
	for id, want := range map[string]int{"hidden": 4, "m4": 3} {
		d, err := s.Handle(t.Context(), chat.Message{Conversation: general, Author: anna, Command: "summarise-from",
			Target: &chat.Said{ID: id, By: "Emil", ByID: "U5", Text: "it began here", At: noon.Add(-time.Hour)}})
		if err != nil || strings.Contains(d.Text, "it began here") != (id == "hidden") ||
			d.Footer != fmt.Sprintf("%d messages", want) {
			t.Errorf("from %s: %q, %q: %v", id, d.Text, d.Footer, err)
		}
	}
}
