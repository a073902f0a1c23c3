package mcpserve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"
)

const (
	// drainTimeout is how long requests are still answered whose host has ended its
	// output, as a shell does that pipes them in.
	drainTimeout = 30 * time.Second
	// maxMessageBytes is the longest message of a host, in bytes.
	maxMessageBytes = 8 << 20
)

// drainingStream keeps the end of the input back until every request that came before it is
// answered: the library drops what is under way when its input ends.
type drainingStream struct {
	in  *bufio.Reader
	out io.Writer

	rest []byte // of the line that is being read
	err  error  // what follows it

	mu    sync.Mutex
	open  map[string]bool // requests without an answer, by id
	empty chan struct{}   // closed while there is none
	ctx   context.Context
}

func newDrainingStream(ctx context.Context, in io.Reader, out io.Writer) *drainingStream {
	d := &drainingStream{in: bufio.NewReader(in), out: out, open: map[string]bool{}, empty: make(chan struct{}), ctx: ctx}
	close(d.empty)
	return d
}

// Read gives a line at most, so that a request counts before it is worked on.
func (d *drainingStream) Read(p []byte) (int, error) {
	if len(d.rest) == 0 && d.err == nil {
		d.rest, d.err = d.readLine()
		d.trackMessage(d.rest, true)
	}
	if len(d.rest) > 0 {
		n := copy(p, d.rest)
		d.rest = d.rest[n:]
		return n, nil
	}
	d.waitAnswered()
	return 0, d.err
}

func (d *drainingStream) readLine() ([]byte, error) {
	var line []byte
	for {
		part, err := d.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxMessageBytes:
			return nil, bufio.ErrTooLong
		case err != bufio.ErrBufferFull:
			if err != nil && len(bytes.TrimSpace(line)) > 0 {
				line = append(line, '\n') // the last message may lack its end
			}
			return line, err
		}
	}
}

// Write passes a message on; the library writes one at a time.
func (d *drainingStream) Write(p []byte) (int, error) {
	n, err := d.out.Write(p)
	d.trackMessage(p, false)
	return n, err
}

// trackMessage counts a message: a request asks for an answer, and is no longer open when it
// has one or is cancelled.
func (d *drainingStream) trackMessage(message []byte, in bool) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			ID json.RawMessage `json:"requestId"`
		} `json:"params"`
	}
	if json.Unmarshal(message, &m) != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	was := len(d.open)
	switch {
	case in && m.Method == "notifications/cancelled":
		delete(d.open, string(m.Params.ID))
	case in && m.Method != "" && m.ID != nil:
		d.open[string(m.ID)] = true
	case !in && m.Method == "":
		delete(d.open, string(m.ID))
	}
	switch now := len(d.open); {
	case was == 0 && now > 0:
		d.empty = make(chan struct{})
	case was > 0 && now == 0:
		close(d.empty)
	}
}

func (d *drainingStream) waitAnswered() {
	d.mu.Lock()
	empty := d.empty
	d.mu.Unlock()
	late := time.NewTimer(drainTimeout)
	defer late.Stop()
	select {
	case <-empty:
	case <-late.C:
	case <-d.ctx.Done():
	}
}
