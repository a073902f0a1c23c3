package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/gorilla/websocket"

	"ravenbot/adapters/kit"
)

// Opcodes of the gateway (reference of 2026-08).
const (
	opDispatch       = 0
	opHeartbeat      = 1
	opIdentify       = 2
	opResume         = 6
	opReconnect      = 7
	opInvalidSession = 9
	opHello          = 10
	opHeartbeatAck   = 11
)

// Limits of a connection.
const (
	dialTimeout  = 10 * time.Second
	writeTimeout = 10 * time.Second
	maxFrame     = 64 << 20 // larger than any event
	// largeServer is how many members a server may have for READY to name those who are away.
	largeServer = 50
	apiVersion  = "10"
)

// frame is what is sent over the gateway, in either direction. Sequence and Type are those of an event (opDispatch) and
// empty in all others.
type frame struct {
	Op       int             `json:"op"`
	Data     json.RawMessage `json:"d"`
	Sequence int64           `json:"s,omitempty"`
	Type     string          `json:"t,omitempty"` // of an event
}

// session is what a connection goes on with where another one ended. Its fields belong to the goroutine of supervise
// while there is no connection, and to that which reads the connection while there is one; sequence is guarded by mu.
type session struct {
	state *discordgo.State // servers, channels and roles

	// refused counts the attempts to resume that were not answered by RESUMED. Whoever connects alone uses it.
	refused int

	// READY comes while whoever connects decides whether the session can be resumed, so that mu guards what follows.
	mu sync.Mutex
	// id and resumeURL are set by READY; only with an id a session can be resumed.
	id, resumeURL string
	sequence      int64 // of the last event that was handled
}

// newSession returns a session that Discord does not know yet. Its picture leaves out what the bot never looks at,
// which is the most of it in a large server.
func newSession() *session {
	state := discordgo.NewState()
	state.TrackEmojis, state.TrackStickers, state.TrackVoice = false, false, false
	state.TrackPresences, state.TrackThreadMembers = false, false
	return &session{state: state}
}

// canResume reports whether the session is worth an attempt to resume it.
func (s *session) canResume() bool {
	id, _ := s.resumption()
	return id != "" && s.refused < maxRefused
}

// resumption returns what the session is resumed by: its id, and the address that Discord wants it to be resumed at,
// both empty before READY. The address is also empty where it was of no use.
func (s *session) resumption() (id, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.resumeURL
}

func (s *session) setResumption(id, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.resumeURL = id, address
}

// lastSequence returns the sequence of the last event that was handled; 0: none was.
func (s *session) lastSequence() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sequence
}

// setSequence notes that the event with a sequence was handled.
func (s *session) setSequence(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sequence = n
}

// connection is one WebSocket to the gateway. A goroutine reads it and another one sends
// heartbeats; both end with it.
type connection struct {
	ws      *websocket.Conn
	news    chan struct{} // has an element when the status changed
	stopped chan struct{} // closed by cut
	once    sync.Once
	wg      sync.WaitGroup
	writing sync.Mutex

	mu sync.Mutex
	status
}

// status is what is known of a connection.
type status struct {
	interval  time.Duration // of heartbeats; 0 until HELLO
	acked     time.Time     // the last answer to a heartbeat, or HELLO
	live      bool          // READY or RESUMED came
	invalid   bool          // Discord called the session invalid
	resumable bool          // … but would let us resume it
	reconnect bool          // Discord asked for another connection
	ended     error         // why the connection can no longer be read
}

// silence returns how long no heartbeat was answered; 0 before HELLO.
func (s status) silence() time.Duration {
	if s.interval == 0 {
		return 0
	}
	return time.Since(s.acked)
}

// maxSilence returns how much silence a live connection may show: one missing answer means
// that it is dead, and answers take some time.
func (s status) maxSilence() time.Duration {
	return s.interval + min(max(s.interval/2, time.Second), 3*time.Second)
}

// closeCode returns the code with which Discord closed the connection; 0: it did not.
func (s status) closeCode() int {
	var closed *websocket.CloseError
	if errors.As(s.ended, &closed) {
		return closed.Code
	}
	return 0
}

// gatewayAddress asks Discord where the gateway is. It is asked for each new session: Discord may move it.
func (d *Discord) gatewayAddress(ctx context.Context) (string, error) {
	var answer struct {
		URL string `json:"url"`
	}
	err := d.api.do(ctx, request{method: "GET", path: "/gateway"}, &answer)
	var refusal *apiError
	if errors.As(err, &refusal) && refusal.status == http.StatusNotFound {
		// What stands before Discord may know the bot's own place alone, which tells the same.
		err = d.api.do(ctx, request{method: "GET", path: "/gateway/bot"}, &answer)
	}
	return answer.URL, err
}

