package measure

import (
	"maps"
	"sync"
)

// Total is how often something was done, and what came of it.
type Total struct {
	Count   uint64
	Failed  uint64  // of Count
	Seconds float64 // that all of them took; 0 where that is not measured
	Results uint64  // what came of them, such as the stories that a digest posted
}

// Plus returns the sum of both.
func (t Total) Plus(other Total) Total {
	return Total{t.Count + other.Count, t.Failed + other.Failed, t.Seconds + other.Seconds, t.Results + other.Results}
}

// Minus returns what a total has grown by since it was earlier.
func (t Total) Minus(earlier Total) Total {
	return Total{t.Count - earlier.Count, t.Failed - earlier.Failed, t.Seconds - earlier.Seconds,
		t.Results - earlier.Results}
}

// Totals has a Total for each of some names. The zero Totals is empty; it is safe for concurrent use.
type Totals struct {
	mu     sync.Mutex
	byName map[string]Total
}

// Add adds to the total of a name.
func (t *Totals) Add(name string, more Total) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byName == nil {
		t.byName = map[string]Total{}
	}
	t.byName[name] = t.byName[name].Plus(more)
}

// All returns what was added until now, by name.
func (t *Totals) All() map[string]Total {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.byName)
}
