package simslack

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"ravenbot/internal/testing/sim"
)

const (
	maxLinks = 10
	maxAck   = 20 << 10 // larger acknowledgements are silently discarded
)

// link is one Socket Mode connection.
type link struct {
	sock     *sim.Socket
	retiring bool // was asked to close, or is being cut; gets nothing new
}

// openConnection returns the address of a new connection, which is valid once.
func (s *Server) openConnection(args) (map[string]any, *slackError) {
	if s.faults.LinkDisabled || s.silent {
		return nil, refuse("link_disabled")
	}
	ticket := rand.Text()
	s.tickets[ticket] = true
	return map[string]any{
		"url": "ws" + strings.TrimPrefix(s.URL(), "http") + "/link?ticket=" + ticket + "&app_id=" + AppID,
	}, nil
}

// pickLink returns the connection for the next event: the connections take turns.
func (s *Server) pickLink() *link {
	for range s.links {
		s.next++
		if l := s.links[s.next%len(s.links)]; !l.retiring {
			return l
		}
	}
	return nil
}

// serveSocket serves one Socket Mode connection until it ends.
func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	ticket := r.URL.Query().Get("ticket")
	s.state.Lock()
	good := s.tickets[ticket] && len(s.links) < maxLinks && !s.closed
	delete(s.tickets, ticket) // valid once
	s.state.Release()
	if !good {
		http.Error(w, "invalid ticket or too many connections", http.StatusRequestTimeout)
		return
	}
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // the upgrader has answered
	}
	l := &link{sock: sim.NewSocket(conn)}
	defer l.sock.Cut()
	if !s.attach(l) {
		return
	}
	defer s.detach(l)
	done := make(chan struct{})
	defer close(done)
	s.live.Add(1)
	go s.ping(l, done)
	for {
		_, data, err := conn.ReadMessage()
		if err != nil {
			return
		}
		s.receive(data)
	}
}

// attach adds a connection and greets it. It returns false when the server is closed.
func (s *Server) attach(l *link) bool {
	s.state.Lock()
	defer s.state.Release()
	if s.closed {
		return false
	}
	s.links = append(s.links, l)
	s.opened++
	l.sock.Send(
		mustJSON(
			map[string]any{"type": "hello", "num_connections": len(s.links), "connection_info": map[string]any{"app_id": AppID},
				"debug_info": map[string]any{"host": "applink-sim", "build_number": 1, "approximate_connection_time": 18060}},
		),
	)
	l.sock.Ping("Ping from sim")
	return true
}

// detach removes a connection and ends the deliveries that it has not acknowledged.
func (s *Server) detach(l *link) {
	s.state.Lock()
	defer s.state.Release()
	s.links = slices.DeleteFunc(s.links, func(o *link) bool { return o == l })
	// endAttempt may start attempts, which change the list.
	for _, d := range slices.Clone(s.deliveries) {
		if d.link == l {
			s.endAttempt(d, "timeout")
		}
	}
}

// ping pings a connection until done is closed.
func (s *Server) ping(l *link, done <-chan struct{}) {
	defer s.live.Done()
	tick := time.NewTicker(s.opts.PingInterval)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		s.state.Lock()
		silent := s.faults.NoPings
		s.state.Unlock()
		if !silent {
			l.sock.Ping("Ping from sim")
		}
	}
}

// receive takes an acknowledgement from the app. Slack ignores what it cannot read, and what is too long.
func (s *Server) receive(data []byte) {
	var ack struct {
		EnvelopeID string          `json:"envelope_id"`
		Payload    json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(data, &ack) != nil || len(data) >= maxAck {
		return
	}
	s.state.Lock()
	defer s.state.Release()
	if s.faults.IgnoreAcks {
		return
	}
	// From the newest on: all attempts to deliver an envelope have its id.
	for _, d := range slices.Backward(s.deliveries) {
		if d.EnvelopeID == ack.EnvelopeID && !d.Over {
			s.recordAck(d, ack.Payload)
			s.recordAnswer(d)
			return
		}
	}
}

// recordAnswer reads the payload of an acknowledged slash command as an answer.
func (s *Server) recordAnswer(d *Delivery) {
	if d.Kind != KindCommand || len(d.Answer) == 0 {
		return
	}
	var command struct {
		ResponseURL string `json:"response_url"`
	}
	a := args{}
	var fields map[string]json.RawMessage
	if json.Unmarshal(d.envelope.payload, &command) != nil || json.Unmarshal(d.Answer, &fields) != nil {
		return
	}
	for key, raw := range fields {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		a[key] = text
	}
	_, token, _ := strings.Cut(command.ResponseURL, "/commands/")
	if resp := s.responses[token]; resp != nil && checkContent(a) == nil {
		s.respond(resp, a)
	}
}
