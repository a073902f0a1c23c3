package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// maxFrame bounds one frame, in bytes.
	maxFrame = 4 << 20
	// silenceLimit is how long a connection may bring nothing, not even a ping, before it
	// counts as dead.
	silenceLimit = 30 * time.Second
	// handshakeTimeout bounds the opening of a connection, writeTimeout one write.
	handshakeTimeout = 10 * time.Second
	writeTimeout     = 10 * time.Second
)

// connection is one Socket Mode connection. It is ours and not slack-go's, which closes a
// connection as soon as Slack says that it is going to (v0.34.0, 2026-11): what
// comes between that and the next one would be lost, or late.
type connection struct {
	conn *websocket.Conn
	// writing is held while a frame is written: gorilla/websocket allows one writer of data at a time.
	writing sync.Mutex

	// Used by the goroutine of socket.listen alone.
	opened  time.Time
	greeted bool      // it said hello
	leaving bool      // Slack told it to go, or another has taken its place
	until   time.Time // when it is closed if Slack has not done so; zero: not decided
}

// openConnection asks Slack for an address and connects to it. The address is good for one connection, so that each
// attempt asks for its own. Errors hold no address, which is itself a permission to connect.
func (s *Slack) openConnection(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, address, err := s.api.StartSocketModeContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for a connection: %w", err)
	}
	dialer := websocket.Dialer{Proxy: http.ProxyFromEnvironment, HandshakeTimeout: handshakeTimeout}
	conn, res, err := dialer.DialContext(ctx, address, nil)
	if res != nil && res.Body != nil {
		_ = res.Body.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("connect: %w", redact(err))
	}
	l := &connection{conn: conn, opened: s.o.Now()}
	conn.SetReadLimit(maxFrame)
	conn.SetPingHandler(func(data string) error {
		l.extendDeadline()
		return conn.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(writeTimeout))
	})
	return l, nil
}

// extendDeadline moves the time at which the connection counts as dead.
func (l *connection) extendDeadline() { _ = l.conn.SetReadDeadline(time.Now().Add(silenceLimit)) }

// maxKeptFrame is how large a buffer for frames may stay between two of them, in bytes.
const maxKeptFrame = 64 << 10

// read hands each frame to take, one after the other, and returns the error with which the connection ended. It ends
// with close, or when neither a frame nor a ping came for silenceLimit.
func (l *connection) read(take func(frame []byte)) error {
	var frame bytes.Buffer
	for {
		l.extendDeadline()
		_, r, err := l.conn.NextReader()
		if err == nil {
			_, err = frame.ReadFrom(r)
		}
		if err != nil {
			return err
		}
		take(bytes.Clone(frame.Bytes())) // which has the size of the frame, while the buffer grows in steps
		if frame.Reset(); frame.Cap() > maxKeptFrame {
			frame = bytes.Buffer{}
		}
	}
}

// ack tells Slack that an envelope was taken, with an answer where it is not nil. Several goroutines may call it. After
// an error Slack sends the envelope again.
func (l *connection) ack(envelope string, answer json.RawMessage) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	return l.conn.WriteJSON(struct {
		Envelope string          `json:"envelope_id"`
		Payload  json.RawMessage `json:"payload,omitempty"`
	}{envelope, answer})
}

// close ends the connection; its reader ends, too. It may be called more than once.
func (l *connection) close() {
	_ = l.conn.WriteControl(
		websocket.CloseMessage,
		websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""),
		time.Now().Add(time.Second),
	)
	_ = l.conn.Close()
}
