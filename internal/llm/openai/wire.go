package openai

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"ravenbot/internal/llm"
)

// request is the body of a chat request (https://platform.openai.com/docs/api-reference/chat/create).
type request struct {
	Model         string         `json:"model"`
	Messages      []message      `json:"messages"`
	Tools         []toolDecl     `json:"tools,omitempty"`
	Stream        bool           `json:"stream"`
	StreamOptions map[string]any `json:"stream_options,omitempty"`
	Temperature   *float64       `json:"temperature,omitempty"`
	MaxTokens     int            `json:"max_tokens,omitempty"`
	// MaxCompletionTokens is the same limit under the name that OpenAI's models that reason want.
	MaxCompletionTokens int           `json:"max_completion_tokens,omitempty"`
	Stop                []string      `json:"stop,omitempty"`
	Format              *answerFormat `json:"response_format,omitempty"`
}

// answerFormat asks for an answer that is JSON of a schema.
type answerFormat struct {
	Type   string       `json:"type"` // json_schema
	Schema answerSchema `json:"json_schema"`
}

// answerSchema names the schema of an answer; Strict has the endpoint hold the model to it.
type answerSchema struct {
	Name   string          `json:"name"`
	Strict bool            `json:"strict"`
	Schema json.RawMessage `json:"schema"`
}

// message is what one role said, in the API's form.
type message struct {
	Role       string            `json:"role"`
	Content    any               `json:"content"` // a string, nil, or []piece where there are images
	ToolCalls  []json.RawMessage `json:"tool_calls,omitempty"`
	ToolCallID string            `json:"tool_call_id,omitempty"`
}

// contentPart is a part of a message that is more than text.
type contentPart struct {
	Type     string `json:"type"` // text or image_url
	Text     string `json:"text,omitempty"`
	ImageURL *image `json:"image_url,omitempty"`
}

// image is an image as a data URL.
type image struct {
	URL string `json:"url"` // a data URL
}

// toolDecl declares a tool, whose type is always function.
type toolDecl struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

// function is what a model is told of a tool; Parameters is a JSON Schema of an object.
type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// toolCall is a call in the API's form; in a stream it comes in pieces.
type toolCall struct {
	Index    *int   `json:"index,omitempty"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
	Extra json.RawMessage `json:"extra_content,omitempty"`
}

// arguments is JSON in a string; some endpoints send the object itself.
type arguments string

// UnmarshalJSON accepts both forms.
func (a *arguments) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(a))
	}
	if *a = arguments(raw); *a == "null" {
		*a = ""
	}
	return nil
}

// answerText is the text of an answer: a string, or a list of parts with text.
type answerText string

// UnmarshalJSON accepts both forms.
func (t *answerText) UnmarshalJSON(raw []byte) error {
	if raw[0] != '[' {
		return json.Unmarshal(raw, (*string)(t))
	}
	var parts []struct {
		Text string `json:"text"`
	}
	err := json.Unmarshal(raw, &parts)
	for _, p := range parts {
		*t += answerText(p.Text)
	}
	return err
}

// newRequest converts a request to the API's form.
func (m *Model) newRequest(r llm.Request) request {
	// Without include_usage a stream does not say how many tokens were used.
	q := request{Model: m.o.Model, Stream: true, StreamOptions: map[string]any{"include_usage": true},
		Temperature: cmp.Or(r.Temperature, m.o.Temperature), MaxTokens: r.OutputLimit(m.o.MaxOutputTokens), Stop: r.Stop}
	if m.takesCompletionTokens.Load() {
		q.MaxCompletionTokens, q.MaxTokens = q.MaxTokens, 0
	}
	if r.Schema != nil {
		q.Format = &answerFormat{"json_schema", answerSchema{Name: "answer", Strict: true, Schema: r.Schema}}
	}
	if r.System != "" {
		q.Messages = append(q.Messages, message{Role: "system", Content: r.System})
	}
	for _, one := range r.Messages {
		q.Messages = append(q.Messages, m.newMessages(one)...)
	}
	for _, t := range r.Tools {
		q.Tools = append(q.Tools, toolDecl{"function", function{t.Name, t.Description, m.schemas.Fit(t.Schema).JSON}})
	}
	return q
}

// newMessages converts one message; in the API each tool result is a message of its own. Thoughts are not sent back:
// the API has no place for them.
func (m *Model) newMessages(said llm.Message) []message {
	var out []message
	var texts []string
	var calls []json.RawMessage
	var images []contentPart
	for _, p := range said.Parts {
		// Images need a list of parts; a message with calls alone must have null as its content.
		switch {
		case p.Result != nil:
			out = append(out, message{Role: "tool", Content: p.Result.Content, ToolCallID: p.Result.ID})
		case p.Call != nil:
			calls = append(calls, m.encodeCall(p, len(calls) == 0))
		case p.Media != nil:
			url := "data:" + p.Media.Type + ";base64," + base64.StdEncoding.EncodeToString(p.Media.Data)
			images = append(images, contentPart{Type: "image_url", ImageURL: &image{url}})
		case p.Text != "" && !p.Thought:
			texts = append(texts, p.Text)
		}
	}
	if said.Role == llm.ToolRole {
		return out
	}
	text := strings.Join(texts, "\n")
	one := message{Role: string(said.Role), Content: text, ToolCalls: calls}
	switch {
	case len(images) > 0:
		one.Content = append([]contentPart{{Type: "text", Text: text}}, images...)
	case text == "" && len(calls) > 0:
		one.Content = nil
	}
	return []message{one}
}

// noSignature is what Google accepts in place of the signature of a call that another model made.
const noSignature = `{"google":{"thought_signature":"skip_thought_signature_validator"}}`

// isGoogle reports whether the endpoint is Google's own, which requires a signature on the first call of a message.
func (m *Model) isGoogle() bool {
	return strings.HasSuffix(strings.TrimRight(m.o.BaseURL, "/"), "/v1beta/openai")
}

// encodeCall encodes a call with what the endpoint had added to it.
func (m *Model) encodeCall(p llm.Part, first bool) json.RawMessage {
	var c toolCall
	if json.Unmarshal(p.Raw, &c) != nil {
		c = toolCall{}
	}
	if len(c.Extra) == 0 && first && m.isGoogle() {
		c.Extra = json.RawMessage(noSignature)
	}
	c.Index = nil
	c.ID = p.Call.ID
	c.Type = "function"
	c.Function.Name = p.Call.Name
	c.Function.Arguments = arguments(p.Call.Args)
	raw, err := json.Marshal(c)
	if err != nil { // extra_content was valid when it was stored
		c.Extra = nil
		raw, _ = json.Marshal(c)
	}
	return raw
}

// completion is an answer, or a piece of one.
type completion struct {
	Model   string `json:"model"`
	Choices []struct {
		Message      delta   `json:"message"`
		Delta        delta   `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error *apiError `json:"error"`
}

