// Package breaker limits the damage of a failing language model: with a circuit breaker, a limit on the time until an
// answer begins, and a limit on its size.
//
// It promises that a model that fails repeatedly gets no requests for a while, that one request at a time then probes
// it, and that no answer is larger than MaxAnswerBytes. Callers retry or use another model.
//
// Model wraps another model and counts the end of each request in its circuit. Three failures in a row open a closed
// circuit for a pause. Then it is half-open until a probe, which is an ordinary request, closes it or opens it for
// twice as long. A model fails if it cannot be reached, is overloaded or out of quota, or does not answer in time, but
// not if it refuses a prompt or a key, or if the caller leaves.
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

// MaxAnswerBytes bounds the text and the tool calls of one answer. The longest answers of models, with 128,000 tokens,
// are half as large.
const MaxAnswerBytes = 1 << 20

// Options configures a Model.
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

// New returns a model with a closed circuit.
func New(m llm.Model, o Options) *Model { return &Model{Model: m, o: o} }

// Unwrap returns the wrapped model, for llm.As.
func (m *Model) Unwrap() llm.Model { return m.Model }

// CanAnswer reports whether a request would be made: the circuit is not open, and the model accepts the request.
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
	Until time.Time `json:"until,omitzero"`  // time of the next request
	// Answered is the time of the last answer. It is zero if there was none since the start.
	Answered time.Time `json:"answered,omitzero"`
}

// Status returns the current state of the model's circuit.
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

// Ended counts the requests by outcome: "answered", "left" if the caller did not wait for the end, or the kind of
// error.
func (m *Model) Ended() map[string]measure.Sum { return m.ended.Sums() }

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

// errAbandoned is the outcome of a request whose caller stopped reading.
var errAbandoned = errors.New("the caller left")

// Generate streams one answer. While the circuit is open it returns an *llm.Error at once. A deadline of ctx counts as
// a failure of the model only if its cause is an *llm.Error.
func (m *Model) Generate(ctx context.Context, q llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		began := time.Now()
		isProbe, refused := m.circuit.begin(began)
		if refused != nil {
			yield(llm.Chunk{}, refused)
			return
		}
		isWanted, err := false, errAbandoned
		// A probe must end in any case, because the model gets no other request.
		defer func() {
			if err = m.end(began, isProbe, err); isWanted && err != nil {
				yield(llm.Chunk{}, err)
			}
		}()
		isWanted, err = m.stream(ctx, q, yield)
	}
}

// stream passes on one answer within its limits. isWanted is false if the caller has left.
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
		// Any piece counts, even a thought.
		hasBegun()
		if err != nil {
			if timedOut, ok := errors.AsType[*llm.Error](context.Cause(ctx)); ok {
				err = timedOut // more precise
			}
			return true, err
		}
		isCounted = isCounted || c.Usage != nil
		hasContent = hasContent || len(c.Parts) > 0 || c.Finish != ""
		isWhole := false
		if c.Parts, room, isWhole = fit(c.Parts, room); !isWhole {
			c.Finish = llm.FinishOversize
			// Most providers report usage only at the end, but charge for all tokens.
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
	// A page of a proxy has status 200, too.
	if !hasContent {
		return true, &llm.Error{
			Kind:     llm.Unavailable,
			Provider: m.ID(),
			Reason:   "the response contains no answer; check models." + m.o.Name + ".baseURL if it is set, and proxies",
		}
	}
	return true, nil
}

// bytesPerToken is an estimate for English text.
const bytesPerToken = 4

// limitFirstToken cancels a request unless hasBegun is called in time.
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

// fit returns the parts that fit into room, and the room that is left. isWhole is false if something was cut off.
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
		// A partial call or raw part is useless.
		if kept = parts[:i:i]; p.Call == nil && len(p.Raw) == 0 {
			p.Text = text.Cut(p.Text, room)
			kept = append(kept, p)
		}
		return kept, 0, false
	}
	return parts, room, true
}

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
