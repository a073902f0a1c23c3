package simdiscord

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"ravenbot/internal/testing/sim"
)

// Gateway opcodes.
const (
	opDispatch       = 0
	opHeartbeat      = 1
	opIdentify       = 2
	opPresence       = 3
	opVoice          = 4
	opResume         = 6
	opReconnect      = 7
	opMembers        = 8
	opInvalidSession = 9
	opHello          = 10
	opAck            = 11
)

// maxSend is the largest payload a client may send, in bytes.
const maxSend = 4096

// gateway is the state of the event stream; the server's lock guards it.
type gateway struct {
	closed     bool
	away       bool
	faults     GatewayFaults
	minShards  int  // less are turned away
	isReset    bool // the token is refused, since too many sessions were begun with it
	links      []*link
	sessions   map[string]*session
	identifies []Identify
	resumes    []Resume
	heartbeats int
}

func newGateway() gateway { return gateway{sessions: map[string]*session{}} }

// session outlives the connections that carry it.
type session struct {
	id      string
	intents int
	shard   [2]int
	seq     int
	log     [][]byte // index is sequence number minus one
	link    *link    // nil: nobody listens
}

// link is one WebSocket.
type link struct {
	sock    *sim.Socket
	session *session
	resumed bool // by the resume address
	sends   []time.Time
	overdue *time.Timer
}

// event is something to dispatch; either data or post is set.
type event struct {
	name   string
	intent int // 0: to everyone
	guild  string
	data   map[string]any
	post   *Post
}

type packet struct {
	Op   int             `json:"op"`
	Data json.RawMessage `json:"d"`
	Seq  *int            `json:"s"`
	Name string          `json:"t,omitempty"`
}

// encode returns a gateway packet without a sequence number.
func encode(op int, data any) []byte {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err) // our own values
	}
	out, err := json.Marshal(packet{Op: op, Data: raw})
	if err != nil {
		panic(err)
	}
	return out
}

// emit dispatches an event to every session that may see it. The lock is held.
func (s *Server) emit(e event) {
	for _, sess := range s.sessions {
		if e.intent != 0 && sess.intents&e.intent == 0 || !sess.covers(e.guild) {
			continue
		}
		data := e.data
		// Each session sees only the content that its intents allow.
		if e.post != nil {
			data = s.eventWire(e.post, sess.intents&IntentMessageContent != 0)
		}
		// Discord may deliver an event twice; clients have to notice.
		for range max(1, s.faults.Repeat) {
			sess.dispatch(e.name, data)
		}
	}
}

// eventWire returns a message as gateway events show it, with the author's membership beside it.
func (s *Server) eventWire(p *Post, content bool) map[string]any {
	data := s.wire(p, content)
	if c := s.mustChannel(p.ChannelID); c.GuildID != "" {
		data["guild_id"] = c.GuildID
		if p.Interaction == "" {
			data["member"] = memberWire(c.GuildID, p.Author)
		}
	}
	return data
}

// covers reports whether a session gets the events of a guild. Direct messages belong to shard 0.
func (sess *session) covers(guild string) bool {
	if guild == "" {
		return sess.shard[0] == 0
	}
	return shardOf(guild, sess.shard[1]) == sess.shard[0]
}

// shardOf returns the shard of a guild, by Discord's documented formula.
func shardOf(guild string, count int) int {
	id, _ := strconv.ParseUint(guild, 10, 64)
	return int((id >> 22) % uint64(count))
}

// dispatch sends an event to a session, and keeps it for a resume. The lock is held.
func (sess *session) dispatch(name string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	sess.seq++
	seq := sess.seq
	out, err := json.Marshal(packet{Op: opDispatch, Data: raw, Seq: &seq, Name: name})
	if err != nil {
		panic(err)
	}
	// Also while the client is away: a resume replays what it missed.
	sess.log = append(sess.log, out)
	if sess.link != nil {
		sess.link.sock.Send(out)
	}
}

func (s *Server) liveLinks() []*link { return slices.Clone(s.links) }

