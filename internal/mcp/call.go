package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"

	"ravenbot/internal/tool"
)

const (
	defaultTimeout = 30 * time.Second
	// reconnectWait is how long a call waits for a server that was lost and is about to
	// come back.
	reconnectWait = 5 * time.Second
)

// serverTool is a tool of a server, whichever connection the server has at the time.
type serverTool struct {
	s    *server
	tool inspectedTool
}

// Spec describes the tool as the server listed it when this value was made.
func (r serverTool) Spec() tool.Spec {
	return tool.Spec{Server: r.s.c.Name, Name: r.tool.Name, Description: r.tool.description, Schema: r.tool.schema, Hints: r.tool.hints()}
}

// Call runs the tool. What goes wrong on the server's side is a result that says
// so, at once if the server is down and not about to come back; an error is returned
// only when ctx ends.
func (r serverTool) Call(ctx context.Context, args json.RawMessage) (tool.Result, error) {
	if args = bytes.TrimSpace(args); len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	if jsonObject(args) == nil {
		return tool.Failure("The arguments must be a JSON object. Nothing was run."), nil
	}
	defer r.s.h.leaseServer(r.s)() // it is not ended in the middle of a call
	s, conn, why := r.s.connectionFor(ctx)
	if r.s.isQuarantined(r.tool.Name) { // which may have shown only now that the server was started
		return tool.Failure(fmt.Sprintf("The tool %q of the MCP server %q has changed, and waits until an administrator approves it. Nothing was run.", r.tool.Name, r.s.c.Name)), nil
	}
	for again := false; conn != nil; again = true {
		raw, err := conn.call(ctx, r.tool.Name, args, s.callTimeout())
		if err == nil {
			return r.checkOutput(parseResult(raw)), nil
		}
		if ctx.Err() == nil && !again && mayRepeat(err, r.tool.hints()) {
			conn = s.nextConnection(ctx, conn)
		} else {
			conn = nil
		}
		if conn == nil && ctx.Err() == nil {
			return tool.Failure(s.failureText(err)), nil
		}
	}
	if ctx.Err() != nil {
		return tool.Result{}, fmt.Errorf("call %s of MCP server %s: %w", r.tool.Name, r.s.c.Name, context.Cause(ctx))
	}
	return tool.Failure(why), nil
}

// connectionFor gives the server as it is called on behalf of ctx and its connection, or,
// without one, what to tell the model.
func (s *server) connectionFor(ctx context.Context) (*server, *connection, string) {
	mine, why := s.forCaller(ctx)
	if why != "" {
		return s, nil, why
	}
	conn, down := mine.awaitConnection(ctx)
	switch {
	case conn != nil:
		return mine, conn, ""
	case mine.consentURL() != "":
		return mine, nil, fmt.Sprintf("The MCP server %q cannot be used before somebody has consented to that, at a link that is sent privately. Nothing was run; try again after that.", s.c.Name)
	}
	return mine, nil, fmt.Sprintf("The MCP server %q is not available (state: %s). Nothing was run; it is tried again in the background.", s.c.Name, down)
}

// checkOutput tells where a result is not what the tool said that it would be.
func (r serverTool) checkOutput(res tool.Result) tool.Result {
	if res.IsError || len(r.tool.Output) == 0 || r.s.o.Schemas == nil {
		return res
	}
	if res.Structured == nil {
		res.Text += "\n[The tool gave no structured result, though it says that it always does.]"
	} else if err := r.s.o.Schemas.Fits(r.tool.Output, res.Structured); err != nil {
		res.Text += fmt.Sprintf("\n[The structured result is not what the tool says that it gives: %.500s]", err)
	}
	return res
}

// mayRepeat reports whether a call that was lost may be sent once more: if the
// server has not run it, or if running it twice is as good as once.
func mayRepeat(err error, h tool.Hints) bool {
	var lost connectionLostError
	return errors.Is(err, transport.ErrSessionTerminated) || errors.As(err, &lost) && h.Repeatable()
}

func (s *server) callTimeout() time.Duration {
	if s.c.Timeout > 0 {
		return s.c.Timeout
	}
	return defaultTimeout
}

