package web

import (
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
)

// Who asks what was said wants no commands, no answers to them and no failures.
func TestHistory_LeavesOutCommandsAndFailures(t *testing.T) {
	w, _ := begin(t, ignore)
	say := func(words string) chat.Message {
		t.Helper()
		e, err := w.Say(t.Context(), general.Channel, anna, words)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	post := func(key string, to chat.Message, d chat.Draft) {
		t.Helper()
		d.Key, d.Reply = key, chat.Reply{MessageID: to.ID}
		if _, err := w.Post(t.Context(), general, d); err != nil {
			t.Fatal(err)
		}
	}
	post("1", say("what is new?"), chat.Draft{Text: "A **lot**."})
	post("2", say("/help"), chat.Draft{Text: "help", Ephemeral: true})
	post("3", say("/digest run morning"), chat.Draft{Text: "the digest"})
	post("4", say("and now?"), chat.Draft{Text: "The model failed.", Failed: true})
	post("5", say("/digest list"), chat.Draft{Text: "Say `/raven digest list` again, or `/raven help`."})
	said, err := w.History(t.Context(), general, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, s := range said {
		words = append(words, s.Text)
	}
	if got := strings.Join(words, "|"); got != "what is new?|A **lot**.|and now?" {
		t.Errorf("read back %q", got)
	}
	// The last page is commands alone; what is before it is found nevertheless.
	if said, err = w.History(t.Context(), general, "", 2); err != nil || len(said) == 0 {
		t.Errorf("of the last lines %+v, %v", said, err)
	}
}

func TestPost_NamesCommandsAsTheyAreTypedHere(t *testing.T) {
	w, db := begin(t, ignore)
	if _, err := w.Post(t.Context(), general, chat.Draft{Key: "1", Text: "`/raven poll A? | B` or `/raven help`"}); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, db); len(got) != 1 || got[0] != "bot: `/poll A? | B` or `/help`" {
		t.Errorf("the page shows %q", got)
	}
}
