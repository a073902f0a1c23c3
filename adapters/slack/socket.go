package slack

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/failpoint"
)

const (
	// minRestart and maxRestart bound the pause between attempts to connect, and
	// usualRestart the one after a connection that had worked.
	minRestart   = 100 * time.Millisecond
	usualRestart = time.Second
	maxRestart   = 15 * time.Second
	// steadyAfter is how long a connection lasts that is replaced without a pause.
	steadyAfter = 10 * time.Second
	// lingerTime is how long a connection is kept that another has taken the place of:
	// Slack may still send on it, and what came by it is acknowledged there.
	lingerTime = 30 * time.Second
	// maxLinks bounds the connections at a time; Slack takes ten of an app.
	maxLinks = 4
	// outageAfter is how long the bot may have no connection before it reads what it
	// missed. What Slack could not deliver in a shorter time it delivers again.
	outageAfter = 5 * time.Second
	// beatEvery is how often it is noted that there is a connection. A note that comes late
	// means that the whole process stood still.
	beatEvery = time.Second
)

// socket receives what Slack sends in Socket Mode. Only the goroutine of listen uses it;
// others dial and read.
type socket struct {
	*Slack
	ctx     context.Context // of Run; outlives connections
	queues  *kit.Queues
	helpers sync.WaitGroup

	// links are the open connections, oldest first. Mostly it is one; while Slack replaces it there are two.
	links []*connection
	// news brings what the readers of all links read; its room lets them go on while one frame is handled.
	news    chan connectionEvent
	dialled chan dialResult
	// dialing: an attempt to connect is under way or waits for its pause; there is one at a time.
	dialing bool
	wait    time.Duration // before the next attempt to connect

	hasOthers bool // Slack counted connections of other processes

	alive time.Time // when there last was a connection, on the wall clock
	stale bool      // there was none for longer than an outage
}

// connectionEvent is a frame that came by a connection, or its end.
type connectionEvent struct {
	from  *connection
	frame []byte
	end   error
}

// dialResult is what came of an attempt to connect.
type dialResult struct {
	link *connection
	err  error
}

// listen keeps a Socket Mode connection until ctx ends, for which it returns nil. The next one is open before Slack
// closes the present one. It returns a *chat.SetupError where Slack refuses the app-level token.
func (s *Slack) listen(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	k := &socket{
		Slack:   s,
		ctx:     ctx,
		queues:  kit.NewQueues(ctx),
		news:    make(chan connectionEvent, 64),
		dialled: make(chan dialResult, 1),
		// The first connection of a process reads what was missed, however short the bot was away.
		stale: true,
	}
	s.socket.Store(k)
	// The last runs first: what the other two wait for ends with ctx.
	defer k.queues.Wait()
	defer k.closeAll()
	defer cancel()
	beats := time.NewTicker(beatEvery)
	defer beats.Stop()
	k.dial(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-beats.C:
			k.noteAlive()
			k.closeExpired()
		case d := <-k.dialled:
			if err := k.addConnection(d); err != nil {
				return err
			}
		case n := <-k.news:
			if n.end != nil {
				k.dropConnection(n.from, n.end)
			} else {
				k.onFrame(n.from, n.frame)
			}
		}
	}
}

// closeAll ends all connections, also one that is just being opened.
func (k *socket) closeAll() {
	for _, l := range k.links {
		l.close()
	}
	k.helpers.Wait()
	select {
	case d := <-k.dialled:
		if d.link != nil {
			d.link.close()
		}
	default:
	}
}

// dial opens a connection after a pause, unless one is being opened. The result comes by dialled, or not at all when
// ctx has ended.
func (k *socket) dial(wait time.Duration) {
	if k.dialing {
		return
	}
	k.dialing = true
	k.helpers.Go(func() {
		if !kit.Sleep(k.ctx, wait) {
			return
		}
		l, err := k.openConnection(k.ctx)
		k.dialled <- dialResult{l, err}
	})
}

// addConnection uses a new connection, or tries again after a pause. The error is a *chat.SetupError and says that
// there can never be one.
func (k *socket) addConnection(d dialResult) error {
	k.dialing = false
	if d.err != nil {
		if refusal := setupError(d.err, "app-level token", appTokenPlace); refusal != nil {
			k.setHealth(false, refusal.Error())
			return refusal
		}
		if !k.isGreeted() {
			k.setHealth(false, "connecting: "+redact(d.err).Error())
		}
		k.wait = max(retryAfter(d.err), min(max(2*k.wait, minRestart), maxRestart))
		k.o.Log.Warn("slack connection failed; retrying", "wait", k.wait, "error", d.err)
		k.dial(k.wait)
		return nil
	}
	// Before it says hello: the number of connections in that frame includes it (see noteOthers).
	k.links = append(k.links, d.link)
	k.helpers.Go(func() {
		end := d.link.read(func(frame []byte) { k.publish(connectionEvent{from: d.link, frame: frame}) })
		k.publish(connectionEvent{from: d.link, end: end})
	})
	return nil
}

