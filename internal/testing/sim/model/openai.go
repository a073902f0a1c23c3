package simmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/text"
)

// The wire form of chat-completion requests, as far as it is looked into.
type (
	oCall struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
		Extra struct {
			Google struct {
				Signature string `json:"thought_signature"`
			} `json:"google"`
		} `json:"extra_content"`
	}
	oMessage struct {
		Role    string                     `json:"role"`
		Content json.RawMessage            `json:"content"`
		Calls   []oCall                    `json:"tool_calls"`
		CallID  string                     `json:"tool_call_id"`
		fields  map[string]json.RawMessage // all of them
	}
	oRequest struct {
		Model    string     `json:"model"`
		Messages []oMessage `json:"messages"`
		Stream   bool       `json:"stream"`
		Options  struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
		Tools []struct {
			Type     string `json:"type"`
			Function struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Parameters  json.RawMessage `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
		Choice json.RawMessage            `json:"tool_choice"`
		Store  *bool                      `json:"store"`
		fields map[string]json.RawMessage // all of them
	}
)

// readOpenAI reads a request, with the fields that it does not know.
func readOpenAI(raw []byte) (o oRequest, err error) {
	var all struct {
		Messages []map[string]json.RawMessage `json:"messages"`
	}
	if err := errors.Join(json.Unmarshal(raw, &o), json.Unmarshal(raw, &o.fields), json.Unmarshal(raw, &all)); err != nil {
		return o, err
	}
	for i := range o.Messages {
		o.Messages[i].fields = all.Messages[i]
	}
	return o, nil
}

// openAIError answers with an error as OpenAI words it.
func openAIError(w http.ResponseWriter, status int, message, code string) {
	kind := "invalid_request_error"
	switch {
	case status == 429:
		kind = "rate_limit_exceeded"
	case status >= 500:
		kind = "server_error"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(
		w,
		mustJSON(map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": code}}),
	)
}

// bearer checks the key of a request, and answers it where the key is wrong.
func (s *Server) bearer(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Authorization") == "Bearer "+s.opts.APIKey {
		return true
	}
	openAIError(w, http.StatusUnauthorized, "Incorrect API key provided.", "invalid_api_key")
	return false
}

// listOpenAI lists the models.
func (s *Server) listOpenAI(w http.ResponseWriter, r *http.Request) {
	if !s.bearer(w, r) {
		return
	}
	list := []any{}
	for _, name := range s.opts.Models {
		list = append(list, map[string]any{"id": name, "object": "model", "created": 1700000000, "owned_by": "sim"})
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, mustJSON(map[string]any{"object": "list", "data": list}))
}

// serveOpenAI serves the chat completions of an endpoint.
func (s *Server) serveOpenAI(w http.ResponseWriter, r *http.Request, e *endpoint) {
	if !e.isOpen && !s.bearer(w, r) {
		return
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	o, err := readOpenAI(raw)
	if err != nil {
		s.reject(e.name, err.Error(), raw)
		openAIError(w, 400, "We could not parse the JSON body of your request: "+err.Error(), "")
		return
	}
	if !s.hasModel(o.Model) {
		openAIError(
			w,
			404,
			fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", o.Model),
			"model_not_found",
		)
		return
	}
	// What only some models refuse is no fault of the client.
	if refusal := s.refuseOptional(e, o); refusal.said != "" {
		e.refuse(w, refusal)
		return
	}
	if n, problem := s.refuseOpenAITool(o); problem != "" {
		s.reject(e.name, problem, raw)
		invalidParameters(w, n, problem)
		return
	}
	if refusal := s.checkOpenAI(o, e); refusal.said != "" {
		s.reject(e.name, refusal.said, raw)
		e.refuse(w, refusal)
		return
	}
	reply := s.reply(o.newRequest(e.name, raw))
	if !s.prepareReply(w, r, reply) {
		return
	}
	if reply.Status != 0 {
		failOpenAI(w, reply)
		return
	}
	s.answerOpenAI(s.pipe(w, r, reply), w, o, reply, e)
}

// answerOpenAI answers as a stream or in one piece.
func (s *Server) answerOpenAI(out *pipe, w http.ResponseWriter, o oRequest, reply Reply, e *endpoint) {
	isStream := o.Stream && !reply.Whole
	if e.breakCall != nil && hasBrokenCall(reply) && e.breakCall(w, out, &reply, isStream) {
		return
	}
	if isStream {
		w.Header().Set("Content-Type", "text/event-stream")
		s.streamOpenAI(out, o, reply, e)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	choice := map[string]any{"index": 0, "message": s.openAIMessage(e, o.Model, reply), "finish_reason": openAIFinish(reply)}
	body := map[string]any{
		"id":      "chatcmpl-sim",
		"object":  "chat.completion",
		"created": time.Now().Unix(),
		"model":   reply.Served,
		"choices": []any{choice},
		"usage":   openAIUsage(reply.Usage),
	}
	if e.decorate != nil {
		e.decorate(body, choice)
	}
	out.put(mustJSON(body))
}

// failOpenAI answers with the error that the script asks for.
func failOpenAI(w http.ResponseWriter, reply Reply) {
	if reply.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(reply.RetryAfter.Round(time.Second).Seconds())))
	}
	if reply.Body != "" {
		w.WriteHeader(reply.Status)
		_, _ = io.WriteString(w, reply.Body)
		return
	}
	message := reply.Message
	if message == "" {
		message = "simulated " + http.StatusText(reply.Status)
	}
	openAIError(w, reply.Status, message, "")
}

// openAIUsage returns the tokens of an answer. Thoughts count as completion; cached tokens are part of the prompt here.
func openAIUsage(u *Usage) map[string]any {
	return map[string]any{
		"prompt_tokens":     u.Prompt,
		"completion_tokens": u.Output + u.Thoughts,
		"total_tokens":      u.Prompt + u.Output + u.Thoughts,
		"prompt_tokens_details": map[string]any{
			"cached_tokens": u.Cached,
		},
		"completion_tokens_details": map[string]any{"reasoning_tokens": u.Thoughts},
	}
}

// openAIFinish returns the reason for the end of an answer in OpenAI's words.
func openAIFinish(reply Reply) string {
	switch {
	case reply.Block != "", reply.Finish == "SAFETY", reply.Finish == "PROHIBITED_CONTENT":
		return "content_filter"
	case reply.Finish == "MAX_TOKENS":
		return "length"
	case reply.Finish != "" && reply.Finish != "STOP":
		return strings.ToLower(reply.Finish)
	case len(reply.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

// openAICalls returns the calls of an answer. Their arguments are a string of JSON.
func (s *Server) openAICalls(e *endpoint, model string, calls []Call) []map[string]any {
	var list []map[string]any
	for i, c := range calls {
		call := map[string]any{
			"id":       c.ID,
			"type":     "function",
			"function": map[string]any{"name": c.Name, "arguments": string(c.Args)},
		}
		if i == 0 && e.name == GoogleOpenAI {
			signature := s.sign(e.name+"/"+model, c.Name)
			call["extra_content"] = map[string]any{"google": map[string]any{"thought_signature": signature}}
		}
		list = append(list, call)
	}
	return list
}

// streamOpenAI writes an answer as chunks: thoughts, texts and calls in pieces, the finish reason, the usage where it
// was asked for, and [DONE].
func (s *Server) streamOpenAI(out *pipe, o oRequest, reply Reply, e *endpoint) {
	chunk := func(choices []any, usage any) {
		body := map[string]any{
			"id":      "chatcmpl-sim",
			"object":  "chat.completion.chunk",
			"created": time.Now().Unix(),
			"model":   reply.Served,
			"choices": choices,
		}
		if usage != nil {
			body["usage"] = usage
		}
		if len(choices) > 0 && e.decorate != nil {
			e.decorate(body, choices[0].(map[string]any))
		}
		out.put("data: " + mustJSON(body) + "\n\n")
	}
	delta := func(d map[string]any, finish, usage any) {
		chunk([]any{map[string]any{"index": 0, "delta": d, "finish_reason": finish}}, usage)
	}
	for _, line := range e.before {
		out.put(line + "\n\n")
	}
	delta(map[string]any{"role": "assistant", "content": ""}, nil, nil)
	e.emit(s.openAIMessage(e, o.Model, reply), reply, func(d map[string]any) { delta(d, nil, nil) })
	var early, late any
	if e.usageWithFinish {
		early = openAIUsage(reply.Usage)
	} else if o.Options.Usage {
		late = openAIUsage(reply.Usage)
	}
	delta(map[string]any{}, openAIFinish(reply), early)
	if late != nil {
		chunk([]any{}, late)
	}
	out.put("data: [DONE]\n\n")
}

var openAIName = text.Pattern(`^[a-zA-Z0-9_-]+$`) // of 64 at most

// checkOpenAI returns how the endpoint refuses a request for the first rule that it breaks.
func (s *Server) checkOpenAI(o oRequest, e *endpoint) refusal {
	if problem := s.checkRules(o); problem != "" {
		return refusal{said: problem}
	}
	for i, m := range o.Messages {
		if refusal := e.checkMessage(i, m); refusal.said != "" {
			return refusal
		}
	}
	if e.check == nil {
		return refusal{}
	}
	return e.check(s, e, o)
}

// checkRules returns the first rule that a request breaks of those that hold at every endpoint.
func (s *Server) checkRules(o oRequest) string {
	seen := map[string]bool{}
	for i, t := range o.Tools {
		switch name := t.Function.Name; {
		case t.Type != "function":
			return fmt.Sprintf("Invalid value for tools[%d].type: %q", i, t.Type)
		case !openAIName().MatchString(name) || len(name) > 64:
			return fmt.Sprintf(
				"Invalid 'tools[%d].function.name': string does not match pattern. Expected a string that matches the pattern "+
					"'^[a-zA-Z0-9_-]+$', at most 64 long.",
				i,
			)
		case seen[name]:
			return fmt.Sprintf("Duplicate tool name %q", name)
		}
		seen[t.Function.Name] = true
	}
	if len(o.Messages) == 0 {
		return "Invalid 'messages': empty array. Expected an array with minimum length 1."
	}
	return checkMessages(o.Messages)
}

// checkMessages wants every call answered at once, and nothing else answered.
func checkMessages(list []oMessage) string {
	open := map[string]bool{}
	for i, m := range list {
		if m.Role != "tool" && len(open) > 0 {
			break
		}
		switch m.Role {
		case "system", "developer", "user":
			if len(m.Content) == 0 || string(m.Content) == "null" {
				return fmt.Sprintf("Invalid value for 'content' of messages[%d]: expected a string or a list, got null.", i)
			}
		case "assistant":
			if len(m.Calls) == 0 && (len(m.Content) == 0 || string(m.Content) == "null") {
				return fmt.Sprintf("messages[%d]: an assistant message needs content or tool_calls", i)
			}
			if problem := openCalls(m.Calls, open, i); problem != "" {
				return problem
			}
		case "tool":
			if !open[m.CallID] {
				return fmt.Sprintf(
					"messages[%d] with role 'tool' must be a response to a preceding message with 'tool_calls': %q",
					i,
					m.CallID,
				)
			}
			delete(open, m.CallID)
		default:
			return fmt.Sprintf("Invalid value for messages[%d].role: %q", i, m.Role)
		}
	}
	if len(open) > 0 {
		return "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
	}
	return ""
}

// openCalls adds the calls of the message with the number i to open, the ids that wait for a result. It returns what is
// wrong with them; empty: nothing.
func openCalls(calls []oCall, open map[string]bool, i int) string {
	for _, c := range calls {
		var text string
		switch {
		case c.ID == "" || open[c.ID]:
			return fmt.Sprintf("messages[%d].tool_calls: ids must be given once each", i)
		case c.Type != "function" || !openAIName().MatchString(c.Function.Name) || len(c.Function.Name) > 64:
			return fmt.Sprintf("messages[%d].tool_calls: not a function call with a valid name", i)
		case json.Unmarshal(c.Function.Arguments, &text) != nil || !json.Valid([]byte(text)):
			return fmt.Sprintf("messages[%d].tool_calls: arguments must be a string of JSON", i)
		}
		open[c.ID] = true
	}
	return ""
}

// isObjectText reports whether JSON is a string that holds an object.
func isObjectText(raw json.RawMessage) bool {
	var text string
	return json.Unmarshal(raw, &text) == nil && isObject(json.RawMessage(text))
}

// currentTurn returns where the messages after the user's last one begin.
func currentTurn(list []oMessage) (start int) {
	for i, m := range list {
		if m.Role == "user" {
			start = i + 1
		}
	}
	return start
}

// checkGoogle wants the signature back on the current turn's calls.
func checkGoogle(s *Server, e *endpoint, o oRequest) refusal {
	for _, m := range o.Messages[currentTurn(o.Messages):] {
		for j, c := range m.Calls {
			signature := c.Extra.Google.Signature
			if signature == "" && j == 0 {
				return refusal{said: "Function call is missing a thought_signature in functionCall parts. This is required for " +
					"tools to work correctly."}
			}
			if signature != "" && !s.isGenuine(signature, e.name+"/"+o.Model, c.Function.Name) {
				return refusal{said: "Corrupted thought signature."}
			}
		}
	}
	return refusal{}
}

// newRequest returns a request as the script sees it.
func (o oRequest) newRequest(api string, raw []byte) Request {
	req := Request{API: api, Model: o.Model, Stream: o.Stream, Store: o.Store, Raw: raw}
	var choice string
	if json.Unmarshal(o.Choice, &choice) == nil {
		req.ToolMode = map[string]string{"none": "NONE", "auto": "AUTO", "required": "ANY"}[choice]
	} else if isObject(o.Choice) {
		req.ToolMode = "ANY"
	}
	for _, t := range o.Tools {
		req.Tools = append(
			req.Tools,
			Tool{Name: t.Function.Name, Description: t.Function.Description, Schema: t.Function.Parameters},
		)
	}
	for _, m := range o.Messages {
		switch text := contentText(m.Content); m.Role {
		case "system", "developer":
			req.System += text
		case "tool":
			// Results of one step are one message, as with Gemini.
			if n := len(req.Messages); n == 0 || req.Messages[n-1].Role != RoleTool {
				req.Messages = append(req.Messages, Message{Role: RoleTool})
			}
			last := &req.Messages[len(req.Messages)-1]
			last.Results = append(last.Results, Result{ID: m.CallID, Content: text})
		case "assistant":
			msg := Message{Role: RoleModel, Text: text}
			for _, c := range m.Calls {
				var args string
				_ = json.Unmarshal(c.Function.Arguments, &args) // checked before
				msg.Calls = append(msg.Calls, Call{ID: c.ID, Name: c.Function.Name, Args: json.RawMessage(args)})
			}
			req.Messages = append(req.Messages, msg)
		default:
			req.Messages = append(req.Messages, Message{Role: RoleUser, Text: text})
		}
	}
	return req
}

// contentText returns the text of a message, which is a string, a list of parts, or null beside calls.
func contentText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &parts) // null has no text
	for _, p := range parts {
		text += p.Text
	}
	return text
}
