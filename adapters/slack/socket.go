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
	// firstRestart and longestRestart bound the pause between attempts to connect,
	// and briefRestart the one after a connection that had worked.
	firstRestart   = 100 * time.Millisecond
	briefRestart   = time.Second
	longestRestart = 15 * time.Second
	// steady is how long a connection lasts that is replaced without a pause.
	steady = 10 * time.Second
	// linger is how long a connection is kept that another has taken the place of:
	// Slack may still send on it, and what came by it is acknowledged there.
	linger = 30 * time.Second
	// mostLinks bounds the connections at a time; Slack takes ten of an app.
	mostLinks = 4
	// outage is how long the bot may have no connection before it reads what it
	// missed. What Slack could not deliver in a shorter time it delivers again.
	outage = 5 * time.Second
	// beat is how often it is noted that there is a connection. A beat that comes
	// late tells that the whole process stood still.
	beat = time.Second
)

// socket is the bot's ear in Socket Mode. One goroutine, of listen, works with it;
// others dial and read.
type socket struct {
	*Slack
	ctx     context.Context // of Run; outlives connections
	queues  *kit.Queues
	helpers sync.WaitGroup

	links   []*link
	news    chan news
	dialled chan dialled
	dialing bool
	wait    time.Duration // before the next attempt to connect

	alive time.Time // when there last was a connection, on the wall clock
	stale bool      // there was none for longer than an outage
}

// news is a frame that came by a link, or its end.
type news struct {
	from  *link
	frame []byte
	end   error
}

// dialled is what came of an attempt to connect.
type dialled struct {
	link *link
	err  error
}

// listen keeps a Socket Mode connection until ctx ends. Before one that Slack is
// going to close ends, the next one is there.
func (s *Slack) listen(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	k := &socket{Slack: s, ctx: ctx, queues: kit.NewQueues(ctx), news: make(chan news, 64), dialled: make(chan dialled, 1), stale: true}
	defer k.queues.Wait()
	defer k.hangUp()
	defer cancel()
	beats := time.NewTicker(beat)
	defer beats.Stop()
	k.dial(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-beats.C:
			k.note()
			k.dismiss()
		case d := <-k.dialled:
			if err := k.join(d); err != nil {
				return err
			}
		case n := <-k.news:
			if n.end != nil {
				k.leave(n.from, n.end)
			} else {
				k.frame(n.from, n.frame)
			}
		}
	}
}

// hangUp ends all links, also one that is just being made.
func (k *socket) hangUp() {
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
		l, err := k.open(k.ctx)
		k.dialled <- dialled{l, err}
	})
}

// join takes a new link into use. The error says that there can be none.
func (k *socket) join(d dialled) error {
	k.dialing = false
	if d.err != nil {
		if refusal := refused(d.err, "app-level token", appTokenPlace); refusal != nil {
			k.connected(false, refusal.Error())
			return refusal
		}
		k.wait = max(retryAfter(d.err), min(max(2*k.wait, firstRestart), longestRestart))
		k.o.Log.Warn("slack connection not made, trying again", "wait", k.wait, "error", d.err)
		k.dial(k.wait)
		return nil
	}
	k.links = append(k.links, d.link)
	k.helpers.Go(func() {
		end := d.link.read(func(frame []byte) { k.tell(news{from: d.link, frame: frame}) })
		k.tell(news{from: d.link, end: end})
	})
	return nil
}

func (k *socket) tell(n news) {
	select {
	case k.news <- n:
	case <-k.ctx.Done():
	}
}

// leave forgets a link that has ended, and has another made where none is left to
// stay.
func (k *socket) leave(l *link, why error) {
	l.close()
	k.note()
	k.links = slices.DeleteFunc(k.links, func(other *link) bool { return other == l })
	if !k.up() {
		k.connected(false, "connecting")
	}
	if k.staying() {
		return
	}
	switch {
	case l.leaving, k.o.Now().Sub(l.opened) > steady:
		k.wait = 0
	default:
		k.wait = min(max(2*k.wait, firstRestart), briefRestart)
	}
	k.o.Log.Warn("slack connection ended, connecting again", "wait", k.wait, "error", why)
	k.dial(k.wait)
}