// publish hands an event to listen, or drops it when the bot ends.
func (k *socket) publish(n connectionEvent) {
	select {
	case k.news <- n:
	case <-k.ctx.Done():
	}
}

// dropConnection forgets a connection that has ended, and opens another one if none is left to stay. Envelopes that
// were not acknowledged on it Slack sends again on another one.
func (k *socket) dropConnection(l *connection, why error) {
	l.close()
	// While it is still among the links: until now there was a connection.
	k.noteAlive()
	k.links = slices.DeleteFunc(k.links, func(other *connection) bool { return other == l })
	k.trustEvents()
	if !k.isGreeted() {
		k.setHealth(false, "connecting")
	}
	if k.hasLasting() {
		return
	}
	switch {
	// A connection that Slack ended at once is likely to be ended again; pauses then grow to a second.
	case l.leaving, k.o.Now().Sub(l.opened) > steadyAfter:
		k.wait = 0
	default:
		k.wait = min(max(2*k.wait, minRestart), usualRestart)
	}
	k.o.Log.Warn("slack connection ended; reconnecting", "wait", k.wait, "error", why)
	k.dial(k.wait)
}

// isGreeted reports whether there is a connection that said hello.
func (k *socket) isGreeted() bool {
	return slices.ContainsFunc(k.links, func(l *connection) bool { return l.greeted })
}

// hasLasting reports whether there is a connection that is not about to be closed.
func (k *socket) hasLasting() bool {
	return slices.ContainsFunc(k.links, func(l *connection) bool { return !l.leaving })
}

// noteAlive notes the time if there is a connection.
func (k *socket) noteAlive() {
	if !k.isGreeted() {
		return
	}
	now := k.o.Now().Round(0) // the monotonic clock may stand still while a machine sleeps
	// A gap between two beats means that the whole process stood still, for example because the
	// machine slept.
	k.stale = k.stale || now.Sub(k.alive) > outageAfter
	k.alive = now
}

// closeExpired closes connections that were kept for long enough.
func (k *socket) closeExpired() {
	now := k.o.Now()
	for _, l := range k.links {
		if !l.until.IsZero() && now.After(l.until) {
			l.close() // its reader tells
		}
	}
}

// onHello uses a connection that said hello, and lets older ones end. After an outage what was
// missed is read before anything that the new connection brings is taken.
func (k *socket) onHello(l *connection) {
	now := k.o.Now().Round(0)
	if k.stale || !k.isGreeted() {
		k.missed.Begin()
	}
	l.greeted, k.alive, k.stale = true, now, false
	k.setHealth(true, "")
	// Older connections linger for what Slack still sends on them; all but the newest few are
	// closed at once.
	for n, other := range k.links {
		if other == l || !other.until.IsZero() && len(k.links)-n <= maxLinks {
			continue
		}
		other.leaving, other.until = true, now.Add(lingerTime)
		if len(k.links)-n > maxLinks {
			other.close()
		}
	}
}

// noteOthers warns where Slack counts more connections of this app than are open here. Slack gives each event to one of
// them: another process with the same token and a store of its own answers a part of the messages. Processes that share the
// store are expected, each with two connections while one replaces the other.
func (k *socket) noteOthers(counted int) {
	expected := len(k.links)
	k.hasOthers = counted > expected
	if k.o.Replicas != nil {
		expected += 2 * (k.o.Replicas.Processes() - 1)
	}
	if counted <= expected {
		return
	}
	k.o.Log.Warn("slack counts connections of another process", "counted", counted, "here", len(k.links),
		"remedy", "stop the other bot that has this app token, or let both use one PostgreSQL store; "+
			"one that ended a moment ago is counted for a while")
}

// onFrame handles one frame at once, because frames of other connections wait behind it. Storing a message is left to
// the queues. A frame that cannot be decoded is logged and skipped: it names no envelope that could be acknowledged.
func (k *socket) onFrame(l *connection, data []byte) {
	f, r, err := readFrame(data)
	if err != nil {
		k.o.Log.Warn("failed to decode a slack frame", "bytes", len(data))
		return
	}
	switch {
	case f.Type == "hello":
		k.onHello(l)
		k.noteOthers(f.Connections)
		k.trustEvents()
	case f.Type == "disconnect":
		if f.Reason == "link_disabled" {
			k.o.Log.Warn("slack ended the connection: Socket Mode was switched off",
				"remedy", "switch Socket Mode on again in the settings of the app")
		} else {
			k.o.Log.Info("slack announced the end of the connection", "reason", f.Reason)
		}
		// The next one is opened beside it: Slack's Node client had gaps of 5 to 12 s between two (2026-11).
		if l.leaving = true; !k.hasLasting() {
			k.dial(0)
		}
	case f.EnvelopeID != "":
		if f.Retry > 0 {
			k.recent.Pause(retryPause)
		}
		k.onRequest(l, f.EnvelopeID, r)
	}
}

