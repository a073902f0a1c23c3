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

// maxBody is the largest request body that is accepted; it is Discord's own limit.
const maxBody = 25 << 20

// Request is one HTTP request that was received.
type Request struct {
	At     time.Time
	Method string
	Path   string // decoded
	Query  url.Values
	Header http.Header
	Body   []byte
	Status int           // of the answer; 0 before there is one
	Took   time.Duration // until the end of the answer
}

// Fault makes matching requests fail. The zero value of a field leaves that part of the answer unchanged. Match must
// not call the server it serves.
type Fault struct {
	Match  func(Request) bool // nil: every request
	Times  int                // how many requests it applies to; 0: all until it is removed
	Hang   time.Duration      // waits that long, or until the caller gives up, before anything else
	Accept bool               // the request takes effect although the caller gives up, or Status says otherwise
	Status int                // replaces the real status; 0 after Hang: the real answer
	Header map[string]string
	Body   string
	Drop   bool // the connection is cut instead of an answer
}

// MatchPath matches requests by method (any if it is empty) and by a part of the path.
func MatchPath(method, pathPart string) func(Request) bool {
	return func(r Request) bool {
		return (method == "" || r.Method == method) && strings.Contains(r.Path, pathPart)
	}
}

type fault struct {
	Fault
	left int
}

// HTTPServer is a listening HTTP server in front of a handler.
type HTTPServer struct {
	handler  http.Handler
	server   *http.Server
	listener net.Listener
	served   chan struct{}
	closing  chan struct{}
	once     sync.Once
	active   sync.WaitGroup // running handlers; added to under the lock while the server is open

	state    Watch
	closed   bool
	requests []*Request
	faults   []*fault
}

// NewHTTPServer listens on a free port of 127.0.0.1 and serves handler there until Close. The handler gets the body
// already read into memory.
func NewHTTPServer(handler http.Handler) (*HTTPServer, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for simulated server: %w", err)
	}
	d := &HTTPServer{handler: handler, listener: ln, served: make(chan struct{}), closing: make(chan struct{})}
	d.server = &http.Server{
		Handler:           d,
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	go func() {
		defer close(d.served)
		_ = d.server.Serve(ln) // returns when Close is called
	}()
	return d, nil
}

// URL returns the scheme and host, without a slash at the end.
func (d *HTTPServer) URL() string { return "http://" + d.listener.Addr().String() }

// Closing returns a channel that is closed when the server is about to close.
func (d *HTTPServer) Closing() <-chan struct{} { return d.closing }

// Close cuts every connection and waits until all handlers have returned. A handler has to cut connections that it
// has taken over, such as WebSockets, before or on Closing.
func (d *HTTPServer) Close() {
	d.once.Do(func() {
		d.state.Lock()
		d.closed = true
		d.state.Release()
		close(d.closing)
		_ = d.server.Close()
	})
	<-d.served
	d.active.Wait()
}

// beginRequest counts a running handler, and reports false when the server is closed.
func (d *HTTPServer) beginRequest() bool {
	d.state.Lock()
	defer d.state.Unlock()
	if !d.closed {
		d.active.Add(1)
	}
	return !d.closed
}

