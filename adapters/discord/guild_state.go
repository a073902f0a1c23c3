package discord

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bwmarrin/discordgo"

	"ravenbot/adapters/kit"
)

// guildLife is how long what Discord was asked of a server counts, where another process has its shard: a change of
// roles or permissions counts so much later there.
const guildLife = 30 * time.Second

// newGuilds returns the memory of servers whose shards other processes have, by their ids.
func (d *Discord) newGuilds() *kit.Cache[*discordgo.State] {
	return kit.NewCache(kit.CacheOptions[*discordgo.State]{
		Look:    d.fetchGuild,
		Life:    guildLife,
		Timeout: channelTimeout,
		Now:     d.o.Now,
	})
}

// fetchGuild asks Discord for a server with its roles and channels: as much of the picture that events give as is
// needed to say what a message is about, and who may read what. Threads are asked for one by one. A refusal is no
// error: then the picture is empty.
func (d *Discord) fetchGuild(ctx context.Context, id string) (*discordgo.State, error) {
	var g struct {
		Name  string            `json:"name"`
		Owner string            `json:"owner_id"`
		Roles []*discordgo.Role `json:"roles"`
	}
	var channels []*discordgo.Channel
	err := d.api.do(ctx, request{method: "GET", path: "/guilds/" + id}, &g)
	if err == nil {
		err = d.api.do(ctx, request{method: "GET", path: "/guilds/" + id + "/channels"}, &channels)
	}
	if isRefused(err) {
		// An error would have Discord asked for every message, and too many refusals have it forbid this address.
		d.o.Log.Warn("discord server not shown to the bot", "platform", "discord", "guild", id, "error", err)
		return newSession().state, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask for a server and its channels: %w", err)
	}
	for _, c := range channels {
		c.GuildID = id
	}
	state := newSession().state
	err = state.GuildAdd(&discordgo.Guild{ID: id, Name: g.Name, OwnerID: g.Owner, Roles: g.Roles, Channels: channels})
	return state, err
}

// shardOf returns the shard of this process by which a server's events come; nil: there is none. The lock is held.
func (d *Discord) shardOf(guild string) *shard {
	i := slices.IndexFunc(d.shards, func(s *shard) bool { return s.isCovering(guild) })
	if i < 0 {
		return nil
	}
	return d.shards[i]
}

// stateOf returns the picture of a server: that of its shard, or what Discord says when it is asked, where another
// process has the shard (isAsked). It is never nil, but empty where there is neither. The picture of a shard changes
// while it is read; snapshot copies it.
func (d *Discord) stateOf(ctx context.Context, guild string) (state *discordgo.State, isAsked bool) {
	d.mu.Lock()
	s := d.shardOf(guild)
	if s != nil {
		state = s.state
	}
	d.mu.Unlock()
	switch {
	case state != nil:
		return state, false
	case d.o.Sharing == nil || guild == directGuild || guild == "":
		return discordgo.NewState(), false
	}
	state, err := d.askedGuilds.Get(ctx, guild)
	if err != nil && ctx.Err() == nil {
		d.o.Log.Warn("failed to look up a discord server", "platform", "discord", "guild", guild, "error", err)
	}
	// After an error Get returns the last known picture, which still tells more than an empty one.
	if state == nil {
		state = discordgo.NewState()
	}
	return state, true
}
