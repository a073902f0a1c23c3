package slack

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"ravenbot/adapters/kit"
	"ravenbot/internal/chat"
	"ravenbot/internal/failpoint"
)

const (
	// minRestart and longestRestart bound the pause between attempts to connect,
	// and briefRestart the one after a connection that had worked.
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
	// beatEvery is how often it is noted that there is a connection. A beat that comes
	// late tells that the whole process stood still.
	beatEvery = time.Second
)

// socket is the bot's ear in Socket Mode. One goroutine, of listen, works with it;
// others dial and read.
type socket struct {
	*Slack
	ctx     context.Context // of Run; outlives connections
	queues  *kit.Queues
	helpers sync.WaitGroup

	links   []*connection
	news    chan connectionEvent
	dialled chan dialResult
	dialing bool
	wait    time.Duration // before the next attempt to connect

	alive time.Time // when there last was a connection, on the wall clock
	stale bool      // there was none for longer than an outage
}

// connectionEvent is a frame that came by a link, or its end.
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

// listen keeps a Socket Mode connection until ctx ends. Before one that Slack is
// going to close ends, the next one is there.
func (s *Slack) listen(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	k := &socket{
		Slack:   s,
		ctx:     ctx,
		queues:  kit.NewQueues(ctx),
		news:    make(chan connectionEvent, 64),
		dialled: make(chan dialResult, 1),
		stale:   true,
	}
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

// closeAll ends all links, also one that is just being made.
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

// dial begins to make a link after a pause, if none is being made.
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

// addConnection takes a new link into use. The error says that there can be none.
func (k *socket) addConnection(d dialResult) error {
	k.dialing = false
	if d.err != nil {
		if refusal := setupError(d.err, "app-level token", appTokenPlace); refusal != nil {
			k.setHealth(false, refusal.Error())
			return refusal
		}
		k.wait = max(retryAfter(d.err), min(max(2*k.wait, minRestart), maxRestart))
		k.o.Log.Warn("slack connection not made, trying again", "wait", k.wait, "error", d.err)
		k.dial(k.wait)
		return nil
	}
	k.links = append(k.links, d.link)
	k.helpers.Go(func() {
		end := d.link.read(func(frame []byte) { k.publish(connectionEvent{from: d.link, frame: frame}) })
		k.publish(connectionEvent{from: d.link, end: end})
	})
	return nil
}

func (k *socket) publish(n connectionEvent) {
	select {
	case k.news <- n:
	case <-k.ctx.Done():
	}
}

// dropConnection forgets a link that has ended, and has another made where none is left to
// stay.
func (k *socket) dropConnection(l *connection, why error) {
	l.close()
	k.noteAlive()
	k.links = slices.DeleteFunc(k.links, func(other *connection) bool { return other == l })
	if !k.isGreeted() {
		k.setHealth(false, "connecting")
	}
	if k.hasLasting() {
		return
	}
	switch {
	case l.leaving, k.o.Now().Sub(l.opened) > steadyAfter:
		k.wait = 0
	default:
		k.wait = min(max(2*k.wait, minRestart), usualRestart)
	}
	k.o.Log.Warn("slack connection ended, connecting again", "wait", k.wait, "error", why)
	k.dial(k.wait)
}

// isGreeted reports whether there is a link that said hello; staying, whether there is one
// that is not to go.
func (k *socket) isGreeted() bool {
	return slices.ContainsFunc(k.links, func(l *connection) bool { return l.greeted })
}

func (k *socket) hasLasting() bool {
	return slices.ContainsFunc(k.links, func(l *connection) bool { return !l.leaving })
}

// noteAlive keeps the time at which there was a connection.
func (k *socket) noteAlive() {
	if !k.isGreeted() {
		return
	}
	now := k.o.Now().Round(0) // the monotonic clock may stand still while a machine sleeps
	k.stale = k.stale || now.Sub(k.alive) > outageAfter
	k.alive = now
}

// closeExpired closes links whose time is over.
func (k *socket) closeExpired() {
	now := k.o.Now()
	for _, l := range k.links {
		if !l.until.IsZero() && now.After(l.until) {
			l.close() // its reader tells
		}
	}
}

// onHello begins to use a link; others have lived for long enough. After an outage
// what was missed is to be read before anything that it brings is taken.
func (k *socket) onHello(l *connection) {
	now := k.o.Now().Round(0)
	if k.stale || !k.isGreeted() {
		k.missed.Begin()
	}
	l.greeted, k.alive, k.stale = true, now, false
	k.setHealth(true, "")
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

// onFrame deals with one frame at once; storing a message is left to the lanes.
func (k *socket) onFrame(l *connection, data []byte) {
	var f struct {
		Type       string          `json:"type"`
		EnvelopeID string          `json:"envelope_id"`
		Reason     string          `json:"reason"`
		Payload    json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(data, &f) != nil {
		k.o.Log.Warn("slack sent what cannot be read", "bytes", len(data))
		return
	}
	switch {
	case f.Type == "hello":
		k.onHello(l)
	case f.Type == "disconnect":
		k.o.Log.Info("slack is going to close the connection", "reason", f.Reason)
		if l.leaving = true; !k.hasLasting() {
			k.dial(0)
		}
	case f.EnvelopeID != "":
		k.onRequest(l, f.EnvelopeID, f.Type, f.Payload)
	}
}

// onRequest deals with what Slack wants acknowledged, by the link that it came by.
// What cannot be read is acknowledged, too, or Slack sends it again. Storing may
// outlive the link.
func (k *socket) onRequest(l *connection, envelope, kind string, payload json.RawMessage) {
	ack := func() {
		if err := l.ack(envelope); err != nil && k.ctx.Err() == nil {
			k.o.Log.Warn("envelope not acknowledged", "envelope", envelope, "error", err)
		}
	}
	m, ok := k.parsePayload(kind, payload)
	if !ok {
		k.queues.Do(envelope, ack)
		return
	}
	take := func() {
		k.awaitTurn(m)
		if k.takeMessage(k.ctx, m) {
			ack()
			failpoint.Here(failpoint.Acked)
		}
	}
	if m.Kind() == chat.EventReaction { // waits for nothing, and nothing for it
		k.queues.Do("reaction/"+m.Conversation.Channel, func() {
			if k.takeMessage(k.ctx, m) {
				ack()
			}
		})
		return
	}
	if !isInteraction(m) {
		k.queues.Do(m.Conversation.Channel, take)
		return
	}
	k.queues.Do(m.ID, func() { // nobody has to wait for what Slack is asked about it
		if k.openFormFor(k.ctx, &m) {
			ack()
			return
		}
		k.queues.Do(m.Conversation.Channel, take)
	})
}

// awaitTurn waits until what was missed before a message is in. A command waits for as
// long as its author sees it work: Slack sends it but once.
func (k *socket) awaitTurn(m chat.Message) {
	ctx := k.ctx
	if isInteraction(m) {
		limited, cancel := context.WithTimeout(ctx, interactionWait)
		defer cancel()
		ctx = limited
	}
	k.awaitMissed(ctx, m.Conversation)
}

// parsePayload makes a message of an envelope's payload; false says that it is none.
func (s *Slack) parsePayload(kind string, payload json.RawMessage) (chat.Message, bool) {
	switch kind {
	case "events_api":
		var o eventEnvelope
		if json.Unmarshal(payload, &o) != nil {
			return chat.Message{}, false
		}
		return s.parseEvent(o)
	case "slash_commands":
		var c wireCommand
		if json.Unmarshal(payload, &c) != nil {
			return chat.Message{}, false
		}
		return s.parseCommand(c)
	case "interactive":
		return s.parseInteraction(payload)
	}
	return chat.Message{}, false
}
