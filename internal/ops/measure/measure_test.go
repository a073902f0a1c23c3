package measure_test

import (
	"sync"
	"testing"
	"time"

	"ravenbot/internal/ops/measure"
)

func TestTheBucketsHoldAllThatTookNoLonger(t *testing.T) {
	var table measure.Table[string]
	if got := table.Sums(); len(got) != 0 {
		t.Errorf("an empty table has %v", got)
	}
	const label = "done"
	for _, took := range []time.Duration{50 * time.Millisecond, 51 * time.Millisecond, time.Hour, -time.Second} {
		table.Add(label, took)
	}
	s := table.Sums()[label]
	if s.Count != 4 || s.Within[0] != 2 || s.Within[1] != 3 || s.Within[len(s.Within)-1] != 3 || s.Seconds != 3600.101 {
		t.Errorf("the sum is %+v", s)
	}
	if twice := s.Plus(s); twice.Count != 8 || twice.Within[0] != 4 || twice.Seconds != 2*s.Seconds {
		t.Errorf("the sum of both is %+v", twice)
	}
}

func TestAllGoroutinesAreCounted(t *testing.T) {
	var table measure.Table[int]
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for i := range 100 {
				table.Add(i%3, time.Second)
				table.Sums()
			}
		})
	}
	wg.Wait()
	if s := table.Sums(); s[0].Count != 340 || s[1].Count+s[2].Count != 660 {
		t.Errorf("the table has %v", s)
	}
}