// delta is what a piece of an answer adds, or the whole of one.
type delta struct {
	Content   answerText `json:"content"`
	Refusal   string     `json:"refusal"` // what the model says in place of an answer
	ToolCalls []toolCall `json:"tool_calls"`
}

// answerReader collects an answer while it arrives.
type answerReader struct {
	model     *Model
	tools     []llm.ToolSpec // of the request
	calls     []toolCall
	callIndex map[int]int // index in the stream → index in calls
	hasText   bool        // there was text
	finish    llm.Finish
}

// readWhole reads an answer that came as one JSON object.
func (a *answerReader) readWhole(ctx context.Context, body io.Reader, yield func(llm.Chunk, error) bool) {
	var c completion
	if err := json.NewDecoder(body).Decode(&c); err != nil {
		yield(llm.Chunk{}, a.model.readingError(ctx, err))
		return
	}
	if !a.handle(c, yield) {
		return
	}
	a.markWhole()
	a.emitEnd(yield)
}

// readStream reads server-sent events.
func (a *answerReader) readStream(ctx context.Context, body io.Reader, yield func(llm.Chunk, error) bool) {
	lines := bufio.NewScanner(body)
	// One event may hold a whole answer with large arguments.
	lines.Buffer(make([]byte, 0, 16<<10), 4<<20)
	var event []byte
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok && (len(event) == 0 || lines.Text() != "") {
			continue // comments keep the connection alive; event names mean nothing here
		}
		if data = strings.TrimSpace(data); data == "[DONE]" {
			a.markWhole()
			break
		}
		// An event may have several lines of data and ends with an empty line, which some endpoints leave out.
		event = append(event, data...)
		if ok && (len(event) > len(data) || !json.Valid(event)) {
			continue
		}
		var c completion
		err := json.Unmarshal(event, &c)
		event = event[:0]
		if err != nil {
			// The last line is cut where the body ended too early, which says more.
			err = cmp.Or(lines.Err(), err)
			yield(llm.Chunk{}, a.model.readingError(ctx, err))
			return
		}
		if !a.handle(c, yield) {
			return
		}
	}
	if err := lines.Err(); err != nil {
		yield(llm.Chunk{}, a.model.readingError(ctx, err))
		return
	}
	if len(event) > 0 {
		yield(llm.Chunk{}, a.model.readingError(ctx, io.ErrUnexpectedEOF))
		return
	}
	a.emitEnd(yield)
}

// markWhole notes that an answer is complete, even where the endpoint does not say why it ended.
func (a *answerReader) markWhole() {
	if a.finish == "" && (a.hasText || len(a.calls) > 0) {
		a.finish = llm.FinishStop
	}
}