// dialable adds to a gateway's address what Discord wants to be told in it. It returns an
// error where the token would be sent unencrypted although the API is encrypted.
func (d *Discord) dialable(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "wss" && u.Scheme != "ws" {
		return "", errors.New("the gateway's address is not valid")
	}
	if d.base.Scheme == "https" && u.Scheme != "wss" {
		return "", errors.New("the gateway's address is not encrypted")
	}
	if u.Path == "" {
		u.Path = "/"
	}
	q := u.Query()
	q.Set("v", apiVersion)
	q.Set("encoding", "json")
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// dial connects to the gateway, where a session is resumed to the address that READY named. The connection reads
// nothing before start, and the caller ends it with drop or closeSession. A refused address to resume at is not tried
// again.
func (d *Discord) dial(ctx context.Context, s *session) (*connection, error) {
	id, address := s.resumption()
	resuming := s.canResume() && address != ""
	if !resuming {
		var err error
		if address, err = d.gatewayAddress(ctx); err != nil {
			return nil, fmt.Errorf("ask for the gateway's address: %w", err)
		}
	}
	address, err := d.dialable(address)
	if err != nil {
		return nil, err
	}
	dialer := websocket.Dialer{Proxy: http.ProxyFromEnvironment, HandshakeTimeout: dialTimeout}
	ws, res, err := dialer.DialContext(ctx, address, http.Header{"User-Agent": {userAgent}})
	if res != nil && res.Body != nil {
		_ = res.Body.Close()
	}
	if err != nil {
		if resuming {
			s.setResumption(id, "") // the next attempt asks for an address
		}
		return nil, fmt.Errorf("connect to the gateway: %w", err)
	}
	// An event of a large server has some megabytes; a frame without end must not fill the memory.
	ws.SetReadLimit(maxFrame)
	// The library would send Discord's close code back: 1001, like 1000, ends the session.
	ws.SetCloseHandler(func(int, string) error { return nil })
	return &connection{ws: ws, news: make(chan struct{}, 1), stopped: make(chan struct{})}, nil
}

// start reads the connection and greets Discord when it has said HELLO. Each event is given
// to handle in order; the sequence is moved on behind it, so that Discord sends an event again
// that was not handled.
func (c *connection) start(s *session, greeting frame, handle func(frame)) {
	c.wg.Go(func() {
		for {
			var f frame
			_, data, err := c.ws.ReadMessage()
			if err == nil {
				err = json.Unmarshal(data, &f)
			}
			if err != nil {
				c.change(func(st *status) { st.ended = err })
				return
			}
			c.receive(s, f, greeting, handle)
		}
	})
}

// receive deals with one frame.
func (c *connection) receive(s *session, f, greeting frame, handle func(frame)) {
	switch f.Op {
	case opDispatch:
		handle(f)
		s.setSequence(f.Sequence)
		if f.Type == "READY" || f.Type == "RESUMED" {
			c.change(func(st *status) { st.live = true })
		}
	case opHeartbeat:
		c.sendHeartbeat(s)
	case opReconnect:
		c.change(func(st *status) { st.reconnect = true })
	case opInvalidSession:
		c.change(func(st *status) { st.invalid, st.resumable = true, string(f.Data) == "true" })
	case opHello:
		var hello struct {
			Interval int64 `json:"heartbeat_interval"`
		}
		if json.Unmarshal(f.Data, &hello) != nil || hello.Interval <= 0 {
			return
		}
		interval := time.Duration(hello.Interval) * time.Millisecond
		// HELLO counts as the first answer, so that silence is measured from here on.
		c.change(func(st *status) { st.interval, st.acked = interval, time.Now() })
		c.write(greeting)
		c.wg.Go(func() { c.sendHeartbeats(s, interval) })
	case opHeartbeatAck:
		c.change(func(st *status) { st.acked = time.Now() })
	}
}

// sendHeartbeats sends heartbeats, the first after a random part of the interval as Discord asks:
// many bots connect at once after an outage.
func (c *connection) sendHeartbeats(s *session, interval time.Duration) {
	timer := time.NewTimer(rand.N(interval))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			c.sendHeartbeat(s)
			timer.Reset(interval)
		case <-c.stopped:
			return
		}
	}
}

// sendHeartbeat tells Discord that the bot lives, and up to which event it has come; null before the first one.
func (c *connection) sendHeartbeat(s *session) {
	f := frame{Op: opHeartbeat}
	if n := s.lastSequence(); n > 0 {
		f.Data = fmt.Append(nil, n)
	}
	c.write(f)
}