// awaitConnection gives the connection, or the state that is instead of one. A server that
// was not started because its tools were known is started now; one that was lost and
// is about to be tried again is waited for, as is one that is being asked whether it
// lives, since what is sent to a dead one is lost.
func (s *server) awaitConnection(ctx context.Context) (*connection, State) {
	s.mu.Lock()
	conn, state, soon := s.conn, s.state, s.isReconnecting()
	s.mu.Unlock()
	switch {
	case conn != nil && !conn.isSilent() || !s.h.isRunning():
		return conn, state
	case s.o.Store != nil && (state == Uninitialized || state == Connecting && !s.hasTried()):
		s.setWanted(true, nil)
		s.awaitState(ctx, func() bool { return s.conn != nil || s.state != Uninitialized && s.state != Connecting })
	case conn != nil || soon:
		ctx, cancel := context.WithTimeout(ctx, reconnectWait)
		defer cancel()
		s.awaitState(ctx, func() bool {
			if s.conn != nil {
				return !s.conn.isSilent()
			}
			return !s.isReconnecting()
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn, s.state
}

// isReconnecting reports whether a server whose tools were known a moment ago is being
// connected, or will be within againTime; s.mu is held.
func (s *server) isReconnecting() bool {
	switch s.state {
	case Connecting, Connected, NoToolsFound: // the last two where a connection has just ended
		return len(s.tools) > 0
	case Failed:
		return !s.retryAt.IsZero() && s.retryAt.Sub(s.o.Now()) < reconnectWait
	}
	return false
}

// hasTried reports that the first attempt to connect has ended.
func (s *server) hasTried() bool {
	select {
	case <-s.firstAttempt:
		return true
	default:
		return false
	}
}

// nextConnection waits for the connection that follows a lost one; nil if none comes soon.
func (s *server) nextConnection(ctx context.Context, lost *connection) *connection {
	ctx, cancel := context.WithTimeout(ctx, reconnectWait)
	defer cancel()
	var conn *connection
	s.awaitState(ctx, func() bool {
		if s.conn != lost {
			conn = s.conn
		}
		return conn != nil || s.state == Stopped
	})
	return conn
}

// failureText tells the model why there is no result.
func (s *server) failureText(err error) string {
	var lost connectionLostError
	var late callTimeoutError
	switch {
	case errors.As(err, &late):
		return fmt.Sprintf("The MCP server %q did not answer within %s. Whether the call had an effect is not known.", s.c.Name, late.after)
	case errors.As(err, &lost):
		return fmt.Sprintf("The connection to the MCP server %q was lost during the call. Whether it had an effect is not known; it was not repeated.", s.c.Name)
	}
	return fmt.Sprintf("The call to the MCP server %q failed: %.500s", s.c.Name, s.mask(plainLine(unwrapTransportError(err).Error())))
}

// call makes one call, and takes note of what its failure says about the
// connection. An error means that there is no result.
func (c *connection) call(ctx context.Context, name string, args json.RawMessage, timeout time.Duration) (json.RawMessage, error) {
	return c.request(ctx, name, timeout, func(ctx context.Context, token *sdk.Meta) error {
		request := sdk.CallToolRequest{}
		request.Params.Name, request.Params.Arguments, request.Params.Meta = name, args, token
		_, err := c.client.CallTool(ctx, request)
		return err
	})
}

// request makes a request that takes its time: a call, or the reading of what a
// server offers. It gives the result as it came.
func (c *connection) request(ctx context.Context, name string, timeout time.Duration, send func(context.Context, *sdk.Meta) error) (json.RawMessage, error) {
	f, landed := c.beginCall(ctx, name, timeout)
	inner, got := withCapture(f.ctx)
	err := send(inner, &sdk.Meta{ProgressToken: f.token})
	raw, cause := got.result(), context.Cause(f.ctx)
	landed()
	switch {
	case raw != nil: // the library refuses parts that it does not know
		c.hasAnswered.Store(true)
		return raw, nil
	case cause != nil:
		err = cause
	case isClosed(c.lost) && !errors.Is(err, transport.ErrSessionTerminated):
		err = c.lossReason() // another call found the loss first
	}
	if ctx.Err() == nil {
		if errors.As(err, new(callTimeoutError)) {
			c.noteTimeout(f)
		}
		c.noteFailure(err)
	}
	return nil, err
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// needsInput reports whether a result asks for something that was not given.
func needsInput(raw json.RawMessage) bool {
	return jsonString(jsonObject(raw)["resultType"]) == "input_required"
}
