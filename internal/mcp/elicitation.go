package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/url"

	sdk "github.com/mark3labs/mcp-go/mcp"

	"ravenbot/internal/core/text"
)

// Question is a server's question to the person on whose behalf it is called. Its text is untrusted and contains no
// hidden characters.
type Question struct {
	ID      string // the server's own id in URL mode
	Server  string
	Tool    string          // the tool that was called
	Message string          // at most maxQuestionBytes
	Schema  json.RawMessage // of Answer.Content: an object of plain fields; nil in URL mode
	URL     string          // the http or https address for the person to open
}

// Actions of an Answer.
const (
	Accept  = "accept"
	Decline = "decline"
	Cancel  = "cancel" // neither yes nor no
)

// Answer is the person's answer. Content is used with Accept in form mode. An unknown Action is passed on unchanged.
type Answer struct {
	Action  string
	Content json.RawMessage
}

// elicit asks the person on whose behalf the server was called, and returns the result of the server's request. It
// declines if there is no such person or the server has asked too often. It cancels if the person could not be reached
// or the answer does not match the schema. Meanwhile the timeouts of the calls are paused. It returns an error only for
// an invalid question.
func (c *connection) elicit(ctx context.Context, o map[string]json.RawMessage) (json.RawMessage, *requestError) {
	q, wrong := c.parseQuestion(o)
	if wrong != "" {
		return nil, &requestError{sdk.INVALID_PARAMS, wrong}
	}
	calls := c.callsBehind(ctx)
	if c.s.o.Ask == nil || len(calls) == 0 || !calls[0].allowRequest() {
		return encodeJSON(map[string]any{"action": Decline}), nil
	}
	q.Tool = calls[0].tool
	// The question ends with the calls, or if the server cancels it, which ends ctx.
	askCtx, end := c.pauseCalls(calls, maxPersonWait)
	defer end()
	defer context.AfterFunc(ctx, func() { end() })()
	a, err := c.s.o.Ask(askCtx, q)
	switch {
	case err != nil:
		c.s.log.Warn("question of an mcp server was not answered", "error", err)
		a.Action = Cancel
	case a.Action == Accept && q.URL == "":
		if a.Content, err = c.completeAnswer(q.Schema, a.Content); err != nil {
			c.s.log.Warn("answer does not match the question of an mcp server", "error", err)
			a.Action = Cancel
		}
	case a.Action == Accept: // the person goes to the address now
		for _, f := range calls {
			f.extend(maxPersonWait)
		}
	}
	result := map[string]any{"action": a.Action}
	if a.Action == Accept && q.URL == "" {
		result["content"] = a.Content
	}
	return encodeJSON(result), nil
}

// parseQuestion returns the question in the parameters of a request, or a description of the mistake in them.
func (c *connection) parseQuestion(o map[string]json.RawMessage) (Question, string) {
	q := Question{
		ID:      jsonString(o["elicitationId"]),
		Server:  c.s.c.Name,
		Message: text.Cut(removeHidden(jsonString(o["message"])), maxQuestionBytes),
	}
	switch jsonString(o["mode"]) {
	case "", "form":
		asked := decodeJSON(o["requestedSchema"])
		if _, ok := asked.(map[string]any); !ok || len(o["requestedSchema"]) > maxFormBytes {
			return q, "requestedSchema must be an object of modest size"
		}
		q.Schema = encodeSorted(removeHiddenFrom(asked))
	case "url":
		at, err := url.Parse(jsonString(o["url"]))
		// Addresses with a user part mislead: https://bank.example@evil.example.
		if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" || at.User != nil {
			return q, "url must be a web address"
		}
		q.URL = at.String()
	default:
		return q, "this client knows the modes form and url"
	}
	if q.ID == "" {
		q.ID = rand.Text()
	}
	return q, ""
}

// completeAnswer adds the defaults of missing fields to an answer, as the specification demands. It returns an error if
// the answer does not match the schema.
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

// urlElicitationDone returns a channel that is closed when the server reports the end of the elicitation.
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
