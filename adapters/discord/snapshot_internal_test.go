package discord

import (
	"fmt"
	"testing"

	"github.com/bwmarrin/discordgo"
)

func TestSnapshotChannel_ManyChannels_CostsWhatOneDoes(t *testing.T) {
	cost := func(channels int) float64 {
		g := &discordgo.Guild{ID: "g", Roles: []*discordgo.Role{{ID: "g", Permissions: discordgo.PermissionViewChannel}}}
		for n := range channels {
			g.Channels = append(g.Channels, &discordgo.Channel{ID: fmt.Sprint(n), GuildID: "g"})
		}
		state := discordgo.NewState()
		if err := state.GuildAdd(g); err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(10, func() {
			if _, err := snapshotChannel(state, "g", fmt.Sprint(channels-1)).Channel(fmt.Sprint(channels - 1)); err != nil {
				t.Fatal(err)
			}
		})
	}
	if one, many := cost(1), cost(1000); many > one+10 {
		t.Errorf("%v allocations with 1000 channels, %v with one", many, one)
	}
}