// serveGateway serves one WebSocket connection until it ends.
func (s *Server) serveGateway(w http.ResponseWriter, r *http.Request) {
	if !websocket.IsWebSocketUpgrade(r) {
		writeJSON(w, http.StatusNotFound, errorBody(0, "404: Not Found", nil))
		return
	}
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // the upgrader has answered
	}
	conn.SetReadLimit(1 << 20)
	l := &link{sock: sim.NewSocket(conn), resumed: strings.HasPrefix(r.URL.Path, "/resume")}
	defer l.sock.Cut()
	l.overdue = time.AfterFunc(2*s.opts.HeartbeatInterval, func() { s.closeOnTimeout(l) })
	defer l.overdue.Stop()
	if !s.attach(l) {
		return
	}
	defer s.detach(l)
	// The close code comes after the hello, as from Discord.
	if v := r.URL.Query().Get("v"); v != "9" && v != "10" {
		l.sock.CloseWith(4012, "Invalid API version")
	}
	for {
		_, data, err := conn.ReadMessage()
		if err != nil {
			s.recordEnd(l, err)
			return
		}
		s.receive(l, data)
	}
}

// attach adds a connection and greets it. It returns false while no connections are accepted.
func (s *Server) attach(l *link) bool {
	s.state.Lock()
	defer s.state.Release()
	if s.closed || s.away {
		return false
	}
	s.links = append(s.links, l)
	if !s.faults.NoHello {
		l.sock.Send(encode(opHello, map[string]any{"heartbeat_interval": s.opts.HeartbeatInterval.Milliseconds()}))
	}
	return true
}

// detach removes a connection. Its session stays, so that the client can resume it.
func (s *Server) detach(l *link) {
	s.state.Lock()
	defer s.state.Release()
	s.links = slices.DeleteFunc(s.links, func(o *link) bool { return o == l })
	// Another connection may have resumed the session meanwhile.
	if l.session != nil && l.session.link == l {
		l.session.link = nil
	}
}

// recordEnd deletes the session of a client that has closed the connection normally: it cannot be resumed.
func (s *Server) recordEnd(l *link, err error) {
	if !websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway) {
		return
	}
	s.state.Lock()
	defer s.state.Release()
	if l.session != nil && l.session.link == l {
		delete(s.sessions, l.session.id)
	}
}

// closeOnTimeout closes a connection that has sent no heartbeat.
func (s *Server) closeOnTimeout(l *link) {
	s.state.Lock()
	defer s.state.Release()
	l.sock.CloseWith(4009, "Session timed out")
}

// receive handles one packet from a client.
func (s *Server) receive(l *link, data []byte) {
	s.state.Lock()
	defer s.state.Release()
	now := time.Now()
	l.sends = append(slices.DeleteFunc(l.sends, func(t time.Time) bool { return now.Sub(t) > time.Minute }), now)
	// Documented limit: 120 packets a minute for each connection.
	if len(l.sends) > 120 {
		l.sock.CloseWith(4008, "Rate limited")
		return
	}
	var p packet
	if len(data) > maxSend || json.Unmarshal(data, &p) != nil {
		l.sock.CloseWith(4002, "Decode error")
		return
	}
	switch p.Op {
	case opHeartbeat:
		s.heartbeats++
		l.overdue.Reset(2 * s.opts.HeartbeatInterval)
		if !s.faults.NoAcks {
			l.sock.Send(encode(opAck, nil))
		}
	case opIdentify:
		s.identify(l, p.Data)
	case opResume:
		s.resume(l, p.Data)
	case opPresence, opVoice, opMembers:
		if l.session == nil {
			l.sock.CloseWith(4003, "Not authenticated")
		}
	default:
		l.sock.CloseWith(4001, "Unknown opcode")
	}
}

// isToken reports whether a token, with or without the word Bot, is the bot's.
func (s *Server) isToken(token string) bool {
	return !s.isReset && strings.TrimPrefix(token, "Bot ") == s.opts.Token
}

