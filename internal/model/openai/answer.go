package openai

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/client"
	"ravenbot/internal/model/toolschema"
)

// completion is an answer, or a piece of one.
type completion struct {
	Model   client.Word          `json:"model"`
	Choices []choice             `json:"choices"`
	Usage   client.Maybe[tokens] `json:"usage"`
	Error   json.RawMessage      `json:"error"`
}

// choice is the only answer. A whole answer has a message, a stream has deltas; some endpoints mix them.
type choice struct {
	Message      client.Maybe[fields] `json:"message"`
	Delta        client.Maybe[fields] `json:"delta"`
	FinishReason client.Word          `json:"finish_reason"`
	Native       client.Word          `json:"native_finish_reason"` // of the provider behind OpenRouter
}

// fields are the fields of a message or a delta.
type fields map[string]json.RawMessage

type tokens struct {
	Prompt     client.Count `json:"prompt_tokens"`
	Completion client.Count `json:"completion_tokens"`
	Details    client.Maybe[struct {
		Cached client.Count `json:"cached_tokens"`
	}] `json:"prompt_tokens_details"`
}

type toolCall struct {
	id, name string
	args     string
	added    additions // to the call
	inner    additions // to its function
}

// arguments returns the text of a call's arguments. Some endpoints send the object itself.
func arguments(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(raw)
	}
	return s // empty for null
}

type answerReader struct {
	model     *Model
	names     toolschema.Names
	calls     []*toolCall
	callIndex map[int]int // index in the stream → index in calls
	added     additions
	hasText   bool
	isWhole   bool // complete even without a finish reason
	finish    llm.Finish
}

func (a *answerReader) readEvent(data []byte) (llm.Chunk, client.Progress, error) {
	if string(data) == client.Done {
		a.isWhole = true
		return llm.Chunk{}, client.Over, nil
	}
	var c completion
	err := json.Unmarshal(data, &c)
	if err == nil {
		err = a.model.client.StreamError(c.Error)
	}
	if err != nil {
		return llm.Chunk{}, client.Begun, err
	}
	a.isWhole = a.isWhole || len(c.Choices) > 0 && c.Choices[0].Message.Ok
	out, err := a.handle(c)
	if a.finish == "" {
		return out, client.Begun, err
	}
	return out, client.Complete, err
}

// handle returns the text of a piece, and collects calls and additions.
func (a *answerReader) handle(c completion) (out llm.Chunk, err error) {
	if c.Model != "" {
		out.ServedBy = a.model.o.Name + "/" + string(c.Model)
	}
	if u := c.Usage.V; c.Usage.Ok {
		out.Usage = &llm.Usage{Input: int(u.Prompt), Cached: int(u.Details.V.Cached), Output: int(u.Completion)}
	}
	if len(c.Choices) > 0 { // the piece with the usage has none
		one := c.Choices[0]
		for _, f := range []fields{one.Message.V, one.Delta.V} {
			if text := a.readText(f); text != "" {
				a.hasText = true
				out.Parts = append(out.Parts, llm.Part{Text: text})
			}
			a.readCalls(f["tool_calls"])
			for name, raw := range f {
				if !slices.Contains(ownFields, name) {
					a.added.add(name, raw)
				}
			}
		}
		switch {
		// Gemini, behind the endpoint, wrote a call that Google cannot read (OpenRouterTeam/openrouter-examples#67).
		case strings.Contains(strings.ToUpper(string(one.FinishReason+one.Native)), "MALFORMED_FUNCTION_CALL"):
			a.finish = llm.FinishMalformed
		case one.FinishReason == "error": // OpenRouter's reason if the provider behind it fails
			err := errors.New("the endpoint ended the answer with an error")
			return llm.Chunk{}, &llm.Error{Kind: llm.Unavailable, Provider: a.model.o.Name, Err: err}
		case one.FinishReason != "":
			a.finish = readFinish(string(one.FinishReason))
		}
	}
	return out, nil
}

