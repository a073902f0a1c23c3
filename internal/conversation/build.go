package conversation

import (
	"encoding/json"
	"slices"
	"strings"

	"ravenbot/internal/llm"
)

// Interrupted is the result given to a call whose own was lost.
const Interrupted = "The call was interrupted; whether it took effect is unknown."

// Build makes the messages of a request out of turns, the last of which is the
// one being answered, behind what stands for those before them. Earlier turns that
// never got an answer keep their question only. For origin, see llm.Message: raw
// parts of another origin are dropped. The turns themselves are not changed.
func Build(s Summary, turns []Turn, origin string, w Window) []llm.Message {
	var out []llm.Message
	if s.Text != "" {
		out = append(out, llm.Message{Role: llm.User, Parts: []llm.Part{{Text: "[What was said here before, in short:\n" + s.Text + "\nEnd of that summary.]\n"}}})
	}
	for i, t := range turns {
		current := i == len(turns)-1
		messages := t.Messages
		if !current && t.State != Answered {
			messages = t.UserMessages()
		}
		for _, m := range pairResults(messages) {
			m = fitToModel(m, origin, w, current)
			out = appendMessage(out, m)
		}
	}
	return startWithUser(out)
}

// UserMessages are the user messages that the turn begins with.
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

// pairResults pairs calls with results: results are looked for anywhere in the turn,
// put in one tool message directly behind the calls, and made up where missing.
func pairResults(messages []llm.Message) []llm.Message {
	results := map[string]llm.Result{}
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Result != nil {
				results[p.Result.ID] = *p.Result
			}
		}
	}
	var out []llm.Message
	used := map[string]bool{}
	for _, m := range messages {
		if m.Role == llm.ToolRole {
			continue
		}
		m.Parts = allowedParts(m, used)
		if len(m.Parts) == 0 {
			continue
		}
		out = append(out, m)
		if calls := m.Calls(); len(calls) > 0 {
			out = append(out, resultsFor(calls, results))
		}
	}
	return out
}

// allowedParts drops what a user or assistant message may not hold: results, empty
// parts, and calls without a name or with an id already used in the turn.
func allowedParts(m llm.Message, used map[string]bool) []llm.Part {
	var parts []llm.Part
	for _, p := range m.Parts {
		switch {
		case p.Result != nil:
			continue
		case p.Call != nil:
			if m.Role != llm.Assistant || p.Call.Name == "" || p.Call.ID == "" || used[p.Call.ID] {
				continue
			}
			used[p.Call.ID] = true
		case p.Text == "" && len(p.Raw) == 0 && p.Media == nil:
			continue
		}
		parts = append(parts, p)
	}
	return parts
}

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

// fitToModel fits a message to the model it goes to: foreign raw bytes and thoughts
// are dropped, malformed arguments become an empty object, old results are cut.
func fitToModel(m llm.Message, origin string, w Window, current bool) llm.Message {
	foreign := m.Origin != origin
	parts := make([]llm.Part, 0, len(m.Parts))
	for _, p := range m.Parts {
		if foreign {
			p.Raw = nil
			if p.Thought || p.Text == "" && p.Call == nil && p.Result == nil && p.Media == nil {
				continue
			}
		}
		if p.Call != nil && !isObject(p.Call.Args) {
			c := *p.Call
			c.Args, p.Call, p.Raw = json.RawMessage(`{}`), &c, nil
		}
		if p.Result != nil && !current && w.MaxResultBytes > 0 && len(p.Result.Content) > w.MaxResultBytes {
			r := *p.Result
			r.Content = Cut(r.Content, w.MaxResultBytes)
			p.Result = &r
		}
		parts = append(parts, p)
	}
	m.Parts = parts
	return m
}

func isObject(raw json.RawMessage) bool {
	return json.Valid(raw) && strings.HasPrefix(strings.TrimSpace(string(raw)), "{")
}

// appendMessage appends m, merging neighbours of one role. A message with calls never has
// a neighbour of its role: its results follow it.
func appendMessage(out []llm.Message, m llm.Message) []llm.Message {
	if len(m.Parts) == 0 {
		return out
	}
	if n := len(out); n > 0 && out[n-1].Role == m.Role && m.Role != llm.ToolRole {
		out[n-1].Parts = append(slices.Clone(out[n-1].Parts), m.Parts...)
		return out
	}
	return append(out, m)
}

func startWithUser(messages []llm.Message) []llm.Message {
	for i, m := range messages {
		if m.Role == llm.User {
			return messages[i:]
		}
	}
	return nil
}
