package measure_test

import (
	"sync"
	"testing"

	"ravenbot/internal/ops/measure"
)

func TestTotals_AddUpByName(t *testing.T) {
	var totals measure.Totals
	if got := totals.All(); len(got) != 0 {
		t.Errorf("without any there are %v", got)
	}
	one := measure.Total{Count: 2, Failed: 1, Seconds: 0.5, Results: 3}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 100 {
				totals.Add("a", one)
				totals.All()["a"] = measure.Total{} // what is returned is the caller's
			}
		})
	}
	totals.Add("b", one)
	wg.Wait()
	all := totals.All()
	want := measure.Total{Count: 2000, Failed: 1000, Seconds: 500, Results: 3000}
	if all["a"] != want || all["b"] != one {
		t.Errorf("the totals are %+v, want %+v and %+v", all, want, one)
	}
	if got := all["a"].Minus(one).Plus(one); got != all["a"] || got.Minus(got) != (measure.Total{}) {
		t.Errorf("less and more is %+v", got)
	}
}