// identify starts a session, or closes the connection with the code that the mistake has.
func (s *Server) identify(l *link, data []byte) {
	var d struct {
		Token      string          `json:"token"`
		Intents    *int            `json:"intents"`
		Shard      []int           `json:"shard"`
		Properties json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(data, &d) != nil || d.Intents == nil || d.Properties == nil {
		l.sock.CloseWith(4002, "Decode error")
		return
	}
	if d.Shard == nil {
		d.Shard = []int{0, 1}
	}
	// Before the attempt is recorded, which would make every attempt too early.
	early := len(d.Shard) == 2 && s.isTooEarly(d.Shard[0])
	s.identifies = append(s.identifies, Identify{At: time.Now(), Intents: *d.Intents, Shard: d.Shard})
	switch {
	// Documented: who begins more sessions than a day has loses all of them, and the token.
	case len(s.identifies) > s.opts.Identifies:
		s.isReset = true
		clear(s.sessions)
		for _, open := range s.links {
			open.sock.CloseWith(4004, "Authentication failed")
		}
	case early:
		l.sock.Send(encode(opInvalidSession, false))
	case l.session != nil:
		l.sock.CloseWith(4005, "Already authenticated")
	case !s.isToken(d.Token):
		l.sock.CloseWith(4004, "Authentication failed")
	case len(d.Shard) != 2 || d.Shard[0] < 0 || d.Shard[0] >= d.Shard[1]:
		l.sock.CloseWith(4010, "Invalid shard")
	case d.Shard[1] < s.minShards:
		l.sock.CloseWith(4011, "Sharding required")
	case *d.Intents < 0 || *d.Intents >= 1<<27:
		l.sock.CloseWith(4013, "Invalid intent(s)")
	case *d.Intents&privilegedIntents&^s.opts.Privileged != 0:
		l.sock.CloseWith(4014, "Disallowed intent(s)")
	default:
		s.startSession(l, *d.Intents, [2]int{d.Shard[0], d.Shard[1]})
	}
}

// isTooEarly reports whether another shard of the same bucket has just identified.
func (s *Server) isTooEarly(shard int) bool {
	n := s.opts.MaxConcurrency
	return n > 0 && slices.ContainsFunc(s.identifies, func(i Identify) bool {
		return len(i.Shard) == 2 && i.Shard[0]%n == shard%n && time.Since(i.At) < 5*time.Second
	})
}

// startSession starts a session and sends READY and the guilds.
func (s *Server) startSession(l *link, intents int, shard [2]int) {
	sess := &session{id: strings.ToLower(rand.Text()), intents: intents, shard: shard, link: l}
	l.session = sess
	s.sessions[sess.id] = sess
	var own []Guild
	stubs := []any{}
	for _, g := range s.guilds {
		if sess.covers(g.ID) {
			own = append(own, g)
			stubs = append(stubs, map[string]any{"id": g.ID, "unavailable": true})
		}
	}
	sess.dispatch("READY", map[string]any{
		"v":                  10,
		"user":               userWire(s.bot),
		"session_id":         sess.id,
		"guilds":             stubs,
		"resume_gateway_url": s.socketURL() + "/resume",
		"shard":              shard,
		"application":        map[string]any{"id": s.bot.ID, "flags": 0},
		"private_channels":   []any{},
		"relationships":      []any{},
		"presences":          []any{},
	})
	// Without the intent a client gets no guild data, as on Discord.
	if intents&IntentGuilds == 0 {
		return
	}
	for _, g := range own {
		sess.dispatch("GUILD_CREATE", s.guildWire(g))
	}
}

func (s *Server) socketURL() string { return "ws" + strings.TrimPrefix(s.URL(), "http") }

// resume continues a session and replays the events that the client has missed.
func (s *Server) resume(l *link, data []byte) {
	var d struct {
		Token   string `json:"token"`
		Session string `json:"session_id"`
		Seq     int    `json:"seq"`
	}
	if json.Unmarshal(data, &d) != nil {
		l.sock.CloseWith(4002, "Decode error")
		return
	}
	note := Resume{At: time.Now(), Session: d.Session, Seq: d.Seq, ByResumeURL: l.resumed}
	defer func() { s.resumes = append(s.resumes, note) }()
	sess, ok := s.sessions[d.Session]
	switch {
	case l.session != nil:
		l.sock.CloseWith(4005, "Already authenticated")
	case !s.isToken(d.Token):
		l.sock.CloseWith(4004, "Authentication failed")
	case !ok || s.faults.RefuseResumes:
		l.sock.Send(encode(opInvalidSession, false))
	case d.Seq < 0 || d.Seq > sess.seq:
		delete(s.sessions, sess.id)
		l.sock.CloseWith(4007, "Invalid seq")
	default:
		note.OK = true
		if old := sess.link; old != nil && old != l {
			old.sock.CloseWith(4000, "Session resumed elsewhere")
		}
		sess.link, l.session = l, sess
		note.Replayed = sess.seq - d.Seq
		for _, missed := range sess.log[d.Seq:] {
			l.sock.Send(missed)
		}
		// Behind what was missed, as on Discord: clients take it for the end of that.
		sess.dispatch("RESUMED", map[string]any{})
	}
}