// Fail adds a fault and returns the function that removes it. Of several faults that match a request the oldest one
// applies.
func (d *HTTPServer) Fail(f Fault) (off func()) {
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

// Requests returns every request so far, oldest first.
func (d *HTTPServer) Requests() []Request {
	d.state.Lock()
	defer d.state.Unlock()
	all := make([]Request, len(d.requests))
	for i, r := range d.requests {
		all[i] = *r
	}
	return all
}

// WaitRequest returns the first answered request that matches, past ones included.
func (d *HTTPServer) WaitRequest(ctx context.Context, match func(Request) bool) (Request, error) {
	return d.WaitRequests(ctx, 1, match)
}

// WaitRequests waits until n answered requests match, past ones included, and returns the nth.
func (d *HTTPServer) WaitRequests(ctx context.Context, n int, match func(Request) bool) (Request, error) {
	var found Request
	err := d.state.Wait(ctx, func() bool {
		matched := 0
		for _, r := range d.requests {
			if r.Status == 0 || !match(*r) {
				continue
			}
			if matched++; matched == n {
				found = *r
				return true
			}
		}
		return false
	})
	if err != nil {
		return Request{}, fmt.Errorf("wait for request %d: %w", n, err)
	}
	return found, nil
}

// WaitArrival waits until a request that matches has arrived, past ones included, answered or not.
func (d *HTTPServer) WaitArrival(ctx context.Context, match func(Request) bool) error {
	err := d.state.Wait(ctx, func() bool {
		return slices.ContainsFunc(d.requests, func(r *Request) bool { return match(*r) })
	})
	if err != nil {
		return fmt.Errorf("wait for arrival of request: %w", err)
	}
	return nil
}

// ServeHTTP records the request, applies the first matching fault to it, or passes it to the handler.
func (d *HTTPServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !d.beginRequest() {
		// net/http's way to cut a connection without an answer.
		panic(http.ErrAbortHandler)
	}
	defer d.active.Done()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "request body too large or broken", http.StatusRequestEntityTooLarge)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	entry, f := d.record(r, body)
	seen := &statusWriter{ResponseWriter: w}
	defer func() {
		d.state.Lock()
		defer d.state.Release()
		entry.Status, entry.Took = seen.status(), time.Since(entry.At)
	}()
	if f == nil {
		d.handler.ServeHTTP(seen, r)
		return
	}
	d.applyFault(f, seen, r)
}

// record stores a request and returns the fault that applies to it, if any.
func (d *HTTPServer) record(r *http.Request, body []byte) (*Request, *Fault) {
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

func (d *HTTPServer) remove(gone *fault) {
	kept := make([]*fault, 0, len(d.faults))
	for _, f := range d.faults {
		if f != gone {
			kept = append(kept, f)
		}
	}
	d.faults = kept
}

// applyFault answers a request as a fault says.
func (d *HTTPServer) applyFault(f *Fault, w *statusWriter, r *http.Request) {
	patience := r.Context()
	if f.Accept {
		patience = context.WithoutCancel(patience)
	}
	if f.Hang > 0 && !d.Pause(patience, f.Hang) {
		w.code = 499 // the client closed the request, or the server was closed
		panic(http.ErrAbortHandler)
	}
	if f.Status == 0 && !f.Drop {
		d.handler.ServeHTTP(w, r)
		return
	}
	if f.Accept {
		d.handler.ServeHTTP(&discardWriter{header: http.Header{}}, r)
	}
	if f.Drop {
		w.code = 499
		panic(http.ErrAbortHandler)
	}
	for k, v := range f.Header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(f.Status)
	_, _ = io.WriteString(w, f.Body) // the caller may have gone
}

// Pause waits and reports whether the time has passed before ctx ended or the server was closed.
func (d *HTTPServer) Pause(ctx context.Context, wait time.Duration) bool {
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

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	code int
}

func (a *statusWriter) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
	a.ResponseWriter.WriteHeader(code)
}

func (a *statusWriter) status() int {
	if a.code == 0 {
		return http.StatusOK
	}
	return a.code
}

// Flush passes on flushes of streaming handlers.
func (a *statusWriter) Flush() {
	if f, ok := a.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Hijack lets WebSocket handlers take over the connection.
func (a *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h, ok := a.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, errors.New("connection cannot be taken over")
	}
	a.code = http.StatusSwitchingProtocols
	return h.Hijack()
}

// discardWriter drops the answer to a request of which only the effect is wanted.
type discardWriter struct{ header http.Header }

func (n *discardWriter) Header() http.Header         { return n.header }
func (n *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (n *discardWriter) WriteHeader(int)             {}
