package app_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load is what a number of messages cost a bot.
type load struct {
	cpu, p50  float64 // ms a message
	perSecond float64
	peak      float64 // MiB
}

// measureLoad keeps a message in flight in each of some channels until n are answered.
func measureLoad(t *testing.T, kind string, inFlight, n int) load {
	t.Helper()
	w := newBenchWorld(t)
	c := w.start(t, kind)
	var channels []string
	for i := range inFlight {
		channels = append(channels, w.slack.AddChannel(fmt.Sprint("c", i)).ID)
	}
	for i := range 50 { // connections and caches are made
		w.exchange(t, channels[i%inFlight], i)
	}
	cpu, began := c.cpu(), time.Now()
	var left atomic.Int64
	left.Store(int64(n))
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	for _, channel := range channels {
		wg.Go(func() {
			for i := 1; left.Add(-1) >= 0; i++ {
				if i%20 == 0 { // looking through a long channel would be measured too
					channel = w.slack.AddChannel(fmt.Sprint(channel, i)).ID
				}
				d := w.exchange(t, channel, i)
				mu.Lock()
				took = append(took, d)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return load{
		cpu:       float64((c.cpu() - cpu).Microseconds()) / 1000 / float64(n),
		p50:       float64(took[len(took)/2].Microseconds()) / 1000,
		perSecond: float64(n) / time.Since(began).Seconds(),
		peak:      c.peak(),
	}
}

// besideRounds returns how many rounds of a comparison to take. It is made by hand.
func besideRounds(t *testing.T, variable string) (rounds int) {
	t.Helper()
	if _, err := fmt.Sscan(os.Getenv(variable), &rounds); err != nil {
		t.Skip(variable + " says how many rounds to take")
	}
	daemonBinary()
	return rounds
}

// columns are what is compared.
func columns() []column {
	return []column{
		{"cpu ms/message", func(l load) float64 { return l.cpu }},
		{"p50 ms", func(l load) float64 { return l.p50 }},
		{"messages/s", func(l load) float64 { return l.perSecond }},
		{"peak MiB", func(l load) float64 { return l.peak }},
	}
}

type column struct {
	what string
	of   func(load) float64
}

// compare measures kinds of bots in turns, so that the load of the machine falls on all, and prints the medians
// beside those of the first kind.
func compare(t *testing.T, rounds int, kinds []string) {
	t.Helper()
	for _, c := range []struct{ inFlight, messages int }{{1, 400}, {64, 6000}} {
		measured := map[string][]load{}
		for range rounds {
			for _, kind := range kinds {
				t.Run(kind, func(t *testing.T) {
					measured[kind] = append(measured[kind], measureLoad(t, kind, c.inFlight, c.messages))
				})
			}
		}
		median := func(kind string, of func(load) float64) float64 {
			var list []float64
			for _, l := range measured[kind] {
				list = append(list, of(l))
			}
			slices.Sort(list)
			return list[len(list)/2]
		}
		for _, column := range columns() {
			floor := median(kinds[0], column.of)
			for _, kind := range kinds[1:] {
				it := median(kind, column.of)
				t.Logf("%2d in flight  %-15s %s %8.2f  %s %8.2f  ratio %.2f", c.inFlight, column.what, kinds[0], floor,
					kind, it, it/floor)
			}
		}
	}
}

// TestBesideTheBareBot prints what a message costs beside a bare bot: RAVENBOT_BESIDE=5 go test -run Beside -v
// ./internal/app takes five rounds.
func TestBesideTheBareBot(t *testing.T) { compare(t, besideRounds(t, "RAVENBOT_BESIDE"), kinds()) }

// TestStoresUnderLoad prints what a message costs with PostgreSQL and one to three replicas beside a file:
// RAVENBOT_STORES=3 go test -run StoresUnderLoad -v ./internal/app takes three rounds.
func TestStoresUnderLoad(t *testing.T) {
	compare(t, besideRounds(t, "RAVENBOT_STORES"), []string{"ravenbot", "postgres 1", "postgres 2", "postgres 3"})
}
