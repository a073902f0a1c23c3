package discord

import (
	"encoding/binary"
	"encoding/json"
	"net"
	"sync"
	"time"
)

// link is a connection to the gateway that reads along. discordgo keeps to
// itself what a supervisor must know: the heartbeat interval, a session that
// Discord called invalid, the code with which it hung up.
type link struct {
	net.Conn
	news chan struct{} // has an element when something below changed

	mu        sync.Mutex
	frames    frames
	interval  time.Duration // of heartbeats; 0 until HELLO
	acked     time.Time     // the last answer to a heartbeat, or HELLO
	invalid   bool          // Discord called the session invalid
	resumable bool          // … but would let us resume it
	code      int           // of Discord's close frame
	down      bool
}

const (
	writeWithin = 10 * time.Second
	maxFrame    = 64 << 20 // larger than any event
)

func newLink(conn net.Conn) *link {
	return &link{Conn: conn, news: make(chan struct{}, 1)}
}

func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	l.mu.Lock()
	ok := l.frames.feed(p[:n], l.see)
	l.down = l.down || err != nil || l.code != 0
	l.mu.Unlock()
	if !ok {
		l.cut()
	}
	return n, err
}

// Write never fails: after the end it drops what it is given. discordgo closes
// whatever connection it then has when a heartbeat cannot be written, which may
// be the next one; and its goodbye, code 1000, would end a session that can be
// resumed.
func (l *link) Write(p []byte) (int, error) {
	l.mu.Lock()
	down := l.down
	l.mu.Unlock()
	if down {
		return len(p), nil
	}
	err := l.SetWriteDeadline(time.Now().Add(writeWithin))
	if err == nil {
		_, err = l.Conn.Write(p)
	}
	if err != nil {
		l.cut()
	}
	return len(p), nil
}

// cut ends the connection without a word, which leaves the session resumable.
func (l *link) cut() {
	l.mu.Lock()
	l.down = true
	l.mu.Unlock()
	_ = l.Close() // there is nothing left to save
}

// see takes note of a frame. The lock is held.
func (l *link) see(opcode byte, payload []byte) {
	if opcode == 8 {
		l.code = 1005 // closed without a code
		if len(payload) >= 2 {
			l.code = int(binary.BigEndian.Uint16(payload))
		}
		l.tell()
		return
	}
	var p struct {
		Op   int             `json:"op"`
		Data json.RawMessage `json:"d"`
	}
	if opcode != 1 || json.Unmarshal(payload, &p) != nil {
		return
	}
	switch p.Op {
	case 9:
		l.invalid, l.resumable = true, string(p.Data) == "true"
	case 10:
		var hello struct {
			Interval int64 `json:"heartbeat_interval"`
		}
		if json.Unmarshal(p.Data, &hello) != nil || hello.Interval <= 0 {
			return
		}
		l.interval, l.acked = time.Duration(hello.Interval)*time.Millisecond, time.Now()
	case 11:
		l.acked = time.Now()
	default:
		return
	}
	l.tell()
}

func (l *link) tell() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// silence is how long no heartbeat was answered; 0 before HELLO.
func (l *link) silence() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.interval == 0 {
		return 0
	}
	return time.Since(l.acked)
}

// patience is how much silence a live connection may show.
func (l *link) patience() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.interval + min(max(l.interval/2, time.Second), 3*time.Second)
}

// state tells whether HELLO came, whether the session was called invalid and
// may be resumed nevertheless, and Discord's close code or 0.
func (l *link) state() (greeted, invalid, resumable bool, code int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.interval > 0, l.invalid, l.resumable, l.code
}

// frames takes the bytes that a WebSocket server sends apart, as far as control
// messages of the gateway need it: whole, unfragmented and short.
type frames struct {
	matched int // of the empty line that ends the answer to the upgrade
	head    []byte
	left    uint64 // of the payload
	keep    bool
	body    []byte
}

const (
	headersEnd = "\r\n\r\n"
	maxControl = 4096 // bytes of a payload worth looking into
)

// feed takes the next bytes and calls got for each frame of interest; payload is
// valid during the call. False: the peer announced an absurdly large frame.
func (f *frames) feed(p []byte, got func(opcode byte, payload []byte)) bool {
	for len(p) > 0 && f.matched < len(headersEnd) {
		switch p[0] {
		case headersEnd[f.matched]:
			f.matched++
		case '\r':
			f.matched = 1
		default:
			f.matched = 0
		}
		p = p[1:]
	}
	for len(p) > 0 {
		if f.left == 0 {
			f.head = append(f.head, p[0])
			p = p[1:]
			if !f.begin() {
				continue
			}
			if f.left > maxFrame {
				return false
			}
		}
		n := min(f.left, uint64(len(p)))
		if f.keep {
			f.body = append(f.body, p[:n]...)
		}
		p, f.left = p[n:], f.left-n
		if f.left == 0 {
			if f.keep {
				got(f.head[0]&0x0f, f.body)
			}
			f.head, f.body = f.head[:0], f.body[:0]
		}
	}
	return true
}

// begin reports whether the head of a frame is complete, and then reads it.
func (f *frames) begin() bool {
	if len(f.head) < 2 {
		return false
	}
	switch size := f.head[1] & 0x7f; {
	case size < 126:
		f.left = uint64(size)
	case size == 126 && len(f.head) == 4:
		f.left = uint64(binary.BigEndian.Uint16(f.head[2:]))
	case size == 127 && len(f.head) == 10:
		f.left = binary.BigEndian.Uint64(f.head[2:])
	default:
		return false
	}
	const last = 0x80
	f.keep = f.head[0]&last != 0 && f.left <= maxControl
	if f.left == 0 { // an empty frame has no further byte to wait for
		f.head = f.head[:0]
		return false
	}
	return true
}
