package discord

import (
	"context"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// Rules of asking what a channel is that no event has shown.
const (
	channelLife    = 10 * time.Minute
	channelTimeout = 5 * time.Second
)

// channelInfo is what is known of a channel or thread.
type channelInfo struct {
	kind   discordgo.ChannelType
	name   string
	topic  string // of a forum its guidelines
	parent string // of a thread
	owner  string // the ID of whoever opened a thread
}

// newChannels returns the memory of channels that no event has shown, by their ids.
func (d *Discord) newChannels() *kit.Cache[channelInfo] {
	return kit.NewCache(kit.CacheOptions[channelInfo]{
		Look:    d.fetchChannel,
		Life:    channelLife,
		Timeout: channelTimeout,
		Now:     d.o.Now,
	})
}

// newMembers returns the memory of what people are called, by server and user with "/" between.
func (d *Discord) newMembers() *kit.Cache[string] {
	return kit.NewCache(kit.CacheOptions[string]{
		Look:    d.fetchName,
		Life:    channelLife,
		Timeout: channelTimeout,
		Now:     d.o.Now,
	})
}

// fetchName asks Discord what a member is called. A refusal is no error: then there is no name.
func (d *Discord) fetchName(ctx context.Context, key string) (string, error) {
	guild, user, _ := strings.Cut(key, "/")
	var m wireMember
	err := d.api.do(ctx, request{method: "GET", path: "/guilds/" + guild + "/members/" + user}, &m)
	if err != nil || m.User == nil {
		if isRefused(err) {
			err = nil
		}
		return "", err
	}
	d.nicks.Put(key, m.Nick)
	return d.nameOf(guild, *m.User), nil
}

// fetchChannel asks Discord for a channel. A refusal is no error: then nothing is known of it.
func (d *Discord) fetchChannel(ctx context.Context, id string) (channelInfo, error) {
	var c struct {
		Type   discordgo.ChannelType `json:"type"`
		Name   string                `json:"name"`
		Topic  string                `json:"topic"`
		Parent string                `json:"parent_id"`
		Owner  string                `json:"owner_id"`
	}
	err := d.api.do(ctx, request{method: "GET", path: "/channels/" + id}, &c)
	if err != nil && !isRefused(err) {
		return channelInfo{}, err
	}
	return channelInfo{kind: c.Type, name: c.Name, topic: c.Topic, parent: c.Parent, owner: c.Owner}, nil
}

// channelInfo returns what is known of a channel or thread of a server, asking Discord where no
// event has shown it.
func (d *Discord) channelInfo(ctx context.Context, state *discordgo.State, guild, id string) channelInfo {
	if c, found := findChannel(state, guild, id); found {
		return channelInfo{kind: c.Type, name: c.Name, topic: c.Topic, parent: c.ParentID, owner: c.OwnerID}
	}
	c, err := d.channels.Get(ctx, id)
	if err != nil && ctx.Err() == nil {
		d.o.Log.Debug("discord channel not looked up", "platform", "discord", "channel", id, "error", err)
	}
	return c
}

// placeOf returns where a message was said, as far as that is known before ctx ends.
func (d *Discord) placeOf(ctx context.Context, state *discordgo.State, at chat.Address) chat.Place {
	if at.Workspace == directGuild {
		return chat.Place{}
	}
	channel := d.channelInfo(ctx, state, at.Workspace, at.Channel)
	place := chat.Place{
		Server:   serverName(state, at.Workspace),
		Channel:  channel.name,
		Topic:    channel.topic,
		InThread: at.Thread != "",
	}
	if place.InThread {
		thread := d.channelInfo(ctx, state, at.Workspace, at.Thread)
		if place.Thread = thread.name; thread.owner != d.botUser().ID { // the bot's own titles are a question's words
			place.ThreadBy = thread.owner
		}
	}
	return place
}

// serverName returns the name of a server; empty where it has not shown itself yet.
func serverName(state *discordgo.State, guild string) string {
	state.RLock()
	defer state.RUnlock()
	for _, g := range state.Guilds {
		if g.ID == guild {
			return g.Name
		}
	}
	return ""
}
