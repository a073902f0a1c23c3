package agent

import (
	"testing"
	"time"

	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/ops/measure"
)

// An answer that takes the place of another one counts what it used itself, and none counts a clock that was set back.
func TestCountAnswer_OfAnAgent(t *testing.T) {
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	e := &Engine{o: Options{Now: func() time.Time { return noon }}}
	r := &run{engine: e, profile: Profile{Agent: "poet"}, usedBefore: 70,
		turn: &conversation.Turn{Usage: llm.Usage{Input: 100, Cached: 90, Output: 20}}}
	r.countAnswer(noon.Add(-2*time.Second), true)
	r.countAnswer(noon.Add(time.Hour), false)
	if got, want := e.AnswerTotals()["poet"], (measure.Total{Count: 2, Failed: 1, Seconds: 2, Results: 100}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}