// frame is what a socket brings, without its payload.
type frame struct {
	Type       string `json:"type"`
	EnvelopeID string `json:"envelope_id"`
	Reason     string `json:"reason"`
	Retry      int    `json:"retry_attempt"` // 0: the first attempt to deliver it
	// Connections is how many connections of this app Slack counts, in the frame "hello".
	Connections int `json:"num_connections"`
}

// readFrame decodes a frame, and its payload as a request. An event is decoded with the frame: each decoding of a part
// would read its text twice more.
func readFrame(data []byte) (frame, request, error) {
	var event struct {
		frame
		Payload eventEnvelope `json:"payload"`
	}
	if json.Unmarshal(data, &event) == nil && event.Type == eventsKind {
		return event.frame, request{Kind: eventsKind, event: &event.Payload}, nil
	}
	var any struct {
		frame
		Payload json.RawMessage `json:"payload"`
	}
	err := json.Unmarshal(data, &any)
	return any.frame, request{Kind: any.Type, Payload: any.Payload}, err
}

// onRequest handles what Slack wants acknowledged, on the connection by which it came. What cannot
// be parsed is acknowledged, too, because Slack would send it again. Storing may outlive the
// connection.
func (k *socket) onRequest(l *connection, envelope string, r request) {
	// The acknowledgement goes back on the connection that brought the request: Slack knows it on
	// no other.
	answer := func(payload json.RawMessage, taken bool) {
		if !taken {
			return // Slack sends it again
		}
		if err := l.ack(envelope, payload); err != nil && k.ctx.Err() == nil {
			k.o.Log.Warn("failed to acknowledge a slack envelope", "envelope", envelope, "error", err)
		}
	}
	k.handleRequest(envelope, r, answer)
}

// handleRequest handles a request in the order of its channel. done gets
// what Slack is to be answered; with taken false it must send the request again.
func (k *socket) handleRequest(envelope string, r request, done func(answer json.RawMessage, taken bool)) {
	m, ok := k.parseRequest(r)
	if !ok {
		// Not in this goroutine, in which a write to a slow connection would hold up the others.
		k.queues.Do(envelope, func() { done(nil, true) })
		return
	}
	// Acknowledged only behind takeMessage: a crash between the two has Slack send the message again, and accept knows
	// it.
	take := func() {
		k.awaitTurn(m)
		taken := k.takeMessage(k.ctx, m)
		if done(nil, taken); taken {
			failpoint.Here(failpoint.Acked)
		}
	}
	if m.Kind() == chat.EventReaction { // waits for nothing, and nothing for it
		k.queues.Do("reaction/"+m.Conversation.Channel, func() { done(nil, k.takeMessage(k.ctx, m)) })
		return
	}
	// Only interactions need a look at forms and people, which takes time that other messages need
	// not wait.
	if !isInteraction(m) {
		k.queues.Do(m.Conversation.Channel, take)
		return
	}
	k.queues.Do(m.ID, func() { // nobody has to wait for what Slack is asked about it
		if faults := k.checkForm(k.ctx, &m); faults != nil {
			done(faults, true)
			return
		}
		if k.openFormFor(k.ctx, &m) {
			done(nil, true)
			return
		}
		k.queues.Do(m.Conversation.Channel, take)
	})
}

// awaitTurn waits until what was missed before a message is in. A command waits only as long as its
// author is shown that it works, because Slack sends it once.
func (k *socket) awaitTurn(m chat.Message) {
	ctx := k.ctx
	if isInteraction(m) {
		limited, cancel := context.WithTimeout(ctx, interactionWait)
		defer cancel()
		ctx = limited
	}
	k.awaitMissed(ctx, m.Conversation)
}

// The kinds of what Slack sends, by the names of their envelopes.
const (
	eventsKind      = "events_api"
	commandsKind    = "slash_commands"
	interactiveKind = "interactive"
)

// parseRequest returns the message of a request; false if it is none.
func (s *Slack) parseRequest(r request) (chat.Message, bool) {
	switch r.Kind {
	case eventsKind:
		if r.event != nil {
			return s.parseEvent(r.event)
		}
		var o eventEnvelope
		if json.Unmarshal(r.Payload, &o) != nil {
			return chat.Message{}, false
		}
		return s.parseEvent(&o)
	case commandsKind:
		var c wireCommand
		if json.Unmarshal(r.Payload, &c) != nil {
			return chat.Message{}, false
		}
		return s.parseCommand(c)
	case interactiveKind:
		return s.parseInteraction(r.Payload)
	}
	return chat.Message{}, false
}
