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
	// againTime is how long a call waits for a server that was lost and is about to
	// come back.
	againTime = 5 * time.Second
)

// remote is a tool of a server, whichever connection the server has at the time.
type remote struct {
	s *server
	t inspected
}

// Spec describes the tool as the server listed it when this value was made.
func (r remote) Spec() tool.Spec {
	return tool.Spec{Server: r.s.c.Name, Name: r.t.Name, Description: r.t.shown, Schema: r.t.schema, Hints: r.t.hints()}
}

// Call runs the tool. What goes wrong on the server's side is a result that says
// so, at once if the server is down and not about to come back; an error is returned
// only when ctx ends.
func (r remote) Call(ctx context.Context, args json.RawMessage) (tool.Result, error) {
	if args = bytes.TrimSpace(args); len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	if object(args) == nil {
		return tool.Failure("The arguments must be a JSON object. Nothing was run."), nil
	}
	defer r.s.h.hold(r.s)() // it is not ended in the middle of a call
	s, conn, why := r.s.reach(ctx)
	if r.s.waits(r.t.Name) { // which may have shown only now that the server was started
		return tool.Failure(fmt.Sprintf("The tool %q of the MCP server %q has changed, and waits until an administrator approves it. Nothing was run.", r.t.Name, r.s.c.Name)), nil
	}
	for again := false; conn != nil; again = true {
		raw, err := conn.call(ctx, r.t.Name, args, s.timeout())
		if err == nil {
			return r.checked(resultOf(raw)), nil
		}
		if ctx.Err() == nil && !again && repeatable(err, r.t.hints()) {
			conn = s.next(ctx, conn)
		} else {
			conn = nil
		}
		if conn == nil && ctx.Err() == nil {
			return tool.Failure(s.excuse(err)), nil
		}
	}
	if ctx.Err() != nil {
		return tool.Result{}, fmt.Errorf("call %s of MCP server %s: %w", r.t.Name, r.s.c.Name, context.Cause(ctx))
	}
	return tool.Failure(why), nil
}

// reach gives the server as it is called on behalf of ctx and its connection, or,
// without one, what to tell the model.
func (s *server) reach(ctx context.Context) (*server, *connection, string) {
	mine, why := s.mine(ctx)
	if why != "" {
		return s, nil, why
	}
	conn, down := mine.ready(ctx)
	switch {
	case conn != nil:
		return mine, conn, ""
	case mine.consentURL() != "":
		return mine, nil, fmt.Sprintf("The MCP server %q cannot be used before somebody has consented to that, at a link that is sent privately. Nothing was run; try again after that.", s.c.Name)
	}
	return mine, nil, fmt.Sprintf("The MCP server %q is not available (state: %s). Nothing was run; it is tried again in the background.", s.c.Name, down)
}

// checked tells where a result is not what the tool said that it would be.
func (r remote) checked(res tool.Result) tool.Result {
	if res.IsError || len(r.t.Output) == 0 || r.s.o.Schemas == nil {
		return res
	}
	if res.Structured == nil {
		res.Text += "\n[The tool gave no structured result, though it says that it always does.]"
	} else if err := r.s.o.Schemas.Fits(r.t.Output, res.Structured); err != nil {
		res.Text += fmt.Sprintf("\n[The structured result is not what the tool says that it gives: %.500s]", err)
	}
	return res
}

// repeatable reports whether a call that was lost may be sent once more: if the
// server has not run it, or if running it twice is as good as once.
func repeatable(err error, h tool.Hints) bool {
	var lost lostError
	return errors.Is(err, transport.ErrSessionTerminated) || errors.As(err, &lost) && h.Repeatable()
}

func (s *server) timeout() time.Duration {
	if s.c.Timeout > 0 {
		return s.c.Timeout
	}
	return defaultTimeout
}

// ready gives the connection, or the state that is instead of one. A server that
// was not started because its tools were known is started now; one that was lost and
// is about to be tried again is waited for, as is one that is being asked whether it
// lives, since what is sent to a dead one is lost.
func (s *server) ready(ctx context.Context) (*connection, State) {
	s.mu.Lock()
	conn, state, soon := s.conn, s.state, s.soon()
	s.mu.Unlock()
	switch {
	case conn != nil && !conn.silent() || !s.h.running():
		return conn, state
	case s.o.Store != nil && (state == Uninitialized || state == Connecting && !s.tried()):
		s.want(true, nil)
		s.await(ctx, func() bool { return s.conn != nil || s.state != Uninitialized && s.state != Connecting })
	case conn != nil || soon:
		ctx, cancel := context.WithTimeout(ctx, againTime)
		defer cancel()
		s.await(ctx, func() bool {
			if s.conn != nil {
				return !s.conn.silent()
			}
			return !s.soon()
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn, s.state
}

// soon reports whether a server whose tools were known a moment ago is being
// connected, or will be within againTime; s.mu is held.
func (s *server) soon() bool {
	switch s.state {
	case Connecting, Connected, NoToolsFound: // the last two where a connection has just ended
		return len(s.tools) > 0
	case Failed:
		return !s.due.IsZero() && s.due.Sub(s.o.Now()) < againTime
	}
	return false
}

// tried reports that the first attempt to connect has ended.
func (s *server) tried() bool {
	select {
	case <-s.settled:
		return true
	default:
		return false
	}
}

// next waits for the connection that follows a lost one; nil if none comes soon.
func (s *server) next(ctx context.Context, lost *connection) *connection {
	ctx, cancel := context.WithTimeout(ctx, againTime)
	defer cancel()
	var conn *connection
	s.await(ctx, func() bool {
		if s.conn != lost {
			conn = s.conn
		}
		return conn != nil || s.state == Stopped
	})
	return conn
}

// excuse tells the model why there is no result.
func (s *server) excuse(err error) string {
	var lost lostError
	var late noAnswer
	switch {
	case errors.As(err, &late):
		return fmt.Sprintf("The MCP server %q did not answer within %s. Whether the call had an effect is not known.", s.c.Name, late.after)
	case errors.As(err, &lost):
		return fmt.Sprintf("The connection to the MCP server %q was lost during the call. Whether it had an effect is not known; it was not repeated.", s.c.Name)
	}
	return fmt.Sprintf("The call to the MCP server %q failed: %.500s", s.c.Name, s.mask(plain(readable(err).Error())))
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
	f, landed := c.fly(ctx, name, timeout)
	inner, got := capturing(f.ctx)
	err := send(inner, &sdk.Meta{ProgressToken: f.token})
	raw, cause := got.result(), context.Cause(f.ctx)
	landed()
	switch {
	case raw != nil: // the library refuses parts that it does not know
		c.answered.Store(true)
		return raw, nil
	case cause != nil:
		err = cause
	case isClosed(c.lost) && !errors.Is(err, transport.ErrSessionTerminated):
		err = c.why() // another call found the loss first
	}
	if ctx.Err() == nil {
		if errors.As(err, new(noAnswer)) {
			c.late(f)
		}
		c.failed(err)
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

// wantsInput reports whether a result asks for something that was not given.
func wantsInput(raw json.RawMessage) bool { return text(object(raw)["resultType"]) == "input_required" }
