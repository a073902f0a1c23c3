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

// maxInputRounds bounds how often a call is sent again with input for the server.
const maxInputRounds = 10

// sendWithInput sends a request, and sends it again with the input that the server asks for. Since protocol version
// 2026-07-28 servers ask in a result. In 2025-11-25 they could fail with addresses for a person to open.
func (c *connection) sendWithInput(
	ctx context.Context,
	r transport.JSONRPCRequest,
	send func(context.Context, transport.JSONRPCRequest) (*transport.JSONRPCResponse, error),
) (*transport.JSONRPCResponse, error) {
	first := r
	for round := 1; ; round++ {
		response, err := send(ctx, r)
		if err != nil || callFromContext(ctx) == nil { // only calls have a caller to ask
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
		// Each round starts from the first request, without the answers of earlier rounds.
		r = withMoreParams(first, round, more)
	}
}

// withMoreParams returns a request with more parameters and another id.
func withMoreParams(r transport.JSONRPCRequest, round int, more map[string]any) transport.JSONRPCRequest {
	params := map[string]any{}
	for name, value := range jsonObject(encodeJSON(r.Params)) { // it was sent before, so it can be encoded
		params[name] = value
	}
	maps.Copy(params, more)
	r.Params = params
	r.ID = sdk.NewRequestId(fmt.Sprintf("%s-%d", r.ID.String(), round))
	return r
}

// collectInputs returns the parameters that answer a request for input. If there are no questions, it waits, longer in
// each round.
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
			return nil, fmt.Errorf("the server asks for something unsupported: %w", refused)
		}
		answers[id] = result
	}
	more := map[string]any{"inputResponses": answers}
	if state := o["requestState"]; state != nil { // opaque, and returned unchanged
		more["requestState"] = state
	}
	return more, nil
}

// askToOpenURLs asks a person to open the addresses in an error, and waits until the server reports the end. It returns
// false if the person declines or the error is invalid.
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
		// Registered first, because the server may report the end at once.
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
