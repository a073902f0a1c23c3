package discord

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/gorilla/websocket"

	"ravenbot/adapters/kit"
)

// Times of a connection.
const (
	dialWithin    = 10 * time.Second
	openWithin    = 30 * time.Second // from dialling to the first event
	closeWithin   = 15 * time.Second // discordgo waits a second in every close
	greetWithin   = 30 * time.Second // from the first event to READY or RESUMED
	firstPause    = time.Second
	longestPause  = time.Minute
	resumeRefused = 2 // answers to RESUME other than RESUMED before a new session
)

// client is a gateway session of discordgo and the connection that carries it.
// One goroutine uses it; discordgo's own call only handlers and link.
type client struct {
	dg      *discordgo.Session
	secure  bool            // never without encryption
	attempt context.Context // ends when connecting has taken too long
	link    *link
	keep    func() bool   // stops attempt from cutting the link
	gone    chan struct{} // has an element when discordgo has closed the connection
	started chan struct{} // closed by READY: from now on the session can be resumed
	ready   chan struct{} // has an element when READY or RESUMED came
	refused int
	begun   func(bool) // gives back the turn to begin a session; nil: it was
}

// newClient prepares a session that will identify itself when it is opened. What
// its events set going ends with ctx.
func (d *shard) newClient(ctx context.Context) (*client, error) {
	dg, err := discordgo.New("Bot " + d.o.Token)
	if err != nil {
		return nil, err
	}
	c := &client{dg: dg, secure: d.base.Scheme == "https", gone: make(chan struct{}, 1), started: make(chan struct{}), ready: make(chan struct{}, 1)}
	dg.LogLevel = -1 // it would write to the process's default log
	dg.ShardID, dg.ShardCount = d.id, d.count
	dg.SyncEvents = true
	dg.ShouldReconnectOnError = false
	dg.ShouldRetryOnRateLimit = false
	dg.MaxRestRetries = 0
	dg.Compress = false // link reads along
	dg.Identify.LargeThreshold = 50
	dg.Identify.Intents = discordgo.IntentsGuilds | discordgo.IntentsGuildMessages | discordgo.IntentsDirectMessages |
		discordgo.IntentsGuildMessageReactions | discordgo.IntentsDirectMessageReactions
	if d.o.MessageContent {
		dg.Identify.Intents |= discordgo.IntentMessageContent
	}
	dg.State.TrackEmojis, dg.State.TrackStickers, dg.State.TrackVoice = false, false, false
	dg.State.TrackPresences, dg.State.TrackThreadMembers = false, false
	dg.Client = &http.Client{Transport: c.bound(d.api.client.Transport, d.base), Timeout: requestWithin}
	dg.Dialer = &websocket.Dialer{HandshakeTimeout: dialWithin, NetDialContext: c.dial,
		NetDialTLSContext: c.dialTLS}
	dg.AddHandler(func(_ *discordgo.Session, e *discordgo.Event) { d.handle(ctx, c, e) })
	dg.AddHandler(func(*discordgo.Session, *discordgo.Disconnect) { kit.Wake(c.gone) })
	return c, nil
}

// roundTripper lets a function be one.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type limitedBody struct {
	io.Reader
	io.Closer
}

// bound sends discordgo's requests to base, whatever host they name, while the
// attempt to connect lasts. discordgo makes its addresses when it is loaded, and
// reads answers of any size.
func (c *client) bound(next http.RoundTripper, base *url.URL) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(c.attempt)
		r.URL.Scheme, r.URL.Host, r.Host = base.Scheme, base.Host, base.Host
		resp, err := next.RoundTrip(r)
		if err == nil && resp.StatusCode == http.StatusNotFound && strings.HasSuffix(r.URL.Path, "/gateway") {
			resp.Body.Close()
			r = r.Clone(c.attempt)
			r.URL.Path += "/bot" // tells the same, and more
			resp, err = next.RoundTrip(r)
		}
		if err != nil {
			return nil, err
		}
		resp.Body = &limitedBody{Reader: io.LimitReader(resp.Body, maxAnswer), Closer: resp.Body}
		return resp, dialable(resp)
	})
}

