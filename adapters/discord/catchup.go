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

	"ravenbot/internal/chat"
)

// Rules of catching up.
const (
	longestCatchUp = 30 * 24 * time.Hour
	maxMissed      = 1000             // messages read of one place
	readersAtOnce  = 4                // places read at the same time
	readWithin     = time.Minute      // for a page, waits for its turn included
	listWithin     = 30 * time.Second // for Heard
	guildWithin    = 5 * time.Second  // how long a place waits for its server to show itself
)

// catchUp reads what was said before a session began. Discord replays what a
// session missed, but nothing to a new one.
type catchUp struct {
	d     *shard
	state *discordgo.State
	gate  *gate
	from  time.Time // the earliest moment worth reading
	since string    // its id, by Discord's clock
	stop  context.CancelFunc

	mu     sync.Mutex
	heard  map[string]bool           // channels that are read, once they are known
	guilds map[string][]chat.Address // servers that have shown themselves, with their active threads
}

// beginCatchUp makes what this session brings wait for what was missed before it.
func (d *shard) beginCatchUp(ctx context.Context, state *discordgo.State) {
	if d.o.CatchUp <= 0 || d.o.Heard == nil {
		return
	}
	c := &catchUp{d: d, state: state, gate: newGate(), guilds: map[string][]chat.Address{},
		from: d.o.Now().Add(-min(d.o.CatchUp, longestCatchUp))}
	c.since = snowflake(c.from)
	ctx, c.stop = context.WithCancel(ctx)
	d.mu.Lock()
	former := d.missed
	d.missed = c
	d.mu.Unlock()
	if former != nil {
		former.stop()
	}
	d.queue.shut(c.gate)
	d.begin(func() {
		defer c.stop()
		c.run(ctx)
	})
}

func (d *shard) catchingUp() *catchUp {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.missed
}

// snowflake is the first id of a moment.
func snowflake(t time.Time) string {
	return strconv.FormatInt(max(t.UnixMilli()-firstMilli, 0)<<22, 10)
}

func (c *catchUp) run(ctx context.Context) {
	heard, ok := c.list(ctx)
	if !ok {
		return
	}
	c.begin(heard)
	var readers sync.WaitGroup
	defer readers.Wait()
	slots := make(chan struct{}, readersAtOnce)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		g, ok := c.d.queue.due(ctx, c.gate)
		if !ok {
			return
		}
		readers.Go(func() {
			c.fill(ctx, g)
			<-slots
		})
	}
}

// list asks for the places until there is an answer: what passed before could
// make the store forget where the gaps begin.
func (c *catchUp) list(ctx context.Context) ([]chat.Heard, bool) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		limited, cancel := context.WithTimeout(ctx, listWithin)
		heard, err := c.d.o.Heard(limited)
		cancel()
		if err == nil {
			return heard, true
		}
		if ctx.Err() != nil {
			return nil, false
		}
		c.d.o.Log.Error("discord conversations to catch up not listed, trying again", "platform", "discord", "wait", pause, "error", err)
		if !wait(ctx, pause) {
			return nil, false
		}
	}
}

// begin opens the gate for all but the places in which something may be missing.
func (c *catchUp) begin(heard []chat.Heard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = map[string]bool{}
	var gaps []*gap
	for _, h := range heard {
		a := h.Conversation
		if a.Platform != c.d.Name() || a.Channel == "" || !c.d.covers(a.Workspace) {
			continue
		}
		g := &gap{at: a, after: c.since}
		if _, err := strconv.ParseUint(h.Message, 10, 64); err == nil && (newer(h.Message, c.since) || h.At.After(c.from)) {
			g.after = h.Message
		}
		if _, known := c.guilds[a.Workspace]; !known && a.Workspace != inDirect {
			g.due = time.Now().Add(guildWithin)
		}
		c.heard[place(a)] = true
		gaps = append(gaps, g)
	}
	for _, threads := range c.guilds {
		gaps = append(gaps, c.below(threads)...)
	}
	c.d.queue.add(c.gate, gaps)
}

