package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/url"

	sdk "github.com/mark3labs/mcp-go/mcp"

	"ravenbot/internal/core/text"
)

// Question is what a server wants to know from the person on whose behalf it is called.
// Its text is untrusted; hidden characters have been removed.
type Question struct {
	ID      string // the server's own in URL mode
	Server  string
	Tool    string          // that was called
	Message string          // at most maxQuestionBytes
	Schema  json.RawMessage // of Answer.Content: an object of plain fields; nil: URL mode
	URL     string          // an http or https address that the person is to open
}

// Actions of an Answer.
const (
	Accept  = "accept"
	Decline = "decline" // a no
	Cancel  = "cancel"  // neither yes nor no
)

// Answer is the person's answer. Content is used with Accept in form mode. An Action that is none
// of the three is passed on to the server as it is.
type Answer struct {
	Action  string
	Content json.RawMessage
}

// elicit asks the person on whose behalf the server was called, and returns the result of the server's request. Where
// that is nobody in particular, or the server has asked too often, the answer is Decline; where the person was not
// reached, or the answer does not fit the schema, it is Cancel. The timeouts of the calls are paused meanwhile. An
// error is returned only for a question that cannot be asked.
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
	// The question lives as long as the calls; the server may also take it back, which ends ctx.
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
	case a.Action == Accept: // now the person goes to the address
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

// parseQuestion returns the question in the parameters of a request, or what is wrong with them.
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
		// An address with a user part is refused: https://bank.example@evil.example misleads.
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

// completeAnswer returns the content of an answer with the defaults for fields that were
// left out, as the specification demands, or an error if it does not fit the schema.
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

// urlElicitationDone returns a channel that is closed when the server reports the end of the elicitation with this id.
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
