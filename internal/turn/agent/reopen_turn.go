package agent

import (
	"context"
	"errors"
	"slices"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/prompt"
)

// editedNote tells the model that the following calls were made before an edit.
const editedNote = "\n(This was edited after the calls below had been made.)"

// reopen prepares an existing turn for a new answer: it updates the text of its messages and removes its answer. Calls
// and their results stay, so that nothing is done twice. It returns false if there is nothing new to answer. It
// changes only t; the caller stores it.
func (r *run) reopen(t *conversation.Turn) bool {
	q := r.asked
	words := t.UserMessages()
	if len(words) == 0 {
		return r.reword(t)
	}
	said := t.Messages[min(len(words), len(t.Messages)):]
	steps := callsAndResults(said)
	if q.Turn == "" {
		r.usedBefore = t.Usage.Input + t.Usage.Output
	}
	var now []llm.Message
	changed := false
	switch m := q.Last(); {
	case m.Command == chat.Pressed: // the retry button: the same question again
		if t.State == conversation.Answered {
			r.former = slices.Clone(said[len(steps):])
		}
	case q.Turn == "": // an edit of one message of a turn that has ended
		i := slices.Index(t.Subjects(), m.Subject())
		if i < 0 || i >= len(words) || r.hasWords(words[i], len(q.Messages)-1) {
			return false
		}
		// The turn may answer several messages; only the edited one changes.
		now, changed = slices.Clone(words), true
		now[i] = r.rewrite(words[i], len(q.Messages)-1)
	default: // a turn that a crash or a revision interrupted: messages may have come or gone
		before := t.Subjects()
		t.Of = nil
		for i, m := range q.Messages {
			t.Of = append(t.Of, m.Subject())
			was := slices.Index(before, m.Subject())
			if was < 0 || was >= len(words) {
				now, changed = append(now, llm.Message{Role: llm.User, Parts: r.userParts(m, r.contexts[i])}), true
				continue
			}
			changed = changed || !r.hasWords(words[was], i)
			now = append(now, r.rewrite(words[was], i))
		}
		changed = changed || len(now) != len(words)
	}
	// Without the note the model would take the calls for answers to the new words.
	if changed && len(steps) > 0 {
		last := &now[len(now)-1]
		last.Parts = append(slices.Clone(last.Parts), llm.Part{Text: editedNote, Source: llm.SourceNote})
	}
	if !changed {
		now = words
	}
	// Cloned: the stored turn and the cached history share these slices.
	t.Messages = append(slices.Clone(now), steps...)
	t.State, t.Error = conversation.Open, ""
	return true
}

// reword gives the words of an edit to a turn that lost its own because a model refused them. It returns false for all
// other turns and messages.
func (r *run) reword(t *conversation.Turn) bool {
	m := r.asked.Last()
	if m.Kind() != chat.EventEdit || t.State != conversation.Failed || len(t.Subjects()) != 1 {
		return false
	}
	t.Messages = []llm.Message{{Role: llm.User, Parts: r.userParts(m, r.contexts[len(r.contexts)-1])}}
	t.State, t.Error = conversation.Open, ""
	return true
}

// restoreAnswer puts the former answer after the calls of the turn. It returns false if there is none.
func (r *run) restoreAnswer() bool {
	if len(r.former) == 0 {
		return false
	}
	words := r.turn.UserMessages()
	r.turn.Messages = slices.Concat(words, callsAndResults(r.turn.Messages[len(words):]), r.former)
	r.turn.State = conversation.Answered
	return true
}

// keptNote is said where a question could not be answered again.
const keptNote = "The answer from before stays."

// refuseRetry returns the answer to a person who must not retry a question, or nil. People may retry their own
// question and a question of several people, and administrators any.
func (e *Engine) refuseRetry(ctx context.Context, m chat.Message, turn string) (*chat.Draft, error) {
	_, t, err := e.o.Store.TurnOf(ctx, turn)
	own := t.User == "" || t.User == m.Conversation.Platform+"/"+m.Author.ID
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && (own || m.AuthorManages()):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &chat.Draft{Ephemeral: true, Text: "Only the asker or an administrator can try this again."}, nil
}

// hasWords reports whether a stored message has the words of the i-th message that is asked.
func (r *run) hasWords(was llm.Message, i int) bool {
	m, stored := r.asked.Messages[i], userText(was)
	// A failed look-up of a name, now or the first time, does not count as an edit.
	return stored == m.Text || stored == prompt.Words(m, r.contexts[i])
}

// rewrite returns a stored message with the speaker and the words of the i-th asked message. Its context and files
// stay, because an edit does not change them.
func (r *run) rewrite(was llm.Message, i int) llm.Message {
	var before, after []llm.Part
	for _, p := range was.Parts {
		switch source := sourceOf(p); source {
		case llm.SourceContext, llm.SourceForeign, llm.SourceKnowledge:
			before = append(before, p)
		case llm.SourceFile:
			after = append(after, p)
		}
	}
	m := r.asked.Messages[i]
	return llm.Message{Role: llm.User, Parts: slices.Concat(before, r.userParts(m, r.contexts[i]), after)}
}

// attachedMark begins a part about a file of the message.
const attachedMark = "\n[attached"

// sourceOf returns the source of a part of a user's message. Parts from before November 2026 have none, but their text
// shows it.
func sourceOf(p llm.Part) llm.Source {
	switch {
	case p.Source != "":
		return p.Source
	case strings.HasPrefix(p.Text, attachedMark):
		return llm.SourceFile
	case p.Text == editedNote:
		return llm.SourceNote
	case strings.HasSuffix(p.Text, " says:\n"):
		return llm.SourceSpeaker
	}
	return llm.SourceWords
}

// userText returns the words of a stored message, without what the bot added.
func userText(m llm.Message) string {
	for _, p := range m.Parts {
		if sourceOf(p) == llm.SourceWords {
			return p.Text
		}
	}
	return ""
}

// callsAndResults returns the messages of a turn up to its last call or result, without the answer after them.
func callsAndResults(messages []llm.Message) []llm.Message {
	// Everything after the last call or result is the old answer, or a part of it.
	for n := len(messages); n > 0; n-- {
		if m := messages[n-1]; m.Role == llm.ToolRole || len(m.Calls()) > 0 {
			return messages[:n]
		}
	}
	return nil
}

// openCalls returns the calls without a result at the end of a turn. It returns none if the turn ends with an answer
// or a question.
func openCalls(messages []llm.Message) []llm.Call {
	// Go backwards, because results come after their calls.
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
