package simslack

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Kinds of envelopes.
const (
	KindEvent       = "events_api"
	KindCommand     = "slash_commands"
	KindInteractive = "interactive"
)

// delivery is the state of everything sent to the app; the server's lock guards it.
type delivery struct {
	faults     Faults
	base       string // of HTTP delivery; empty: Socket Mode
	links      []*link
	next       int // link that has its turn
	opened     int // connections so far
	tickets    map[string]bool
	deliveries []*Delivery
	silent     bool // what happens is not told
}

// Delivery is one attempt to bring one envelope to the app.
type Delivery struct {
	EnvelopeID string
	EventID    string // of events
	Kind       string
	Type       string // of the inner event or interaction
	Attempt    int    // 0 is the first
	Sent       time.Time
	Acked      bool
	After      time.Duration   // from Sent to the acknowledgement
	Answer     json.RawMessage // payload of the acknowledgement, or body of the HTTP answer
	Status     int             // of the HTTP answer
	Over       bool            // acknowledged or given up
	envelope   *envelope
	link       *link
	timer      *time.Timer
}

// envelope is what is delivered, once or several times.
type envelope struct {
	id, event, kind, inner string
	payload                json.RawMessage
	acked                  bool
}

// deliver sends an envelope to the app. The lock is held.
func (s *Server) deliver(e *envelope) {
	if s.silent {
		return
	}
	// Slack may deliver an event twice; apps have to notice.
	for range max(1, s.faults.Repeat) {
		copied := *e
		copied.id = "envelope-" + strconv.Itoa(len(s.deliveries)+1)
		s.attempt(&copied, 0, "")
	}
}

// attempt makes the nth attempt to deliver an envelope. The lock is held.
func (s *Server) attempt(e *envelope, n int, reason string) {
	if s.closed || e.acked {
		return
	}
	d := &Delivery{
		EnvelopeID: e.id,
		EventID:    e.event,
		Kind:       e.kind,
		Type:       e.inner,
		Attempt:    n,
		Sent:       time.Now(),
		envelope:   e,
	}
	s.deliveries = append(s.deliveries, d)
	if s.base != "" {
		s.live.Add(1)
		go s.post(d, s.base, reason)
		return
	}
	d.timer = time.AfterFunc(s.opts.AckWithin, func() {
		s.state.Lock()
		defer s.state.Release()
		s.endAttempt(d, "timeout")
	})
	d.link = s.pickLink()
	if d.link == nil {
		s.endAttempt(d, "no_connection")
		return
	}
	d.link.sock.Send(encodeEnvelope(e, n, reason))
}

// encodeEnvelope returns an envelope in Socket Mode's form.
func encodeEnvelope(e *envelope, n int, reason string) []byte {
	frame := map[string]any{
		"envelope_id":              e.id,
		"type":                     e.kind,
		"payload":                  e.payload,
		"accepts_response_payload": e.kind != KindEvent,
	}
	if n > 0 {
		frame["retry_attempt"], frame["retry_reason"] = n, reason
	}
	return mustJSON(frame)
}

// mustJSON encodes a value of the simulator, which cannot fail.
func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own values
	}
	return data
}

// endAttempt ends an attempt without an acknowledgement. Events are sent again; commands and buttons, for which a
// user waits, are not.
func (s *Server) endAttempt(d *Delivery, reason string) {
	if d.Over {
		return
	}
	d.Over = true
	if d.timer != nil {
		d.timer.Stop()
	}
	// Slack gives up an event after its last retry.
	if d.Kind != KindEvent || d.Attempt >= len(s.opts.RetryDelays) {
		return
	}
	time.AfterFunc(s.opts.RetryDelays[d.Attempt], func() {
		s.state.Lock()
		defer s.state.Release()
		s.attempt(d.envelope, d.Attempt+1, reason)
	})
}

