package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"

	"ravenbot/internal/core/tool"
)

const (
	defaultTimeout       = 30 * time.Second
	defaultReconnectWait = 5 * time.Second
)

// serverTool is a tool of a server. A call uses the server's current connection.
type serverTool struct {
	s    *server
	tool inspectedTool
	// unapproved is Unapproved of tool.Spec.
	unapproved bool
}

// Spec describes the tool as the server listed it when this value was made.
func (r serverTool) Spec() tool.Spec {
	return tool.Spec{
		Server:      r.s.c.Name,
		Name:        r.tool.Name,
		Description: r.tool.description,
		Schema:      r.tool.schema,
		Hints:       r.tool.hints(),
		Unapproved:  r.unapproved,
	}
}

// Call runs the tool. If the server fails, or is down and not about to come back, the result says so. Call returns an
// error only if ctx ends.
func (r serverTool) Call(ctx context.Context, args json.RawMessage) (tool.Result, error) {
	if args = bytes.TrimSpace(args); len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	if jsonObject(args) == nil {
		return tool.Failure("The arguments must be a JSON object. Nothing was run."), nil
	}
	defer r.s.h.leaseServer(r.s)() // a reload does not end the server during a call
	s, conn, why := r.s.connectionFor(ctx)
	// After the start of the server, which may have listed a changed tool.
	if r.isQuarantined() {
		return tool.Failure(fmt.Sprintf("The tool %q of the MCP server %q has changed, "+
			"and waits until an administrator approves it. Nothing was run.", r.tool.Name, r.s.c.Name)), nil
	}
	// At most two attempts: mayRepeat allows the second one, over a new connection.
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

func (r serverTool) isQuarantined() bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.s.countTools(func(j decidedTool) bool { return j.Name == r.tool.Name && isQuarantined(j) }) > 0
}

// connectionFor returns the server for the caller of ctx and its connection. Without a connection it returns an
// explanation for the model.
func (s *server) connectionFor(ctx context.Context) (*server, *connection, string) {
	callers, why := s.forCaller(ctx)
	if why != "" {
		return s, nil, why
	}
	conn, state := callers.awaitConnection(ctx)
	switch {
	case conn != nil:
		return callers, conn, ""
	case callers.consentURL() != "":
		return callers, nil, fmt.Sprintf("The MCP server %q needs a sign-in first, "+
			"at a link that is sent privately. Nothing was run; try again after the sign-in.", s.c.Name)
	}
	return callers, nil, fmt.Sprintf("The MCP server %q is not available (state: %s). "+
		"Nothing was run; it is tried again in the background.", s.c.Name, state)
}

// checkOutput adds a note to a result that does not match the output schema of the tool.
func (r serverTool) checkOutput(res tool.Result) tool.Result {
	if res.IsError || len(r.tool.Output) == 0 || r.s.o.Schemas == nil {
		return res
	}
	if res.Structured == nil {
		res.Text += "\n[The tool returned no structured result, although it declares an output schema.]"
	} else if err := r.s.o.Schemas.Fits(r.tool.Output, res.Structured); err != nil {
		res.Text += fmt.Sprintf("\n[The structured result does not match the output schema of the tool: %.500s]", err)
	}
	return res
}

// mayRepeat reports whether a lost call may be sent again: the server has not run it, because the session was
// terminated before, or running it twice is harmless. A call that timed out is never repeated, because the server may
// still be running it.
func mayRepeat(err error, h tool.Hints) bool {
	return errors.Is(err, transport.ErrSessionTerminated) || errors.As(err, new(connectionLostError)) && h.Repeatable()
}

func (s *server) callTimeout() time.Duration { return cmp.Or(s.c.Timeout, defaultTimeout) }

