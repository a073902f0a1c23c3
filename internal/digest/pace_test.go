package digest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Steps of runs that nobody waits for take half of the time; a run that somebody waits for does not queue behind them.
func TestPace_StepsThatNobodyWaitsFor_TakeHalfOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := newPace(), time.Now()
		var ended []time.Duration
		step := func() error {
			time.Sleep(30 * time.Millisecond)
			ended = append(ended, time.Since(began))
			return nil
		}
		for range 2 {
			if err := p.do(t.Context(), spec{}, step); err != nil {
				t.Fatal(err)
			}
		}
		if ended[0] != 30*time.Millisecond || ended[1] != 90*time.Millisecond {
			t.Errorf("two steps of 30 ms ended after %v", ended)
		}
		if err := p.do(t.Context(), spec{asked: true}, step); err != nil || ended[2] != 120*time.Millisecond {
			t.Errorf("a step that somebody waits for ended after %v: %v", ended, err)
		}
		// The pause behind the second step is over by now, that of the third was none.
		if err := p.do(t.Context(), spec{}, step); err != nil || ended[3] != 150*time.Millisecond {
			t.Errorf("the next step ended after %v: %v", ended, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := p.do(ctx, spec{}, step); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a step that gets no turn in time: %v", err)
		}
		synctest.Wait()
		time.Sleep(time.Second) // the last pause ends within the bubble
	})
}
