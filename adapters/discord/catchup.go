package discord

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// Rules of catching up.
const (
	maxCatchUp   = 30 * 24 * time.Hour
	maxMissed    = 1000            // messages read of one place
	maxReaders   = 4               // places read at the same time
	maxNewPlaces = 50              // without a conversation, read of one session
	pageTimeout  = time.Minute     // for a page, waits for its turn included
	guildTimeout = 5 * time.Second // how long a place waits for its server to show itself
)

// catchUp reads what was said before a session began. Discord replays what a session missed,
// but nothing to a new one.
type catchUp struct {
	*kit.CatchUp
	d *shard

	mu       sync.Mutex
	former   *formerSession           // is read instead of what people said; nil: there is none
	state    *discordgo.State         // of the present session
	from     time.Time                // the earliest moment worth reading
	since    string                   // its id, by Discord's clock
	heard    map[string]bool          // channels with conversations, as they were listed last
	isListed bool                     // for the present session
	guilds   map[string][]activePlace // servers that have shown themselves
	// newPlaces counts the places that are read without a conversation; below zero: none is to be read.
	newPlaces int
}

// activePlace is a place in which something was said, or a thread in which something may have been said, since a
// moment.
type activePlace struct {
	chat.Address
	isThread bool
	isSure   bool // something was said: Discord names the last message
}

// newMissed returns nil where nothing is to be read.
func (d *shard) newMissed() *catchUp {
	if !d.readsHistory() && d.o.Sharing == nil {
		return nil
	}
	c := &catchUp{d: d}
	c.CatchUp = &kit.CatchUp{
		Platform:   d.Name(),
		Readers:    maxReaders,
		List:       c.listGaps,
		Read:       c.readGap,
		IsFinal:    c.isUnreadable,
		RetryAfter: retryAfter,
		Log:        d.o.Log,
		Now:        time.Now,
	}
	return c
}

// readsHistory reports whether what people said while the bot was away is read in the channels.
func (d *Discord) readsHistory() bool { return d.o.CatchUp > 0 && d.o.LastSeen != nil }

// begin makes what a new session brings wait for what was missed before it. c may be nil. It runs in the goroutine that
// handles events, before any event behind READY.
func (c *catchUp) begin(state *discordgo.State) {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.state, c.isListed, c.guilds, c.newPlaces = state, false, map[string][]activePlace{}, 0
	if c.d.former != nil { // for the first session alone
		c.former, c.d.former = c.d.former, nil
	}
	c.from = c.d.o.Now().Add(-min(c.d.o.CatchUp, maxCatchUp))
	c.since = snowflake(c.from)
	c.mu.Unlock()
	c.Begin()
}

// snowflake is the first id of a moment.
func snowflake(t time.Time) string {
	return strconv.FormatInt(max(t.UnixMilli()-firstMilli, 0)<<22, 10)
}

