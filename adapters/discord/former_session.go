package discord

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"ravenbot/adapters/kit"
)

// A session that is resumed brings what was missed, but not the servers, channels and roles, without which it cannot be
// read. So the next owner of a shard begins a session of its own, and resumes that of the former owner beside it, only
// to read what came between the two. Discord allows several sessions of one shard (reference of 2026-08).

// formerSession is what the former owner of a shard has left of its session: all events up to the sequence are handled.
type formerSession struct {
	ID        string `json:"id"`
	ResumeURL string `json:"resumeURL"`
	Sequence  int64  `json:"sequence"`
}

// readTimeout bounds reading what came between two sessions.
const readTimeout = 15 * time.Second

// readFormer returns the events that the former session of a shard has not handled; false: Discord no longer has it, or
// did not send all of it within readTimeout. The session is over afterwards.
func (d *shard) readFormer(ctx context.Context, f formerSession) (events []frame, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	s := newSession()
	s.id, s.resumeURL, s.sequence = f.ID, f.ResumeURL, f.Sequence
	greeting, err := d.greeting(s)
	var c *connection
	if err == nil {
		c, err = d.dial(ctx, s)
	}
	if err != nil {
		d.o.Log.Warn("failed to resume the former discord session", "platform", "discord", "shard", d.id, "error", hideAddress(err))
		return nil, false
	}
	var mu sync.Mutex
	c.start(s, greeting, func(f frame) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, f)
	})
	st := c.currentStatus()
	// What was missed comes in order and before RESUMED: once the session is live, events holds all of it.
	for !st.live && !st.invalid && st.ended == nil && ctx.Err() == nil {
		d.awaitNews(ctx, c, readTimeout)
		st = c.currentStatus()
	}
	c.closeSession() // nobody needs it any more
	c.wg.Wait()
	return events, st.live
}

// replay has what came between two sessions accepted, before anything that the present one brought. false: it was not
// read, or not all of it accepted, and then the history is read instead; what was accepted already is known by its id.
func (c *catchUp) replay(ctx context.Context, f formerSession) (ok bool) {
	c.awaitGuilds(ctx)
	events, ok := c.d.readFormer(ctx, f)
	if !ok {
		return false
	}
	var list []inbound
	// It waits for nothing that was missed, and does not remember what was said: that would come too late.
	r := &shard{Discord: c.d.Discord, id: c.d.id, count: c.d.count, ctx: c.d.ctx, accept: c.d.accept}
	r.collect = func(in inbound) { list = append(list, in) }
	for _, e := range events {
		r.handleMissed(c, e)
	}
	for _, in := range list {
		if !r.deliver(r.ctx, in) {
			return false
		}
	}
	c.d.o.Log.Info("read the discord events of the former session", "platform", "discord", "shard", c.d.id,
		"events", len(events), "messages", len(list))
	return true
}

// handleMissed handles an event of a former session, with the picture that the present one has.
func (d *shard) handleMissed(c *catchUp, f frame) {
	var e struct {
		ID    string `json:"id"`
		Guild string `json:"guild_id"`
	}
	if json.Unmarshal(f.Data, &e) != nil {
		return
	}
	c.mu.Lock()
	state := snapshot(c.state, e.Guild)
	c.mu.Unlock()
	// Discord has told whoever waits for longer that the bot does not answer, and takes no answer any more.
	isLate := d.o.Now().Sub(timeOfID(e.ID, time.Time{})) > storeTimeout
	if f.Type == "INTERACTION_CREATE" && isLate {
		d.o.Log.Warn("discord interaction arrived while no replica had the shard", "platform", "discord", "interaction", e.ID)
		return
	}
	d.handleMessage(d.ctx, state, f)
}

// awaitGuilds waits for the servers of a session to show themselves, for a while.
func (c *catchUp) awaitGuilds(ctx context.Context) {
	for end := time.Now().Add(guildTimeout); time.Now().Before(end); {
		c.mu.Lock()
		c.state.RLock()
		isWhole := len(c.guilds) >= len(c.state.Guilds)
		c.state.RUnlock()
		c.mu.Unlock()
		if isWhole || !kit.Sleep(ctx, guildPause) {
			return
		}
	}
}

// guildPause is how often it is looked whether all servers have shown themselves.
const guildPause = 20 * time.Millisecond

// leftSession returns what the next owner of the shard may read of the session; nil: nothing, because there is none, or
// not all that came by it is stored.
func (d *shard) leftSession() []byte {
	d.mu.Lock()
	s, waiting := d.last, d.waiting
	d.mu.Unlock()
	left := d.former // there was no time to read it
	switch {
	case left != nil:
	// The sequence counts what was read. Were something not stored yet, the next owner would resume behind it.
	case s == nil || !s.canResume() || waiting > 0 || d.missed.IsBehind():
		return nil
	default:
		id, address := s.resumption()
		left = &formerSession{ID: id, ResumeURL: address, Sequence: s.lastSequence()}
	}
	raw, err := json.Marshal(left)
	if err != nil {
		return nil // strings and numbers alone always have a form in JSON
	}
	return raw
}
