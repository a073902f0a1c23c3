package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
)

// errNoModel is returned when no model of the chain is configured.
var errNoModel = errors.New("no language model of this agent is switched on")

// askModels returns one complete message of the model in use, or of the next one in the chain after a permanent
// failure. request builds the request for the model of an origin. If all fail, it returns the error of the last model,
// or errNoModel. A later request of the same run begins with the model that answered, so that a turn rarely mixes
// models.
func (r *run) askModels(ctx context.Context, request func(origin string) llm.Request) (llm.Message, error) {
	err := errNoModel
	for ; r.modelIndex < len(r.profile.Models); r.modelIndex++ {
		model, ok := r.engine.o.Roster.Model(r.profile.Models[r.modelIndex])
		if !ok {
			continue
		}
		// A fallback such as the offline model answers only requests that it understands, and a model with an open
		// circuit answers none.
		narrow, isNarrow := llm.As[llm.Selective](model.Model)
		if isNarrow && r.fallbackReason != "" && !narrow.CanAnswer(request(llm.Origin(model.Model))) {
			continue
		}
		if r.turn.Model != r.profile.Models[r.modelIndex] { // whose price is another one
			r.countUsage(ctx)
		}
		var m llm.Message
		if m, err = r.askModel(ctx, model, request); err == nil {
			r.turn.Model = r.profile.Models[r.modelIndex]
			return m, nil
		}
		// Another model must not be used to get around a content filter.
		if ctx.Err() != nil || isKind(err, llm.Blocked) {
			return llm.Message{}, err
		}
		r.fallbackReason = fallbackReason(err)
		r.engine.o.Log.Log(ctx, failureLevel(err), "model failed",
			"model", model.ID(), "message", r.message.Key(), "error", err)
	}
	return llm.Message{}, err
}

// askModel asks one model, and once more with a request that it accepts if it refuses the first.
func (r *run) askModel(
	ctx context.Context,
	model Model,
	request func(origin string) llm.Request,
) (llm.Message, error) {
	build := func() llm.Request { return replaceUnheard(request(llm.Origin(model.Model)), model.Model) }
	m, err := r.askWithRetry(ctx, model, build())
	switch {
	// Models without vision answer 400 to any image, with a text of their own each: the
	// way to find out is to ask again without the images.
	case r.hasMedia() && isKind(err, llm.BadRequest):
		r.imagesRefused = true
		return r.askWithRetry(ctx, model, build())
	case isKind(err, llm.ContextTooLong) && r.shortenRequest():
		r.engine.o.Log.Info("request too long; asking with a shorter history",
			"model", model.ID(), "message", r.message.Key(), "turns", len(r.history.turns))
		return r.askWithRetry(ctx, model, build())
	}
	return m, err
}

// fallbackReason returns in words why a model that failed is not used.
func fallbackReason(err error) string {
	var fault *llm.Error
	switch {
	case isKind(err, llm.Capped):
		return "today's budget is used up"
	case errors.As(err, &fault) && fault.CircuitOpen:
		return "the model before it is not answering"
	}
	return "the model before it failed"
}

