package sim

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxBody is the largest request body a door takes; Discord's own limit.
const maxBody = 25 << 20

// Request is one HTTP request as it arrived.
type Request struct {
	At     time.Time
	Method string
	Path   string // decoded
	Query  url.Values
	Header http.Header
	Body   []byte
	Status int           // of the answer; 0 while none was given
	Took   time.Duration // until the answer's end
}

// Fault makes matching requests fail. The zero value of a field leaves that
// part of the answer as it is. Match must not call the server it serves.
type Fault struct {
	Match  func(Request) bool // nil: every request
	Times  int                // how many requests it meets; 0: all until removed
	Hang   time.Duration      // waits so long, or until the caller leaves, before anything else
	Accept bool               // the request takes effect although Status tells otherwise
	Status int                // answered instead of the truth; 0 after Hang: the truth
	Header map[string]string
	Body   string
	Drop   bool // the connection is cut instead of an answer
}

// To matches requests by method, or any if it is empty, and by a part of the path.
func To(method, pathPart string) func(Request) bool {
	return func(r Request) bool {
		return (method == "" || r.Method == method) && strings.Contains(r.Path, pathPart)
	}
}

type fault struct {
	Fault
	left int
}

// Door is a listening HTTP server in front of a handler.
type Door struct {
	handler  http.Handler
	server   *http.Server
	listener net.Listener
	served   chan struct{}
	closing  chan struct{}
	once     sync.Once
	active   sync.WaitGroup // handlers; added to under the lock while not shut

	state    Watch
	shut     bool
	requests []*Request
	faults   []*fault
}

// Open listens on a free port of 127.0.0.1 and serves handler there until
// Close. The handler finds the body already read, in memory.
func Open(handler http.Handler) (*Door, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for simulated server: %w", err)
	}
	d := &Door{handler: handler, listener: ln, served: make(chan struct{}), closing: make(chan struct{})}
	d.server = &http.Server{
		Handler:           d,
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	go func() {
		defer close(d.served)
		_ = d.server.Serve(ln) // ends with Close, the only way it is ended
	}()
	return d, nil
}

// URL is the scheme and host, without a closing slash.
func (d *Door) URL() string { return "http://" + d.listener.Addr().String() }

// Closing is closed when the door is about to close.
func (d *Door) Closing() <-chan struct{} { return d.closing }

// Close cuts every connection and waits until all handlers have ended.
// Connections taken over by a handler, such as WebSockets, are the handler's
// to cut, before or on Closing.
func (d *Door) Close() {
	d.once.Do(func() {
		d.state.Lock()
		d.shut = true
		d.state.Release()
		close(d.closing)
		_ = d.server.Close()
	})
	<-d.served
	d.active.Wait()
}

func (d *Door) enter() bool {
	d.state.Lock()
	defer d.state.Unlock()
	if !d.shut {
		d.active.Add(1)
	}
	return !d.shut
}

// Fail switches a fault on and returns the function that switches it off.
// Of several that match a request the oldest one counts.
func (d *Door) Fail(f Fault) (off func()) {
	d.state.Lock()
	defer d.state.Release()
	entry := &fault{Fault: f, left: f.Times}
	d.faults = append(d.faults, entry)
	return func() {
		d.state.Lock()
		defer d.state.Release()
		d.remove(entry)
	}
}

// Requests lists every request so far, oldest first.
func (d *Door) Requests() []Request {
	d.state.Lock()
	defer d.state.Unlock()
	all := make([]Request, len(d.requests))
	for i, r := range d.requests {
		all[i] = *r
	}
	return all
}

// WaitRequest returns the first answered request, past ones included, for
// which match is true.
func (d *Door) WaitRequest(ctx context.Context, match func(Request) bool) (Request, error) {
	var found Request
	err := d.state.Wait(ctx, func() bool {
		for _, r := range d.requests {
			if r.Status != 0 && match(*r) {
				found = *r
				return true
			}
		}
		return false
	})
	if err != nil {
		return Request{}, fmt.Errorf("wait for request: %w", err)
	}
	return found, nil
}

// WaitArrival returns once a request, past ones included, has come for which
// match is true, answered or not.
func (d *Door) WaitArrival(ctx context.Context, match func(Request) bool) error {
	err := d.state.Wait(ctx, func() bool {
		return slices.ContainsFunc(d.requests, func(r *Request) bool { return match(*r) })
	})
	if err != nil {
		return fmt.Errorf("wait for arrival of request: %w", err)
	}
	return nil
}

// ServeHTTP logs the request, meets it with the first matching fault, and
// otherwise hands it to the handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !d.enter() {
		panic(http.ErrAbortHandler)
	}
	defer d.active.Done()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "request body too large or broken", http.StatusRequestEntityTooLarge)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	entry, f := d.note(r, body)
	seen := &answer{ResponseWriter: w}
	defer func() {
		d.state.Lock()
		defer d.state.Release()
		entry.Status, entry.Took = seen.status(), time.Since(entry.At)
	}()
	if f == nil {
		d.handler.ServeHTTP(seen, r)
		return
	}
	d.meet(f, seen, r)
}

func (d *Door) note(r *http.Request, body []byte) (*Request, *Fault) {
	entry := &Request{At: time.Now(), Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(),
		Header: maps.Clone(r.Header), Body: body}
	d.state.Lock()
	defer d.state.Release()
	d.requests = append(d.requests, entry)
	for _, f := range d.faults {
		if f.Match != nil && !f.Match(*entry) {
			continue
		}
		if f.Times > 0 {
			if f.left--; f.left == 0 {
				d.remove(f)
			}
		}
		return entry, &f.Fault
	}
	return entry, nil
}

func (d *Door) remove(gone *fault) {
	kept := make([]*fault, 0, len(d.faults))
	for _, f := range d.faults {
		if f != gone {
			kept = append(kept, f)
		}
	}
	d.faults = kept
}

func (d *Door) meet(f *Fault, w *answer, r *http.Request) {
	if f.Hang > 0 && !d.Pause(r.Context(), f.Hang) {
		w.code = 499 // the caller, or the world, went away first
		panic(http.ErrAbortHandler)
	}
	if f.Accept {
		d.handler.ServeHTTP(&nowhere{header: http.Header{}}, r)
	}
	if f.Drop {
		w.code = 499
		panic(http.ErrAbortHandler)
	}
	if f.Status == 0 {
		if !f.Accept {
			d.handler.ServeHTTP(w, r)
		}
		return
	}
	for k, v := range f.Header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(f.Status)
	_, _ = io.WriteString(w, f.Body) // a caller that hung up has seen what it wanted
}

// Pause waits for d and reports whether it passed before the context or the
// door ended.
func (d *Door) Pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-d.closing:
	}
	return false
}

// answer remembers the status that went out.
type answer struct {
	http.ResponseWriter
	code int
}

func (a *answer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
	a.ResponseWriter.WriteHeader(code)
}

func (a *answer) status() int {
	if a.code == 0 {
		return http.StatusOK
	}
	return a.code
}

// Flush is needed by streaming handlers.
func (a *answer) Flush() {
	if f, ok := a.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Hijack is needed by WebSocket handlers.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h, ok := a.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, errors.New("connection cannot be taken over")
	}
	a.code = http.StatusSwitchingProtocols
	return h.Hijack()
}

// nowhere swallows the answer to a request whose effect alone is wanted.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n *nowhere) WriteHeader(int)             {}