// recordAck records the acknowledgement of a delivery.
func (s *Server) recordAck(d *Delivery, answer json.RawMessage) {
	// Too late: the next attempt may be under way already.
	if d.Over {
		return
	}
	d.Over, d.Acked, d.After = true, true, time.Since(d.Sent)
	d.envelope.acked = true
	d.Answer = answer
	if d.timer != nil {
		d.timer.Stop()
	}
}

// event wraps an inner event as the Events API does and delivers it.
func (s *Server) event(inner map[string]any) string {
	id := s.newID("Ev")
	if inner["event_ts"] == nil {
		inner["event_ts"] = s.newTS()
	}
	kind, _ := inner["type"].(string)
	by, _ := inner["user"].(string)
	team := s.teamOf(by)
	s.deliver(
		&envelope{
			event: id,
			kind:  KindEvent,
			inner: kind,
			payload: mustJSON(map[string]any{"token": "legacy", "team_id": team,
				"context_team_id": TeamID, "api_app_id": AppID, "event": inner, "type": "event_callback", "event_id": id, "event_time": time.Now().Unix(),
				"authorizations": []any{
					map[string]any{"team_id": TeamID, "user_id": BotUserID, "is_bot": true, "is_enterprise_install": false},
				},
				"is_ext_shared_channel": team != TeamID, "event_context": "context-" + id}),
		},
	)
	return id
}

// emitMessage tells the app of a message, its own included; it returns the event's id.
func (s *Server) emitMessage(p *Post) string {
	c := s.mustChannel(p.Channel)
	if !c.Member {
		return ""
	}
	m := s.wire(p, true)
	m["channel"], m["channel_type"], m["event_ts"] = p.Channel, channelType(c), p.TS
	return s.event(m)
}

// changePost changes a message like an edit by its author, and sends the events about it.
func (s *Server) changePost(p *Post, alter func()) []string {
	before := s.wire(p, false)
	alter()
	p.Edits++
	p.EditedTS = strconv.FormatInt(time.Now().Unix(), 10) + ".000000" // Slack keeps whole seconds
	ids := []string{s.emitChanged(p, before)}
	if p.User != BotUserID {
		ids = append(s.emitMention(p), ids...)
	}
	return ids
}

// emitChanged tells the app that a message was changed, and returns the id of the event; empty: the bot is not in the
// channel. The lock is held.
func (s *Server) emitChanged(p *Post, before map[string]any) string {
	c := s.mustChannel(p.Channel)
	if !c.Member {
		return ""
	}
	ts := s.newTS()
	return s.event(map[string]any{"type": "message", "subtype": "message_changed", "hidden": true, "channel": p.Channel,
		"channel_type": channelType(c), "ts": ts, "event_ts": ts, "message": s.wire(p, true), "previous_message": before})
}

// emitMention tells the app that a message calls it; an edited one does so again.
func (s *Server) emitMention(p *Post) []string {
	if s.mustChannel(p.Channel).User != "" || !strings.Contains(p.Text, BotMention) {
		return nil
	}
	m := s.wire(p, true)
	m["type"], m["channel"], m["event_ts"] = "app_mention", p.Channel, p.TS
	if p.EditedTS != "" {
		m["event_ts"] = s.newTS() // the event happened when the message was edited
	}
	return []string{s.event(m)}
}

// deletePost deletes a message. A message with a thread below it leaves a tombstone, and the app gets a change event.
func (s *Server) deletePost(p *Post) string {
	before := s.wire(p, false)
	p.Tombstone = len(s.replies(p)) > 0
	p.Deleted = true
	if p.Tombstone {
		return s.emitChanged(p, before)
	}
	c := s.mustChannel(p.Channel)
	if !c.Member {
		return ""
	}
	ts := s.newTS()
	return s.event(map[string]any{"type": "message", "subtype": "message_deleted", "hidden": true, "channel": p.Channel,
		"channel_type": channelType(c), "ts": ts, "event_ts": ts, "deleted_ts": p.TS, "previous_message": before})
}
