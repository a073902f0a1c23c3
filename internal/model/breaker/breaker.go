// Package breaker keeps a language model that is in trouble from costing time: a circuit breaker, a limit on the time
// until an answer begins, and a limit on its size.
//
// It promises that a model that fails repeatedly is not asked for a while, whoever wants to, that one request at a time
// then finds out whether it answers again, and that no answer is larger than MaxAnswerBytes. Asking again and asking
// another model is left to the caller.
//
// Model wraps another model and counts the end of each request in its circuit. A circuit is closed until three requests
// in a row fail; it is then open for a pause, and half-open until a probe, which is somebody's own request, closes it
// or opens it for twice as long. Failures are those by which a model cannot be reached, is overloaded or out of quota,
// or does not answer in time; a refused prompt, a wrong key and a caller who leaves are none.
package breaker

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/text"
	"ravenbot/internal/ops/measure"
)

// MaxAnswerBytes bounds the text and the tool calls of one answer. The longest answers that models can write, of
// 128,000 tokens, have half as much.
const MaxAnswerBytes = 1 << 20

// Options are what a Model needs.
type Options struct {
	Name       string        // of the model in the configuration
	FirstToken time.Duration // until the first piece of an answer; 0: not limited
	Log        *slog.Logger
}

// Model is a model with its circuit. It is safe for concurrent use.
type Model struct {
	llm.Model
	o       Options
	circuit circuit
	ended   measure.Table[string] // by outcome
}

// New returns a model that is asked as long as it answers.
func New(m llm.Model, o Options) *Model { return &Model{Model: m, o: o} }

// Unwrap returns the model itself, for llm.As.
func (m *Model) Unwrap() llm.Model { return m.Model }

// CanAnswer reports whether a request would be made: the circuit is not open, and the model is none that answers other
// requests alone.
func (m *Model) CanAnswer(q llm.Request) bool {
	narrow, isNarrow := llm.As[llm.Selective](m.Model)
	return m.circuit.status(time.Now()).State != Open && (!isNarrow || narrow.CanAnswer(q))
}

// Status is a model and the state of its circuit.
type Status struct {
	Name  string    `json:"name"`
	ID    string    `json:"model"`
	State State     `json:"state"`
	Error string    `json:"error,omitempty"` // that opened the circuit
	Until time.Time `json:"until,omitzero"`  // the next request is made then
	// Answered is when the model last answered; zero: it has not since the start.
	Answered time.Time `json:"answered,omitzero"`
}

// Status returns the state of the model's circuit now.
func (m *Model) Status() Status {
	s := m.circuit.status(time.Now())
	s.Name, s.ID = m.o.Name, m.ID()
	return s
}

// Statuses returns the states of the circuits of some models.
func Statuses(models []*Model) []Status {
	list := make([]Status, len(models))
	for i, m := range models {
		list[i] = m.Status()
	}
	return list
}

// Ended returns the requests that were made, by their outcome: "answered", "left" where the caller did not wait for the
// end, or what kind of error it was.
func (m *Model) Ended() map[string]measure.Sum { return m.ended.Sums() }

// outcome returns what Ended calls the end of a request.
func outcome(err error) string {
	var fault *llm.Error
	switch {
	case err == nil:
		return "answered"
	case errors.As(err, &fault):
		return string(fault.Kind)
	case errors.Is(err, errAbandoned), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "left"
	}
	return "failed"
}

// errAbandoned is the outcome of a request whose caller did not read the answer to its end.
var errAbandoned = errors.New("the caller left")

// Generate streams one answer. While the circuit is open it fails at once with an *llm.Error that says so. A deadline
// of ctx counts as a failure of the model only where its cause is an *llm.Error: others are the caller's own.
func (m *Model) Generate(ctx context.Context, q llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		began := time.Now()
		isProbe, refused := m.circuit.begin(began)
		if refused != nil {
			yield(llm.Chunk{}, refused)
			return
		}
		isWanted, err := false, errAbandoned
		// A probe has to end whatever happens, or nobody would ask the model again.
		defer func() {
			if err = m.end(began, isProbe, err); isWanted && err != nil {
				yield(llm.Chunk{}, err)
			}
		}()
		isWanted, err = m.stream(ctx, q, yield)
	}
}