// listGaps returns the places in which something may be missing: the conversations that the store knows, the active
// threads of their channels, and where something was said lately. Where a former session was read there are threads
// alone.
func (c *catchUp) listGaps(ctx context.Context) ([]*kit.Gap, error) {
	c.mu.Lock()
	// Only once: reading a former session ends it, so that another attempt would find none.
	former := c.former
	c.former = nil
	c.mu.Unlock()
	var heard []chat.LastSeen
	isRead := former != nil && c.replay(ctx, *former) || !c.d.readsHistory()
	if !isRead {
		var err error
		// Not with ctx, of which reading the former session may have used up the most.
		if heard, err = c.d.o.LastSeen(c.d.ctx); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard, c.isListed = map[string]bool{}, true
	if isRead {
		c.newPlaces = -1
	}
	var gaps []*kit.Gap
	for _, h := range heard {
		a := h.Conversation
		if a.Platform != c.d.Name() || a.Channel == "" || !c.d.isCovering(a.Workspace) {
			continue
		}
		// What is older than the operator wants to read, or than the last message taken, is left
		// out.
		g := newGap(a, c.since)
		if _, err := strconv.ParseUint(h.Message, 10, 64); err == nil &&
			(isNewer(h.Message, c.since) || h.At.After(c.from)) {
			g.After = h.Message
		}
		// Reading needs the roles and threads of the server, which come by an event of their own.
		if _, known := c.guilds[a.Workspace]; !known && a.Workspace != directGuild {
			g.NotBefore = time.Now().Add(guildTimeout)
		}
		c.heard[channelOf(a)] = true
		gaps = append(gaps, g)
	}
	for _, places := range c.guilds {
		gaps = append(gaps, c.activeGaps(places)...)
	}
	return gaps, nil
}

// newGap returns what was missed at an address since the message with the id after.
func newGap(at chat.Address, after string) *kit.Gap {
	return &kit.Gap{Key: channelOf(at), At: at, After: after}
}

// onGuild takes note that a server has shown itself, with its active places, and has them read now. c may be nil.
func (c *catchUp) onGuild(g *discordgo.GuildCreate) {
	if c == nil || g.Guild == nil || g.Unavailable {
		return
	}
	self := c.d.botUser().ID
	c.mu.Lock()
	places := []activePlace{}
	at := chat.Address{Platform: c.d.Name(), Workspace: g.ID}
	for _, ch := range g.Channels {
		at.Channel = ch.ID
		if isNewer(ch.LastMessageID, c.since) && isReadableBy(g.Guild, ch, self) {
			places = append(places, activePlace{Address: at, isSure: true})
		}
	}
	for _, t := range g.Threads {
		if isSure := isNewer(t.LastMessageID, c.since); isSure || t.LastMessageID == "" {
			at.Channel, at.Thread = t.ParentID, t.ID
			places = append(places, activePlace{Address: at, isThread: true, isSure: isSure})
		}
	}
	c.guilds[g.ID] = places
	known := c.isListed
	var gaps []*kit.Gap
	if known {
		gaps = c.activeGaps(places)
	}
	c.mu.Unlock()
	// Else listGaps is still to come, and finds the places in c.guilds.
	if known {
		c.Add(gaps)
		c.Hasten(func(gap *kit.Gap) bool { return gap.At.Workspace == g.ID })
	}
}

// isReadableBy reports whether a member may read a channel in which messages stand. A request that Discord refuses
// counts against the bot.
func isReadableBy(g *discordgo.Guild, c *discordgo.Channel, user string) bool {
	needed := discordgo.PermissionViewChannel | discordgo.PermissionReadMessageHistory
	switch c.Type {
	case discordgo.ChannelTypeGuildText, discordgo.ChannelTypeGuildNews:
	case discordgo.ChannelTypeGuildVoice, discordgo.ChannelTypeGuildStageVoice:
		needed |= discordgo.PermissionVoiceConnect // by Discord's reference, Get Channel Messages
	default:
		return false // of a forum the last message names a post
	}
	var roles []string
	for _, m := range g.Members {
		if m.User != nil && m.User.ID == user {
			roles = m.Roles
		}
	}
	granted := memberPermissions(g.ID, user, roles, g.Roles, c.PermissionOverwrites)
	return granted&int64(needed) == int64(needed)
}

// activeGaps makes gaps of the threads below channels with conversations, and of what else Discord calls lately used: a
// first mention may stand there. c.mu is held.
func (c *catchUp) activeGaps(places []activePlace) []*kit.Gap {
	var gaps []*kit.Gap
	for _, p := range places {
		switch {
		case p.isThread && c.heard[p.Channel]:
		case c.isHeard(p.Address) || !p.isSure || c.newPlaces < 0 || c.newPlaces >= maxNewPlaces:
			continue
		default:
			c.newPlaces++
		}
		gaps = append(gaps, newGap(p.Address, c.since))
	}
	return gaps
}

// isHeard reports whether a place or the channel of a thread has a conversation. c.mu is held.
func (c *catchUp) isHeard(at chat.Address) bool { return c.heard[at.Channel] || c.heard[channelOf(at)] }

// isUnreadable reports whether an error of reading a place is final, and tells the operator.
func (c *catchUp) isUnreadable(g *kit.Gap, err error) bool {
	if !isRefused(err) {
		return false
	}
	c.d.reportUnreadable(g.At, err)
	return true
}

// readGap hands over what people said in a gap, oldest first, but for what the bot has replied to where everybody sees
// it, and returns how many messages were accepted. g.After moves with each, so that another attempt continues behind
// it.
func (c *catchUp) readGap(ctx context.Context, g *kit.Gap) (messages int, err error) {
	var said []wirePost
	// All is read first: the reply that tells that a message was answered may be pages behind it.
	for after, more := g.After, true; more && len(said) < maxMissed; {
		limited, cancel := context.WithTimeout(ctx, pageTimeout)
		page, next, err := c.d.readHistory(limited, channelOf(g.At), after)
		cancel()
		if err != nil {
			return 0, err
		}
		said = append(said, page...)
		if after, more = next, next != ""; more && len(said) >= maxMissed {
			c.d.o.Log.Warn(
				"too many missed discord messages; the rest is not read",
				"platform",
				"discord",
				"conversation",
				g.At.String(),
				"read",
				len(said),
			)
		}
	}
	// A store that was lost must not have old questions answered again.
	self := c.d.botUser().ID
	replied := map[string]bool{}
	for _, w := range said {
		if w.Author.ID == self {
			replied[w.Reference.MessageID] = true
		}
	}
	said = slices.DeleteFunc(said, func(w wirePost) bool { return replied[w.ID] })
	for _, m := range c.parseMessages(ctx, g.At, said) {
		if err := kit.AcceptMissed(ctx, c.d.accept, m); err != nil {
			return messages, err
		}
		c.Advance(g, m.ID)
		messages++
	}
	return messages, nil
}

// parseMessages reads a history as if it had come live: in a history messages do not
// name their server, nor the roles of who wrote them.
func (c *catchUp) parseMessages(ctx context.Context, at chat.Address, said []wirePost) []chat.Message {
	guild := at.Workspace
	if guild == directGuild {
		guild = ""
	}
	if len(said) == 0 { // the usual case: the whole server need not be copied for it
		return nil
	}
	c.mu.Lock()
	state, isHeard := snapshot(c.state, guild), c.isHeard(at)
	c.mu.Unlock()
	members := map[string]wireMember{}
	var list []chat.Message
	for _, w := range said {
		w.GuildID = guild
		m, ok := c.d.parseMessage(state, w.wireMessage)
		// Where the bot was never spoken to, what was said before it came is not for it.
		if !ok || m.Reach == chat.Overheard && !(c.d.o.MessageContent && isHeard) {
			continue
		}
		if m.Reach == chat.Addressed && guild != "" {
			if _, known := members[m.Author.ID]; !known {
				members[m.Author.ID] = c.d.lookUpMember(ctx, guild, m.Author.ID)
			}
			w.Member = members[m.Author.ID]
			c.d.rememberNicks(w.wireMessage)
			m.Author = c.d.userOf(guild, w.Author)
			m.Author.Admin = messageReader{state: state, w: w.wireMessage}.isAdmin()
			m.Author.Roles = roleNames(state, guild, w.Member.Roles)
		}
		m.Conversation, m.Direct = at, at.Workspace == directGuild
		list = append(list, m)
	}
	return list
}

// lookUpMember looks up who somebody is in a server. Who cannot be looked up has no
// roles.
func (d *Discord) lookUpMember(ctx context.Context, guild, user string) wireMember {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	var m wireMember
	err := d.api.do(ctx, request{method: "GET", path: "/guilds/" + guild + "/members/" + user}, &m)
	if err != nil {
		d.o.Log.Warn(
			"failed to look up the roles of a discord user; treating them as none",
			"platform",
			"discord",
			"guild",
			guild,
			"error",
			err,
		)
	}
	return m
}

// snapshot copies what a reader wants to know of a server: discordgo changes its state while others read. It is empty
// where the server has not shown itself.
func snapshot(state *discordgo.State, guild string) *discordgo.State {
	return copyServer(state, guild, func(g *discordgo.Guild) *discordgo.Guild {
		return &discordgo.Guild{Roles: copyAll(g.Roles), Channels: copyAll(g.Channels), Threads: copyAll(g.Threads),
			Members: copyAll(g.Members)}
	})
}

// snapshotChannel copies what permissions in one channel depend on: a server may have hundreds of channels, and this is
// done for each question.
func snapshotChannel(state *discordgo.State, guild, channel string) *discordgo.State {
	shot := copyServer(state, guild, func(g *discordgo.Guild) *discordgo.Guild {
		return &discordgo.Guild{Roles: copyAll(g.Roles)}
	})
	if c, ok := findChannel(state, guild, channel); ok {
		_ = shot.ChannelAdd(&c) // fails without its server alone, of which nothing is known then
	}
	return shot
}

// copyServer returns a state with the part of a server that part copies, while nobody changes the server. The state is
// empty where the server is not known.
func copyServer(state *discordgo.State, guild string, part func(*discordgo.Guild) *discordgo.Guild) *discordgo.State {
	shot := discordgo.NewState()
	shot.TrackPresences = false
	state.RLock()
	defer state.RUnlock()
	i := slices.IndexFunc(state.Guilds, func(g *discordgo.Guild) bool { return g.ID == guild })
	if i < 0 {
		return shot
	}
	own := part(state.Guilds[i])
	own.ID, own.OwnerID = guild, state.Guilds[i].OwnerID
	_ = shot.GuildAdd(own) // fails without a state alone
	return shot
}

// copyAll returns the values of a list in memory of their own, one level deep.
func copyAll[T any](list []*T) []*T {
	all := make([]*T, len(list))
	for i, e := range list {
		own := *e
		all[i] = &own
	}
	return all
}

// reportUnreadable tells once why nothing is caught up in a place.
func (d *Discord) reportUnreadable(at chat.Address, err error) {
	if !d.unreadable.First(at.String()) {
		return
	}
	remedy := "give the bot's role View Channel and Read Message History"
	var e *apiError
	if errors.As(err, &e) && e.status == http.StatusNotFound {
		remedy = "the channel is gone; take it out of the channels in config.json if it is named there"
	}
	d.o.Log.Warn(
		"failed to read missed discord messages",
		"platform",
		"discord",
		"conversation",
		at.String(),
		"remedy",
		remedy,
		"error",
		err,
	)
}
