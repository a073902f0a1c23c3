package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ravenbot/internal/core/tool"
)

const soon = time.Minute // a deadline that only a failing test reaches

var marks atomic.Int64

// fakeServer is an entry for a fake. Its processes, and theirs, carry a mark by
// which leftovers are found.
func fakeServer(name, mode string, env ...string) Config {
	c := Config{Name: name, Command: os.Args[0], Env: map[string]string{"FAKE_MCP": mode, "GORACE": "atexit_sleep_ms=0"}}
	// Under go test -cover a process that has no folder for its figures complains as the last thing it does.
	if folder := flag.Lookup("test.gocoverdir").Value.String(); folder != "" {
		c.Env["GOCOVERDIR"] = folder
	}
	for _, v := range env {
		k, v, _ := strings.Cut(v, "=")
		c.Env[k] = v
	}
	return c
}

// parallelTests are the tests that run side by side, by name.
var parallelTests sync.Map

// waitBesideOthers runs a test in parallel: for tests that spend most of their time waiting.
func waitBesideOthers(t *testing.T) {
	t.Helper()
	parallelTests.Store(t.Name(), true)
	t.Parallel()
}

// running starts a host and, when the test ends, checks that it leaves nothing.
func running(t *testing.T, o Options) *Host {
	t.Helper()
	h, _ := hosted(t, o)
	return h
}

// hosted is running with a way to end the host earlier.
func hosted(t *testing.T, o Options) (*Host, func()) {
	t.Helper()
	testName, _, _ := strings.Cut(t.Name(), "/")
	_, isParallel := parallelTests.Load(testName)
	before := goleak.IgnoreCurrent()
	mark := fmt.Sprintf("FAKE_MARK=%d-%d", os.Getpid(), marks.Add(1))
	for i := range o.Servers {
		if env := o.Servers[i].Env; env != nil {
			_, env["FAKE_MARK"], _ = strings.Cut(mark, "=")
		}
	}
	if o.silence == 0 {
		o.silence = 150 * time.Millisecond
	}
	h, err := NewHost(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	end := sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(soon):
			t.Error("Run did not return after its context ended")
		}
	})
	t.Cleanup(func() {
		end()
		if left := processes(t, mark); len(left) > 0 {
			t.Errorf("processes were left behind: %v", left)
		}
		if isParallel { // other tests have goroutines and processes: runTests looks when all have ended
			return
		}
		if z := zombies(); len(z) > 0 {
			t.Errorf("zombies were left behind: %v", z)
		}
		goleak.VerifyNone(t, before)
	})
	return h, end
}

// processes gives the ids of live processes whose environment holds a mark.
func processes(t *testing.T, mark string) []int {
	t.Helper()
	var found []int
	for pid, dir := range procs() {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err == nil && slices.Contains(strings.Split(string(env), "\x00"), mark) {
			found = append(found, pid)
		}
	}
	return found
}

// zombies gives the ids of our children that nobody has reaped.
func zombies() []int {
	var found []int
	for pid, dir := range procs() {
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[0] == "Z" && fields[1] == strconv.Itoa(os.Getpid()) {
			found = append(found, pid)
		}
	}
	return found
}

func procs() map[int]string {
	if runtime.GOOS != "linux" {
		return nil
	}
	dirs := must(filepath.Glob("/proc/[0-9]*"))
	list := map[int]string{}
	for _, dir := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			list[pid] = dir
		}
	}
	return list
}

// until waits for a server to be in a state.
func until(t *testing.T, h *Host, name string, want State) Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	s := must(h.server(name))
	if !s.awaitState(ctx, func() bool { return s.publicState() == want }) {
		t.Fatalf("server %s is %+v; want state %s\n%v", name, s.status(), want, logLines(h, name))
	}
	return s.status()
}

// connectionOf returns the connection of a server, or nil.
func connectionOf(h *Host, name string) *connection {
	s := must(h.server(name))
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// reconnected waits until a server has another connection than it had before. Waiting for the states in between would
// miss those that last for a moment.
func reconnected(t *testing.T, h *Host, name string, before *connection) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	s := must(h.server(name))
	if !s.awaitState(ctx, func() bool { return s.conn != nil && s.conn != before }) {
		t.Fatalf("server %s did not come back: %+v\n%v", name, s.status(), logLines(h, name))
	}
}

// settled waits for the first attempt.
func settled(t *testing.T, h *Host, name string) Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if err := h.Wait(ctx, name); err != nil {
		t.Fatal(err)
	}
	st, _ := h.Get(name)
	return st
}

// lines waits until the log of a server holds a text.
func lines(t *testing.T, h *Host, name, want string) {
	t.Helper()
	deadline := time.After(soon)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, l := range logLines(h, name) {
			if strings.Contains(l.Stream+": "+l.Text, want) {
				return
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("the log of %s does not hold %q: %v", name, want, logLines(h, name))
		}
	}
}

func find1(t *testing.T, h *Host, server, name string) tool.Tool {
	t.Helper()
	for _, tl := range toolsOf(h, server) {
		if tl.Spec().Name == name {
			return tl
		}
	}
	t.Fatalf("server %s offers no tool %s", server, name)
	return nil
}

func call(t *testing.T, tl tool.Tool, args string) tool.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	res, err := tl.Call(ctx, json.RawMessage(args))
	if err != nil {
		t.Fatalf("call %s: %v", tl.Spec().Name, err)
	}
	return res
}

func wantText(t *testing.T, res tool.Result, want string) {
	t.Helper()
	if res.IsError || res.Text != want {
		t.Errorf("result %.300q (error: %v); want %q", res.Text, res.IsError, want)
	}
}

func wantFailure(t *testing.T, res tool.Result, want string) {
	t.Helper()
	if !res.IsError || !strings.Contains(res.Text, want) {
		t.Errorf("result %.300q (error: %v); want a failure that says %q", res.Text, res.IsError, want)
	}
}

func names(list []tool.Tool) []string {
	var n []string
	for _, t := range list {
		n = append(n, t.Spec().Server+"/"+t.Spec().Name)
	}
	return n
}

// must gives a value that a test cannot do without.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// toolsOf returns the offered tools of one server; none if there is no such server.
func toolsOf(h *Host, name string) []tool.Tool {
	s, err := h.server(name)
	if err != nil {
		return nil
	}
	return s.offeredTools()
}

// logLines returns the log of a server.
func logLines(h *Host, name string) []LogLine {
	lines, _ := h.Logs(name)
	return lines
}