// dialable rewrites the gateway's address in an answer so that discordgo leaves it
// as it is: it appends a slash to the path, and a query of its own, to whatever it
// is given. With a path or query of its own the address gets the query here, and
// ends in what makes the appended one harmless.
func dialable(resp *http.Response) error {
	raw, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return err
	}
	var answer struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(raw, &answer) == nil {
		u, err := url.Parse(answer.URL)
		if err == nil && u.Host != "" && (strings.Trim(u.Path, "/") != "" || u.RawQuery != "") {
			q := u.Query()
			q.Set("v", discordgo.APIVersion)
			q.Set("encoding", "json")
			u.RawQuery = q.Encode() + "&_=/"
			answer.URL = u.String()
			if raw, err = json.Marshal(answer); err != nil {
				return err
			}
		}
	}
	resp.Body = io.NopCloser(bytes.NewReader(raw))
	resp.ContentLength = int64(len(raw))
	return nil
}

func (c *client) dial(_ context.Context, network, addr string) (net.Conn, error) {
	if c.secure {
		return nil, errors.New("the gateway's address is not encrypted")
	}
	conn, err := (&net.Dialer{Timeout: dialWithin}).DialContext(c.attempt, network, addr)
	return c.linked(conn, err)
}

func (c *client) dialTLS(_ context.Context, network, addr string) (net.Conn, error) {
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialWithin}}
	conn, err := dialer.DialContext(c.attempt, network, addr)
	return c.linked(conn, err)
}

func (c *client) linked(conn net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	c.link = newLink(conn)
	c.keep = context.AfterFunc(c.attempt, c.link.cut)
	return c.link, nil
}

// open connects and waits for the first event. Without the deadline of its own
// discordgo would wait for HELLO for ever, holding the lock that closing takes.
func (c *client) open(ctx context.Context, within time.Duration) error {
	attempt, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c.attempt, c.link, c.keep = attempt, nil, nil
	drainSignal(c.gone)
	drainSignal(c.ready)
	if err := c.dg.Open(); err != nil {
		if c.link != nil {
			c.link.cut()
		}
		return err
	}
	c.keep()
	return nil
}

func drainSignal(ch chan struct{}) {
	select {
	case <-ch:
	default:
	}
}

// canResume tells whether Discord has ever named this session.
func (c *client) canResume() bool {
	select {
	case <-c.started:
		return true
	default:
		return false
	}
}

// supervise keeps a connection alive until ctx ends or no attempt can succeed.
func (d *shard) supervise(ctx context.Context) error {
	var c *client
	failures := 0
	for ctx.Err() == nil {
		if c == nil {
			begun, ok := d.allowIdentify(ctx)
			if !ok {
				return nil
			}
			var err error
			if c, err = d.newClient(ctx); err != nil {
				begun(false)
				return fmt.Errorf("prepare a discord session: %w", err)
			}
			c.begun = begun
		}
		end := d.attend(ctx, c)
		d.lost(end)
		if end.fatal != nil {
			return end.fatal
		}
		if !end.resume {
			c = nil
		}
		failures++
		if end.lived {
			failures = 0
		}
		if ctx.Err() == nil {
			pause := end.pause(failures)
			d.o.Log.Warn("discord connection lost", "platform", "discord", "shard", d.id, "cause", end.cause, "resume", end.resume, "wait", pause)
			kit.Sleep(ctx, pause)
		}
	}
	return nil
}

// attend connects and stays until the connection ends.
func (d *shard) attend(ctx context.Context, c *client) ending {
	resuming := c.canResume()
	err := c.open(ctx, d.openWithin)
	greeted := false
	if c.link != nil {
		greeted, _, _, _ = c.link.state()
	}
	if c.begun != nil {
		c.begun(greeted)
		c.begun = nil
	}
	if c.link == nil {
		return ending{cause: fmt.Sprint("no connection to the gateway: ", err), resume: resuming}
	}
	if greeted && resuming && err != nil {
		c.refused++
	}
	if err != nil {
		return c.verdict(err.Error(), err)
	}
	return d.watch(ctx, c)
}

