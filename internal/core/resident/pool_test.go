package resident

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPool_HoldsWhatFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(10)
		short := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		release, err := p.Take(short(), 7)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Take(short(), 4); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("4 of the 3 bytes left: %v", err)
		}
		began := time.Now()
		time.AfterFunc(time.Minute, release)
		large, err := p.Take(t.Context(), 1000)
		if err != nil || time.Since(began) != time.Minute {
			t.Errorf("more than there is: %v after %v", err, time.Since(began))
		}
		if _, err := p.Take(short(), 1); err == nil {
			t.Error("what is larger than the pool does not have all of it")
		}
		large()
		if _, err := p.Take(short(), 10); err != nil {
			t.Errorf("what was released: %v", err)
		}
	})
}

func TestPool_Nil_BoundsNothing(t *testing.T) {
	var p *Pool
	if p.Size() < 1<<60 || NewPool(7).Size() != 7 {
		t.Error("the sizes are wrong")
	}
	for range 2 {
		if _, err := p.Take(t.Context(), 1<<60); err != nil {
			t.Error(err)
		}
	}
}

// A caller that holds memory does not wait for more, and a request that exceeds the pool needs all of it.
func TestPool_TryTake_NeverWaits(t *testing.T) {
	p := NewPool(10)
	some, ok := p.TryTake(4)
	if !ok {
		t.Fatal("4 of 10 bytes are refused")
	}
	for n, want := range map[int64]bool{6: true, 7: false, 1000: false} {
		release, ok := p.TryTake(n)
		if ok != want {
			t.Errorf("%d of the 6 bytes left: %v", n, ok)
		}
		if ok {
			release()
		}
	}
	some()
	if _, ok := p.TryTake(1000); !ok {
		t.Error("what is larger than the pool is refused all of it")
	}
	if _, ok := (*Pool)(nil).TryTake(1 << 60); !ok {
		t.Error("a nil Pool bounds something")
	}
}
