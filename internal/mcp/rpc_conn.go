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
	// maxMessageBytes is the largest message taken from a server, in bytes.
	maxMessageBytes = 16 << 20
	// maxConcurrentAnswers is how many requests of a server are answered at a time; more
	// are refused by silence, so that a flood of them starts no flood of ours.
	maxConcurrentAnswers = 16
	answerTimeout        = 10 * time.Second
)

// rpcConn is a connection on which both sides send messages when they like:
// answers find their request by id. The library's own carriers take any message
// with a pending id for the answer, wait for answers on connections that are
// gone, and set no limit to a message's size.
type rpcConn struct {
	send      func(ctx context.Context, message []byte) error
	onInvalid func(message []byte) // gets what is no message
	// onRequest answers requests of the server; nil: they are not answered.
	onRequest func(context.Context, transport.JSONRPCRequest) *transport.JSONRPCResponse
	onMessage func() // is told of every message, before anything is done with it; it must not block

	ctx         context.Context // ends when the connection is lost, and knows why
	done        <-chan struct{} // of ctx
	fail        context.CancelCauseFunc
	answerSlots chan struct{}
	answers     sync.WaitGroup

	mu             sync.Mutex
	pending        map[string]chan *transport.JSONRPCResponse
	onNotification func(sdk.JSONRPCNotification)
}

func newRPCConn(stray func([]byte)) *rpcConn {
	ctx, lose := context.WithCancelCause(context.Background())
	return &rpcConn{onInvalid: stray, onMessage: func() {}, ctx: ctx, done: ctx.Done(), fail: lose, answerSlots: make(chan struct{}, maxConcurrentAnswers),
		pending: map[string]chan *transport.JSONRPCResponse{}}
}

// SendRequest sends a request and waits for its answer.
func (d *rpcConn) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
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
	if err := d.sendMessage(ctx, message); err != nil {
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
			return nil, d.lossReason()
		}
	}
}

func (d *rpcConn) sendMessage(ctx context.Context, message []byte) error {
	select {
	case <-d.done:
		return d.lossReason()
	default:
	}
	err := d.send(ctx, message)
	if err != nil && d.ctx.Err() != nil { // the loss is the reason
		return d.lossReason()
	}
	return err
}

// SendNotification sends a message that has no answer.
func (d *rpcConn) SendNotification(ctx context.Context, n sdk.JSONRPCNotification) error {
	message, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode the notification: %w", err)
	}
	return d.sendMessage(ctx, message)
}

// SetNotificationHandler sets who gets notifications; it must not block.
func (d *rpcConn) SetNotificationHandler(f func(sdk.JSONRPCNotification)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onNotification = f
}

// GetSessionId is part of the library's interface; there are no sessions here.
func (d *rpcConn) GetSessionId() string { return "" }

// lossReason says why the connection was lost: the reason first given to lose.
func (d *rpcConn) lossReason() error { return connectionLostError{context.Cause(d.ctx)} }

// connectionLostError says that the connection ended before an answer came.
type connectionLostError struct{ err error }

func (e connectionLostError) Error() string { return fmt.Sprint(e.err) }
func (e connectionLostError) Unwrap() error { return e.err }

// receive takes what came as one message: one, or a list of them as the version
// of 2025-03-26 allows.
func (d *rpcConn) receive(message []byte) {
	message = bytes.Clone(bytes.TrimSpace(message)) // parts of it are handed on
	if bytes.HasPrefix(message, []byte("[")) && json.Valid(message) {
		for _, m := range jsonList(message) {
			d.receiveOne(m)
		}
		return
	}
	d.receiveOne(message)
}

func (d *rpcConn) receiveOne(message []byte) {
	if len(message) == 0 {
		return
	}
	o := jsonObject(message)
	method := jsonString(o["method"])
	var id sdk.RequestId
	badID := o["id"] != nil && id.UnmarshalJSON(o["id"]) != nil
	if o == nil || badID || jsonString(o["jsonrpc"]) != sdk.JSONRPC_VERSION {
		d.onInvalid(message)
		return
	}
	d.onMessage()
	switch {
	case method != "" && id.IsNil():
		d.handleNotification(message)
	case method != "":
		d.answerRequest(method, id, o["params"])
	case o["result"] != nil || o["error"] != nil:
		d.deliverResponse(id, o)
	default:
		d.onInvalid(message)
	}
}

func (d *rpcConn) handleNotification(message []byte) {
	var n sdk.JSONRPCNotification
	d.mu.Lock()
	notify := d.onNotification
	d.mu.Unlock()
	if notify != nil && json.Unmarshal(message, &n) == nil {
		notify(n)
	}
}

// answerRequest answers a request of the server beside the reading of further messages.
func (d *rpcConn) answerRequest(method string, id sdk.RequestId, params json.RawMessage) {
	if d.onRequest == nil {
		return
	}
	select {
	case d.answerSlots <- struct{}{}:
	default:
		return
	}
	d.answers.Go(func() {
		defer func() { <-d.answerSlots }()
		answer := d.onRequest(d.ctx, transport.JSONRPCRequest{JSONRPC: sdk.JSONRPC_VERSION, ID: id, Method: method, Params: params})
		if answer == nil {
			return
		}
		ctx, cancel := context.WithTimeout(d.ctx, answerTimeout)
		defer cancel()
		_ = d.sendMessage(ctx, encodeJSON(answer)) // a lost connection is noticed by its reader
	})
}

// deliverResponse hands an answer to who waits for it; nobody does for a second one.
func (d *rpcConn) deliverResponse(id sdk.RequestId, o map[string]json.RawMessage) {
	a := &transport.JSONRPCResponse{JSONRPC: sdk.JSONRPC_VERSION, ID: id, Result: o["result"]}
	if e := jsonObject(o["error"]); e != nil {
		a.Error = &sdk.JSONRPCErrorDetails{Message: jsonString(e["message"])}
		if json.Unmarshal(e["code"], &a.Error.Code) != nil {
			a.Error.Code = sdk.INTERNAL_ERROR
		}
		if e["data"] != nil {
			a.Error.Data = e["data"]
		}
	} else if o["error"] != nil && o["result"] == nil {
		a.Error = &sdk.JSONRPCErrorDetails{Code: sdk.INTERNAL_ERROR, Message: jsonString(o["error"])}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range []string{id.String(), "int64:" + jsonString(o["id"])} { // some servers send numbers back as text
		if waiting, ok := d.pending[key]; ok {
			delete(d.pending, key)
			waiting <- a
			return
		}
	}
}

// lineReader reads lines of at most max bytes.
type lineReader struct {
	r   *bufio.Reader
	max int
	buf []byte
}

var errTooLong = errors.New("a message was larger than is accepted")

// next gives the next line without its end; it is valid until the next call. With
// errTooLong it gives what was read of a longer one.
func (f *lineReader) next() ([]byte, error) {
	f.buf = f.buf[:0]
	if cap(f.buf) > 1<<20 {
		f.buf = nil
	}
	for {
		part, err := f.r.ReadSlice('\n')
		switch {
		case len(f.buf)+len(part) > f.max+1:
			return append(f.buf, part...)[:f.max], errTooLong
		case errors.Is(err, bufio.ErrBufferFull):
			f.buf = append(f.buf, part...)
			continue
		case len(f.buf) > 0:
			f.buf = append(f.buf, part...)
			part = f.buf
		}
		if err != nil && (len(part) == 0 || !errors.Is(err, io.EOF)) {
			return nil, err
		}
		return bytes.TrimRight(part, "\r\n"), nil
	}
}
