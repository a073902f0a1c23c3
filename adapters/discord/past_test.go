package discord_test

import (
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
			if one.Own {
				one.Text = "*" + one.Text
			}
			all = append(all, one.Author.Name+": "+one.Text)
		}
		return all
	}
	newest, err := s.d.History(within(t), s.address(), "", 3)
	if err != nil || len(newest) != 3 || newest[2].Text != "an answer" || newest[1].Text != "" || !newest[2].Own || newest[0].Time.IsZero() {
		t.Fatalf("the newest: %q, %v", texts(newest), err)
	}
	older, err := s.d.History(within(t), s.address(), newest[0].ID, 2)
	if want := []string{s.ann.Name + ": one", s.ann.Name + ": two"}; err != nil || !slices.Equal(texts(older), want) {
		t.Errorf("before them: %q, %v, want %q", texts(older), err, want)
	}
	if _, err := s.d.History(within(t), s.address(), "1&limit=5", 2); err == nil {
		t.Error("a message that is none was taken")
	}
	s.Fail(sim.Fault{Match: history(s.general.ID), Status: http.StatusForbidden, Body: `{"code":50001,"message":"Missing Access"}`})
	if _, err := s.d.History(within(t), s.address(), "", 2); err == nil || !strings.Contains(err.Error(), "Missing Access") {
		t.Errorf("where nothing may be read: %v", err)
	}
}