// watch waits for the end of a connection, and brings it about where Discord has
// fallen silent or has dropped the session.
func (d *shard) watch(ctx context.Context, c *client) ending {
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	greetBy := time.Now().Add(greetWithin)
	lived, cause := false, ""
	for {
		select {
		case <-ctx.Done():
			_ = c.dg.Close() // 1000: the session is over
			return ending{cause: "the bot ends", lived: lived}
		case <-c.ready:
			lived, c.refused = true, 0
			d.arrived(c.link)
			continue
		case <-c.link.news:
			if _, invalid, _, _ := c.link.state(); !invalid {
				continue
			}
			cause = "the session became invalid"
		case <-c.gone:
			end := c.verdict("the connection was closed", nil)
			end.lived = lived
			return end
		case <-alarm.C:
			silence, patience := c.link.silence(), c.link.patience()
			late := !lived && time.Now().After(greetBy)
			if silence <= patience && !late {
				alarm.Reset(min(patience-silence, greetWithin) + 10*time.Millisecond)
				continue
			}
			cause = "no answer to heartbeats"
			if late {
				c.refused = resumeRefused
				cause = "neither READY nor RESUMED came"
			}
		}
		return c.end(cause, lived)
	}
}

// end cuts the connection and waits until discordgo has noticed.
func (c *client) end(cause string, lived bool) ending {
	c.link.cut()
	timer := time.NewTimer(closeWithin)
	defer timer.Stop()
	end := c.verdict(cause, nil)
	select {
	case <-c.gone:
	case <-timer.C:
		end.resume = false // whatever holds discordgo up, a new session does without it
	}
	end.lived = lived
	return end
}

// arrived notes that events come on this link.
func (d *shard) arrived(l *link) {
	d.mu.Lock()
	d.link, d.up, d.detail = l, d.o.Now(), ""
	user := d.self.Username
	d.mu.Unlock()
	d.o.Log.Info("discord connected", "platform", "discord", "user", user, "shard", d.id, "shards", d.count)
}

func (d *shard) lost(end ending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.link, d.up, d.detail = nil, time.Time{}, end.cause
}

// handle takes an event from discordgo's reading goroutine and returns at once.
func (d *shard) handle(ctx context.Context, c *client, e *discordgo.Event) {
	defer func() {
		if r := recover(); r != nil {
			d.o.Log.Error("panic while reading a discord event", "platform", "discord", "event", e.Type, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		}
	}()
	d.mu.Lock()
	d.heard = d.o.Now()
	d.mu.Unlock()
	switch e.Type {
	case "READY":
		d.onReady(ctx, e.RawData)
		d.missed.begin(c.dg.State)
		// From here on discordgo must not identify: it would do so at once, on the
		// same connection, when told that the session is invalid. It refuses to for
		// a shard beyond the count.
		c.dg.ShardID, c.dg.ShardCount = 2, 2
		close(c.started)
		kit.Wake(c.ready)
	case "RESUMED":
		kit.Wake(c.ready)
	case "GUILD_CREATE":
		if g, ok := e.Struct.(*discordgo.GuildCreate); ok {
			d.missed.onGuild(g)
		}
	case "MESSAGE_CREATE":
		d.onMessage(c.dg.State, e.RawData)
	case "MESSAGE_UPDATE":
		d.onUpdate(c.dg.State, e.RawData)
	case "MESSAGE_DELETE", "MESSAGE_DELETE_BULK":
		d.onDelete(c.dg.State, e.RawData)
	case "MESSAGE_REACTION_ADD", "MESSAGE_REACTION_REMOVE", "MESSAGE_REACTION_REMOVE_ALL", "MESSAGE_REACTION_REMOVE_EMOJI":
		d.onReaction(c.dg.State, e.Type, e.RawData)
	case "INTERACTION_CREATE":
		d.onInteraction(ctx, c.dg.State, e.RawData)
	}
}
