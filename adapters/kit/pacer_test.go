package kit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPacer_WaitsAsLongAsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Every: time.Second / 10, Burst: time.Second}
		send := func(key string, rest time.Duration, all bool) time.Duration {
			began := time.Now()
			turn, err := p.Enter(t.Context(), key, false)
			if err != nil {
				t.Fatal(err)
			}
			turn.Leave(rest, all)
			return time.Since(began)
		}
		if took := send("a", 5*time.Second, false); took != 0 {
			t.Errorf("the first waited %v", took)
		}
		if took := send("b", 0, false); took != 0 {
			t.Errorf("another key waited %v", took)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wait *WaitError
		if _, err := p.Enter(short, "a", false); !errors.As(err, &wait) || wait.After != 5*time.Second {
			t.Errorf("entering too early: %v", err)
		}
		if took := send("a", 2*time.Second, true); took != 5*time.Second {
			t.Errorf("the second waited %v", took)
		}
		if took := send("c", 0, false); took != 2*time.Second {
			t.Errorf("after a limit on all: %v", took)
		}
		began := time.Now()
		for range 30 {
			send("d", 0, false)
		}
		if took := time.Since(began); took < 1800*time.Millisecond || took > 2200*time.Millisecond {
			t.Errorf("30 requests at 10 a second and a burst of 10 took %v", took)
		}
		time.Sleep(2 * time.Minute)
		send("e", 0, false)
		if p.Len() != 0 {
			t.Errorf("%d keys are remembered", p.Len())
		}
	})
}

func TestPacer_SharedRate_IsDivided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pacer{Every: time.Second / 10, Burst: time.Second}
		p.Share(3)
		began := time.Now()
		for range 30 {
			turn, err := p.Enter(t.Context(), "a", false)
			if err != nil {
				t.Fatal(err)
			}
			turn.Leave(0, false)
		}
		if took := time.Since(began); took < 7500*time.Millisecond || took > 8500*time.Millisecond {
			t.Errorf("30 requests at a third of 10 a second took %v", took)
		}
	})
}

func TestPacer_OneAtATimeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pacer
		first, err := p.Enter(t.Context(), "a", true)
		if err != nil {
			t.Fatal(err)
		}
		entered := false
		go func() {
			turn, err := p.Enter(t.Context(), "a", true)
			if err == nil {
				entered = true
				turn.Leave(0, false)
			}
		}()
		synctest.Wait()
		if entered {
			t.Error("two were let in")
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.Enter(ended, "a", true); !errors.Is(err, context.Canceled) {
			t.Errorf("entering after the end: %v", err)
		}
		first.Leave(0, false)
		synctest.Wait()
		if !entered || p.Len() != 0 {
			t.Errorf("entered: %v, %d keys are remembered", entered, p.Len())
		}
	})
}
