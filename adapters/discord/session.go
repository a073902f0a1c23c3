package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"ravenbot/adapters/kit"
)

// Times of a connection.
const (
	openTimeout  = 30 * time.Second // from dialling to HELLO
	readyTimeout = 30 * time.Second // from there to READY or RESUMED
	firstPause   = time.Second
	maxPause     = time.Minute
	maxRefused   = 2 // answers to RESUME other than RESUMED before a new session
)

// supervise keeps a connection alive until ctx ends, for which it returns nil, or no attempt can succeed. It begins a
// session where there is none to resume, within the limits of identifyBudget.
func (d *shard) supervise(ctx context.Context) error {
	var s *session
	failures := 0
	for d.awaitRoom(ctx) {
		begun := func(bool) {}
		if s == nil {
			var ok bool
			if begun, ok = d.allowIdentify(ctx); !ok {
				return nil
			}
			s = newSession()
			d.mu.Lock()
			d.state, d.recent = s.state, d.newRecent()
			d.mu.Unlock()
		}
		end := d.runConnection(ctx, s, begun)
		d.setDisconnected(end, s)
		if end.fatal != nil {
			return end.fatal
		}
		if !end.resume {
			s = nil
		}
		// A connection that was live begins the pauses again, also one that lasted only a moment: Discord greeted it.
		failures++
		if end.wasLive {
			failures = 0
		}
		if ctx.Err() == nil {
			pause := end.pause(failures)
			d.o.Log.Warn("discord connection lost", "platform", "discord", "shard", d.id,
				"cause", end.cause, "resume", end.resume, "wait", pause)
			kit.Sleep(ctx, pause)
		}
	}
	return nil
}

// runConnection connects and stays until the connection ends, and says how. It calls begun once, with whether a session
// was begun. When it returns, nothing that the connection brought is still being handled.
func (d *shard) runConnection(ctx context.Context, s *session, begun func(bool)) connectionEnd {
	resuming := s.canResume()
	greeting, err := d.greeting(s)
	var c *connection
	if err == nil {
		attempt, cancel := context.WithTimeout(ctx, d.openWithin)
		defer cancel()
		c, err = d.dial(attempt, s)
	}
	if err != nil {
		begun(false)
		return connectionEnd{cause: "no connection to the gateway: " + hideAddress(err).Error(), resume: resuming}
	}
	// What it brings may be dealt with for longer than it lasts.
	c.start(s, greeting, func(f frame) { d.handle(d.ctx, s, f) })
	end := d.watch(ctx, s, c, begun)
	c.drop()
	c.wg.Wait() // what it brought is handled before another connection brings more
	if !end.wasLive {
		// The greeting is sent at HELLO: from then on Discord may have counted the session.
		begun(c.currentStatus().interval > 0)
	}
	// A session that is refused again and again is given up, whatever Discord says of it.
	if resuming && !end.wasLive && c.currentStatus().interval > 0 {
		s.refused++
		end.resume = end.resume && s.canResume()
	}
	return end
}

// hideAddress takes the address out of an error: it may hold a password.
func hideAddress(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// watch waits for the end of a connection, and brings it about where Discord has fallen silent or has dropped the
// session. It calls begun with true when Discord has greeted the session, and not at all before that.
func (d *shard) watch(ctx context.Context, s *session, c *connection, begun func(bool)) connectionEnd {
	openBy := time.Now().Add(d.openWithin)
	greetBy := openBy.Add(readyTimeout)
	lived := false
	for {
		st := c.currentStatus()
		if st.live && !lived {
			// Other shards of the bucket may begin their sessions once this one is known to
			// Discord.
			lived, s.refused = true, 0
			begun(true)
			d.setConnected(c)
		}
		now := time.Now()
		cause := ""
		switch {
		case ctx.Err() != nil && d.o.Sharing != nil:
			// Another process reads what comes from now on.
			return connectionEnd{cause: "the shard is released", wasLive: lived, resume: s.canResume()}
		case ctx.Err() != nil:
			c.closeSession()
			return connectionEnd{cause: "the bot ends", wasLive: lived}
		case st.ended != nil:
			cause = "the connection was closed"
		case st.invalid:
			cause = "the session became invalid"
		case st.reconnect:
			cause = "Discord asked to connect again"
		case st.interval == 0 && !now.Before(openBy):
			cause = "the gateway does not greet"
		case !lived && !now.Before(greetBy):
			// Else verdict would have the session resumed that Discord has not answered for.
			s.refused = maxRefused
			cause = "Discord sent neither READY nor RESUMED"
		case st.silence() > st.maxSilence():
			cause = "no answer to heartbeats"
		case d.isFull(d.maxWaiting): // looked at with each answer to a heartbeat
			cause = "too many messages wait to be stored"
		}
		if cause != "" {
			end := d.verdict(s, st, cause)
			end.wasLive = lived
			return end
		}
		next := greetBy.Sub(now)
		if st.interval == 0 {
			next = openBy.Sub(now)
		} else if patience := st.maxSilence() - st.silence(); lived || patience < next {
			next = patience
		}
		d.awaitNews(ctx, c, next+time.Millisecond)
	}
}

// awaitNews returns when the status of a connection has changed, after a time, or with ctx. It may also return without
// a reason; callers look at the status again.
func (d *shard) awaitNews(ctx context.Context, c *connection, within time.Duration) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-c.news:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// setConnected notes that events come by this connection.
func (d *shard) setConnected(c *connection) {
	d.mu.Lock()
	d.conn, d.connectedSince, d.detail = c, d.o.Now(), ""
	user := d.self.Username
	d.mu.Unlock()
	d.o.Log.Info("discord connected", "platform", "discord", "user", user, "shard", d.id, "shards", d.count)
}

// isConnected reports whether READY or RESUMED has come on the connection that there is.
func (d *shard) isConnected() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.connectedSince.IsZero()
}

