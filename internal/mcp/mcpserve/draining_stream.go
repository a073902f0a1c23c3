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
	// drainTimeout is how long requests are still answered after the end of the input, as
	// with a shell that pipes requests in.
	drainTimeout = 30 * time.Second
	// maxMessageBytes is the longest message of a host.
	maxMessageBytes = 8 << 20
)

// drainingStream reports the end of the input only when every request before it has been
// answered: the library drops running requests when its input ends (mcp-go v1.2.1,
// 2026-11). The library reads and writes through it.
type drainingStream struct {
	in  *bufio.Reader
	out io.Writer

	rest []byte // of the line that is being read
	err  error  // that follows it

	mu    sync.Mutex      // guards what follows; Read and Write run concurrently
	open  map[string]bool // requests without an answer, by id
	empty chan struct{}   // closed while there is none
	ctx   context.Context
}

// newDrainingStream returns a stream over in and out, neither of which it closes.
func newDrainingStream(ctx context.Context, in io.Reader, out io.Writer) *drainingStream {
	d := &drainingStream{in: bufio.NewReader(in), out: out, open: map[string]bool{}, empty: make(chan struct{}), ctx: ctx}
	close(d.empty)
	return d
}

// Read returns at most one line, so that a request is counted before the library handles it.
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

// readLine returns the next line with its line break, and the error that follows it. A line longer than maxMessageBytes
// is bufio.ErrTooLong, and ends the stream.
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
				line = append(line, '\n') // the last message may lack its line break
			}
			return line, err
		}
	}
}

// Write passes a message on; the library writes one whole message at a time.
func (d *drainingStream) Write(p []byte) (int, error) {
	// Written first: the stream must not be taken for drained before the answer is out.
	n, err := d.out.Write(p)
	d.trackMessage(p, false)
	return n, err
}

// trackMessage updates the open requests: a request is open until it is answered or
// cancelled.
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
	// Ids are compared in their JSON form: the library sends back what it has received.
	was := len(d.open)
	switch {
	case in && m.Method == "notifications/cancelled":
		delete(d.open, string(m.Params.ID))
	case in && m.Method != "" && m.ID != nil:
		d.open[string(m.ID)] = true
	case !in && m.Method == "":
		delete(d.open, string(m.ID))
	}
	// A closed channel means that nothing is open; a new one is made with the next request.
	switch now := len(d.open); {
	case was == 0 && now > 0:
		d.empty = make(chan struct{})
	case was > 0 && now == 0:
		close(d.empty)
	}
}

// waitAnswered returns when no request is open, ctx ends, or drainTimeout has passed.
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
