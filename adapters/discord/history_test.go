package discord_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/chat"
	"ravenbot/internal/sim"
)

func TestWhatWasSaidIsReadBackwards(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	for _, text := range []string{s.Mention() + " one", s.Mention() + " two", "kept from the bot", "kept, too"} {
		s.Say(s.general.ID, s.ann, text)
	}
	s.post(t, s.address(), chat.Draft{Key: "k", Text: "an answer"})
	texts := func(list []chat.Said) []string {
		var all []string
		for _, one := range list {
			all = append(all, one.By+": "+one.Text)
		}
		return all
	}
	newest, err := s.d.History(within(t), s.address(), "", 4)
	if err != nil || len(newest) != 2 || newest[1].Text != "an answer" || newest[0].Text != "two" || !newest[1].Bot || newest[0].Bot || newest[0].At.IsZero() {
		t.Fatalf("the newest that are shown: %q, %v", texts(newest), err)
	}
	older, err := s.d.History(within(t), s.address(), newest[0].ID, 2)
	if want := []string{s.ann.Name + ": one"}; err != nil || !slices.Equal(texts(older), want) {
		t.Errorf("before them: %q, %v, want %q", texts(older), err, want)
	}
	var told *chat.SetupError
	if _, err := s.d.History(within(t), s.address(), "1&limit=5", 2); !errors.As(err, &told) {
		t.Errorf("a message that is none was taken: %v", err)
	}
	last, err := s.d.History(within(t), s.address(), newest[1].ID, 2)
	if !errors.As(err, &told) || !strings.Contains(told.Remedy, "Message Content Intent") {
		t.Errorf("where all is hidden: %q, %v", texts(last), err)
	}
	s.Fail(sim.Fault{Match: history(s.general.ID), Status: http.StatusForbidden, Body: `{"code":50001,"message":"Missing Access"}`})
	if _, err := s.d.History(within(t), s.address(), "", 2); err == nil || !strings.Contains(err.Error(), "Missing Access") {
		t.Errorf("where nothing may be read: %v", err)
	}
}
