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
func TestLimiter_StepsThatNobodyWaitsFor_TakeAnEighthOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := newLimiter(), time.Now()
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

// The beginnings of reads have pauses of seven times as long as a read took, up to a limit; a run that somebody waits for reads at once.
func TestLimiter_ReadsBeginOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := newLimiter(), time.Now()
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
		for _, takes := range []time.Duration{2 * time.Millisecond, time.Hour, 0} {
			reads.Go(func() { l.read(t.Context(), spec{}, read(takes)) })
			time.Sleep(16 * time.Millisecond)
		}
		l.read(t.Context(), spec{asked: true}, read(0))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		l.read(ended, spec{}, read(0)) // which notices that it is cut off
		reads.Wait()
		want := []time.Duration{0, 16 * time.Millisecond, 48 * time.Millisecond, 48 * time.Millisecond, 66 * time.Millisecond}
		if !slices.Equal(begun, want) {
			t.Errorf("the reads began at %v, want %v", begun, want)
		}
	})
}

// Runs of the schedule, runs that are asked for, and tasks have slots of their own; polls need none, and nobody waits
// longer than for as long as they want to.
func TestLimiter_Slots(t *testing.T) {
	s := newLimiter()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	plain := spec{Plan: Plan{Feeds: []Feed{{URL: "x"}}}}
	asked, task, askedTask, poll := plain, spec{}, spec{asked: true}, plain
	asked.asked, poll.quiet = true, true
	for _, c := range []struct {
		d     spec
		slots int
	}{{plain, 4}, {task, 8}, {asked, 4}} {
		var release func()
		for range c.slots {
			var err error
			if release, err = s.acquire(t.Context(), c.d); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.acquire(ended, c.d); !errors.Is(err, context.Canceled) {
			t.Errorf("of %d slots one more is free: %v", c.slots, err)
		}
		release()
		if _, err := s.acquire(t.Context(), c.d); err != nil {
			t.Errorf("a slot that was given back is not free: %v", err)
		}
	}
	if _, err := s.acquire(ended, askedTask); !errors.Is(err, context.Canceled) {
		t.Errorf("a task that is asked for has a slot of its own: %v", err)
	}
	for range 20 {
		if _, err := s.acquire(ended, poll); err != nil {
			t.Fatalf("a poll waits: %v", err)
		}
	}
}
