package slack

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	slackgo "github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"ravenbot/internal/chat"
	"ravenbot/internal/failpoint"
)

const (
	// readLimit bounds one frame, in bytes.
	readLimit = 4 << 20
	// restart is the longest pause between attempts to connect. slack-go's own
	// grows to five minutes, in which the bot would be deaf.
	restart = 15 * time.Second
	// outage is how long the bot may have no connection before it reads what it
	// missed. What Slack could not deliver in a shorter time it delivers again.
	outage = 5 * time.Second
	// beat is how often it is noted that there is a connection. A beat that comes
	// late tells that the whole process stood still.
	beat = time.Second
)

// socket is the bot's ear in Socket Mode.
type socket struct {
	*Slack
	ctx    context.Context // of Run; outlives connections
	lanes  *lanes
	client *socketmode.Client

	up    bool
	alive time.Time // when there last was a connection, on the wall clock
	stale bool      // there was none for longer than an outage
}

// listen keeps a Socket Mode connection until ctx ends.
func (s *Slack) listen(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	k := &socket{Slack: s, ctx: ctx, lanes: newLanes(ctx), stale: true}
	defer k.lanes.wait()
	defer cancel()
	wait := 500 * time.Millisecond
	for {
		began := s.o.Now()
		err := k.connection()
		if ctx.Err() != nil {
			return nil
		}
		if refusal := refused(err, "app-level token", "SLACK_APP_TOKEN (xapp-…, with the scope connections:write, under Basic Information of the app)"); refusal != nil {
			s.connected(false, refusal.Error())
			return refusal
		}
		k.lost("not connected")
		s.o.Log.Warn("slack connection ended, connecting again", "wait", wait, "error", err)
		if !pause(ctx, wait) {
			return nil
		}
		if wait = min(2*wait, restart); s.o.Now().Sub(began) > time.Minute {
			wait = 500 * time.Millisecond
		}
	}
}

// connection runs slack-go's client, which reconnects by itself when Slack asks
// it to, until it fails to connect.
func (k *socket) connection() error {
	ctx, cancel := context.WithCancelCause(k.ctx)
	defer cancel(nil)
	k.client = socketmode.New(k.api, socketmode.OptionReadLimit(readLimit))
	ended := make(chan error, 1)
	go func() { ended <- k.client.RunContext(ctx) }()
	beats := time.NewTicker(beat)
	defer beats.Stop()
	for {
		select {
		case err := <-ended:
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
				return cause
			}
			return err
		case <-beats.C:
			k.note()
		case e := <-k.client.Events:
			if failed := k.event(ctx, e); failed != nil {
				cancel(failed)
			}
		}
	}
}

// note keeps the time at which there was a connection.
func (k *socket) note() {
	if !k.up {
		return
	}
	now := k.o.Now().Round(0) // the monotonic clock may stand still while a machine sleeps
	k.stale = k.stale || now.Sub(k.alive) > outage
	k.alive = now
}

func (k *socket) lost(detail string) {
	k.note()
	k.up = false
	k.connected(false, detail)
}

// hello begins a connection. After an outage what was missed is to be read before
// anything that this connection brings is taken.
func (k *socket) hello() {
	now := k.o.Now().Round(0)
	if k.stale || now.Sub(k.alive) > outage {
		k.missed.begin()
	}
	k.up, k.alive, k.stale = true, now, false
	k.connected(true, "")
}

// event deals with one event of the client at once; storing a message is left to
// the lanes. The error says that connecting failed.
func (k *socket) event(ctx context.Context, e socketmode.Event) error {
	switch e.Type {
	case socketmode.EventTypeHello:
		k.hello()
	case socketmode.EventTypeConnecting, socketmode.EventTypeDisconnect:
		k.lost("connecting")
	case socketmode.EventTypeConnectionError:
		if failure, ok := e.Data.(*slackgo.ConnectionErrorEvent); ok && failure.ErrorObj != nil {
			return failure.ErrorObj
		}
		return errNotConnected
	case socketmode.EventTypeErrorBadMessage:
		if bad, ok := e.Data.(*socketmode.ErrorBadMessage); ok {
			k.envelope(ctx, bad.Message)
		}
	case socketmode.EventTypeEventsAPI, socketmode.EventTypeSlashCommand, socketmode.EventTypeInteractive:
		k.request(ctx, *e.Request)
	}
	return nil
}

var errNotConnected = errors.New("no connection to slack")

// envelope deals with a frame that slack-go could not read: what it holds may
// still be for us, and it has to be acknowledged or Slack sends it again.
func (k *socket) envelope(ctx context.Context, frame json.RawMessage) {
	var r struct {
		Type       string          `json:"type"`
		EnvelopeID string          `json:"envelope_id"`
		Payload    json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(frame, &r) != nil || r.EnvelopeID == "" {
		k.o.Log.Warn("slack sent what cannot be read", "bytes", len(frame))
		return
	}
	k.o.Log.Debug("slack sent an event of an unknown form", "envelope", r.EnvelopeID, "type", r.Type)
	k.request(ctx, socketmode.Request{Type: r.Type, EnvelopeID: r.EnvelopeID, Payload: r.Payload})
}

// request deals with what Slack wants acknowledged. Storing it may outlive the
// connection, whose context ctx is; telling Slack so cannot.
func (k *socket) request(ctx context.Context, r socketmode.Request) {
	if r.EnvelopeID == "" {
		return
	}
	client := k.client
	ack := func() {
		if err := client.AckCtx(ctx, r.EnvelopeID, nil); err != nil && ctx.Err() == nil {
			k.o.Log.Warn("envelope not acknowledged", "envelope", r.EnvelopeID, "error", err)
		}
	}
	m, ok := k.translate(r.Type, r.Payload)
	if !ok {
		k.lanes.do(r.EnvelopeID, ack)
		return
	}
	k.lanes.do(m.Conversation.Channel, func() {
		k.turn(m)
		if k.take(k.ctx, m) {
			ack()
			failpoint.Here(failpoint.Acked)
		}
	})
}

// turn waits until what was missed before a message is in. A command waits for as
// long as its author sees it work: Slack sends it but once.
func (k *socket) turn(m chat.Message) {
	ctx := k.ctx
	if m.Command != "" {
		limited, cancel := context.WithTimeout(ctx, shortWait)
		defer cancel()
		ctx = limited
	}
	k.missed.wait(ctx, m.Conversation)
}

func (s *Slack) translate(kind string, payload json.RawMessage) (chat.Message, bool) {
	switch kind {
	case socketmode.RequestTypeEventsAPI:
		var o outer
		if json.Unmarshal(payload, &o) != nil {
			return chat.Message{}, false
		}
		return s.message(o)
	case socketmode.RequestTypeSlashCommands:
		var c slash
		if json.Unmarshal(payload, &c) != nil {
			return chat.Message{}, false
		}
		return s.command(c)
	case socketmode.RequestTypeInteractive:
		return s.press(payload)
	}
	return chat.Message{}, false
}
