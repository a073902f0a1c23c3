// Package measure counts the bot's operations, by labels with durations or by names with outcomes. Counting costs a
// short lock and no allocation once a label is known. Sums only grow while the process runs. Callers decide which
// operations are counted and how the sums are shown.
package measure

import (
	"maps"
	"sync"
	"time"
)

// Bounds are the upper bounds of the buckets of a Sum, in seconds: from a command's answer to the slowest model.
var Bounds = [...]float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300}

// Sum is how often something was done, and how long it took.
type Sum struct {
	Count   uint64
	Seconds float64             // of all together
	Within  [len(Bounds)]uint64 // how many took no longer than each of Bounds
}

// Plus returns the sum of both.
func (s Sum) Plus(other Sum) Sum {
	s.Count += other.Count
	s.Seconds += other.Seconds
	for i := range s.Within {
		s.Within[i] += other.Within[i]
	}
	return s
}

// Table has a Sum for each of some labels, of which there have to be few. The zero Table is empty; it is safe for
// concurrent use.
type Table[L comparable] struct {
	mu   sync.Mutex
	sums map[L]Sum
}

// Add counts something that took a time.
func (t *Table[L]) Add(label L, took time.Duration) {
	seconds := max(took.Seconds(), 0) // a clock may have been set back
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sums == nil {
		t.sums = map[L]Sum{}
	}
	s := t.sums[label]
	s.Count++
	s.Seconds += seconds
	for i, bound := range Bounds {
		if seconds <= bound {
			s.Within[i]++
		}
	}
	t.sums[label] = s
}

// Sums returns what was counted until now.
func (t *Table[L]) Sums() map[L]Sum {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.sums)
}