// stream passes on one answer within its limits. isWanted is false where the caller has left, which is errAbandoned.
func (m *Model) stream(
	ctx context.Context,
	q llm.Request,
	yield func(llm.Chunk, error) bool,
) (isWanted bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hasBegun := m.limitFirstToken(cancel)
	defer hasBegun()
	room, isCounted, hasContent := MaxAnswerBytes, false, false
	for c, err := range m.Model.Generate(ctx, q) {
		// Anything counts that the model sends, a thought too.
		hasBegun()
		if err != nil {
			if timedOut, ok := errors.AsType[*llm.Error](context.Cause(ctx)); ok {
				err = timedOut // which says more
			}
			return true, err
		}
		isCounted = isCounted || c.Usage != nil
		hasContent = hasContent || len(c.Parts) > 0 || c.Finish != ""
		isWhole := false
		if c.Parts, room, isWhole = fit(c.Parts, room); !isWhole {
			c.Finish = llm.FinishOversize
			// Most providers count at the end, which is not read here, and charge all the same.
			if !isCounted {
				c.Usage = &llm.Usage{Output: MaxAnswerBytes / bytesPerToken}
			}
		}
		if !yield(c, nil) {
			return false, errAbandoned
		}
		if !isWhole {
			return true, nil
		}
	}
	// A page of a proxy or of another service has status 200, too.
	if !hasContent {
		return true, &llm.Error{
			Kind:     llm.Unavailable,
			Provider: m.ID(),
			Reason:   "what was sent holds no answer; check models." + m.o.Name + ".baseURL if it is set, and proxies",
		}
	}
	return true, nil
}

// bytesPerToken is about what a token of English text has.
const bytesPerToken = 4

// limitFirstToken cancels a request unless the function that it returns is called in time.
func (m *Model) limitFirstToken(cancel context.CancelCauseFunc) (hasBegun func()) {
	if m.o.FirstToken == 0 {
		return func() {}
	}
	timer := time.AfterFunc(m.o.FirstToken, func() {
		cancel(&llm.Error{
			Kind:     llm.TimedOut,
			Provider: m.ID(),
			Reason: "no answer began within " + m.o.FirstToken.String() +
				"; if the model thinks for that long, raise models." + m.o.Name + ".firstTokenTimeout",
		})
	})
	return func() { timer.Stop() }
}

// fit returns the parts that have room, and how much is left. isWhole is false where something was cut off.
func fit(parts []llm.Part, room int) (kept []llm.Part, left int, isWhole bool) {
	for i, p := range parts {
		size := len(p.Text) + len(p.Raw)
		if p.Call != nil {
			size += len(p.Call.Args)
		}
		if size <= room {
			room -= size
			continue
		}
		// A call and a provider's own form of a part mean nothing without their end.
		if kept = parts[:i:i]; p.Call == nil && len(p.Raw) == 0 {
			p.Text = text.Cut(p.Text, room)
			kept = append(kept, p)
		}
		return kept, 0, false
	}
	return parts, room, true
}

// end counts the outcome of a request, and returns the error to be reported.
func (m *Model) end(began time.Time, isProbe bool, err error) error {
	now := time.Now()
	m.ended.Add(outcome(err), now.Sub(began))
	changed, reported := m.circuit.end(began, now, isProbe, err)
	switch changed {
	case Open:
		m.o.Log.Warn("model circuit opened", "model", m.o.Name, "probe", isProbe,
			"until", m.Status().Until.Format(time.RFC3339), "error", err)
	case Closed:
		m.o.Log.Info("model circuit closed", "model", m.o.Name)
	}
	return reported
}
