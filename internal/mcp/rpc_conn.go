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

// rpcConn is a JSON-RPC connection on which both sides may send messages at any time: responses find their request by
// id. It replaces the library's own transports, which take any message with a pending id for the response (mcp-go issue
// 536), wait for responses on connections that are gone, and do not limit the size of a message (mcp-go v1.2.1,
// 2026-11).
type rpcConn struct {
	send      func(ctx context.Context, message []byte) error
	onInvalid func(message []byte) // gets what is not a JSON-RPC message
	// onRequest takes requests of the server, whose answers are sent by reply; it must not block. nil: they are not
	// answered.
	onRequest func(r transport.JSONRPCRequest, reply func(context.Context, []byte) error)

	ctx  context.Context // ends when the connection is lost; its cause is the reason
	done <-chan struct{} // of ctx
	fail context.CancelCauseFunc

	// mu guards the fields below.
	mu             sync.Mutex
	pending        map[string]chan *transport.JSONRPCResponse // by the id that was sent, as text
	onNotification func(sdk.JSONRPCNotification)
}

// newRPCConn returns a connection without a transport: whoever makes it sets send. onInvalid sees each line that is no
// message.
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

// SendRequest sends a request and returns its response. It returns an error when ctx ends or the connection is lost.
func (d *rpcConn) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	message, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	id := r.ID.String()
	answer := make(chan *transport.JSONRPCResponse, 1) // buffered: deliverResponse does not wait for us
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
		// Both channels may be ready: a response that came just before the end counts.
		select {
		case a := <-answer:
			return a, nil
		default:
			return nil, d.lossReason()
		}
	}
}

// sendMessage sends an encoded message. Of a lost connection it returns the reason.
func (d *rpcConn) sendMessage(ctx context.Context, message []byte) error {
	select {
	case <-d.done:
		return d.lossReason()
	default:
	}
	err := d.send(ctx, message)
	if err != nil && d.ctx.Err() != nil { // err only follows from the loss
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

// SetNotificationHandler sets the function that gets notifications; it must not block.
func (d *rpcConn) SetNotificationHandler(f func(sdk.JSONRPCNotification)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onNotification = f
}

// GetSessionId returns "": it is part of the library's interface, there are no sessions here.
func (d *rpcConn) GetSessionId() string { return "" }

// lossReason returns why the connection was lost: the error of the first call of fail.
func (d *rpcConn) lossReason() error { return connectionLostError{context.Cause(d.ctx)} }

// connectionLostError says that the connection ended before a response came.
type connectionLostError struct{ err error }

func (e connectionLostError) Error() string { return fmt.Sprint(e.err) }
func (e connectionLostError) Unwrap() error { return e.err }

// receive handles what came in one piece: a message, or a batch of them, which protocol version 2025-03-26 allows.
func (d *rpcConn) receive(message []byte) {
	message = bytes.TrimPrefix(message, []byte("\uFEFF")) // which programs on .NET may begin with
	message = bytes.Clone(bytes.TrimSpace(message))       // the reader reuses its buffer, parts of this one live on
	if bytes.HasPrefix(message, []byte("[")) && json.Valid(message) {
		for _, m := range jsonList(message) {
			d.receiveOne(m)
		}
		return
	}
	d.receiveOne(message)
}

// receiveOne handles one message by its kind: notification, request or response.
func (d *rpcConn) receiveOne(message []byte) {
	if len(message) == 0 {
		return
	}
	// Read by exact keys; a program's stray output that happens to be JSON has no "jsonrpc".
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

// handleNotification hands a notification to whoever asked for them; before anybody has, notifications are dropped.
func (d *rpcConn) handleNotification(message []byte) {
	var n sdk.JSONRPCNotification
	d.mu.Lock()
	notify := d.onNotification
	d.mu.Unlock()
	if notify != nil && json.Unmarshal(message, &n) == nil {
		notify(n)
	}
}

// deliverResponse passes a response to the request that waits for it. A second response to the same request is dropped.
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
	} else if o["error"] != nil && o["result"] == nil { // not an object, against the specification: take it as text
		a.Error = &sdk.JSONRPCErrorDetails{Code: sdk.INTERNAL_ERROR, Message: jsonString(o["error"])}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	// Some servers send a numeric id back as a string: both forms are looked up.
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

// next returns the next line without its line break; it is valid until the next call. Of
// a longer line it returns the beginning and errTooLong.
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
