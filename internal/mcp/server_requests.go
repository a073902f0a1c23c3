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
	// maxPersonWait is how long a person may take to answer.
	maxPersonWait = 15 * time.Minute
	// maxSamplingWait is how long a model may take to answer a server.
	maxSamplingWait = 5 * time.Minute
	// maxConcurrentAnswers is how many requests of a server are answered at a time; more get no answer, so that a flood of
	// them does not start a flood of ours.
	maxConcurrentAnswers = 16
	// maxRequestsPerCall is how often a server may ask a person or a model during one call.
	maxRequestsPerCall = 20
	// maxFormBytes is the longest form that is shown to a person, and maxQuestion the longest text, in bytes.
	maxFormBytes     = 64 << 10
	maxQuestionBytes = 4 << 10
)

// Root is a directory that servers are told they may work in.
type Root struct {
	URI  string `json:"uri"` // file://…
	Name string `json:"name,omitempty"`
}

// clientCapabilities returns what servers are told that we support.
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

// answerRequest returns the response to a request of the server; nil if it is not to be
// answered, because the server has cancelled it.
func (c *connection) answerRequest(ctx context.Context, r transport.JSONRPCRequest) *transport.JSONRPCResponse {
	// Registered by id, so that a cancel notification of the server finds it.
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
	params, _ := json.Marshal(r.Params) // came as JSON: cannot fail
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

// cancelRequest stops answering a request that the server cancels.
func (c *connection) cancelRequest(fields map[string]any) {
	var id sdk.RequestId
	if id.UnmarshalJSON(encodeJSON(fields["requestId"])) != nil { // came as JSON: it can be encoded
		return
	}
	c.mu.Lock()
	cancel := c.requests[id.String()]
	c.mu.Unlock()
	if cancel != nil {
		cancel(errRequestCancelled)
	}
}

// handleRequest returns the result of a request of the server, or the error to answer it with. A
// question to a person may take maxPersonWait. What was not announced to the server is answered
// like an unknown method, except for elicitation, which is declined.
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

// runInBackground runs a function in the background, with a context that ends with the
// connection. It reports false if too many are running, or the connection is ending.
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

// requestHandler returns a handler for the library's transport that answers requests of the server by post: the library
// would give them 30 s, and a person may take 15 minutes.
func (c *connection) requestHandler(p httpPoster) transport.RequestHandler {
	return func(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
		c.answerFor(callFromContext(ctx), r, p.post) // of the library's ctx, which ends here, the call is taken alone
		return nil, nil
	}
}

// answerFor answers a request of the server in the background, so that further messages are read meanwhile. f is the call
// on whose stream it came; nil: it is not known.
func (c *connection) answerFor(
	f *pendingCall,
	r transport.JSONRPCRequest,
	reply func(context.Context, []byte) error,
) {
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
		_ = reply(ctx, encodeJSON(answer)) // a lost connection is noticed by the next request
	})
}

// encodeJSON returns a value as JSON; nil if it cannot be encoded.
func encodeJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return data
}
