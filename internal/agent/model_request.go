package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/failpoint"
	"ravenbot/internal/llm"
)

// errNoFinish says that an answer stopped without a finish reason.
var errNoFinish = errors.New("it came without a finish reason")

// errNoModel is returned when no model of the chain is configured.
var errNoModel = errors.New("no language model of this agent is switched on")

// askModels returns one complete message of the model in use, or of the next one in the
// chain when it fails for good. request builds the request for the model with an ID.
func (r *run) askModels(ctx context.Context, request func(origin string) llm.Request) (llm.Message, error) {
	err := errNoModel
	for ; r.modelIndex < len(r.profile.Models); r.modelIndex++ {
		model, ok := r.engine.o.Roster.Model(r.profile.Models[r.modelIndex])
		if !ok {
			continue
		}
		q := replaceUnheard(request(model.ID()), model.Model)
		// A fallback such as the offline model answers only what it understands.
		if narrow, ok := model.Model.(llm.Selective); ok && r.fallbackReason != "" && !narrow.CanAnswer(q) {
			continue
		}
		m, err2 := r.askWithRetry(ctx, model, q)
		hasImages := len(r.userMedia)+len(r.toolImages) > 0 && !r.imagesRefused
		// Models without vision answer 400 to any image, with a text of their own each: the
		// way to find out is to ask again without the images.
		if err = err2; err != nil && hasImages && isKind(err, llm.BadRequest) {
			r.imagesRefused = true
			m, err = r.askWithRetry(ctx, model, replaceUnheard(request(model.ID()), model.Model))
		}
		if err == nil {
			r.turn.Model = r.profile.Models[r.modelIndex]
			return m, nil
		}
		// Another model must not be used to get around a content filter.
		if ctx.Err() != nil || isKind(err, llm.Blocked) {
			return llm.Message{}, err
		}
		if r.fallbackReason = "the model before it failed"; isKind(err, llm.Capped) {
			r.fallbackReason = "today's budget is used up"
		}
		r.engine.o.Log.Warn("model failed", "model", model.ID(), "message", r.message.Key(), "error", err)
	}
	r.modelIndex = 0 // the next request begins with the first model again
	return llm.Message{}, err
}

// A request to a model is made at most maxAttempts times, all within the model's timeout.
// Between attempts it waits as long as the provider asks, else firstWait, then twice as
// long each time.
const (
	maxAttempts = 4
	firstWait   = time.Second
)

// askWithRetry asks one model until it answers or fails for good.
func (r *run) askWithRetry(ctx context.Context, model Model, q llm.Request) (llm.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, model.Timeout)
	defer cancel()
	wait := firstWait
	for try := 1; ; try++ {
		began := r.engine.o.Now()
		m, err := r.askWithinBudget(ctx, model, q)
		r.engine.o.Log.Info("model step", "turn", r.turn.ID, "model", model.ID(), "calls", len(m.Calls()),
			"ms", r.engine.o.Now().Sub(began).Milliseconds(), "failed", err != nil)
		// Some proxies never send a finish reason: the second answer without one is taken.
		if errors.Is(err, errNoFinish) && try > 1 {
			r.maybeIncomplete = len(m.Calls()) == 0
			return m, nil
		}
		var fault *llm.Error
		if err == nil || !errors.As(err, &fault) || !fault.IsRetryable() || try == maxAttempts {
			return m, err
		}
		pause := max(wait, fault.RetryAfter)
		pause += time.Duration(r.engine.o.Jitter() * float64(pause) / 10)
		// A pause that outlasts the timeout helps nobody: the next model is asked instead.
		if deadline, _ := ctx.Deadline(); time.Until(deadline) < pause {
			return m, err
		}
		note := "The model did not answer; trying again."
		if fault.RetryAfter > 0 {
			note = fmt.Sprintf("The model asks for a pause of %v.", pause.Round(time.Second))
		}
		r.showProgress(chat.Progress{Reset: true, Note: note})
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return m, err
		}
		wait *= 2
	}
}

// askWithinBudget asks a model once, unless a spending limit forbids it. It counts the
// usage even of an answer that broke off, since providers charge for it.
func (r *run) askWithinBudget(ctx context.Context, model Model, q llm.Request) (m llm.Message, err error) {
	var usage llm.Usage
	if r.engine.o.Budget != nil {
		on := r.usage
		on.Model = r.profile.Models[r.modelIndex]
		count, err := r.engine.o.Budget.Reserve(ctx, on, q)
		if err != nil {
			return m, explainTimeout(ctx, model, err)
		}
		defer func() { count(usage) }()
	}
	m, usage, err = r.readAnswer(ctx, model, q)
	r.turn.Usage = r.turn.Usage.Add(usage)
	return m, err
}

