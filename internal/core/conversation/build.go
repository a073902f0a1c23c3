package conversation

import (
	"encoding/json"
	"slices"
	"strings"

	"ravenbot/internal/core/llm"
)

// Interrupted is the result of a call whose own result was lost.
const Interrupted = "The call was interrupted; whether it took effect is unknown."

// Build returns the messages of a request: the summary and the turns, the last of which is being answered. Earlier
// turns without an answer keep only their question. Raw parts of another origin (see llm.Message) are dropped. The
// turns themselves are not changed.
func Build(s Summary, turns []Turn, origin string) []llm.Message {
	var out []llm.Message
	if s.Text != "" {
		summary := "[What was said here before, in short:\n" + s.Text + "\nEnd of that summary.]\n"
		out = append(out, llm.Message{Role: llm.User, Parts: []llm.Part{{Text: summary}}})
	}
	for i, t := range turns {
		current := i == len(turns)-1
		messages := t.Messages
		// Half an answer would make the model continue it or repeat its calls.
		if !current && t.State != Answered {
			messages = t.UserMessages()
		}
		for _, m := range pairResults(messages) {
			out = appendMessage(out, fitToModel(m, origin))
		}
	}
	return startWithUser(out)
}

// UserMessages returns the user messages that the turn begins with.
func (t Turn) UserMessages() []llm.Message {
	from := slices.IndexFunc(t.Messages, func(m llm.Message) bool { return m.Role == llm.User })
	if from < 0 {
		return nil
	}
	n := slices.IndexFunc(t.Messages[from:], func(m llm.Message) bool { return m.Role != llm.User })
	if n < 0 {
		return t.Messages[from:]
	}
	return t.Messages[from : from+n]
}

// pairResults puts the results of each message's calls into one tool message directly after
// it. A missing result becomes Interrupted, and a result without a call is dropped.
func pairResults(messages []llm.Message) []llm.Message {
	// Calls of one message may end in any order, and a crash may have left a result after later messages. So the whole
	// turn is searched for results.
	var results map[string]llm.Result
	calls := 0
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Result != nil {
				if results == nil { // most turns have none
					results = map[string]llm.Result{}
				}
				results[p.Result.ID] = *p.Result
			}
			if p.Call != nil {
				calls++
			}
		}
	}
	out := make([]llm.Message, 0, len(messages))
	var used map[string]bool
	if calls > 0 {
		used = make(map[string]bool, calls)
	}
	for _, m := range messages {
		if m.Role == llm.ToolRole {
			continue // built again below
		}
		m.Parts = allowedParts(m, used)
		out = append(out, m)
		// Empty messages would be dropped later anyway. Without them out does not grow to twice its size.
		if calls := m.Calls(); len(calls) > 0 {
			out = append(out, resultsFor(calls, results))
		}
	}
	return out
}

// allowedParts returns a new list of the parts that a user or assistant message may hold: no results, no empty parts,
// and no calls without a name or with an id that the turn used before. Calls of an invalid name get one that providers
// accept.
func allowedParts(m llm.Message, used map[string]bool) []llm.Part {
	parts := make([]llm.Part, 0, len(m.Parts))
	for _, p := range m.Parts {
		switch {
		case p.Result != nil:
			continue
		case p.Call != nil:
			if m.Role != llm.Assistant || p.Call.Name == "" || p.Call.ID == "" || used[p.Call.ID] {
				continue
			}
			used[p.Call.ID] = true
			// The raw part holds the same name, so it is dropped, too.
			if name := acceptedName(p.Call.Name); name != p.Call.Name {
				c := *p.Call
				c.Name, p.Call, p.Raw = name, &c, nil
			}
		case p.Text == "" && len(p.Raw) == 0 && p.Media == nil:
			continue
		}
		parts = append(parts, p)
	}
	return parts
}

// maxNameBytes is the maximum length of a tool's name that every provider accepts.
const maxNameBytes = 63

// acceptedName returns the name of a call in a form that every provider accepts. A model may invent a name such as
// "functions.look up", and OpenAI, Anthropic and Bedrock then refuse each later request of the conversation
// (pydantic/pydantic-ai#4585).
func acceptedName(name string) string {
	name = strings.Map(func(c rune) rune {
		if c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return '_'
	}, name)
	if c := name[0]; c == '-' || c >= '0' && c <= '9' { // Gemini requires a letter or _ first
		name = "_" + name
	}
	return name[:min(len(name), maxNameBytes)]
}

// resultsFor returns the message with one result for each call, in their order. Names come from the calls, because
// providers compare them and a stored result may have another one.
func resultsFor(calls []llm.Call, results map[string]llm.Result) llm.Message {
	m := llm.Message{Role: llm.ToolRole}
	for _, c := range calls {
		r, ok := results[c.ID]
		if !ok {
			r = llm.Result{Content: Interrupted, IsError: true}
		}
		r.ID, r.Name = c.ID, c.Name
		m.Parts = append(m.Parts, llm.Part{Result: &r})
	}
	return m
}

// fitToModel adapts a message to the model of the request: raw parts and thoughts of other models are dropped, and
// malformed arguments become an empty object. It modifies the list of parts that pairResults has made.
func fitToModel(m llm.Message, origin string) llm.Message {
	foreign := m.Origin != origin
	parts := m.Parts[:0]
	for _, p := range m.Parts {
		// Raw parts hold signatures that only their own model accepts.
		if foreign {
			p.Raw = nil
			if p.Thought || p.Text == "" && p.Call == nil && p.Result == nil && p.Media == nil {
				continue
			}
		}
		// Providers refuse the whole request if the arguments of a call are not a JSON object. The raw part holds the
		// same arguments, so it is dropped, too.
		if p.Call != nil && !isObject(p.Call.Args) {
			c := *p.Call
			c.Args, p.Call, p.Raw = json.RawMessage(`{}`), &c, nil
		}
		parts = append(parts, p)
	}
	m.Parts = parts
	return m
}

// isObject reports whether arguments are a JSON object, as providers require.
func isObject(raw json.RawMessage) bool {
	return json.Valid(raw) && strings.HasPrefix(strings.TrimSpace(string(raw)), "{")
}

// appendMessage appends m, and merges it with the last message if both have the same role. A message with calls is
// never merged with the next, because its results lie between.
func appendMessage(out []llm.Message, m llm.Message) []llm.Message {
	if len(m.Parts) == 0 {
		return out
	}
	if n := len(out); n > 0 && out[n-1].Role == m.Role && m.Role != llm.ToolRole {
		parts := slices.Clone(out[n-1].Parts)
		// Some providers join texts, so a separator keeps the words of two people apart.
		if last := parts[len(parts)-1].Text; m.Role == llm.User && last != "" && !strings.HasSuffix(last, "\n") {
			parts = append(parts, llm.Part{Text: "\n"})
		}
		out[n-1].Parts = append(parts, m.Parts...)
		return out
	}
	return append(out, m)
}

// startWithUser drops the messages before the first user message, because every provider requires a request to begin
// with one.
func startWithUser(messages []llm.Message) []llm.Message {
	for i, m := range messages {
		if m.Role == llm.User {
			return messages[i:]
		}
	}
	return nil
}
