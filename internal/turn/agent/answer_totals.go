package agent

import (
	"time"

	"ravenbot/internal/ops/measure"
)

// AnswerTotals returns how many answers each agent has ended since the process began, by its name: how many of them
// failed, how long they took from the question, and as results how many tokens they used. One that was stopped counts
// as well, and a question that was withdrawn does not.
func (e *Engine) AnswerTotals() map[string]measure.Total { return e.answers.All() }

// countAnswer counts an answer that has ended.
func (r *run) countAnswer(began time.Time, failed bool) {
	used := r.turn.Usage.Input + r.turn.Usage.Output - r.usedBefore
	total := measure.Total{Count: 1, Seconds: max(0, r.engine.o.Now().Sub(began).Seconds()), Results: uint64(max(0, used))}
	if failed {
		total.Failed = 1
	}
	r.engine.answers.Add(r.profile.Agent, total)
}
