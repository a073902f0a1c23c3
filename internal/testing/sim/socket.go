package sim

import (
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Socket writes to one WebSocket from any number of goroutines, in the order of the calls, and never makes a caller
// wait for the network.
type Socket struct {
	conn  *websocket.Conn
	mu    sync.Mutex
	queue []frame
	more  chan struct{}
	ended bool
	done  chan struct{}
}

type frame struct {
	kind int
	data []byte
	last bool
}

// NewSocket starts the goroutine that writes to conn; Cut ends it.
func NewSocket(conn *websocket.Conn) *Socket {
	s := &Socket{conn: conn, more: make(chan struct{}, 1), done: make(chan struct{})}
	go s.write()
	return s
}

// Send queues a text frame.
func (s *Socket) Send(data []byte) { s.push(frame{kind: websocket.TextMessage, data: data}) }

// Ping queues a ping frame.
func (s *Socket) Ping(data string) {
	s.push(frame{kind: websocket.PingMessage, data: []byte(data)})
}

// CloseWith sends what is queued and then a close frame. The reader of the connection sees its end when the peer
// answers, or after two seconds.
func (s *Socket) CloseWith(code int, reason string) {
	s.push(frame{kind: websocket.CloseMessage, data: websocket.FormatCloseMessage(code, reason), last: true})
}

// Cut ends the connection at once, without a close frame, and waits for the writer.
func (s *Socket) Cut() {
	s.mu.Lock()
	s.ended, s.queue = true, nil
	s.mu.Unlock()
	_ = s.conn.Close()
	s.wake()
	<-s.done
}

// push queues a frame, unless the last one was queued before.
func (s *Socket) push(f frame) {
	s.mu.Lock()
	if !s.ended {
		s.queue = append(s.queue, f)
		s.ended = f.last
	}
	s.mu.Unlock()
	s.wake()
}

// wake tells the writer that there is something to do. One pending signal is enough.
func (s *Socket) wake() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// write sends queued frames until the last one.
func (s *Socket) write() {
	defer close(s.done)
	for range s.more {
		s.mu.Lock()
		batch, ended := s.queue, s.ended
		s.queue = nil
		s.mu.Unlock()
		for _, f := range batch {
			_ = s.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
			if s.conn.WriteMessage(f.kind, f.data) != nil {
				s.mu.Lock()
				s.ended = true
				s.mu.Unlock()
				_ = s.conn.Close()
				return
			}
		}
		// The peer has two seconds to answer the close frame.
		if ended {
			_ = s.conn.SetReadDeadline(time.Now().Add(2 * time.Second))
			return
		}
	}
}
