package digest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// Sentences stay that cite an item, with links to the items alone; what else a model wrote is counted and left out.
func TestKeepCited(t *testing.T) {
	const one, two = "[[1]](https://example.org/1)", "[[2]](https://example.org/2)"
	for text, c := range map[string]struct {
		want           string
		dropped, links int
	}{
		"It rains [1].":                                {"It rains. " + one, 0, 0},
		"It rains. [1]":                                {"It rains. " + one, 0, 0},
		"It rains! [1][2]. It snows [2].":              {"It rains! " + one + two + " It snows. " + two, 0, 0},
		"It rains [1] [1].":                            {"It rains. " + one, 0, 0},
		"It rains.":                                    {"", 1, 0},
		"It rains [9]. It snows. [1]":                  {"It snows. " + one, 1, 0},
		"a [1]. [2]":                                   {"", 0, 0},
		"# It rains\n[1] and [it] snows [2].":          {"It rains " + one + " and (it) snows. " + two, 0, 0},
		"It rains [here](https://x.example/) [1].":     {"It rains here. " + one, 0, 1},
		"Rain: https://x.example/a today [1].":         {"", 1, 1},
		"It rains a lot at https://x.example/a [1].":   {"", 1, 1},
		"Visit us at www.x.example today [1].":         {"", 1, 1},
		"Visit us at www.x.example again today [1].":   {"", 1, 1},
		"Visit www.x.example today [1].":               {"", 1, 1},
		"<b>It rains</b> `now` [1].":                   {"It rains now. " + one, 0, 0},
		"It is told by x.example/a and y.example [2].": {"", 1, 1},
		"No item has it [3].":                          {"", 0, 0},
		"No item [4]. It rains [1].":                   {"It rains. " + one, 1, 0},
	} {
		p := &content{shownItems: 3, numbers: map[int]int{1: 0, 2: 1}}
		for n := range 2 {
			p.cards = append(p.cards, chat.Card{URL: fmt.Sprint("https://example.org/", n+1)})
		}
		if got := p.keepCited(text); got != c.want || p.droppedSentences != c.dropped || p.foreignLinks != c.links {
			t.Errorf("%q: %q, %d dropped, %d links; want %q, %d, %d", text, got, p.droppedSentences, p.foreignLinks, c.want,
				c.dropped, c.links)
		}
	}
	if got := citationLink(2, ""); got != "[2]" {
		t.Errorf("without an address a citation is %s", got)
	}
}

func (r *records) Feedback(context.Context) ([]store.Feedback, error) { return r.words, nil }

// A weekly digest has what was posted to all of its places since its last run, at most a week ago, each page once. The
// most liked comes first; what was disliked is left out, and where nobody has reacted what most feeds told comes first.
func TestCollectWeekly(t *testing.T) {
	at := func(name string) chat.Address { return chat.Address{Platform: "web", Channel: name} }
	for name, c := range map[string]struct {
		words []store.Feedback
		ran   time.Duration // how long ago the digest ran last; 0: never
		want  []string
		notes int
	}{
		"no reactions": {nil, 0, []string{"three", "two", "one"}, 1},
		"since then":   {nil, 36 * time.Hour, []string{"one"}, 1},
		"liked":        {[]store.Feedback{{Turn: "t2", Good: true}}, 0, []string{"two"}, 0},
		"disliked":     {[]store.Feedback{{Turn: "t3"}}, 0, []string{"two", "one"}, 1},
		"most liked": {[]store.Feedback{{Turn: "t1", Good: true}, {Turn: "t2", Good: true}, {Turn: "t1", Good: true},
			{Turn: "t4", Good: true}},
			0, []string{"one", "two"}, 0},
	} {
		s, kept := onRecords()
		kept.words = c.words
		d := spec{Plan: Plan{Name: "week", Style: Weekly, MaxItems: 2}, post: []chat.Address{at("a"), at("b")}}
		s.created["week"] = d
		s.created["both"] = spec{Plan: Plan{Name: "both"}, post: []chat.Address{at("b"), at("c"), at("a")}}
		s.created["some"] = spec{Plan: Plan{Name: "some"}, post: []chat.Address{at("a")}}
		s.created["other week"] = spec{Plan: Plan{Name: "other week", Style: Weekly}, post: d.post}
		save := func(digest, turn string, age time.Duration, entries ...pastEntry) {
			due := noon.Add(-age)
			kept.runs = append(kept.runs, store.Run{Due: due, OK: true})
			p := pastRun{Version: pastVersion, Due: due, Turn: turn, Entries: entries}
			if err := s.saveItem(t.Context(), pastRunKind+digest, due.Format(time.RFC3339Nano), p); err != nil {
				t.Fatal(err)
			}
		}
		three, one, two := past("f", "three"), past("f", "one"), past("f", "two")
		three.Also = []pastEntry{past("g", "x"), past("h", "y")}
		one.Time, two.Time = noon.Add(-25*time.Hour), noon.Add(-24*time.Hour)
		save("both", "t1", 24*time.Hour, one)
		save("both", "t2", 48*time.Hour, two, one)
		save("both", "t3", 7*24*time.Hour, three)
		save("both", "t4", 7*24*time.Hour+1, past("f", "too old"))
		save("some", "t5", time.Hour, past("f", "of one place"))
		save("other week", "t6", 2*time.Hour, past("f", "of a week"))
		if c.ran > 0 {
			save("week", "t7", c.ran, past("f", "own"))
		}
		e := &edition{}
		if err := s.collectWeekly(t.Context(), d, e); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, headings(e.stories)); diff != "" || len(e.notes) != c.notes {
			t.Errorf("%s: notes %q (-want +got):\n%s", name, e.notes, diff)
		}
		d.chooseWeekly(e)
		if len(e.chosen) != min(2, len(c.want)) || len(c.want) == 3 &&
			e.stories[2].verdict+e.stories[2].reason != "over the limitothers were liked more" {
			t.Errorf("%s: %v are chosen", name, headings(e.chosen))
		}
	}
}

// A subscription is ended by its address or title, by whoever is where it is posted; words that name a digest and a
// feed mean the digest.
func TestUnsubscribeChannel(t *testing.T) {
	s, kept := onRecords()
	here := chat.Address{Platform: "web", Channel: "general"}
	thread := here
	thread.Thread = "9"
	kept.subs = []store.Subscription{{URL: "https://a.example/f", Title: "Daily A", To: here},
		{URL: "https://b.example/f", Title: "B", To: chat.Address{Platform: "web", Channel: "x"}}}
	for _, c := range []struct{ text, want string }{
		{"remove daily a", "New items of **Daily A** are no longer posted here."}, {"unsubscribe https://a.example/f",
			"New items of **Daily A**"},
		{"unsubscribe B", `There is no digest "B"`}, {"pause Daily A", `There is no digest "Daily A"`}, {"remove B",
			`There is no digest "B"`},
	} {
		m := chat.Message{Conversation: thread, Author: chat.User{ID: "U1"}, Command: commandName, Text: c.text}
		if d := s.runCommand(t.Context(), m); !strings.HasPrefix(d.Text, c.want) {
			t.Errorf("%s: %q", c.text, d.Text)
		}
	}
	if len(kept.unsubscribed) != 2 {
		t.Errorf("ended: %q", kept.unsubscribed)
	}
}

func (r *records) DeleteSubscription(_ context.Context, to chat.Address, url string) error {
	r.unsubscribed = append(r.unsubscribed, to.String()+" "+url)
	return nil
}