// failureLevel returns the level at which a failure is logged. That a circuit is open was logged when
// it opened.
func failureLevel(err error) slog.Level {
	if fault, ok := errors.AsType[*llm.Error](err); ok && fault.CircuitOpen {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// shortenRequest makes later requests of the run about half as long: it drops the oldest turns, and
// shortens results of tools where the turn itself is most of the request. It returns false where
// nothing can be dropped.
func (r *run) shortenRequest() bool {
	size := r.turn.Size()
	for _, t := range r.history.turns {
		size += t.Size()
	}
	kept := conversation.Newest(r.history.turns, size/2-r.turn.Size())
	shorter := r.turn.WithShortResults()
	if len(kept) == len(r.history.turns) && shorter.Size() == r.turn.Size() {
		return false
	}
	r.history.turns, r.isShortened = kept, true
	return true
}

// A request to a model is made at most maxAttempts times, all within the model's timeout, and at most maxUseless times
// after unusable answers, because these cost money, too. The wait between attempts is the provider's, or starts at
// firstWait and doubles each time. If another model of the chain can answer, the wait is at most maxFallbackWait.
const (
	maxAttempts     = 4
	maxUseless      = 2
	firstWait       = time.Second
	maxFallbackWait = 10 * time.Second
)

// askWithRetry asks one model until it answers or fails permanently.
func (r *run) askWithRetry(ctx context.Context, model Model, q llm.Request) (llm.Message, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, model.Timeout, &llm.Error{
		Kind:     llm.TimedOut,
		Provider: model.ID(),
		Reason:   "no answer within " + model.Timeout.String(),
	})
	defer cancel()
	wait, useless := firstWait, 0
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
		if errors.Is(err, errEmpty) || isKind(err, llm.BadCall) {
			useless++
		}
		var fault *llm.Error
		if err == nil || !errors.As(err, &fault) || !fault.IsRetryable() || try == maxAttempts || useless == maxUseless {
			return m, err
		}
		// With jitter, so that conversations which failed together do not all ask again at the same time.
		pause := max(wait, fault.RetryAfter)
		pause += time.Duration(r.engine.o.Jitter() * float64(pause) / 10)
		// A pause that outlasts the timeout helps nobody: the next model is asked instead.
		if deadline, _ := ctx.Deadline(); time.Until(deadline) < pause {
			return m, err
		}
		if pause > maxFallbackWait && r.hasFallback(q) {
			return m, err
		}
		note := "The model did not answer; trying again."
		if fault.RetryAfter > 0 {
			note = fmt.Sprintf("The model asks for a pause of %v.", pause.Round(time.Second))
		}
		// The next attempt starts its answer again, so remove the text that this one has shown.
		r.partial.Reset()
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

// hasFallback reports whether a later model of the chain is enabled and can answer a request.
func (r *run) hasFallback(q llm.Request) bool {
	for _, name := range r.profile.Models[r.modelIndex+1:] {
		model, ok := r.engine.o.Roster.Model(name)
		if !ok {
			continue
		}
		if narrow, isNarrow := llm.As[llm.Selective](model.Model); !isNarrow || narrow.CanAnswer(q) {
			return true
		}
	}
	return false
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
			return m, explainTimeout(ctx, err)
		}
		defer func() { count(usage) }()
	}
	m, usage, err = r.readAnswer(ctx, model, q)
	r.turn.Usage = r.turn.Usage.Add(usage)
	if usage != (llm.Usage{}) {
		r.turn.Model = r.profile.Models[r.modelIndex] // also of an answer that failed: it has its price, too
	}
	return m, err
}

// countUsage adds the uncounted usage to the sums of the model that was asked last.
func (r *run) countUsage(ctx context.Context) {
	on := r.usage
	on.Model, on.Tokens = r.turn.Model, r.turn.Usage.Sub(r.turn.Counted)
	if on.Tokens == (llm.Usage{}) {
		return
	}
	// The tokens were used, whether or not anybody still waits for the answer.
	if err := r.engine.o.Store.CountUsage(context.WithoutCancel(ctx), on); err != nil {
		r.engine.o.Log.Error("failed to count usage", "error", err)
		return
	}
	r.turn.Counted = r.turn.Usage
}

// explainTimeout returns err, or the error that names the timeout if ctx has run into it.
func explainTimeout(ctx context.Context, err error) error {
	var fault *llm.Error
	if errors.As(context.Cause(ctx), &fault) {
		return fault
	}
	return err
}

// isKind reports whether an error is a model's, of a kind.
func isKind(err error, kind llm.Kind) bool {
	var fault *llm.Error
	return errors.As(err, &fault) && fault.Kind == kind
}
