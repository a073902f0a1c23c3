package workers_test

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"ravenbot/internal/core/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// self names the calling goroutine.
func self() string {
	b := make([]byte, 64)
	name, _, _ := strings.Cut(string(b[:runtime.Stack(b, false)]), " [")
	return name
}

func TestGroup_RunsEverythingAndWaits(t *testing.T) {
	var g workers.Group
	var n atomic.Int64
	for range 3 { // a group may be used again after Wait
		for range 500 {
			g.Go(func() {
				n.Add(1)
				g.Go(func() { n.Add(1) })
			})
		}
		g.Wait()
	}
	if n.Load() != 3000 {
		t.Fatal(n.Load(), "of 3000 functions have run")
	}
}

func TestGroup_UsesAGoroutineAgain(t *testing.T) {
	var g workers.Group
	defer g.Wait()
	names := map[string]bool{}
	for range 100 {
		name := make(chan string)
		g.Go(func() { name <- self() })
		names[<-name] = true
		for g.Idle() == 0 { // the function has returned, and its goroutine will wait soon
			runtime.Gosched()
		}
	}
	if len(names) != 1 {
		t.Fatal(len(names), "goroutines for functions one after the other")
	}
}

func TestGroup_KeepsFewGoroutines(t *testing.T) {
	var g workers.Group
	end := make(chan struct{})
	for range 500 {
		g.Go(func() { <-end })
	}
	close(end)
	g.WaitGroup.Wait()
	if n := g.Idle(); n != workers.MaxIdle {
		t.Fatal(n, "goroutines wait, want", workers.MaxIdle)
	}
	g.Wait()
}