// up reports whether there is a link that said hello; staying, whether there is one
// that is not to go.
func (k *socket) up() bool {
	return slices.ContainsFunc(k.links, func(l *link) bool { return l.greeted })
}

func (k *socket) staying() bool {
	return slices.ContainsFunc(k.links, func(l *link) bool { return !l.leaving })
}

// note keeps the time at which there was a connection.
func (k *socket) note() {
	if !k.up() {
		return
	}
	now := k.o.Now().Round(0) // the monotonic clock may stand still while a machine sleeps
	k.stale = k.stale || now.Sub(k.alive) > outage
	k.alive = now
}

// dismiss closes links whose time is over.
func (k *socket) dismiss() {
	now := k.o.Now()
	for _, l := range k.links {
		if !l.until.IsZero() && now.After(l.until) {
			l.close() // its reader tells
		}
	}
}

// hello begins to use a link; others have lived for long enough. After an outage
// what was missed is to be read before anything that it brings is taken.
func (k *socket) hello(l *link) {
	now := k.o.Now().Round(0)
	if k.stale || !k.up() {
		k.missed.Begin()
	}
	l.greeted, k.alive, k.stale = true, now, false
	k.connected(true, "")
	for n, other := range k.links {
		if other == l || !other.until.IsZero() && len(k.links)-n <= mostLinks {
			continue
		}
		other.leaving, other.until = true, now.Add(linger)
		if len(k.links)-n > mostLinks {
			other.close()
		}
	}
}

// frame deals with one frame at once; storing a message is left to the lanes.
func (k *socket) frame(l *link, data []byte) {
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
		k.hello(l)
	case f.Type == "disconnect":
		k.o.Log.Info("slack is going to close the connection", "reason", f.Reason)
		if l.leaving = true; !k.staying() {
			k.dial(0)
		}
	case f.EnvelopeID != "":
		k.request(l, f.EnvelopeID, f.Type, f.Payload)
	}
}

// request deals with what Slack wants acknowledged, by the link that it came by.
// What cannot be read is acknowledged, too, or Slack sends it again. Storing may
// outlive the link.
func (k *socket) request(l *link, envelope, kind string, payload json.RawMessage) {
	ack := func() {
		if err := l.ack(envelope); err != nil && k.ctx.Err() == nil {
			k.o.Log.Warn("envelope not acknowledged", "envelope", envelope, "error", err)
		}
	}
	m, ok := k.translate(kind, payload)
	if !ok {
		k.queues.Do(envelope, ack)
		return
	}
	take := func() {
		k.turn(m)
		if k.take(k.ctx, m) {
			ack()
			failpoint.Here(failpoint.Acked)
		}
	}
	if m.Kind() == chat.EventReaction { // waits for nothing, and nothing for it
		k.queues.Do("reaction/"+m.Conversation.Channel, func() {
			if k.take(k.ctx, m) {
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
		if k.prepare(k.ctx, &m) {
			ack()
			return
		}
		k.queues.Do(m.Conversation.Channel, take)
	})
}

// turn waits until what was missed before a message is in. A command waits for as
// long as its author sees it work: Slack sends it but once.
func (k *socket) turn(m chat.Message) {
	ctx := k.ctx
	if isInteraction(m) {
		limited, cancel := context.WithTimeout(ctx, shortWait)
		defer cancel()
		ctx = limited
	}
	k.awaitMissed(ctx, m.Conversation)
}

// translate makes a message of an envelope's payload; false says that it is none.
func (s *Slack) translate(kind string, payload json.RawMessage) (chat.Message, bool) {
	switch kind {
	case "events_api":
		var o outer
		if json.Unmarshal(payload, &o) != nil {
			return chat.Message{}, false
		}
		return s.message(o)
	case "slash_commands":
		var c slash
		if json.Unmarshal(payload, &c) != nil {
			return chat.Message{}, false
		}
		return s.command(c)
	case "interactive":
		return s.interacted(payload)
	}
	return chat.Message{}, false
}
