package agent

import (
	"slices"
	"strings"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/llm"
)

// userParts returns the parts of a user's message. The name of the speaker is a part of its
// own, so that userText finds the words unchanged.
func userParts(m chat.Message) []llm.Part {
	words := llm.Part{Text: m.Text}
	if m.Author.Name == "" || m.Author.Operator {
		return []llm.Part{words}
	}
	return []llm.Part{{Text: m.Author.Name + " says:\n"}, words}
}

// editedNote tells the model that the following calls were made before an edit.
const editedNote = "\n(This was edited after the calls below had been made.)"

// reopen prepares an existing turn to be answered again: with the current text of its
// messages, and without its answer, if it has one. Calls and their results stay, so that
// nothing is done twice. It reports false where there is nothing new to answer.
func reopen(t *conversation.Turn, q chat.Asked) bool {
	words := t.UserMessages()
	if len(words) == 0 {
		return false
	}
	steps := callsAndResults(t.Messages[min(len(words), len(t.Messages)):])
	var now []llm.Message
	changed := false
	if q.Last().Command == chat.Pressed { // the retry button: the same question again
		now = words
	} else if q.Turn == "" { // an edit of one message of a turn that has ended
		m := q.Last()
		i := slices.Index(t.Subjects(), m.Subject())
		if i < 0 || i >= len(words) || userText(words[i]) == m.Text {
			return false
		}
		now, changed = slices.Clone(words), true
		now[i] = llm.Message{Role: llm.User, Parts: append(userParts(m), fileParts(words[i])...)}
	} else { // a turn that a crash or a revision interrupted: messages may have come or gone
		before := t.Subjects()
		t.Of = nil
		for i, m := range q.Messages {
			t.Of = append(t.Of, m.Subject())
			parts := userParts(m)
			if was := slices.Index(before, m.Subject()); was >= 0 && was < len(words) {
				parts = append(parts, fileParts(words[was])...)
			}
			now = append(now, llm.Message{Role: llm.User, Parts: parts})
			changed = changed || i >= len(words) || userText(words[i]) != m.Text
		}
		changed = changed || len(now) != len(words)
	}
	if changed && len(steps) > 0 {
		last := &now[len(now)-1]
		last.Parts = append(slices.Clone(last.Parts), llm.Part{Text: editedNote})
	}
	if !changed {
		now = words
	}
	t.Messages = append(slices.Clone(now), steps...)
	t.State, t.Error = conversation.Open, ""
	return true
}

// attachedMark begins a part about a file of the message.
const attachedMark = "\n[attached"

// fileParts returns the parts about files. They are kept: an edit does not change files.
func fileParts(m llm.Message) []llm.Part {
	return slices.DeleteFunc(slices.Clone(m.Parts), func(p llm.Part) bool {
		return !strings.HasPrefix(p.Text, attachedMark)
	})
}

// userText returns the words of a message that userParts wrote, without the name of the
// speaker and what was added about files and edits.
func userText(m llm.Message) string {
	text := ""
	for n, p := range m.Parts {
		if p.Text != editedNote && (n == 0 || !strings.HasPrefix(p.Text, attachedMark)) {
			text = p.Text
		}
	}
	return text
}

// callsAndResults returns the messages of a turn up to its last call or result, without the
// answer behind them.
func callsAndResults(messages []llm.Message) []llm.Message {
	for n := len(messages); n > 0; n-- {
		if m := messages[n-1]; m.Role == llm.ToolRole || len(m.Calls()) > 0 {
			return messages[:n]
		}
	}
	return nil
}

// openCalls returns the calls at the end of a turn that have no result.
func openCalls(messages []llm.Message) []llm.Call {
	done := map[string]bool{}
	for _, m := range slices.Backward(messages) {
		switch {
		case m.Role == llm.ToolRole:
			for _, p := range m.Parts {
				if p.Result != nil {
					done[p.Result.ID] = true
				}
			}
		case m.Role == llm.Assistant:
			return slices.DeleteFunc(m.Calls(), func(c llm.Call) bool { return done[c.ID] })
		default:
			return nil
		}
	}
	return nil
}

// toolRuns returns the calls of a turn that have a result, as people see them.
func toolRuns(t conversation.Turn) []chat.ToolRun {
	var runs []chat.ToolRun
	for _, m := range t.Messages {
		for _, c := range m.Calls() {
			runs = append(runs, chat.ToolRun{ID: c.ID, Name: c.Name, State: chat.Running, Args: c.Args})
		}
		for _, p := range m.Parts {
			i := slices.IndexFunc(runs, func(r chat.ToolRun) bool { return p.Result != nil && r.ID == p.Result.ID })
			if i < 0 {
				continue
			}
			runs[i].State, runs[i].Result = chat.Done, conversation.Cut(p.Result.Content, maxShownResult)
			if p.Result.IsError {
				runs[i].State = chat.Failed
			}
		}
	}
	return slices.DeleteFunc(runs, func(r chat.ToolRun) bool { return r.State == chat.Running })
}