// write sends a frame. A connection that takes none within writeTimeout is cut: its reader tells.
func (c *connection) write(f frame) {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.ws.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err := c.ws.WriteJSON(f); err != nil {
		c.drop()
	}
}

// change alters the status and wakes whoever watches it.
func (c *connection) change(alter func(*status)) {
	c.mu.Lock()
	alter(&c.status)
	c.mu.Unlock()
	kit.Wake(c.news)
}

// currentStatus returns a copy of the status.
func (c *connection) currentStatus() status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// drop ends the connection without a word, which leaves the session resumable.
func (c *connection) drop() {
	c.once.Do(func() {
		close(c.stopped)
		_ = c.ws.Close()
	})
}

// closeSession ends the connection and the session with it: that is what code 1000 means to Discord.
func (c *connection) closeSession() {
	goodbye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = c.ws.WriteControl(websocket.CloseMessage, goodbye, time.Now().Add(time.Second))
	c.drop()
}

// greeting returns how a connection begins: by resuming its session, or a new one. It holds the token and is not
// logged.
func (d *shard) greeting(s *session) (frame, error) {
	type object = map[string]any
	op, data := opIdentify, object{
		"token":           d.o.Token,
		"intents":         d.intents(),
		"shard":           []int{d.id, d.count},
		"large_threshold": largeServer,
		"properties":      object{"os": runtime.GOOS, "browser": "ravenbot", "device": "ravenbot"},
	}
	if s.canResume() {
		id, _ := s.resumption()
		op, data = opResume, object{"token": d.o.Token, "session_id": id, "seq": s.lastSequence()}
	}
	raw, err := json.Marshal(data)
	return frame{Op: op, Data: raw}, err
}

// intents returns which events Discord is to send. Content needs the operator's consent on Discord's pages, so that it
// is asked for only where the configuration needs it.
func (d *Discord) intents() discordgo.Intent {
	intents := discordgo.IntentsGuilds | discordgo.IntentsGuildMessages | discordgo.IntentsDirectMessages |
		discordgo.IntentsGuildMessageReactions | discordgo.IntentsDirectMessageReactions
	if d.o.MessageContent {
		intents |= discordgo.IntentMessageContent
	}
	return intents
}

// stateEvents are the events that change the picture of servers, channels and roles.
var stateEvents = map[string]func() any{
	"READY":               func() any { return new(discordgo.Ready) },
	"GUILD_CREATE":        func() any { return new(discordgo.GuildCreate) },
	"GUILD_UPDATE":        func() any { return new(discordgo.GuildUpdate) },
	"GUILD_DELETE":        func() any { return new(discordgo.GuildDelete) },
	"GUILD_MEMBER_ADD":    func() any { return new(discordgo.GuildMemberAdd) },
	"GUILD_MEMBER_UPDATE": func() any { return new(discordgo.GuildMemberUpdate) },
	"GUILD_MEMBER_REMOVE": func() any { return new(discordgo.GuildMemberRemove) },
	"GUILD_ROLE_CREATE":   func() any { return new(discordgo.GuildRoleCreate) },
	"GUILD_ROLE_UPDATE":   func() any { return new(discordgo.GuildRoleUpdate) },
	"GUILD_ROLE_DELETE":   func() any { return new(discordgo.GuildRoleDelete) },
	"CHANNEL_CREATE":      func() any { return new(discordgo.ChannelCreate) },
	"CHANNEL_UPDATE":      func() any { return new(discordgo.ChannelUpdate) },
	"CHANNEL_DELETE":      func() any { return new(discordgo.ChannelDelete) },
	"THREAD_CREATE":       func() any { return new(discordgo.ThreadCreate) },
	"THREAD_UPDATE":       func() any { return new(discordgo.ThreadUpdate) },
	"THREAD_DELETE":       func() any { return new(discordgo.ThreadDelete) },
	"THREAD_LIST_SYNC":    func() any { return new(discordgo.ThreadListSync) },
}

// updateState brings the picture up to date and returns the event as discordgo reads it; nil
// where the picture does not depend on it. What the library cannot read whole still counts as
// far as it is read.
func (s *session) updateState(f frame) any {
	make, ok := stateEvents[f.Type]
	if !ok {
		return nil
	}
	e := make()
	_ = json.Unmarshal(f.Data, e)
	if g, ok := e.(*discordgo.GuildCreate); ok && g.Guild != nil {
		for _, c := range g.Channels { // within the event they do not name their server
			c.GuildID = g.ID
		}
		for _, m := range g.Members {
			m.GuildID = g.ID
		}
	}
	// An error means that the event is of a server that the bot has left.
	_ = s.state.OnInterface(&discordgo.Session{StateEnabled: true, State: s.state}, e)
	return e
}
