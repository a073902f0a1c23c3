package kit

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

func TestQueues_KeepTheOrderOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := NewQueues(ctx)
		var order []string
		hold := make(chan struct{})
		q.Do("a", func() { <-hold; order = append(order, "a1") })
		q.Do("a", func() { order = append(order, "a2") })
		q.Do("b", func() { order = append(order, "b1"); close(hold) })
		synctest.Wait()
		if want := []string{"b1", "a1", "a2"}; !slices.Equal(order, want) {
			t.Errorf("ran %q, want %q", order, want)
		}
		q.Do("a", func() { cancel() })
		q.Do("a", func() { t.Error("a job ran after the end") })
		<-ctx.Done() // Wait may be called from then on
		q.Wait()
		q.Do("c", func() { t.Error("a job ran after the end") })
		if len(q.waiting) > 1 {
			t.Errorf("%d keys are left", len(q.waiting))
		}
	})
}