// setDisconnected notes why there is no connection, and the session that may be left to another process.
func (d *shard) setDisconnected(end connectionEnd, s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn, d.connectedSince, d.detail, d.last = nil, time.Time{}, end.cause, nil
	if end.resume {
		d.last = s
	}
}

// handle takes an event from the reading goroutine and returns at once. What it does takes no look at the network and
// no wait: heartbeats are answered by the same goroutine.
func (d *shard) handle(ctx context.Context, s *session, f frame) {
	// A panic ends here, so that the sequence moves on: a resumed session would bring the same event again.
	defer func() {
		if r := recover(); r != nil {
			d.o.Log.Error("panic while reading a discord event", "platform", "discord",
				"event", f.Type, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		}
	}()
	d.mu.Lock()
	d.lastEvent = d.o.Now()
	d.mu.Unlock()
	// The picture changes before the event is read, which may need the names in it.
	seen := s.updateState(f)
	d.noteRights(f)
	switch f.Type {
	// Nothing that comes behind READY may pass before what was missed.
	case "READY":
		d.onReady(ctx, s, f.Data)
		d.missed.begin(s.state)
	case "GUILD_CREATE":
		if g, ok := seen.(*discordgo.GuildCreate); ok {
			d.missed.onGuild(g)
		}
	default:
		d.handleMessage(ctx, s.state, f)
	}
}

// handleMessage handles an event by which people say or do something.
func (d *shard) handleMessage(ctx context.Context, state *discordgo.State, f frame) {
	switch f.Type {
	case "MESSAGE_CREATE":
		d.onMessage(state, f.Data)
	case "MESSAGE_UPDATE":
		d.onUpdate(state, f.Data)
	case "MESSAGE_DELETE", "MESSAGE_DELETE_BULK":
		d.onDelete(state, f.Data)
	case "MESSAGE_REACTION_ADD",
		"MESSAGE_REACTION_REMOVE",
		"MESSAGE_REACTION_REMOVE_ALL",
		"MESSAGE_REACTION_REMOVE_EMOJI":
		d.onReaction(state, f.Type, f.Data)
	case "INTERACTION_CREATE":
		d.onInteraction(ctx, state, f.Data)
	}
}

// onReady takes note of who the bot is, and of what the session can be resumed by. Without a session id the next
// connection begins a new one.
func (d *shard) onReady(ctx context.Context, s *session, data []byte) {
	var ready struct {
		Session     string   `json:"session_id"`
		ResumeURL   string   `json:"resume_gateway_url"`
		User        wireUser `json:"user"`
		Application struct {
			ID string `json:"id"`
		} `json:"application"`
	}
	if err := json.Unmarshal(data, &ready); err != nil {
		d.o.Log.Error("failed to decode a discord READY event", "platform", "discord", "error", err)
		return
	}
	// What stands in for Discord may pass on an address that leads past it. An address that is none would be tried again
	// and again.
	_, err := d.dialable(ready.ResumeURL)
	if err != nil || d.base.Host != officialHost && isDiscordGateway(ready.ResumeURL) {
		ready.ResumeURL = ""
	}
	s.setResumption(ready.Session, ready.ResumeURL)
	d.mu.Lock()
	d.self, d.app = ready.User, cmp.Or(ready.Application.ID, ready.User.ID) // the same but for the oldest bots
	app := d.app
	d.mu.Unlock()
	if d.o.Sharing == nil { // else one of the processes does
		d.registerOnce(ctx, app)
	}
}

// isDiscordGateway reports whether an address is of Discord's own gateway.
func isDiscordGateway(address string) bool {
	u, err := url.Parse(address)
	return err == nil && strings.HasSuffix("."+strings.ToLower(u.Hostname()), ".discord.gg")
}
