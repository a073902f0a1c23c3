package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"
)

const (
	// maxMessage is the largest message taken from a server, in bytes.
	maxMessage = 16 << 20
	// maxAnswering is how many requests of a server are answered at a time; more
	// are refused by silence, so that a flood of them starts no flood of ours.
	maxAnswering = 16
	answerTime   = 10 * time.Second
)

// duplex is a connection on which both sides send messages when they like:
// answers find their request by id. The library's own carriers take any message
// with a pending id for the answer, wait for answers on connections that are
// gone, and set no limit to a message's size.
type duplex struct {
	send  func(ctx context.Context, message []byte) error
	stray func(message []byte) // gets what is no message
	// handle answers requests of the server; nil: they are not answered.
	handle func(context.Context, transport.JSONRPCRequest) *transport.JSONRPCResponse
	heard  func() // is told of every message, before anything is done with it; it must not block

	ctx       context.Context // ends when the connection is lost, and knows why
	done      <-chan struct{} // of ctx
	lose      context.CancelCauseFunc
	answering chan struct{}
	answers   sync.WaitGroup

	mu      sync.Mutex
	pending map[string]chan *transport.JSONRPCResponse
	notify  func(sdk.JSONRPCNotification)
}

func newDuplex(stray func([]byte)) *duplex {
	ctx, lose := context.WithCancelCause(context.Background())
	return &duplex{stray: stray, heard: func() {}, ctx: ctx, done: ctx.Done(), lose: lose, answering: make(chan struct{}, maxAnswering),
		pending: map[string]chan *transport.JSONRPCResponse{}}
}

// SendRequest sends a request and waits for its answer.
func (d *duplex) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	message, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	id := r.ID.String()
	answer := make(chan *transport.JSONRPCResponse, 1)
	d.mu.Lock()
	d.pending[id] = answer
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.pending, id)
	}()
	if err := d.deliver(ctx, message); err != nil {
		return nil, err
	}
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-d.done:
		select { // the answer may have come just before the end
		case a := <-answer:
			return a, nil
		default:
			return nil, d.why()
		}
	}
}

func (d *duplex) deliver(ctx context.Context, message []byte) error {
	select {
	case <-d.done:
		return d.why()
	default:
	}
	err := d.send(ctx, message)
	if err != nil && d.ctx.Err() != nil { // the loss is the reason
		return d.why()
	}
	return err
}

// SendNotification sends a message that has no answer.
func (d *duplex) SendNotification(ctx context.Context, n sdk.JSONRPCNotification) error {
	message, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode the notification: %w", err)
	}
	return d.deliver(ctx, message)
}

// SetNotificationHandler sets who gets notifications; it must not block.
func (d *duplex) SetNotificationHandler(f func(sdk.JSONRPCNotification)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notify = f
}

// GetSessionId is part of the library's interface; there are no sessions here.
func (d *duplex) GetSessionId() string { return "" }

// why says why the connection was lost: the reason first given to lose.
func (d *duplex) why() error { return lostError{context.Cause(d.ctx)} }

// lostError says that the connection ended before an answer came.
type lostError struct{ err error }

func (e lostError) Error() string { return fmt.Sprint(e.err) }
func (e lostError) Unwrap() error { return e.err }

// receive takes what came as one message: one, or a list of them as the version
// of 2025-03-26 allows.
func (d *duplex) receive(message []byte) {
	message = bytes.Clone(bytes.TrimSpace(message)) // parts of it are handed on
	if bytes.HasPrefix(message, []byte("[")) && json.Valid(message) {
		for _, m := range items(message) {
			d.one(m)
		}
		return
	}
	d.one(message)
}

func (d *duplex) one(message []byte) {
	if len(message) == 0 {
		return
	}
	o := object(message)
	method := text(o["method"])
	var id sdk.RequestId
	badID := o["id"] != nil && id.UnmarshalJSON(o["id"]) != nil
	if o == nil || badID || text(o["jsonrpc"]) != sdk.JSONRPC_VERSION {
		d.stray(message)
		return
	}
	d.heard()
	switch {
	case method != "" && id.IsNil():
		d.notified(message)
	case method != "":
		d.asked(method, id, o["params"])
	case o["result"] != nil || o["error"] != nil:
		d.answered(id, o)
	default:
		d.stray(message)
	}
}

func (d *duplex) notified(message []byte) {
	var n sdk.JSONRPCNotification
	d.mu.Lock()
	notify := d.notify
	d.mu.Unlock()
	if notify != nil && json.Unmarshal(message, &n) == nil {
		notify(n)
	}
}

// asked answers a request of the server beside the reading of further messages.
func (d *duplex) asked(method string, id sdk.RequestId, params json.RawMessage) {
	if d.handle == nil {
		return
	}
	select {
	case d.answering <- struct{}{}:
	default:
		return
	}
	d.answers.Go(func() {
		defer func() { <-d.answering }()
		answer := d.handle(d.ctx, transport.JSONRPCRequest{JSONRPC: sdk.JSONRPC_VERSION, ID: id, Method: method, Params: params})
		if answer == nil {
			return
		}
		ctx, cancel := context.WithTimeout(d.ctx, answerTime)
		defer cancel()
		_ = d.deliver(ctx, encoded(answer)) // a lost connection is noticed by its reader
	})
}

// answered hands an answer to who waits for it; nobody does for a second one.
func (d *duplex) answered(id sdk.RequestId, o map[string]json.RawMessage) {
	a := &transport.JSONRPCResponse{JSONRPC: sdk.JSONRPC_VERSION, ID: id, Result: o["result"]}
	if e := object(o["error"]); e != nil {
		a.Error = &sdk.JSONRPCErrorDetails{Message: text(e["message"])}
		if json.Unmarshal(e["code"], &a.Error.Code) != nil {
			a.Error.Code = sdk.INTERNAL_ERROR
		}
		if e["data"] != nil {
			a.Error.Data = e["data"]
		}
	} else if o["error"] != nil && o["result"] == nil {
		a.Error = &sdk.JSONRPCErrorDetails{Code: sdk.INTERNAL_ERROR, Message: text(o["error"])}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range []string{id.String(), "int64:" + text(o["id"])} { // some servers send numbers back as text
		if waiting, ok := d.pending[key]; ok {
			delete(d.pending, key)
			waiting <- a
			return
		}
	}
}

// frames reads lines of at most max bytes.
type frames struct {
	r    *bufio.Reader
	max  int
	long []byte
}

var errTooLong = errors.New("a message was larger than is accepted")

// next gives the next line without its end; it is valid until the next call. With
// errTooLong it gives what was read of a longer one.
func (f *frames) next() ([]byte, error) {
	f.long = f.long[:0]
	if cap(f.long) > 1<<20 {
		f.long = nil
	}
	for {
		part, err := f.r.ReadSlice('\n')
		switch {
		case len(f.long)+len(part) > f.max+1:
			return append(f.long, part...)[:f.max], errTooLong
		case errors.Is(err, bufio.ErrBufferFull):
			f.long = append(f.long, part...)
			continue
		case len(f.long) > 0:
			f.long = append(f.long, part...)
			part = f.long
		}
		if err != nil && (len(part) == 0 || !errors.Is(err, io.EOF)) {
			return nil, err
		}
		return bytes.TrimRight(part, "\r\n"), nil
	}
}
