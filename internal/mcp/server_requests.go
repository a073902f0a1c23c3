package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"

	"ravenbot/internal/chat"
)

const (
	// maxPersonWait is how long a person may take to answer.
	maxPersonWait = 15 * time.Minute
	// maxSamplingWait is how long a model may take to answer a server.
	maxSamplingWait = 5 * time.Minute
	// maxRequestsPerCall is how often a server may want something during one call.
	maxRequestsPerCall = 20
	// maxFormBytes is the longest form that is shown to a person, and maxQuestion the
	// longest text, in bytes.
	maxFormBytes     = 64 << 10
	maxQuestionBytes = 4 << 10
)

// Question is what a server wants to know of the person on whose behalf it is
// called. Its text is a stranger's, without what is hidden.
type Question struct {
	ID      string // of this question; in URL mode the server's own
	Server  string
	Tool    string // that was called
	Message string
	Schema  json.RawMessage // of the answer's Content: an object of plain fields; nil: URL mode
	URL     string          // an http or https address that the person is to open
}

// Actions of an Answer.
const (
	Accept  = "accept"
	Decline = "decline" // a no
	Cancel  = "cancel"  // neither yes nor no
)

// Answer is what the person said. Content counts with Accept, in form mode.
type Answer struct {
	Action  string
	Content json.RawMessage
}

// SamplingRequest is what a server wants a model to go on from.
type SamplingRequest struct {
	Server      string
	Tool        string // that was called
	System      string
	Messages    []SamplingMessage
	MaxTokens   int
	Temperature *float64
	Stop        []string // texts at which to stop
	Models      []string // names, or parts of names, that the server would like
}

// SamplingMessage is one message; Role is user or assistant.
type SamplingMessage struct {
	Role  string
	Text  string
	Files []chat.File
}

// SamplingResult is what the model said.
type SamplingResult struct {
	Text   string
	Model  string
	Reason string // why it stopped: endTurn, stopSequence, maxTokens; "": endTurn
}

// Root is a place that servers are told they may work in.
type Root struct {
	URI  string `json:"uri"` // file://…
	Name string `json:"name,omitempty"`
}

// clientCapabilities are what servers are told that we can do.
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

// requestError is an error that a server is told.
type requestError struct {
	code    int
	message string
}

func (r *requestError) Error() string { return r.message }

// answerRequest answers a request of the server; nil: it is not to be answered, because
// the server has taken it back.
func (c *connection) answerRequest(ctx context.Context, r transport.JSONRPCRequest) *transport.JSONRPCResponse {
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
	params, _ := json.Marshal(r.Params) // what is no JSON cannot have come
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

// cancelRequest ends the answering of a request that the server cancels.
func (c *connection) cancelRequest(fields map[string]any) {
	var id sdk.RequestId
	raw, err := json.Marshal(fields["requestId"])
	if err != nil || id.UnmarshalJSON(raw) != nil {
		return
	}
	c.mu.Lock()
	cancel := c.requests[id.String()]
	c.mu.Unlock()
	if cancel != nil {
		cancel(errRequestCancelled)
	}
}

// handleRequest gives what the server wants.
func (c *connection) handleRequest(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, *requestError) {
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
	return nil, &requestError{sdk.METHOD_NOT_FOUND, "this client does not answer " + plainLine(method)}
}

// elicit asks the person on whose behalf the server was called, if it is plain who
// that is.
func (c *connection) elicit(ctx context.Context, o map[string]json.RawMessage) (json.RawMessage, *requestError) {
	q, wrong := c.parseQuestion(o)
	if wrong != "" {
		return nil, &requestError{sdk.INVALID_PARAMS, wrong}
	}
	flights := c.callsBehind(ctx)
	if c.s.o.Ask == nil || len(flights) == 0 || !flights[0].allowRequest(maxRequestsPerCall) {
		return encodeJSON(map[string]any{"action": Decline}), nil
	}
	q.Tool = flights[0].tool
	ours, end := c.pauseCalls(flights, maxPersonWait)
	defer end()
	defer context.AfterFunc(ctx, func() { end() })()
	a, err := c.s.o.Ask(ours, q)
	switch {
	case err != nil:
		c.s.log.Warn("question of mcp server not answered", "error", err)
		a.Action = Cancel
	case a.Action == Accept && q.URL == "":
		if a.Content, err = c.completeAnswer(q.Schema, a.Content); err != nil {
			c.s.log.Warn("answer does not fit the question of mcp server", "error", err)
			a.Action = Cancel
		}
	case a.Action == Accept:
		c.awaitURLElicitation(q.ID, flights)
	}
	result := map[string]any{"action": a.Action}
	if a.Action == Accept && q.URL == "" {
		result["content"] = a.Content
	}
	return encodeJSON(result), nil
}

// parseQuestion reads the parameters of a request, or says what is wrong with them.
func (c *connection) parseQuestion(o map[string]json.RawMessage) (Question, string) {
	q := Question{ID: jsonString(o["elicitationId"]), Server: c.s.c.Name, Message: cut(removeHidden(jsonString(o["message"])), maxQuestionBytes)}
	switch jsonString(o["mode"]) {
	case "", "form":
		asked := decodeJSON(o["requestedSchema"])
		if _, ok := asked.(map[string]any); !ok || len(o["requestedSchema"]) > maxFormBytes {
			return q, "requestedSchema must be an object of modest size"
		}
		cleaned, _ := removeHiddenFrom(asked)
		q.Schema = encodeSorted(cleaned)
	case "url":
		at, err := url.Parse(jsonString(o["url"]))
		if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" || at.User != nil {
			return q, "url must be a web address"
		}
		q.URL = at.String()
	default:
		return q, "this client knows the modes form and url"
	}
	if q.ID == "" {
		c.mu.Lock()
		c.questionCount++
		q.ID = fmt.Sprintf("%s-%d-%d", c.s.c.Name, c.number, c.questionCount)
		c.mu.Unlock()
	}
	return q, ""
}

