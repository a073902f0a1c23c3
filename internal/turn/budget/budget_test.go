package budget_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ravenbot/internal/turn/budget"
)

func reserve(t *testing.T, l *budget.Tracker, c budget.Caps, p budget.Payer) func(float64) {
	t.Helper()
	settle, err := l.Reserve(t.Context(), c, p, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	return settle
}

func TestEachCapIsKept(t *testing.T) {
	payer := budget.Payer{Channel: "slack:T/C", User: "slack/U"}
	run := budget.Payer{Digest: "morning"}
	for name, test := range map[string]struct {
		caps  budget.Caps
		payer budget.Payer
		want  string
	}{
		"instance": {budget.Caps{Instance: 1}, payer, "the budget of this bot for today, $1.00, is used up"},
		"channel":  {budget.Caps{Channel: 1}, payer, "the budget of this channel for today, $1.00, is used up"},
		"user":     {budget.Caps{User: 0.002}, payer, "your budget for today, $0.002, is used up"},
		"digest":   {budget.Caps{Digest: 1}, run, "the budget of this digest for today, $1.00, is used up"},
		"none":     {budget.Caps{Digest: 1}, payer, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := budget.New(time.Now)
			reserve(t, l, test.caps, test.payer)(1)
			_, err := l.Reserve(t.Context(), test.caps, test.payer, 0.01)
			var reached *budget.CapReachedError
			if test.want == "" && err == nil {
				return
			}
			if !errors.As(err, &reached) || err.Error() != test.want {
				t.Errorf("%v, want %q", err, test.want)
			}
			if _, err := l.Reserve(t.Context(), test.caps, budget.Payer{
				Channel: "slack:T/D",
				User:    "slack/V",
				Digest:  "evening",
			}, 0.01); (err != nil) != (name == "instance") {
				t.Errorf("somebody else: %v", err)
			}
		})
	}
}

func TestADayBeginsWithNothingSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := budget.New(time.Now), budget.Caps{Instance: 1}
		l.Add(budget.Payer{}, 1)
		_, err := l.Reserve(t.Context(), c, budget.Payer{}, 0)
		var reached *budget.CapReachedError
		if !errors.As(err, &reached) {
			t.Fatalf("%v", err)
		}
		time.Sleep(time.Until(reached.ResetsAt))
		over := reserve(t, l, c, budget.Payer{})
		time.Sleep(24 * time.Hour)
		over(0.25) // counts for the day on which it ended
		if got := l.Spent(budget.Payer{}); got != 0.25 {
			t.Errorf("spent %v, want 0.25", got)
		}
	})
}

func TestRequestsAtOnceDoNotPassACapTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := budget.New(time.Now), budget.Caps{User: 1}
		p := budget.Payer{User: "discord/1"}
		var wg sync.WaitGroup
		var mu sync.Mutex
		made, refused := 0, 0
		for range 50 {
			wg.Go(func() {
				settle, err := l.Reserve(t.Context(), c, p, 0.3)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					refused++
					return
				}
				made++
				wg.Go(func() { time.Sleep(time.Second); settle(0.3) })
			})
		}
		wg.Wait()
		if made != 4 || refused != 46 || math.Abs(l.Spent(p)-1.2) > 1e-9 {
			t.Errorf("made %d, refused %d, spent %v", made, refused, l.Spent(p))
		}
	})
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	l, c := budget.New(time.Now), budget.Caps{Instance: 1}
	if _, err := l.Reserve(t.Context(), c, budget.Payer{}, 5); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Reserve(ctx, c, budget.Payer{}, 5); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Whatever is asked one after another, a cap is passed by the last request alone.
func TestACapIsPassedByOneRequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, p := budget.New(time.Now), budget.Payer{Channel: "c", User: "u", Digest: "d"}
		c := budget.Caps{Instance: rapid.Float64Range(0.1, 3).Draw(t, "instance"),
			User: rapid.Float64Range(0.1, 3).Draw(t, "user")}
		last := 0.0
		for range 40 {
			settle, err := l.Reserve(context.Background(), c, p, rapid.Float64Range(0, 1).Draw(t, "expected"))
			if err != nil {
				break
			}
			last = rapid.Float64Range(0.01, 1).Draw(t, "cost")
			settle(last)
		}
		least := min(c.Instance, c.User)
		if got := l.Spent(budget.Payer{}); got-last >= least || got < min(least, 0.4) {
			t.Fatalf("spent %v, the last of it %v; the cap is %v", got, last, least)
		}
	})
}