// awaitConnection returns the connection, or nil and the state of the server. It starts a server that was not started
// because its tools were known, and waits for a lost server that is about to reconnect. The connection may be lost
// again before it is used; the request then fails with connectionLostError.
func (s *server) awaitConnection(ctx context.Context) (*connection, State) {
	s.mu.Lock()
	conn, state, soon := s.conn, s.state, s.isReconnecting()
	s.mu.Unlock()
	switch {
	case conn != nil || !s.h.isRunning():
		// Before and after Run no connection is made.
		return conn, state
	case s.o.Store != nil && (state == Uninitialized || state == Connecting && !isClosed(s.firstAttempt)):
		// A first start may take long (44 s for mongodb-mcp-server through npx, measured 2026-11), so only the caller's
		// deadline applies.
		s.setWanted(true, nil)
		s.awaitState(ctx, func() bool { return s.conn != nil || s.state != Uninitialized && s.state != Connecting })
	case soon:
		ctx, cancel := context.WithTimeout(ctx, s.o.reconnectWait)
		defer cancel()
		s.awaitState(ctx, func() bool { return s.conn != nil || !s.isReconnecting() })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn, s.state
}

// isReconnecting reports whether a server that has worked is reconnecting, or will be within Options.reconnectWait;
// s.mu is held.
func (s *server) isReconnecting() bool {
	switch s.state {
	case Connecting, Connected, NoToolsFound: // in the last two states the connection has just ended
		return len(s.tools) > 0
	case Failed:
		return !s.retryAt.IsZero() && s.retryAt.Sub(s.o.Now()) < s.o.reconnectWait
	}
	return false
}

// nextConnection returns the connection that follows a lost one, or nil if none is made within Options.reconnectWait.
// It does not start a stopped server.
func (s *server) nextConnection(ctx context.Context, lost *connection) *connection {
	ctx, cancel := context.WithTimeout(ctx, s.o.reconnectWait)
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

// failureText returns the text for the model if a call has no result. It says whether the call may have had an effect,
// because a model tries again after a plain failure. It masks the secrets of the entry.
func (s *server) failureText(err error) string {
	var late callTimeoutError
	switch {
	case errors.As(err, &late):
		return fmt.Sprintf("The MCP server %q did not answer within %s. Whether the call had an effect is not known.",
			s.c.Name, late.after)
	case errors.As(err, new(connectionLostError)):
		return fmt.Sprintf("The connection to the MCP server %q was lost during the call. "+
			"Whether it had an effect is not known; it is not tried again.", s.c.Name)
	}
	why := fmt.Sprintf("The call to the MCP server %q failed: %s", s.c.Name, s.describe(unwrapTransportError(err)))
	if mayHaveRun(err) {
		why = strings.TrimRight(why, ".: ") + ". Whether it had an effect is not known; it is not tried again."
	}
	return why
}

// mayHaveRun reports whether a server may have run a failed call: the call was sent, and neither refused nor answered.
func mayHaveRun(err error) bool {
	var failed *transport.Error
	var dial *net.OpError
	var status statusError
	switch {
	case errors.As(err, &status) && status < 500:
		return false
	case !errors.As(err, &failed), errors.As(err, new(authorizationError)), errors.Is(err, transport.ErrAuthorizationRequired),
		errors.Is(err, transport.ErrSessionTerminated):
		return false
	case errors.As(err, &dial) && dial.Op == "dial":
		return false
	}
	// The library's error text for a status from 400 to 499 (mcp-go v1.2.1, 2026-11).
	return !strings.HasPrefix(failed.Err.Error(), "request failed with status 4")
}

// call makes one tool call and returns its raw result.
func (c *connection) call(
	ctx context.Context,
	name string,
	args json.RawMessage,
	timeout time.Duration,
) (json.RawMessage, error) {
	return c.request(ctx, name, timeout, func(ctx context.Context, token *sdk.Meta) error {
		request := sdk.CallToolRequest{}
		request.Params.Name, request.Params.Arguments, request.Params.Meta = name, args, token
		_, err := c.client.CallTool(ctx, request)
		return err
	})
}

// request makes a request that may take long: a tool call, or reading a resource or a prompt. It returns the raw
// result. A failure may end the connection.
func (c *connection) request(
	ctx context.Context,
	name string,
	timeout time.Duration,
	send func(context.Context, *sdk.Meta) error,
) (json.RawMessage, error) {
	f, end := c.beginCall(ctx, name, timeout)
	inner, raw := withCapture(f.ctx)
	err := send(inner, &sdk.Meta{ProgressToken: f.token})
	cause := context.Cause(f.ctx) // before end, which sets another cause
	end()
	switch {
	case *raw != nil: // even with an error: the library refuses unknown content
		c.hasAnswered.Store(true)
		return *raw, nil
	case cause != nil:
		err = cause
	case isClosed(c.lost) && !errors.Is(err, transport.ErrSessionTerminated):
		err = c.lossReason() // more precise than the library's error
	}
	if ctx.Err() == nil {
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