// handle passes on the content of a piece, except calls, which are kept until they are complete. It returns false
// where reading has to end.
func (a *answerReader) handle(c completion, yield func(llm.Chunk, error) bool) bool {
	if c.Error != nil {
		// Errors inside a stream have no status of their own.
		status := 500
		if code, ok := c.Error.Code.(float64); ok {
			status = int(code)
		}
		yield(llm.Chunk{}, a.model.classifyError(status, *c.Error))
		return false
	}
	var out llm.Chunk
	if c.Model != "" {
		out.ServedBy = a.model.o.Name + "/" + c.Model
	}
	if u := c.Usage; u != nil {
		out.Usage = &llm.Usage{Input: u.Prompt, Cached: u.Details.Cached, Output: u.Completion}
	}
	// The piece with the usage has no choices.
	if len(c.Choices) > 0 {
		choice := c.Choices[0]
		// An answer in one piece has a message, a stream has deltas; some endpoints mix them.
		for _, d := range []delta{choice.Message, choice.Delta} {
			if said := string(d.Content) + d.Refusal; said != "" {
				a.hasText = true
				out.Parts = append(out.Parts, llm.Part{Text: said})
			}
			for i, call := range d.ToolCalls {
				a.addCallPiece(i, call)
			}
		}
		if choice.FinishReason != nil {
			a.finish = readFinish(*choice.FinishReason)
			// OpenRouter's reason where the provider behind it has failed.
			if *choice.FinishReason == "error" {
				err := errors.New("the endpoint ended the answer with an error")
				yield(llm.Chunk{}, &llm.Error{Kind: llm.Unavailable, Provider: a.model.o.Name, Err: err})
				return false
			}
		}
	}
	return yield(out, nil)
}

// addCallPiece adds a piece to the call of its index. Endpoints differ: the index may be missing, start at 1 or be 0
// for all, and name and id may come with every piece or be the same for all; a new id starts another call, and so does
// a name with arguments behind arguments that are complete.
func (a *answerReader) addCallPiece(position int, p toolCall) {
	index := position
	if p.Index != nil {
		index = *p.Index
	}
	if a.callIndex == nil {
		a.callIndex = map[int]int{}
	}
	at, known := a.callIndex[index]
	isNew := func(c toolCall) bool {
		return p.ID != "" && c.ID != "" && p.ID != c.ID ||
			p.Function.Name != "" && isObject(p.Function.Arguments) && isObject(c.Function.Arguments)
	}
	if !known || isNew(a.calls[at]) {
		a.callIndex[index] = len(a.calls)
		a.calls = append(a.calls, p)
		return
	}
	c := &a.calls[at]
	if c.ID == "" {
		c.ID = p.ID
	}
	// Some endpoints repeat the whole name with every piece.
	if p.Function.Name != c.Function.Name {
		c.Function.Name += p.Function.Name
	}
	c.Function.Arguments += p.Function.Arguments
	if len(p.Extra) > 0 {
		c.Extra = p.Extra
	}
}

// isObject reports whether arguments are a whole JSON object.
func isObject(a arguments) bool {
	s := strings.TrimSpace(string(a))
	return strings.HasPrefix(s, "{") && json.Valid([]byte(s))
}

// emitEnd sends the last chunk, with the calls, or the error of an answer that did not end.
func (a *answerReader) emitEnd(yield func(llm.Chunk, error) bool) {
	// A body can end cleanly in the middle of an answer. Its last call may then lack arguments and must not be run.
	if a.finish == "" {
		yield(llm.Chunk{}, &llm.Error{Kind: llm.Unavailable, Provider: a.model.o.Name, Err: errNoEnd})
		return
	}
	out := llm.Chunk{Finish: a.finish}
	for _, c := range a.calls {
		args := json.RawMessage(c.Function.Arguments)
		if strings.TrimSpace(string(c.Function.Arguments)) == "" {
			args = json.RawMessage(`{}`)
		}
		args = a.model.schemas.RestoreNames(a.tools, c.Function.Name, args)
		part := llm.Part{Call: &llm.Call{ID: c.ID, Name: c.Function.Name, Args: args}}
		// Only calls with additions need their raw form; the others can be rebuilt.
		if len(c.Extra) > 0 {
			c.Index = nil
			if raw, err := json.Marshal(c); err == nil {
				part.Raw = raw
			}
		}
		if !json.Valid(args) { // a stored call has to be valid JSON
			quoted, _ := json.Marshal(c.Function.Arguments)
			part.Call.Args = quoted
		}
		out.Parts = append(out.Parts, part)
	}
	yield(out, nil)
}

// readFinish converts a finish reason.
func readFinish(reason string) llm.Finish {
	switch reason {
	case "stop", "tool_calls", "function_call", "end_turn", "eos", "eos_token", "stop_sequence":
		return llm.FinishStop
	case "length":
		return llm.FinishLength
	case "content_filter":
		return llm.FinishBlocked
	case "":
		return ""
	}
	return llm.FinishOther
}
