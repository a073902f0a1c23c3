package feed

import (
	"fmt"
	"testing"
	"time"
)

// Feeds come and go for months; those that nobody reads any more are forgotten.
func TestFreshness_ManyFeedsOverTime_ForgetsThoseThatAreOver(t *testing.T) {
	var f freshness
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for n := range 20 * minSweep {
		address := fmt.Sprint("https://example.org/", n)
		until := now.Add(time.Hour)
		f.set(address, until, now)
		if got, ok := f.get(address); !ok || !got.Equal(until) {
			t.Fatalf("feed %d is fresh until %v, %v, want %v", n, got, ok, until)
		}
		if len(f.until) > 2*minSweep {
			t.Fatalf("after %d feeds %d are remembered", n, len(f.until))
		}
		now = now.Add(4 * time.Minute)
	}
}
