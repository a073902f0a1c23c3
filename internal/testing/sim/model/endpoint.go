package simmodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// endpoint is a provider, or a server of models, that speaks OpenAI's chat-completions API: where it is, and how it
// differs from OpenAI. The zero value of a field means what OpenAI does.
type endpoint struct {
	name, path string
	isOpen     bool   // needs no key
	callID     string // the form of the ids of calls, with {n} for a number, {9} for nine digits and {name}

	// think adds the thoughts of an answer to its message. Without it they stay hidden. What it adds is signed for signer.
	think           func(s *Server, signer string, reply Reply, m map[string]any)
	wholeCalls      bool     // a call of a stream comes in one piece
	emptyNames      bool     // later pieces of a call have an empty id and no name
	usageWithFinish bool     // the last piece of a stream has the usage, whether or not it was asked for
	before          []string // lines before a stream
	decorate        func(body, choice map[string]any)
	// breakCall plays that the model wrote a call that the endpoint cannot read. It returns true if that was the answer.
	breakCall func(w http.ResponseWriter, out *pipe, reply *Reply, isStream bool) bool

	check   func(s *Server, e *endpoint, o oRequest) refusal
	fields  map[string]string // the fields of a message by its role, in words; nil: others are ignored
	unknown func(index int, role, field string) refusal
	objects string              // refuses arguments of a call that are no object; %s is its id
	noTools string              // refuses tools for a model without them
	fault   func(r refusal) any // the body of a refusal
	// optional is the field that models of the endpoint are known to refuse, and the words.
	optional refusal
}

// refusal is how a request is refused.
type refusal struct {
	said   string // empty: it is not
	field  string // at fault, perhaps with its path
	status int    // 0: 400
}

// endpoint returns an endpoint by its name.
func (s *Server) endpoint(name string) *endpoint {
	i := slices.IndexFunc(s.endpoints, func(e *endpoint) bool { return e.name == name })
	return s.endpoints[i]
}

// newCallID returns an id in the form of an API. The caller holds state.
func (s *Server) newCallID(api, name string) string {
	form := "call-{n}"
	for _, e := range s.endpoints {
		if e.name == api {
			form = cmp.Or(e.callID, form)
		}
	}
	n := fmt.Sprint(s.serial)
	return strings.NewReplacer("{n}", n, "{9}", fmt.Sprintf("%09s", n), "{name}", name).Replace(form)
}

