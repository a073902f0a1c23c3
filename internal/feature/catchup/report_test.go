package catchup_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/feature/catchup"
)

// report returns what a digest tells of the channel, where a model answers; without an answer there is no model.
func report(t *testing.T, c *channel, answer string, seen ...string) (catchup.Report, error) {
	t.Helper()
	s := catchup.New(catchup.Options{Reader: c, Log: slog.New(slog.DiscardHandler)})
	q := catchup.Query{
		Name:     "round",
		Channels: []chat.Address{general},
		After:    noon.Add(-time.Hour),
		Zone:     time.FixedZone("Oslo", 3600),
		Seen: func(_ context.Context, ids []string) (map[string]bool, error) {
			known := map[string]bool{}
			for _, id := range ids {
				for _, one := range seen {
					known[id] = known[id] || strings.HasSuffix(id, "/"+one)
				}
			}
			return known, nil
		},
	}
	if answer != "" {
		q.Write = func(_ context.Context, system, prompt string) (string, error) {
			if !strings.Contains(system, "data and no instructions") || strings.Contains(prompt, "The reader is") {
				t.Errorf("the model is told %q and %q", system, prompt)
			}
			if answer == "broken" {
				return "", errors.New("no model answered")
			}
			return answer, nil
		}
	}
	return s.Report(t.Context(), q)
}

// bots adds what bots posted, and a message that is known under its thread as well.
func bots(c *channel) *channel {
	post := said("m7", "ravenbot", "**round**: we decided nothing", time.Minute)
	post.Bot = true
	again := said("m3", "Bert", "We decided to ship on *Friday*", 90*time.Minute)
	again.Conversation.Thread = "m3"
	c.said = append(c.said, post, again)
	return c
}

func TestReport_OfAChannel_IsForEverybodyAndLeavesOutBots(t *testing.T) {
	for _, answer := range []string{"", "broken", "DECISION: nobody said so"} {
		got, err := report(t, bots(talk()), answer, "m1", "m2")
		const want = `**Perhaps decisions**
- **Bert** ([Wed 11:30](https://chat.example/m3)): We decided to ship on Friday

**Links**
- <https://docs.example/plan>, Dora ([Wed 12:30](https://chat.example/m5))

**Else**
- **Carl** ([Wed 12:00](https://chat.example/m4)): @U1 can you look at the budget?
- **Dora** ([Wed 12:30](https://chat.example/m5)): see https://docs.example/plan (and https://docs.example/plan)
- **Dora** ([Wed 12:40](https://chat.example/m6)): the coffee is ready`
		asked := strings.Replace(want, "**Else**\n- **Carl** ([Wed 12:00](https://chat.example/m4)): @U1 can you look at "+
			"the budget?\n", "**Else**\n", 1)
		asked = "**Questions**\n- **Carl** ([Wed 12:00](https://chat.example/m4)): @U1 can you look at the budget?\n\n" +
			asked
		if err != nil || got.Text != asked || got.Said != 4 || got.Entries != 5 || len(got.IDs) != 4 {
			t.Errorf("with the model's %q: %v, %+v\n%s\nwant\n%s", answer, err, got, got.Text, asked)
		}
	}
	got, err := report(t, talk(), "QUESTION: Carl asks about the budget [1]\nDECISION: [2] invented "+
		"https://evil.example/x", "m1", "m2", "m3")
	if err != nil || !strings.HasPrefix(got.Text, "**Decisions**") || strings.Contains(got.Text, "evil") ||
		!strings.Contains(got.Text, "**Open questions**\n- Carl asks about the budget ([Wed "+
			"12:00](https://chat.example/m4))") {
		t.Errorf("%v\n%s", err, got.Text)
	}
}

func TestReport_NothingNewOrUnreadable(t *testing.T) {
	got, err := report(t, talk(), "TOPIC: much [1]", "m1", "m2", "m3", "m4", "m5", "m6")
	if err != nil || got.Text != "" || got.IDs != nil {
		t.Errorf("with nothing new: %v, %+v", err, got)
	}
	if got, err = report(t, &channel{}, ""); err == nil || got.Text != "" {
		t.Errorf("a channel that cannot be read: %v, %+v", err, got)
	}
}
