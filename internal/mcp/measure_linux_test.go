package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	sdk "github.com/mark3labs/mcp-go/mcp"
)

// p99 is the time within which 99 of 100 took place.
func p99(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)*99/100]
}

// steadyCalls calls servers at an even pace until told to stop, and gives what each call
// took. A call that fails ends the test.
func steadyCalls(t *testing.T, h *Host, names []string, stop <-chan struct{}) []time.Duration {
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	for _, name := range names {
		echo := find1(t, h, name, "echo")
		for range 2 {
			wg.Go(func() {
				pace := time.NewTicker(4 * time.Millisecond)
				defer pace.Stop()
				for {
					select {
					case <-stop:
						return
					case <-pace.C:
					}
					began := time.Now()
					res, err := echo.Call(t.Context(), json.RawMessage(`{"n":1}`))
					took := time.Since(began)
					if err != nil || res.Text != `{"n":1}` {
						t.Errorf("a call to %s: %+v, %v", name, res, err)
						return
					}
					mu.Lock()
					all = append(all, took)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	return all
}

// TestKillsHurtNobodyElse kills server processes under parallel calls to others.
// RAVENBOT_KILLS sets the number; if it is set, the time that the others' calls take must be
// within a fifth of the time without kills. Both are measured by turns, as a machine
// is faster in one minute than in the next.
func TestKillsHurtNobodyElse(t *testing.T) {
	kills, long := 8, false
	if n, err := strconv.Atoi(os.Getenv("RAVENBOT_KILLS")); err == nil {
		kills, long = n, true
	}
	var o Options
	var victims, others []string
	for i := range 4 {
		victims = append(victims, fmt.Sprint("victim", i))
		o.Servers = append(o.Servers, fakeServer(victims[i], "plain"))
	}
	for i := range 3 {
		others = append(others, fmt.Sprint("other", i))
		o.Servers = append(o.Servers, fakeServer(others[i], "plain"))
	}
	h := running(t, o)
	for _, c := range o.Servers {
		settled(t, h, c.Name)
	}
	runtime.GC()
	goroutines := runtime.NumGoroutine()

	var before, during []time.Duration
	for made := 0; made < kills && !t.Failed(); {
		some := min(50, kills-made)
		made += some
		quiet := make(chan struct{})
		pause := 100 * time.Millisecond // enough for calls to compare with
		if long {
			pause = time.Duration(1+some/6) * time.Second
		}
		time.AfterFunc(pause, func() { close(quiet) })
		before = append(before, steadyCalls(t, h, others, quiet)...)
		done := make(chan struct{})
		go func() {
			killEach(t, h, victims, some)
			close(done)
		}()
		during = append(during, steadyCalls(t, h, others, done)...)
	}
	if t.Failed() {
		return
	}
	with, without := p99(during), p99(before)
	t.Logf("%d kills: p99 of the others' %d calls %v, without kills %v of %d", kills, len(during), with,
		without, len(before))
	if long && with > without+without/5 {
		t.Errorf("p99 of the others' calls is %v, without kills %v", with, without)
	}
	if n := len(processes(t, "FAKE_MARK="+o.Servers[0].Env["FAKE_MARK"])); n != len(o.Servers) {
		t.Errorf("%d processes run for %d servers", n, len(o.Servers))
	}
	for deadline := time.Now().Add(soon); runtime.NumGoroutine() > goroutines; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
		}
	}
}

// killEach kills so many processes of servers, side by side, and returns when all
// serve again.
func killEach(t *testing.T, h *Host, names []string, kills int) {
	var left atomic.Int32
	left.Store(int32(kills))
	var wg sync.WaitGroup
	for _, name := range names {
		wg.Go(func() {
			for left.Add(-1) >= 0 && !t.Failed() {
				killOnce(t, h, name)
			}
		})
	}
	wg.Wait()
}

// killOnce kills a server's process, half of the time during a call, and waits until
// another serves.
func killOnce(t *testing.T, h *Host, name string) {
	id, err := strconv.Atoi(pid(t, h, name))
	if err != nil {
		t.Error(err)
		return
	}
	conn := connectionOf(h, name)
	var wg sync.WaitGroup
	if rand.IntN(2) == 0 {
		wg.Go(func() { // on this connection: the tool itself would wait for the next one
			if _, err := conn.call(t.Context(), "hang", json.RawMessage(`{}`), soon); err == nil {
				t.Error("a call to a process that was killed has a result")
			}
		})
	}
	if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	wg.Wait()
	reconnected(t, h, name, conn)
}

// BenchmarkCall compares a call through the host with the library's own round trip
// to the same server.
func BenchmarkCall(b *testing.B) {
	c := fakeServer("a", "plain")
	b.Run("bare", func(b *testing.B) {
		var env []string
		for k, v := range c.Env {
			env = append(env, k+"="+v)
		}
		bare, err := client.NewStdioMCPClient(c.Command, env)
		if err != nil {
			b.Fatal(err)
		}
		defer bare.Close()
		if _, err := bare.Initialize(b.Context(), sdk.InitializeRequest{}); err != nil {
			b.Fatal(err)
		}
		request := sdk.CallToolRequest{}
		request.Params.Name, request.Params.Arguments = "echo", json.RawMessage(`{"text":"hello"}`)
		for b.Loop() {
			if _, err := bare.CallTool(b.Context(), request); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("host", func(b *testing.B) {
		h := must(NewHost(Options{Servers: []Config{c}}))
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error)
		go func() { ended <- h.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		if err := h.Wait(ctx, "a"); err != nil {
			b.Fatal(err)
		}
		echo := h.Tools()
		i := slices.IndexFunc(names(echo), func(n string) bool { return n == "a/echo" })
		for b.Loop() {
			if res, err := echo[i].Call(ctx, json.RawMessage(`{"text":"hello"}`)); err != nil || res.IsError {
				b.Fatal(res, err)
			}
		}
	})
}