// readAnswer streams one answer and joins its parts.
func (r *run) readAnswer(
	ctx context.Context,
	model Model,
	q llm.Request,
) (m llm.Message, usage llm.Usage, err error) {
	m = llm.Message{Role: llm.Assistant, Origin: model.ID()}
	r.partial = ""
	var finish llm.Finish
	served := model.ID()
	for c, err := range model.Generate(ctx, q) {
		if err != nil {
			return m, usage, explainTimeout(ctx, model, err)
		}
		for _, p := range c.Parts {
			m.Parts = appendPart(m.Parts, p)
			if p.Text != "" && !p.Thought {
				r.partial += p.Text
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
	failpoint.Here(failpoint.ModelCalled)
	r.turn.Served = served
	r.makeCallIDsUnique(&m)
	return m, usage, r.checkAnswer(m, finish)
}

// checkAnswer returns an error if an answer that has ended cannot be used.
func (r *run) checkAnswer(m llm.Message, finish llm.Finish) error {
	switch finish {
	case llm.FinishBlocked:
		return &llm.Error{Kind: llm.Blocked, Provider: m.Origin, Reason: "its filter withheld the answer"}
	case llm.FinishMalformed: // retryable: the next attempt is usually well formed
		return &llm.Error{
			Kind:     llm.Unavailable,
			Provider: m.Origin,
			Reason:   "the model wrote a tool call that cannot be read",
		}
	case llm.FinishLength:
		r.truncated = true
	case "":
		// The stream ended without a finish reason: the connection broke, or a proxy dropped it.
		fault := &llm.Error{Kind: llm.Unavailable, Provider: m.Origin, Reason: "the answer was cut off"}
		if m.Text() != "" || len(m.Calls()) > 0 {
			fault.Err = errNoFinish
		}
		return fault
	}
	// After the last round of tools even an empty answer counts: answerText replaces it.
	if m.Text() == "" && len(m.Calls()) == 0 && r.stopReason == "" {
		return &llm.Error{Kind: llm.Unavailable, Provider: m.Origin, Reason: "the answer was empty"}
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
		for n := len(used) + 1; c.ID == "" || used[c.ID]; n++ {
			c.ID = fmt.Sprintf("call-%d", n)
		}
		used[c.ID] = true
		m.Parts[i].Call = &c
	}
}

// appendPart adds a part; text is joined with the text before it.
func appendPart(parts []llm.Part, p llm.Part) []llm.Part {
	n := len(parts) - 1
	if n >= 0 && isPlainText(p) && isPlainText(parts[n]) && parts[n].Thought == p.Thought {
		parts[n].Text += p.Text
		return parts
	}
	return append(parts, p)
}

// isPlainText reports whether a part may be joined with others: a provider's raw data
// belongs to exactly one part.
func isPlainText(p llm.Part) bool { return p.Call == nil && p.Result == nil && len(p.Raw) == 0 }

// explainTimeout returns err, or an error that names the timeout if ctx has run into it.
func explainTimeout(ctx context.Context, model Model, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &llm.Error{
			Kind:     llm.Unavailable,
			Provider: model.ID(),
			Reason:   "no answer within " + model.Timeout.String(),
			Err:      err,
		}
	}
	return err
}

func isKind(err error, kind llm.Kind) bool {
	var fault *llm.Error
	return errors.As(err, &fault) && fault.Kind == kind
}

// errorText returns the sentence for the user. It discloses no internals.
func errorText(err error, ref string) string {
	tail := " (reference " + ref + ")."
	var fault *llm.Error
	if errors.Is(err, errNoModel) {
		return "No language model is switched on for this agent; whoever runs the bot can set a key" + tail
	}
	if !errors.As(err, &fault) {
		return "Something went wrong inside the bot; please try again" + tail
	}
	switch fault.Kind {
	case llm.RateLimited:
		if fault.RetryAfter > 0 {
			return fmt.Sprintf("The language model takes no more requests for now; please try again in %v",
				fault.RetryAfter.Round(time.Second)) + tail
		}
		return "The language model takes no more requests for now; please try again in a minute" + tail
	case llm.Blocked:
		return "The language model refuses to answer this: " + cmp.Or(fault.Reason, "it gives no reason") +
			". Please put it differently" + tail
	case llm.BadRequest:
		return "The language model did not accept the request; whoever runs the bot finds the reason in its log" + tail
	case llm.Denied:
		return "The language model did not accept the bot's key; whoever runs the bot can fix that" + tail
	case llm.Exhausted:
		return "The bot's quota with the language model is used up for now" + tail
	case llm.Capped:
		return fault.Reason
	}
	return "The language model could not be reached or gave no usable answer; please try again in a minute" + tail
}