// completeAnswer gives the content of an answer as the server asked for it: with the
// defaults of what was left out, as the specification has it.
func (c *connection) completeAnswer(schema, content json.RawMessage) (json.RawMessage, error) {
	values := jsonObject(content)
	if values == nil {
		values = map[string]json.RawMessage{}
	}
	for name, property := range jsonObject(jsonObject(schema)["properties"]) {
		if usual, ok := jsonObject(property)["default"]; ok && values[name] == nil {
			values[name] = usual
		}
	}
	content = encodeJSON(values)
	if c.s.o.Schemas == nil {
		return content, nil
	}
	return c.s.o.Schemas.Check(schema, content)
}

// awaitURLElicitation gives calls time while a person does something at an address that the
// server named, until the server says that it is done.
func (c *connection) awaitURLElicitation(id string, flights []*pendingCall) {
	done := c.urlElicitationDone(id)
	ctx, end := c.pauseCalls(flights, maxPersonWait)
	started := c.runInBackground(func(context.Context) {
		defer end()
		defer c.finishURLElicitation(id)
		select {
		case <-done:
		case <-ctx.Done():
		}
	})
	if !started {
		end()
	}
}

// urlElicitationDone is closed when the server says that what it wanted done elsewhere is
// done.
func (c *connection) urlElicitationDone(id string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.urlElicitations[id] == nil {
		c.urlElicitations[id] = make(chan struct{})
	}
	return c.urlElicitations[id]
}

func (c *connection) finishURLElicitation(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if done := c.urlElicitations[id]; done != nil {
		close(done)
		delete(c.urlElicitations, id)
	}
}

// sample has a model go on from what the server gives.
func (c *connection) sample(ctx context.Context, o map[string]json.RawMessage) (json.RawMessage, *requestError) {
	wanted := c.parseSampling(o)
	if len(wanted.Messages) == 0 {
		return nil, &requestError{sdk.INVALID_PARAMS, "there are no messages"}
	}
	flights := c.callsBehind(ctx)
	if len(flights) == 0 || !flights[0].allowRequest(maxRequestsPerCall) {
		return nil, &requestError{-1, "sampling is refused: it belongs to no call, or there was too much of it"}
	}
	wanted.Tool = flights[0].tool
	ours, end := c.pauseCalls(flights, maxSamplingWait)
	defer end()
	defer context.AfterFunc(ctx, func() { end() })()
	got, err := c.s.o.Sample(ours, wanted)
	if err != nil {
		c.s.log.Warn("sampling for mcp server refused", "error", err)
		return nil, &requestError{-1, "sampling is refused"}
	}
	return encodeJSON(map[string]any{"role": "assistant", "model": got.Model, "stopReason": cmp.Or(got.Reason, "endTurn"),
		"content": map[string]any{"type": "text", "text": got.Text}}), nil
}

// parseSampling reads the parameters of a request; what is missing, or of another type
// than it should be, is zero.
func (c *connection) parseSampling(o map[string]json.RawMessage) SamplingRequest {
	wanted := SamplingRequest{Server: c.s.c.Name, System: jsonString(o["systemPrompt"])}
	room := maxFileBytes
	for _, raw := range jsonList(o["messages"]) {
		m := jsonObject(raw)
		said := SamplingMessage{Role: jsonString(m["role"])}
		said.Text, said.Files = parseContents(m["content"], &room)
		wanted.Messages = append(wanted.Messages, said)
	}
	_ = json.Unmarshal(o["maxTokens"], &wanted.MaxTokens)
	_ = json.Unmarshal(o["temperature"], &wanted.Temperature)
	for _, stop := range jsonList(o["stopSequences"]) {
		wanted.Stop = append(wanted.Stop, jsonString(stop))
	}
	for _, hint := range jsonList(jsonObject(o["modelPreferences"])["hints"]) {
		wanted.Models = append(wanted.Models, jsonString(jsonObject(hint)["name"]))
	}
	return wanted
}

// runInBackground does something beside, which ends with the connection; it reports
// false if there is too much of that already, or the connection ends.
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

// httpPoster posts messages to a Streamable HTTP server of the older protocol beside
// the library, which has no way of its own to answer late, or to cancel.
type httpPoster struct {
	endpoint string
	client   *http.Client
	header   func() http.Header
}

func (p httpPoster) post(ctx context.Context, message []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.endpoint, bytes.NewReader(message))
	if err != nil {
		return fmt.Errorf("send a message: %w", err)
	}
	r.Header = p.header()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return checkPosted(p.client.Do(r))
}

// postBestEffort posts a message and gives it the time that an answer may take.
func (p httpPoster) postBestEffort(ctx context.Context, message any) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_ = p.post(ctx, encodeJSON(message)) // a lost connection shows elsewhere
}

// requestHandler has a carrier of the library hand over the server's requests, which it
// would give 30 seconds, and answers them by post.
func (c *connection) requestHandler(p httpPoster) transport.RequestHandler {
	return func(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
		f := callFromContext(ctx)
		c.runInBackground(func(ctx context.Context) {
			if f != nil {
				ctx = context.WithValue(ctx, callKey{}, f)
			}
			if a := c.answerRequest(ctx, r); a != nil {
				p.postBestEffort(ctx, a)
			}
		})
		return nil, nil
	}
}

func encodeJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return data
}
