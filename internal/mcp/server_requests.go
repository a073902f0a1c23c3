package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"

	"ravenbot/internal/core/text"
)

const (
	// maxPersonWait bounds the time of a person for an answer.
	maxPersonWait = 15 * time.Minute
	// maxSamplingWait bounds the time of a model for an answer.
	maxSamplingWait = 5 * time.Minute
	// maxConcurrentAnswers bounds the requests of a server that are answered at a time. It ignores further ones.
	maxConcurrentAnswers = 16
	// maxRequestsPerCall bounds the questions of a server to people and models during one call.
	maxRequestsPerCall = 20
	// maxFormBytes bounds a form for a person, maxQuestionBytes its text.
	maxFormBytes     = 64 << 10
	maxQuestionBytes = 4 << 10
)

// Root is a directory that servers may work in.
type Root struct {
	URI  string `json:"uri"` // file://…
	Name string `json:"name,omitempty"`
}

func (s *server) clientCapabilities() sdk.ClientCapabilities {
	var c sdk.ClientCapabilities
	if s.o.Ask != nil {
		c.Elicitation = &sdk.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}}
	}
	if s.o.Sample != nil {
		c.Sampling = &sdk.SamplingCapability{}
	}
	if s.o.Roots != nil {
		c.Roots = &struct {
			ListChanged bool `json:"listChanged,omitempty"`
		}{}
	}
	return c
}

type requestError struct {
	code    int
	message string
}

func (r *requestError) Error() string { return r.message }

// answerRequest returns the response to a request of the server, or nil if the server has cancelled it.
func (c *connection) answerRequest(ctx context.Context, r transport.JSONRPCRequest) *transport.JSONRPCResponse {
	// Registered by id for the server's cancel notification.
	key := r.ID.String()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.mu.Lock()
	c.requests[key] = cancel
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.requests, key)
	}()
	params, _ := json.Marshal(r.Params) // it came as JSON
	result, err := c.handleRequest(ctx, r.Method, params)
	switch {
	case errors.Is(context.Cause(ctx), errRequestCancelled):
		return nil
	case err != nil:
		return transport.NewJSONRPCErrorResponse(r.ID, err.code, err.message, nil)
	}
	return transport.NewJSONRPCResultResponse(r.ID, result)
}

var errRequestCancelled = &requestError{sdk.REQUEST_INTERRUPTED, "the server has taken its request back"}

func (c *connection) cancelRequest(fields map[string]any) {
	var id sdk.RequestId
	if id.UnmarshalJSON(encodeJSON(fields["requestId"])) != nil { // it came as JSON
		return
	}
	c.mu.Lock()
	cancel := c.requests[id.String()]
	c.mu.Unlock()
	if cancel != nil {
		cancel(errRequestCancelled)
	}
}

// handleRequest returns the result of a request of the server, or an error for the server. A question to a person may
// take maxPersonWait. Features that are switched off are unknown methods, except that elicitation is declined.
func (c *connection) handleRequest(
	ctx context.Context,
	method string,
	params json.RawMessage,
) (json.RawMessage, *requestError) {
	switch method {
	case string(sdk.MethodPing):
		return json.RawMessage("{}"), nil
	case string(sdk.MethodListRoots):
		if c.s.o.Roots != nil {
			return encodeJSON(map[string]any{"roots": c.s.o.Roots}), nil
		}
	case string(sdk.MethodElicitationCreate):
		return c.elicit(ctx, jsonObject(params))
	case string(sdk.MethodSamplingCreateMessage):
		if c.s.o.Sample != nil {
			return c.sample(ctx, jsonObject(params))
		}
	}
	return nil, &requestError{sdk.METHOD_NOT_FOUND, "this client does not answer " + text.OneLine(method)}
}

// runInBackground runs a function with a context that ends with the connection. It returns false if too many are
// running, or the connection is ending.
func (c *connection) runInBackground(do func(ctx context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	select {
	case c.backgroundSlots <- struct{}{}:
	default:
		return false
	}
	c.work.Go(func() {
		defer func() { <-c.backgroundSlots }()
		do(c.ctx)
	})
	return true
}

// requestHandler returns a handler for the library's transport that answers requests of the server by post, because the
// library limits an answer to 30 s.
func (c *connection) requestHandler(p httpPoster) transport.RequestHandler {
	return func(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
		c.answerFor(callFromContext(ctx), r, p.post) // the library's ctx ends here
		return nil, nil
	}
}

// answerFor answers a request of the server in the background. f is the call on whose stream it came, or nil.
func (c *connection) answerFor(f *pendingCall, r transport.JSONRPCRequest, reply func(context.Context, []byte) error) {
	c.runInBackground(func(ctx context.Context) {
		if f != nil {
			ctx = context.WithValue(ctx, callKey{}, f)
		}
		answer := c.answerRequest(ctx, r)
		if answer == nil {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		_ = reply(ctx, encodeJSON(answer)) // the next request notices a lost connection
	})
}

// encodeJSON returns a value as JSON, or nil if it cannot be encoded.
func encodeJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return data
}