// onGuild takes note that a server has shown itself, with its active threads.
func (c *catchUp) onGuild(g *discordgo.GuildCreate) {
	if c == nil || g.Guild == nil || g.Unavailable {
		return
	}
	threads := []chat.Address{}
	for _, t := range g.Threads {
		if t.LastMessageID == "" || newer(t.LastMessageID, c.since) {
			threads = append(threads, chat.Address{Platform: c.d.Name(), Workspace: g.ID, Channel: t.ParentID, Thread: t.ID})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.guilds[g.ID] = threads
	if c.heard != nil {
		c.d.queue.add(c.gate, c.below(threads))
		c.d.queue.ready(c.gate, g.ID)
	}
}

// below makes gaps of the threads that lie under channels to be read.
func (c *catchUp) below(threads []chat.Address) []*gap {
	var gaps []*gap
	for _, t := range threads {
		if c.heard[t.Channel] {
			gaps = append(gaps, &gap{at: t, after: c.since})
		}
	}
	return gaps
}

// fill reads a gap and lets what waits behind it pass; where reading failed for
// the moment it stays.
func (c *catchUp) fill(ctx context.Context, g *gap) {
	missed, err := c.read(ctx, g)
	if ctx.Err() != nil {
		return
	}
	switch {
	case err != nil && !refused(err):
		pause := c.d.queue.retry(c.gate, g, askedToWait(err))
		c.d.o.Log.Warn("missed discord messages not read, trying again", "platform", "discord", "conversation", g.at.String(), "wait", pause, "error", err)
		return
	case err != nil:
		c.d.sayUnreadable(g.at, err)
	}
	if done, last := c.d.queue.fill(c.gate, g, missed); last {
		c.d.o.Log.Info("caught up", "platform", "discord", "conversations", done.places, "messages", done.messages)
	}
}

// read gives what people said in a gap, oldest first, but for what the bot has
// replied to where everybody sees it.
func (c *catchUp) read(ctx context.Context, g *gap) ([]inbound, error) {
	var said []wirePost
	for after, more := g.after, true; more && len(said) < maxMissed; {
		limited, cancel := context.WithTimeout(ctx, readWithin)
		page, next, err := c.d.history(limited, place(g.at), after)
		cancel()
		if err != nil {
			return nil, err
		}
		said = append(said, page...)
		if after, more = next, next != ""; more && len(said) >= maxMissed {
			c.d.o.Log.Warn("more discord messages were missed than are read", "platform", "discord", "conversation", g.at.String(), "read", len(said))
		}
	}
	self := c.d.bot().ID
	replied := map[string]bool{}
	for _, w := range said {
		if w.Author.ID == self {
			replied[w.Reference.MessageID] = true
		}
	}
	said = slices.DeleteFunc(said, func(w wirePost) bool { return replied[w.ID] })
	return c.messages(ctx, g.at, said), nil
}

// messages reads a history as if it had come live: in a history messages do not
// name their server, nor the roles of who wrote them.
func (c *catchUp) messages(ctx context.Context, at chat.Address, said []wirePost) []inbound {
	guild := at.Workspace
	if guild == inDirect {
		guild = ""
	}
	state := snapshot(c.state, guild)
	members := map[string]wireMember{}
	var missed []inbound
	for _, w := range said {
		w.GuildID = guild
		m, ok := c.d.message(state, w.wireMessage)
		if !ok || m.Reach == chat.Overheard && !c.d.o.MessageContent {
			continue
		}
		if m.Reach == chat.Addressed && guild != "" {
			if _, known := members[m.Author.ID]; !known {
				members[m.Author.ID] = c.d.member(ctx, guild, m.Author.ID)
			}
			w.Member = members[m.Author.ID]
			m.Author.Admin = reader{state: state, w: w.wireMessage}.admin()
		}
		m.Conversation, m.Direct, m.Missed = at, at.Workspace == inDirect, true
		missed = append(missed, inbound{message: m})
	}
	return missed
}

// member looks up who somebody is in a server. Who cannot be looked up has no
// roles.
func (d *Discord) member(ctx context.Context, guild, user string) wireMember {
	ctx, cancel := context.WithTimeout(ctx, lookupWithin)
	defer cancel()
	var m wireMember
	err := d.api.do(ctx, request{method: "GET", path: "/guilds/" + guild + "/members/" + user}, &m)
	if err != nil {
		d.o.Log.Warn("roles of the author of a missed discord message not looked up", "platform", "discord", "guild", guild, "error", err)
	}
	return m
}

// snapshot copies what a reader wants to know of a server: discordgo changes its
// state while others read.
func snapshot(state *discordgo.State, guild string) *discordgo.State {
	shot := discordgo.NewState()
	shot.TrackPresences = false
	state.RLock()
	defer state.RUnlock()
	i := slices.IndexFunc(state.Guilds, func(g *discordgo.Guild) bool { return g.ID == guild })
	if i < 0 {
		return shot
	}
	g := state.Guilds[i]
	_ = shot.GuildAdd(&discordgo.Guild{ID: g.ID, OwnerID: g.OwnerID, Roles: copies(g.Roles), Channels: copies(g.Channels),
		Threads: copies(g.Threads), Members: copies(g.Members)}) // fails without a state alone
	return shot
}

func copies[T any](list []*T) []*T {
	all := make([]*T, len(list))
	for i, e := range list {
		own := *e
		all[i] = &own
	}
	return all
}

// sayUnreadable tells once why nothing is caught up in a place.
func (d *Discord) sayUnreadable(at chat.Address, err error) {
	d.mu.Lock()
	told := d.unreadable[at]
	d.unreadable[at] = true
	d.mu.Unlock()
	if told {
		return
	}
	remedy := "give the bot's role View Channel and Read Message History"
	var e *apiError
	if errors.As(err, &e) && e.status == http.StatusNotFound {
		remedy = "the channel is gone; take it out of the channels in config.json if it is named there"
	}
	d.o.Log.Warn("missed discord messages cannot be read", "platform", "discord", "conversation", at.String(), "remedy", remedy, "error", err)
}
