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

// serverTool is a tool of a server, called over whichever connection the server has at the time.
type serverTool struct {
	s    *server
	tool inspectedTool
	// unapproved: see tool.Spec
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

// Call runs the tool. A failure of the server becomes a result that says so, at once if the server is down and not
// about to come back. Call returns an error only when ctx ends.
func (r serverTool) Call(ctx context.Context, args json.RawMessage) (tool.Result, error) {
	if args = bytes.TrimSpace(args); len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	if jsonObject(args) == nil {
		return tool.Failure("The arguments must be a JSON object. Nothing was run."), nil
	}
	defer r.s.h.leaseServer(r.s)() // a reload does not end the server in the middle of a call
	s, conn, why := r.s.connectionFor(ctx)
	// Checked only now: a server that this call has started may have listed a changed tool.
	if r.isQuarantined() {
		return tool.Failure(fmt.Sprintf("The tool %q of the MCP server %q has changed, "+
			"and waits until an administrator approves it. Nothing was run.", r.tool.Name, r.s.c.Name)), nil
	}
	// At most two attempts: the second over a new connection, where that does no harm.
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

// isQuarantined reports whether the tool waits for Approve.
func (r serverTool) isQuarantined() bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.s.countTools(func(j decidedTool) bool { return j.Name == r.tool.Name && isQuarantined(j) }) > 0
}

// connectionFor returns the server that serves the caller of ctx and its connection, or,
// without a connection, what to tell the model.
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

// checkOutput returns a result with a note where it does not satisfy the tool's own output schema.
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

// mayRepeat reports whether a lost call may be sent once more: if the server has not run
// it (a terminated session refuses before it runs anything), or if running it twice does
// no harm. A call that timed out is never repeated: the server may still be at work on it.
func mayRepeat(err error, h tool.Hints) bool {
	return errors.Is(err, transport.ErrSessionTerminated) || errors.As(err, new(connectionLostError)) && h.Repeatable()
}

// callTimeout returns how long a call of the server may take.
func (s *server) callTimeout() time.Duration { return cmp.Or(s.c.Timeout, defaultTimeout) }

// awaitConnection returns the connection, or nil and the state of the server. A server that was not started because its
// tools were known is started now. A lost server that is about to be connected again is waited for. The connection may
// be lost again by the time it is used; the request then fails with connectionLostError.
func (s *server) awaitConnection(ctx context.Context) (*connection, State) {
	s.mu.Lock()
	conn, state, soon := s.conn, s.state, s.isReconnecting()
	s.mu.Unlock()
	switch {
	case conn != nil || !s.h.isRunning():
		// A host that does not run makes no connection that could be waited for.
		return conn, state
	case s.o.Store != nil && (state == Uninitialized || state == Connecting && !isClosed(s.firstAttempt)):
		// A first start may take long (44 s measured for mongodb-mcp-server through npx, 2026-11):
		// the deadline is the caller's, not Options.reconnectWait.
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

// isReconnecting reports whether a server that has worked is being connected again, or
// will be within Options.reconnectWait; s.mu is held.
func (s *server) isReconnecting() bool {
	switch s.state {
	case Connecting, Connected, NoToolsFound: // the last two: its connection has just ended
		return len(s.tools) > 0
	case Failed:
		return !s.retryAt.IsZero() && s.retryAt.Sub(s.o.Now()) < s.o.reconnectWait
	}
	return false
}

// nextConnection returns the connection that follows a lost one; nil if none is made
// within Options.reconnectWait. It does not start a server that was stopped.
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

// failureText returns what the model is told where there is no result. It says whether the call may
// have had an effect, because a model that is told only of a failure tries again. Secrets of the
// entry are masked, and text of the server is cut to 500 bytes.
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

// mayHaveRun reports whether a server may have run a call that failed with err: it was sent, and neither refused nor
// answered with an error.
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
	// The library's words for an answer with a status from 400 to 499 (mcp-go v1.2.1, 2026-11).
	return !strings.HasPrefix(failed.Err.Error(), "request failed with status 4")
}

// call makes one tool call and returns its result as it came. It returns an error where there is no result.
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

// request makes a request that may take long: a tool call, or reading a resource or a prompt. It returns the result as
// it came, and notes what a failure says about the connection.
func (c *connection) request(
	ctx context.Context,
	name string,
	timeout time.Duration,
	send func(context.Context, *sdk.Meta) error,
) (json.RawMessage, error) {
	f, end := c.beginCall(ctx, name, timeout)
	inner, raw := withCapture(f.ctx)
	err := send(inner, &sdk.Meta{ProgressToken: f.token})
	cause := context.Cause(f.ctx) // read before end, which sets one of its own
	end()
	switch {
	case *raw != nil: // even with an error: the library refuses content that it does not know
		c.hasAnswered.Store(true)
		return *raw, nil
	case cause != nil:
		err = cause
	case isClosed(c.lost) && !errors.Is(err, transport.ErrSessionTerminated):
		err = c.lossReason() // more precise than what the library makes of a closed connection
	}
	// A call that the caller has given up says nothing about the connection.
	if ctx.Err() == nil {
		c.noteFailure(err)
	}
	return nil, err
}

// isClosed reports whether a channel that is never sent on was closed.
func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
