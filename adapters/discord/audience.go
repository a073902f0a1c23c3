package discord

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bwmarrin/discordgo"

	"ravenbot/internal/core/chat"
)

// audienceTimeout bounds the questions of one check of who reads what.
const audienceTimeout = 15 * time.Second

// readBits are the permissions without which somebody does not read a channel.
var readBits = []int64{discordgo.PermissionViewChannel, discordgo.PermissionReadMessageHistory}

// audienceChannel is a channel with its exceptions from the permissions of roles. Threads have none of their own.
type audienceChannel struct {
	ID         string                           `json:"id"`
	Guild      string                           `json:"guild_id"`
	Parent     string                           `json:"parent_id"`
	Type       discordgo.ChannelType            `json:"type"`
	Overwrites []*discordgo.PermissionOverwrite `json:"permission_overwrites"`
}

// audienceGuild is a server with the permissions of its roles.
type audienceGuild struct {
	Owner string            `json:"owner_id"`
	Roles []*discordgo.Role `json:"roles"`
}

// ReadersCanRead reports whether everybody who can read one place can read another, too. It compares the exceptions of
// both channels and says no where they do not show it: the members of roles are not listed. Other servers and direct
// messages are never readable. It fails where Discord does not tell of either channel.
func (d *Discord) ReadersCanRead(ctx context.Context, readers, source chat.Address) (bool, error) {
	switch {
	case readers == source, readers.Base() == source:
		return true, nil
	case readers.Workspace != source.Workspace || source.Workspace == directGuild:
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, audienceTimeout)
	defer cancel()
	to, err := d.audienceOf(ctx, readers)
	if err != nil {
		return false, err
	}
	from, err := d.audienceOf(ctx, source)
	if err != nil {
		return false, err
	}
	// A thread that is open to all of its channel stands for the channel; a private one has readers of its own.
	if from.Type == discordgo.ChannelTypeGuildPrivateThread || to.Guild != from.Guild {
		return false, nil
	}
	guild, err := d.audienceGuild(ctx, from.Guild)
	if err != nil {
		return false, err
	}
	return to.ID == from.ID || !slices.ContainsFunc(readBits, func(bit int64) bool {
		return !covers(guild.grantsAll(from.Guild, bit), from, to, bit)
	}), nil
}

// audienceOf returns the channel of a place. Of a thread it is the channel in which it is, with the thread's type.
func (d *Discord) audienceOf(ctx context.Context, at chat.Address) (audienceChannel, error) {
	var c audienceChannel
	if err := d.api.do(ctx, request{method: "GET", path: "/channels/" + channelOf(at)}, &c); err != nil {
		return c, fmt.Errorf("ask who reads a channel: %w", err)
	}
	if !isThread(c.Type) {
		return c, nil
	}
	kind := c.Type
	err := d.api.do(ctx, request{method: "GET", path: "/channels/" + c.Parent}, &c)
	c.Type = kind
	if err != nil {
		return c, fmt.Errorf("ask who reads the channel of a thread: %w", err)
	}
	return c, nil
}

// audienceGuild asks Discord for the roles of a server.
func (d *Discord) audienceGuild(ctx context.Context, id string) (audienceGuild, error) {
	var g audienceGuild
	if err := d.api.do(ctx, request{method: "GET", path: "/guilds/" + id}, &g); err != nil {
		return g, fmt.Errorf("ask for the roles of a server: %w", err)
	}
	return g, nil
}

// grantsAll reports whether everybody in a server has a permission. The role of everybody has the server's id.
func (g audienceGuild) grantsAll(guild string, bit int64) bool {
	return slices.ContainsFunc(g.Roles, func(r *discordgo.Role) bool { return r.ID == guild && r.Permissions&bit != 0 })
}

// covers reports whether all who have a permission in one channel have it in another. byDefault says that everybody
// has it where no exception says otherwise.
func covers(byDefault bool, wide, narrow audienceChannel, bit int64) bool {
	a, b := exceptionsOf(wide, bit), exceptionsOf(narrow, bit)
	switch {
	// Nobody is kept out.
	case len(a.denied) == 0 && (a.everyone == granted || a.everyone == unset && byDefault):
		return true
	// Both are open to those alone whom they name.
	case a.everyone == denied && b.everyone == denied && len(a.denied) == 0:
		return containsAll(a.allowed, b.allowed)
	}
	// The same exceptions mean the same people, whatever their roles.
	return a.everyone == b.everyone && sameIDs(a.allowed, b.allowed) && sameIDs(a.denied, b.denied)
}

// grant is what an exception says of a permission.
type grant int

const (
	unset grant = iota
	granted
	denied
)

// exceptions are what a channel says of one permission: for everyone, and the ids of roles and members beside.
type exceptions struct {
	everyone        grant
	allowed, denied []string
}

// exceptionsOf returns what a channel says of a permission; whom it says nothing of has it by their roles.
func exceptionsOf(c audienceChannel, bit int64) exceptions {
	var e exceptions
	for _, o := range c.Overwrites {
		switch {
		case o.Allow&bit != 0 && o.ID == c.Guild:
			e.everyone = granted
		case o.Deny&bit != 0 && o.ID == c.Guild:
			e.everyone = denied
		case o.Allow&bit != 0:
			e.allowed = append(e.allowed, o.ID)
		case o.Deny&bit != 0:
			e.denied = append(e.denied, o.ID)
		}
	}
	return e
}

// containsAll reports whether all ids of some are among all.
func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(id string) bool { return !slices.Contains(all, id) })
}

// sameIDs reports whether two lists hold the same ids, in any order.
func sameIDs(a, b []string) bool { return containsAll(a, b) && containsAll(b, a) }

// memberPermissions returns what a member may do in a channel, by the order that Discord's documentation gives
// (Permissions, read 2026-11-22): roles, everybody's exception, those of roles together, the member's own.
func memberPermissions(
	guild, user string,
	own []string,
	roles []*discordgo.Role,
	overwrites []*discordgo.PermissionOverwrite,
) int64 {
	var bits int64
	for _, r := range roles {
		if r.ID == guild || slices.Contains(own, r.ID) {
			bits |= r.Permissions
		}
	}
	if bits&discordgo.PermissionAdministrator != 0 {
		return discordgo.PermissionAll
	}
	apply := func(is func(id string) bool) {
		var allow, deny int64
		for _, o := range overwrites {
			if is(o.ID) {
				allow, deny = allow|o.Allow, deny|o.Deny
			}
		}
		bits = bits&^deny | allow
	}
	apply(func(id string) bool { return id == guild })
	apply(func(id string) bool { return slices.Contains(own, id) })
	apply(func(id string) bool { return id == user })
	return bits
}
