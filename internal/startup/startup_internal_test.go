package startup

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// percent returns the percentage that is in effect.
func percent() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// TestDelayGC_FirstCollection_EndsIt: the heap of a long command must not grow to five times what is in use, and what a
// command has set stays.
func TestDelayGC_FirstCollection_EndsIt(t *testing.T) {
	t.Setenv("GOGC", "50")
	if delayGC() {
		t.Error("a GOGC in the environment does not count")
	}
	if err := os.Unsetenv("GOGC"); err != nil { // until the test ends
		t.Fatal(err)
	}
	const ofCommand = 150
	for _, c := range []struct{ set, want int }{{gcPercent, defaultPercent}, {ofCommand, ofCommand}} {
		if !delayGC() || percent() != gcPercent {
			t.Fatalf("%d at the start, want %d", percent(), gcPercent)
		}
		debug.SetGCPercent(c.set)
		for range 100 { // a cleanup runs some time after a collection
			runtime.GC()
			runtime.Gosched()
		}
		if got := percent(); got != c.want {
			t.Errorf("%d after a collection where a command has set %d, want %d", got, c.set, c.want)
		}
	}
}
