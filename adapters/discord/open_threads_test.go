package discord_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

// Threads of a channel are listed where everybody who reads the channel may read them and something was said in them,
// archived ones too, those with the newest messages first.
func TestOpenThreads_ListsWhatReadersOfTheChannelMayRead(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	add := func(parent simdiscord.Channel, name string) simdiscord.Channel {
		c := s.AddThread(parent, name)
		s.Say(c.ID, s.ann, "in "+name)
		return c
	}
	began := time.Now().Add(-time.Minute)
	first := add(s.general, "first")
	secret := s.AddPrivateThread(s.general, "secret")
	s.Say(secret.ID, s.ann, "between us")
	s.AddThread(s.general, "empty")
	add(s.AddChannel(s.guild, "elsewhere"), "of another channel")
	var archived []string // the newest first
	for range 60 {        // more than one page of them
		c := add(s.general, "archived")
		s.Archive(c.ID)
		archived = append([]string{c.ID}, archived...)
	}
	last := add(s.general, "last")
	list := func(after time.Time, limit int) []string {
		t.Helper()
		threads, err := s.d.OpenThreads(within(t), s.address(), after, limit)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, a := range threads {
			if a.Channel != s.general.ID || a.Workspace != s.guild.ID || a.Platform != "discord" {
				t.Errorf("a thread is at %s", a)
			}
			ids = append(ids, a.Thread)
		}
		return ids
	}
	want := append(append([]string{last.ID}, archived...), first.ID)
	if got := list(began, 100); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	if got := list(began, 2); !slices.Equal(got, want[:2]) {
		t.Errorf("of two there are %q, want %q", got, want[:2])
	}
	if got := list(time.Now().Add(time.Hour), 100); len(got) != 0 {
		t.Errorf("after what was said there are %q", got)
	}
	s.Say(first.ID, s.ann, "again")
	if got := list(began, 1); !slices.Equal(got, []string{first.ID}) {
		t.Errorf("the one with the newest message is %q, want %q", got, first.ID)
	}
	direct := chat.Address{Platform: "discord", Workspace: "@me", Channel: s.AddDM(s.ann).ID}
	if got, err := s.d.OpenThreads(within(t), direct, began, 9); err != nil || len(got) != 0 {
		t.Errorf("direct messages have the threads %v, %v", got, err)
	}
	s.Fail(sim.Fault{Match: func(r sim.Request) bool { return strings.HasSuffix(r.Path, "/threads/active") },
		Status: http.StatusForbidden, Body: `{"code":50001,"message":"Missing Access"}`})
	if _, err := s.d.OpenThreads(within(t), s.address(), began, 9); err == nil {
		t.Error("a refusal passes for a channel without threads")
	}
	s.HideHistory(s.general.ID)
	if _, err := s.d.OpenThreads(within(t), s.address(), began, 9); err == nil {
		t.Error("archived threads that may not be read pass for none")
	}
}
