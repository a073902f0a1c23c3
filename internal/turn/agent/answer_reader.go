package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/testing/failpoint"
)

// errNoFinish says that an answer stopped without a finish reason.
var errNoFinish = errors.New("it came without a finish reason")

// reasonCutOff is the reason of an answer that stopped, whether or not there is something to use.
const reasonCutOff = "the answer was cut off"

// errEmpty says that an answer is complete and holds nothing to read.
var errEmpty = errors.New("it holds nothing to read")

// readAnswer streams one answer and joins its parts. The usage is that of what came, also with an
// error. With errNoFinish the message is what came until the stream ended, and may be used.
func (r *run) readAnswer(
	ctx context.Context,
	model Model,
	q llm.Request,
) (m llm.Message, usage llm.Usage, err error) {
	m = llm.Message{Role: llm.Assistant, Origin: llm.Origin(model.Model)}
	var parts answerParts
	// What a failed attempt has sent, perhaps of another model, is not part of this answer.
	if r.partial.Len() > 0 {
		r.partial.Reset()
		r.showProgress(chat.Progress{Reset: true})
	}
	var finish llm.Finish
	served := model.ID()
	for c, err := range model.Generate(ctx, q) {
		if err != nil {
			return m, usage, explainTimeout(ctx, err)
		}
		if c.WasThought { // the text that people have seen is not the answer
			parts.markThought()
			r.partial.Reset()
			r.showProgress(chat.Progress{Reset: true})
		}
		if c.Note != "" {
			r.mu.Lock()
			r.notes = append(r.notes, c.Note)
			r.mu.Unlock()
		}
		for _, p := range c.Parts {
			parts.add(p)
			if p.Text != "" && !p.Thought {
				r.partial.WriteString(p.Text)
				r.showProgress(chat.Progress{Text: p.Text})
			}
		}
		if c.Usage != nil { // each report covers the whole answer so far
			usage = *c.Usage
		}
		if c.Finish != "" {
			finish = c.Finish
		}
		if c.ServedBy != "" {
			served = c.ServedBy
		}
	}
	m.Parts = parts.list()
	failpoint.Here(failpoint.ModelCalled)
	r.turn.Served, r.finish = served, finish
	r.makeCallIDsUnique(&m)
	r.cutReason, r.cutCall = "", "" // an answer before this one may have been cut, too
	return m, usage, r.checkAnswer(model.ID(), m, finish)
}

// checkAnswer returns an error if an answer that has ended cannot be used: an *llm.Error, whose
// kind decides whether the model is asked again. It notes where an answer that can be used was cut.
func (r *run) checkAnswer(id string, m llm.Message, finish llm.Finish) error {
	switch finish {
	case llm.FinishBlocked:
		return &llm.Error{Kind: llm.Blocked, Provider: id, Reason: "its filter withheld the answer"}
	case llm.FinishMalformed: // retryable: the next attempt is usually well formed
		return &llm.Error{Kind: llm.BadCall, Provider: id, Reason: "the model wrote a tool call that cannot be read"}
	case llm.FinishLength:
		r.cutReason = "cut at the model's length limit"
		// Only the last part can be cut. Some endpoints end it as valid JSON that lacks arguments.
		if n := len(m.Parts); n > 0 && m.Parts[n-1].Call != nil {
			r.cutCall = m.Parts[n-1].Call.ID
		}
	case llm.FinishOther: // an unspecific reason, such as OTHER and LANGUAGE of Gemini
		r.maybeIncomplete = len(m.Calls()) == 0
	case llm.FinishOversize: // a call that did not fit is left out as a whole
		r.cutReason = "cut because it was longer than I read"
	case "":
		// The stream ended without a finish reason: the connection broke, or a proxy dropped it.
		fault := &llm.Error{Kind: llm.Unavailable, Provider: id, Reason: reasonCutOff}
		if m.Text() != "" || len(m.Calls()) > 0 {
			fault.Err = errNoFinish
		}
		return fault
	}
	// After the last round of tools even an empty answer counts: answerText replaces it.
	isEmpty := strings.TrimSpace(m.Text()) == "" && len(m.Calls()) == 0 && r.stopReason == ""
	switch {
	case isEmpty && finish == llm.FinishLength:
		return &llm.Error{
			Kind:     llm.OutputLimit,
			Provider: id,
			Reason: "it used up its tokens before the first word; the bot's operator can raise models." +
				r.profile.Models[r.modelIndex] + ".maxOutputTokens",
		}
	case isEmpty && finish == llm.FinishOversize:
		return &llm.Error{
			Kind:     llm.OutputLimit,
			Provider: id,
			Reason:   "it sent too much without writing a word to read",
		}
	case isEmpty:
		return &llm.Error{Kind: llm.Unavailable, Provider: id, Reason: "the answer was empty", Err: errEmpty}
	}
	return nil
}

// makeCallIDsUnique gives every call an id that no other call of the turn has: results and
// approvals are found by it, and some models send no ids, or the same ones in every answer.
func (r *run) makeCallIDsUnique(m *llm.Message) {
	used := map[string]bool{}
	for _, earlier := range r.turn.Messages {
		for _, c := range earlier.Calls() {
			used[c.ID] = true
		}
	}
	for i, p := range m.Parts {
		if p.Call == nil {
			continue
		}
		c := *p.Call
		for n := 1; c.ID == "" || used[c.ID]; n++ {
			c.ID = fmt.Sprintf("call-%d", n)
		}
		used[c.ID] = true
		m.Parts[i].Call = &c
	}
}

// answerParts joins the parts of an answer, which comes in pieces of a few letters.
type answerParts struct {
	whole []llm.Part
	text  strings.Builder // of the newest part, where more may come
	open  bool            // there is such a part
	shape llm.Part        // that part without its text
}

// add adds a part; text is joined with the text before it.
func (a *answerParts) add(p llm.Part) {
	if a.open && isPlainText(p) && p.Thought == a.shape.Thought {
		a.text.WriteString(p.Text)
		return
	}
	a.close()
	if !isPlainText(p) {
		a.whole = append(a.whole, p)
		return
	}
	a.text.WriteString(p.Text)
	a.shape, a.open = p, true
}

// markThought makes all text so far the model's reasoning.
func (a *answerParts) markThought() {
	a.close()
	for i := range a.whole {
		if isPlainText(a.whole[i]) {
			a.whole[i].Thought = true
		}
	}
}

// close ends the text part that is open, if one is: what comes next is another part.
func (a *answerParts) close() {
	if !a.open {
		return
	}
	a.shape.Text = a.text.String()
	a.whole = append(a.whole, a.shape)
	a.text.Reset()
	a.open = false
}

// list returns the parts in their order.
func (a *answerParts) list() []llm.Part {
	a.close()
	return a.whole
}

// isPlainText reports whether a part may be joined with others: a provider's raw data
// belongs to exactly one part.
func isPlainText(p llm.Part) bool { return p.Call == nil && p.Result == nil && len(p.Raw) == 0 }
