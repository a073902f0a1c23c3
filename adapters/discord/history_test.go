package discord_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
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
	want := []string{"ann: @ravenbot two", "ann: ", "ann: ", "ravenbot: an answer"}
	if err != nil || !slices.Equal(texts(newest), want) {
		t.Fatalf("the newest: %q, %v, want %q", texts(newest), err, want)
	}
	if last := newest[3]; !last.Self || !last.Bot || last.Hidden || last.At.IsZero() || last.Subject != "" {
		t.Errorf("the bot's own post is %+v", last)
	}
	if kept := newest[1]; !kept.Hidden || kept.Self || !strings.Contains(kept.Reason, "Message Content Intent") {
		t.Errorf("what Discord does not show is %+v", kept)
	}
	older, err := s.d.History(within(t), s.address(), newest[0].ID, 2)
	if want := []string{"ann: @ravenbot one"}; err != nil || !slices.Equal(texts(older), want) {
		t.Errorf("before them: %q, %v, want %q", texts(older), err, want)
	}
	var told *chat.SetupError
	if _, err := s.d.History(within(t), s.address(), "1&limit=5", 2); !errors.As(err, &told) {
		t.Errorf("a message that is none was taken: %v", err)
	}
	s.Fail(sim.Fault{Match: history(s.general.ID), Status: http.StatusForbidden,
		Body: `{"code":50001,"message":"Missing Access"}`})
	if _, err := s.d.History(within(t), s.address(), "", 2); err == nil ||
		!strings.Contains(err.Error(), "Missing Access") {
		t.Errorf("where nothing may be read: %v", err)
	}
}
