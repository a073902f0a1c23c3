package slack

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// readLimit bounds one frame, in bytes.
	readLimit = 4 << 20
	// silence is how long a connection may bring nothing, not even a ping, before it
	// counts as dead.
	silence = 30 * time.Second
	// handshake bounds the opening of a connection, writeWithin one write.
	handshake   = 10 * time.Second
	writeWithin = 10 * time.Second
)

// link is one Socket Mode connection. It is ours and not slack-go's, which closes a
// connection as soon as Slack says that it is going to (v0.34.0, 2026-11): what
// comes between that and the next one would be lost, or late.
type link struct {
	conn    *websocket.Conn
	writing sync.Mutex

	// Of the ear's loop.
	opened  time.Time
	greeted bool      // it said hello
	leaving bool      // Slack told it to go, or another has taken its place
	until   time.Time // when it is closed if Slack has not done so; zero: not decided
}

// open asks Slack for an address and connects to it.
func (s *Slack) open(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, address, err := s.api.StartSocketModeContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for a connection: %w", err)
	}
	dialer := websocket.Dialer{Proxy: http.ProxyFromEnvironment, HandshakeTimeout: handshake}
	conn, res, err := dialer.DialContext(ctx, address, nil)
	if res != nil && res.Body != nil {
		_ = res.Body.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("connect: %w", redacted(err))
	}
	l := &link{conn: conn, opened: s.o.Now()}
	conn.SetReadLimit(readLimit)
	conn.SetPingHandler(func(data string) error {
		l.heard()
		return conn.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(writeWithin))
	})
	return l, nil
}

// heard puts off the time at which the link counts as dead.
func (l *link) heard() { _ = l.conn.SetReadDeadline(time.Now().Add(silence)) }

// read gives the frames of the link to take until it ends, and then why.
func (l *link) read(take func(frame []byte)) error {
	for {
		l.heard()
		_, frame, err := l.conn.ReadMessage()
		if err != nil {
			return err
		}
		take(frame)
	}
}

// ack tells Slack that an envelope was taken.
func (l *link) ack(envelope string) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeWithin))
	return l.conn.WriteJSON(map[string]string{"envelope_id": envelope})
}

// close ends the link; its reader then ends, too.
func (l *link) close() {
	_ = l.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
	_ = l.conn.Close()
}
