package discord_test

import (
	"testing"

	"ravenbot/internal/core/chat"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

func TestAudience_ReadersOfAPlace(t *testing.T) {
	s := open(t, script{})
	bob, carl := s.AddUser("bob"), s.AddUser("carl")
	add := func(name string, readers ...simdiscord.User) chat.Address {
		c := s.AddChannel(s.guild, name)
		if readers != nil {
			s.LimitReaders(c.ID, readers...)
		}
		return chat.Address{Platform: "discord", Workspace: s.guild.ID, Channel: c.ID}
	}
	open := chat.Address{Platform: "discord", Workspace: s.guild.ID, Channel: s.general.ID}
	hidden := add("hidden")
	s.HideHistoryFromPeople(hidden.Channel)
	both, bobs, carls := add("both", bob, carl), add("bobs", bob), add("carls", carl)
	thread := open
	thread.Thread = s.AddThread(s.general, "talk").ID
	narrow := both
	narrow.Thread = s.AddThread(simdiscord.Channel{ID: both.Channel, GuildID: s.guild.ID}, "narrow").ID
	other := s.AddChannel(s.AddGuild("elsewhere"), "general")
	direct := chat.Address{Platform: "discord", Workspace: "@me", Channel: s.AddDM(bob).ID}
	elsewhere := chat.Address{Platform: "discord", Workspace: other.GuildID, Channel: other.ID}
	for _, c := range []struct {
		name            string
		readers, source chat.Address
		want            bool
	}{
		{"the same channel", bobs, bobs, true},
		{"an open one", bobs, open, true},
		{"a thread of an open one", bobs, thread, true},
		{"one with fewer readers", open, bobs, false},
		{"one with more readers", bobs, both, true},
		{"one with other readers", bobs, carls, false},
		{"a thread has the readers of its channel", narrow, bobs, false},
		{"the channel of a thread", narrow, both, true},
		{"the history is hidden", open, hidden, false},
		{"another server", elsewhere, open, false},
		{"direct messages", direct, direct, true},
		{"direct messages of others", chat.Address{Platform: "discord", Workspace: "@me", Channel: s.AddDM(carl).ID}, direct, false},
	} {
		got, err := s.d.ReadersCanRead(t.Context(), c.readers, c.source)
		if err != nil || got != c.want {
			t.Errorf("%s: %t, %v, want %t", c.name, got, err, c.want)
		}
	}
	if got, err := s.d.ReadersCanRead(t.Context(), open, chat.Address{
		Platform:  "discord",
		Workspace: s.guild.ID,
		Channel:   "99",
	}); err == nil || got {
		t.Errorf("a channel that does not exist: %t, %v", got, err)
	}
}
