package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"
)

const (
	// maxMessageBytes is the largest message accepted from a server.
	maxMessageBytes = 16 << 20
	answerTimeout   = 10 * time.Second
)

// rpcConn is a JSON-RPC connection on which both sides may send messages at any time. It replaces the library's own
// transports, which take any message with a pending id as the response (mcp-go issue 536), wait for responses on dead
// connections, and do not limit messages (mcp-go v1.2.1, 2026-11).
type rpcConn struct {
	send      func(ctx context.Context, message []byte) error
	onInvalid func(message []byte) // receives invalid messages
	// onRequest handles requests of the server and answers with reply; it must not block. It may be nil.
	onRequest func(r transport.JSONRPCRequest, reply func(context.Context, []byte) error)

	ctx  context.Context // ends with the connection; its cause is the reason
	done <-chan struct{} // of ctx
	fail context.CancelCauseFunc

	// mu guards the fields below.
	mu             sync.Mutex
	pending        map[string]chan *transport.JSONRPCResponse // by the id that was sent, as text
	onNotification func(sdk.JSONRPCNotification)
}

// newRPCConn returns a connection whose send the caller sets. onInvalid receives lines that are not messages.
func newRPCConn(onInvalid func([]byte)) *rpcConn {
	ctx, fail := context.WithCancelCause(context.Background())
	return &rpcConn{
		onInvalid: onInvalid,
		ctx:       ctx,
		done:      ctx.Done(),
		fail:      fail,
		pending:   map[string]chan *transport.JSONRPCResponse{},
	}
}

// SendRequest returns the response to a request. It fails if ctx ends or the connection is lost.
func (d *rpcConn) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	message, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	id := r.ID.String()
	answer := make(chan *transport.JSONRPCResponse, 1) // buffered, so that deliverResponse does not wait
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
		// Both channels may be ready: a response just before the end counts.
		select {
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
	if err != nil && d.ctx.Err() != nil { // err is a consequence of the loss
		return d.lossReason()
	}
	return err
}

// SendNotification sends a message that has no response.
func (d *rpcConn) SendNotification(ctx context.Context, n sdk.JSONRPCNotification) error {
	message, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("encode the notification: %w", err)
	}
	return d.sendMessage(ctx, message)
}

// SetNotificationHandler sets the handler of notifications, which must not block.
func (d *rpcConn) SetNotificationHandler(f func(sdk.JSONRPCNotification)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onNotification = f
}

// GetSessionId returns "". The library's interface demands it.
func (d *rpcConn) GetSessionId() string { return "" }

// lossReason returns the error of the first call of fail.
func (d *rpcConn) lossReason() error { return connectionLostError{context.Cause(d.ctx)} }

// connectionLostError means that the connection ended before a response came.
type connectionLostError struct{ err error }

func (e connectionLostError) Error() string { return fmt.Sprint(e.err) }
func (e connectionLostError) Unwrap() error { return e.err }

// receive handles a message, or a batch of messages (protocol version 2025-03-26).
func (d *rpcConn) receive(message []byte) {
	message = bytes.TrimPrefix(message, []byte("\uFEFF")) // programs on .NET may begin with it
	message = bytes.Clone(bytes.TrimSpace(message))       // the reader reuses its buffer
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
	// Other JSON output of a program has no "jsonrpc".
	o := jsonObject(message)
	method := jsonString(o["method"])
	var id sdk.RequestId
	badID := o["id"] != nil && id.UnmarshalJSON(o["id"]) != nil
	if o == nil || badID || jsonString(o["jsonrpc"]) != sdk.JSONRPC_VERSION {
		d.onInvalid(message)
		return
	}
	switch {
	case method != "" && id.IsNil():
		d.handleNotification(message)
	case method != "":
		if d.onRequest != nil {
			r := transport.JSONRPCRequest{JSONRPC: sdk.JSONRPC_VERSION, ID: id, Method: method, Params: o["params"]}
			d.onRequest(r, d.sendMessage)
		}
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

// deliverResponse passes a response to its request. It drops a second response.
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
	} else if o["error"] != nil && o["result"] == nil { // some servers send text instead of an object
		a.Error = &sdk.JSONRPCErrorDetails{Code: sdk.INTERNAL_ERROR, Message: jsonString(o["error"])}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	// Some servers return a numeric id as a string.
	for _, key := range []string{id.String(), "int64:" + jsonString(o["id"])} {
		if waiting, ok := d.pending[key]; ok {
			delete(d.pending, key)
			waiting <- a
			return
		}
	}
}

// lineReader reads lines of at most max bytes. It is not safe for concurrent use.
type lineReader struct {
	r   *bufio.Reader
	max int
}

var errTooLong = errors.New("a message was larger than is accepted")

// next returns the next line without its line break, valid until the next call. For a longer line it returns the
// beginning and errTooLong.
func (f *lineReader) next() (line []byte, err error) {
	for {
		part, isCut, err := f.r.ReadLine()
		switch {
		case err != nil:
			return nil, err
		case len(line)+len(part) > f.max:
			return append(line, part...)[:f.max], errTooLong
		case line == nil && !isCut:
			return part, nil
		}
		if line = append(line, part...); !isCut {
			return line, nil
		}
	}
}
