package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"
)

// maxInputRounds is how often a call is sent again with the input that the server wants.
const maxInputRounds = 10

// sendWithInput sends a request, and sends it again whenever the server wants input first. Since protocol version
// 2026-07-28 servers ask for input in the result, and the request is made again with the answers; in 2025-11-25 they
// could fail with addresses that a person has to open first.
func (c *connection) sendWithInput(
	ctx context.Context,
	r transport.JSONRPCRequest,
	send func(context.Context, transport.JSONRPCRequest) (*transport.JSONRPCResponse, error),
) (*transport.JSONRPCResponse, error) {
	first := r
	for round := 1; ; round++ {
		response, err := send(ctx, r)
		if err != nil || callFromContext(ctx) == nil { // only calls have a caller who could be asked
			return response, err
		}
		var more map[string]any
		switch {
		case response.Error != nil && response.Error.Code == sdk.URL_ELICITATION_REQUIRED:
			if !c.askToOpenURLs(ctx, response.Error) {
				return response, nil
			}
		case response.Error == nil && jsonString(jsonObject(response.Result)["resultType"]) == "input_required":
			if more, err = c.collectInputs(ctx, jsonObject(response.Result), round); err != nil {
				return nil, err
			}
		default:
			return response, nil
		}
		if round == maxInputRounds {
			return nil, errors.New("the server kept asking for input")
		}
		// From the first request each time: the answers of an earlier round do not belong to this one.
		r = withMoreParams(first, round, more)
	}
}

// withMoreParams returns a request with more parameters, under an id of its own.
func withMoreParams(r transport.JSONRPCRequest, round int, more map[string]any) transport.JSONRPCRequest {
	params := map[string]any{}
	for name, value := range jsonObject(encodeJSON(r.Params)) { // they were sent before: they can be encoded
		params[name] = value
	}
	maps.Copy(params, more)
	r.Params = params
	r.ID = sdk.NewRequestId(fmt.Sprintf("%s-%d", r.ID.String(), round))
	return r
}

// collectInputs returns the parameters that answer a result which asks for input. A result without questions asks to be
// requested again later: collectInputs then waits, longer in each round.
func (c *connection) collectInputs(
	ctx context.Context,
	o map[string]json.RawMessage,
	round int,
) (map[string]any, error) {
	requests := jsonObject(o["inputRequests"])
	if len(requests) == 0 {
		select {
		case <-time.After(time.Duration(round) * time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	answers := map[string]json.RawMessage{}
	for _, id := range slices.Sorted(maps.Keys(requests)) {
		request := jsonObject(requests[id])
		result, refused := c.handleRequest(ctx, jsonString(request["method"]), request["params"])
		if refused != nil {
			return nil, fmt.Errorf("the server wants what it cannot have: %w", refused)
		}
		answers[id] = result
	}
	more := map[string]any{"inputResponses": answers}
	if state := o["requestState"]; state != nil { // opaque; the server gets it back unchanged
		more["requestState"] = state
	}
	return more, nil
}

// askToOpenURLs asks a person to open the addresses that an error names, and waits until the server says that the
// person is done there. It reports false if the person declines or the error is invalid.
func (c *connection) askToOpenURLs(ctx context.Context, e *sdk.JSONRPCErrorDetails) bool {
	list := jsonList(jsonObject(encodeJSON(e.Data))["elicitations"])
	if len(list) == 0 || len(list) > maxRequestsPerCall {
		return false
	}
	var all []<-chan struct{}
	for _, raw := range list {
		o := jsonObject(raw)
		if jsonString(o["mode"]) != "url" || jsonString(o["elicitationId"]) == "" {
			return false
		}
		// Registered before the person is asked: the server may report the end at once.
		id := jsonString(o["elicitationId"])
		all = append(all, c.urlElicitationDone(id))
		defer c.finishURLElicitation(id)
		result, refused := c.elicit(ctx, o)
		if refused != nil || jsonString(jsonObject(result)["action"]) != Accept {
			return false
		}
	}
	for _, done := range all {
		select {
		case <-done:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
