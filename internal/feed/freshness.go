package feed

import (
	"maps"
	"sync"
	"time"
)

// freshness is until when feeds count as fresh beyond what their states say. It is safe for concurrent use; its zero
// value is ready for use.
type freshness struct {
	mu      sync.Mutex
	until   map[string]time.Time // by address
	sweepAt int                  // number of feeds at which those that nobody reads any more are forgotten
}

// minSweep is how many feeds are remembered before any is forgotten.
const minSweep = 1000

// get returns until when a feed counts as fresh, and false where that is not known.
func (f *freshness) get(address string) (until time.Time, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	until, ok = f.until[address]
	return until, ok
}

// set notes until when a feed counts as fresh. It forgets feeds that nobody has read for long.
func (f *freshness) set(address string, until, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.until == nil {
		f.until = map[string]time.Time{}
	}
	f.until[address] = until
	if len(f.until) < max(f.sweepAt, minSweep) {
		return
	}
	// What the state says is then over, too: it was set before, and for maxFresh and a tenth of it at most.
	maps.DeleteFunc(f.until, func(_ string, until time.Time) bool { return now.Sub(until) > 2*maxFresh })
	f.sweepAt = 2 * len(f.until) // so that few calls look at all of them
}

// forget takes back what was set for a feed.
func (f *freshness) forget(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.until, address)
}
