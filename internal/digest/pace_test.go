package digest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Steps of runs that nobody waits for take an eighth of the time; a run that somebody waits for does not queue behind
// them.
func TestPace_StepsThatNobodyWaitsFor_TakeAnEighthOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := newPace(), time.Now()
		var ended []time.Duration
		step := func() error {
			time.Sleep(10 * time.Millisecond)
			ended = append(ended, time.Since(began))
			return nil
		}
		for range 2 {
			if err := p.do(t.Context(), spec{}, step); err != nil {
				t.Fatal(err)
			}
		}
		if ended[0] != 10*time.Millisecond || ended[1] != 90*time.Millisecond {
			t.Errorf("two steps of 10 ms ended after %v", ended)
		}
		if err := p.do(t.Context(), spec{asked: true}, step); err != nil || ended[2] != 100*time.Millisecond {
			t.Errorf("a step that somebody waits for ended after %v: %v", ended, err)
		}
		// The pause behind the second step goes on, that of the third was none.
		if err := p.do(t.Context(), spec{}, step); err != nil || ended[3] != 170*time.Millisecond {
			t.Errorf("the next step ended after %v: %v", ended, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := p.do(ctx, spec{}, step); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a step that gets no turn in time: %v", err)
		}
		slow := func() error { time.Sleep(time.Second); return nil }
		if err := errors.Join(p.do(t.Context(), spec{}, slow), p.do(t.Context(), spec{}, step)); err != nil ||
			ended[4] != 170*time.Millisecond+70*time.Millisecond+time.Second+maxPause+10*time.Millisecond {
			t.Errorf("behind a slow step the next one ended after %v: %v", ended, err)
		}
		synctest.Wait()
		time.Sleep(time.Second) // the last pause ends within the bubble
	})
}

// The beginnings of reads have pauses of seven times as long as a read took, up to a limit; a run that somebody waits
// for reads at once.
func TestPace_ReadsBeginOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := newPace(), time.Now()
		var mu sync.Mutex
		var begun []time.Duration
		read := func(takes time.Duration) func() {
			return func() {
				mu.Lock()
				begun = append(begun, time.Since(began))
				mu.Unlock()
				time.Sleep(takes)
			}
		}
		var reads sync.WaitGroup
		for _, takes := range []time.Duration{2 * time.Millisecond, 10 * time.Millisecond, time.Hour, 0, 0} {
			reads.Go(func() { p.doRead(t.Context(), spec{}, read(takes)) })
			synctest.Wait()
		}
		p.doRead(t.Context(), spec{asked: true}, read(0))
		time.Sleep(time.Second)
		mu.Lock()
		want := []time.Duration{0, 0, 16 * time.Millisecond, 66 * time.Millisecond, 116 * time.Millisecond,
			116 * time.Millisecond}
		if !slices.Equal(begun, want) {
			t.Errorf("the reads began at %v, want %v", begun, want)
		}
		mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.doRead(ctx, spec{}, read(0))
		reads.Wait()
		if len(begun) != 7 {
			t.Error("a read that is cut off is not noticed")
		}
	})
}