// refuse answers a request that the endpoint refuses.
func (e *endpoint) refuse(w http.ResponseWriter, r refusal) {
	body := any(map[string]any{"error": map[string]any{"message": r.said, "type": "invalid_request_error",
		"param": r.field, "code": nil}})
	if e.fault != nil {
		body = e.fault(r)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(cmp.Or(r.status, http.StatusBadRequest))
	_, _ = io.WriteString(w, mustJSON(body)) // the caller may have hung up
}

// refuseOptional returns how the endpoint refuses what only some of its models do.
func (s *Server) refuseOptional(e *endpoint, o oRequest) refusal {
	if s.opts.RefuseOptional && o.fields[e.optional.field] != nil {
		return e.optional
	}
	if s.opts.NoTools && len(o.Tools) > 0 {
		return refusal{said: e.noTools}
	}
	return refusal{}
}

// checkMessage returns how the endpoint refuses the message with the number i for itself.
func (e *endpoint) checkMessage(i int, m oMessage) refusal {
	if e.fields != nil {
		for _, name := range slices.Sorted(maps.Keys(m.fields)) {
			if !slices.Contains(strings.Fields("role content "+e.fields[m.Role]), name) {
				return e.unknown(i, m.Role, name)
			}
		}
	}
	for _, c := range m.Calls {
		if e.objects != "" && !isObjectText(c.Function.Arguments) {
			return refusal{said: strings.ReplaceAll(e.objects, "%s", c.ID)}
		}
	}
	return refusal{}
}

// openAIMessage returns the message of an answer, and remembers the thoughts that come with its calls.
func (s *Server) openAIMessage(e *endpoint, model string, reply Reply) map[string]any {
	m := map[string]any{"role": "assistant", "content": strings.Join(reply.Text, "")}
	if len(reply.Calls) > 0 {
		m["tool_calls"] = s.openAICalls(e, model, reply.Calls)
		if len(reply.Text) == 0 {
			m["content"] = nil
		}
	}
	if e.think == nil {
		return m
	}
	e.think(s, e.name+"/"+model, reply, m)
	if reply.Thoughts == "" && m["reasoning_details"] == nil {
		return m
	}
	var kept map[string]any
	if err := json.Unmarshal([]byte(mustJSON(m)), &kept); err != nil {
		panic(err) // it was just written
	}
	s.state.Lock()
	defer s.state.Unlock()
	for _, c := range reply.Calls {
		s.thoughts[e.name+" "+c.ID] = kept
	}
	return m
}

// findLost returns the index of the first message of calls, from start on, that lacks a field: it does not have it as it
// was sent, or, for calls of other models, accepts does not hold for it. It is -1 if there is none.
func (s *Server) findLost(e *endpoint, list []oMessage, start int, field string, accepts func(any) bool) int {
	s.state.Lock()
	defer s.state.Unlock()
	for i, m := range list {
		if i < start || len(m.Calls) == 0 {
			continue
		}
		var sent any
		_ = json.Unmarshal(m.fields[field], &sent) // a missing field is nil
		kept, isOwn := s.thoughts[e.name+" "+m.Calls[0].ID]
		if isOwn && !holds(sent, kept[field]) || !isOwn && !accepts(sent) {
			return i
		}
	}
	return -1
}

// holds reports whether a field that was sent is as it was, or begins so: a text may have been written anew around
// thoughts in its tags.
func holds(sent, kept any) bool {
	text, isText := kept.(string)
	thought, _, isTagged := strings.Cut(text, "</think>")
	if isText && isTagged {
		got, _ := sent.(string)
		return strings.HasPrefix(got, thought+"</think>")
	}
	return reflect.DeepEqual(sent, kept)
}

// emit sends the pieces of a message in the order of a stream: thoughts, text and calls.
func (e *endpoint) emit(m map[string]any, reply Reply, send func(map[string]any)) {
	for _, field := range slices.Sorted(maps.Keys(m)) {
		if field != "role" && field != "content" && field != "tool_calls" {
			for _, piece := range cut(m[field]) {
				send(map[string]any{field: piece})
			}
		}
	}
	text := strings.Join(reply.Text, "")
	switch content := m["content"].(type) {
	case string: // perhaps with thoughts before the text
		for _, piece := range cut(strings.TrimSuffix(content, text)) {
			send(map[string]any{"content": piece})
		}
	case []any:
		for _, piece := range cut(content[0].(map[string]any)["thinking"].([]any)[0].(map[string]any)["text"]) {
			send(map[string]any{"content": []any{newThinking(piece.(string))}})
		}
	}
	for text := range reply.texts() {
		send(map[string]any{"content": text})
	}
	calls, _ := m["tool_calls"].([]map[string]any)
	for i, call := range calls {
		e.emitCall(i, call, send)
	}
}

// emitCall sends a call in one piece, or its arguments in two, the second with its index alone.
func (e *endpoint) emitCall(i int, call map[string]any, send func(map[string]any)) {
	delta := func(call map[string]any) { send(map[string]any{"tool_calls": []any{call}}) }
	function := call["function"].(map[string]any)
	args := function["arguments"].(string)
	first := maps.Clone(call)
	first["index"] = i
	if e.wholeCalls {
		delta(first)
		return
	}
	first["function"] = map[string]any{"name": function["name"], "arguments": args[:len(args)/2]}
	delta(first)
	next := map[string]any{"index": i, "function": map[string]any{"arguments": args[len(args)/2:]}}
	if e.emptyNames {
		next["id"], next["type"] = "", "function"
		next["function"].(map[string]any)["name"] = nil
	}
	delta(next)
}

// cut returns a text in two pieces, and a list in pieces of one element, whose text comes in two and its signature last.
func cut(v any) (pieces []any) {
	switch v := v.(type) {
	case string:
		letters := []rune(v)
		for _, piece := range []string{string(letters[:len(letters)/2]), string(letters[len(letters)/2:])} {
			if piece != "" {
				pieces = append(pieces, piece)
			}
		}
	case []any:
		for _, one := range v {
			detail := one.(map[string]any)
			part := func(field string, value any) {
				p := maps.Clone(detail)
				delete(p, "text")
				delete(p, "signature")
				p[field] = value
				pieces = append(pieces, []any{p})
			}
			if detail["text"] == nil {
				pieces = append(pieces, []any{detail})
				continue
			}
			for _, text := range cut(detail["text"]) {
				part("text", text)
			}
			if detail["signature"] != nil {
				part("signature", detail["signature"])
			}
		}
	}
	return pieces
}

// hasBrokenCall reports whether the script writes a call whose arguments are no JSON object.
func hasBrokenCall(reply Reply) bool {
	return slices.ContainsFunc(reply.Calls, func(c Call) bool { return !isObject(c.Args) })
}