// readText returns the text of a piece for the reader: the content, which is a string or a list of parts, and a
// refusal. Thinking parts go to the additions.
func (a *answerReader) readText(f fields) string {
	var text, refusal string
	if json.Unmarshal(f["content"], &text) != nil {
		var parts []client.Maybe[struct {
			Text     string                         `json:"text"`
			Thinking client.Maybe[[]map[string]any] `json:"thinking"`
		}]
		_ = json.Unmarshal(f["content"], &parts) // other content is not text
		for _, p := range parts {
			text += p.V.Text
			for _, t := range p.V.Thinking.V {
				if s, ok := t["text"].(string); ok {
					a.added["content"] = mergePieces("content", a.added["content"], s)
				}
			}
		}
	}
	_ = json.Unmarshal(f["refusal"], &refusal)
	return text + refusal
}

func (a *answerReader) readCalls(raw json.RawMessage) {
	var pieces []map[string]json.RawMessage
	if json.Unmarshal(raw, &pieces) != nil {
		return
	}
	for position, piece := range pieces {
		var id, name client.Word
		var index client.Maybe[client.Count]
		_, _ = json.Unmarshal(piece["id"], &id), json.Unmarshal(piece["index"], &index)
		if index.Ok {
			position = int(index.V)
		}
		var function fields
		_ = json.Unmarshal(piece["function"], &function)
		_ = json.Unmarshal(function["name"], &name)
		c := a.callOf(position, string(id), string(name), arguments(function["arguments"]))
		for k, v := range piece {
			if k != "id" && k != "index" && k != "type" && k != "function" {
				c.added.add(k, v)
			}
		}
		for k, v := range function {
			if k != "name" && k != "arguments" {
				c.inner.add(k, v)
			}
		}
	}
}

// callOf adds a piece to its call and returns the call. The index may be missing, start at 1 or always be 0, and names
// and ids may be repeated. A name with a new id starts another call, and so does a name with arguments after complete
// arguments.
func (a *answerReader) callOf(index int, id, name, args string) *toolCall {
	at, known := a.callIndex[index]
	isNew := func(c *toolCall) bool {
		return name != "" && (id != "" && c.id != "" && id != c.id || isObject(args) && isObject(c.args))
	}
	if !known || isNew(a.calls[at]) {
		a.callIndex[index] = len(a.calls)
		c := &toolCall{id: id, name: name, args: args, added: additions{}, inner: additions{}}
		a.calls = append(a.calls, c)
		return c
	}
	c := a.calls[at]
	if c.id == "" {
		c.id = id
	}
	if name != c.name { // some endpoints repeat the whole name
		c.name += name
	}
	c.args += args
	return c
}

func isObject(args string) bool {
	return strings.HasPrefix(strings.TrimSpace(args), "{") && json.Valid([]byte(args))
}

// end sends the last chunk, with the calls, or an error if the answer has no end.
func (a *answerReader) end(yield func(llm.Chunk, error) bool) {
	// Some endpoints send no finish reason.
	if a.isWhole && a.finish == "" && (a.hasText || len(a.calls) > 0) {
		a.finish = llm.FinishStop
	}
	// The last call may lack arguments and must not run.
	if a.finish == "" {
		yield(llm.Chunk{}, &llm.Error{Kind: llm.Unavailable, Provider: a.model.o.Name, Err: client.ErrNoEnd})
		return
	}
	out := llm.Chunk{Finish: a.finish}
	if p, ok := a.added.part(); ok {
		out.Parts = append(out.Parts, p)
	}
	for _, c := range a.calls {
		if c.name == "" {
			out.Finish = llm.FinishMalformed
			continue
		}
		args := client.Arguments(c.args)
		part := llm.Part{Call: &llm.Call{ID: c.id, Name: c.name, Args: a.names.Restore(c.name, args)}}
		if len(c.inner) > 0 {
			c.added["function"] = c.inner
		}
		if len(c.added) > 0 { // other calls can be rebuilt
			part.Raw, _ = json.Marshal(c.added) // cannot fail: it came from JSON
		}
		out.Parts = append(out.Parts, part)
	}
	yield(out, nil)
}

func readFinish(reason string) llm.Finish {
	switch reason {
	case "stop", "tool_calls", "function_call", "end_turn", "eos", "eos_token", "stop_sequence":
		return llm.FinishStop
	case "length", "max_tokens":
		return llm.FinishLength
	case "content_filter":
		return llm.FinishBlocked
	}
	return llm.FinishOther
}
