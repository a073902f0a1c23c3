package mcp

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A server comes after others while it starts, with all that it has started, and not
// when its tools are known.
func TestAStartingServerComesAfterOthers(t *testing.T) {
	if !canRestorePriority() {
		t.Skip("no priority may be raised here")
	}
	own, err := niceness(syscall.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := min(own+startNiceness, 18)
	if own >= want {
		t.Skip("the tests have a priority that cannot be lowered")
	}
	gate := filepath.Join(t.TempDir(), "gate")
	h := running(t, Options{Servers: []Config{fakeServer("a", "gated", "FAKE_GATE="+gate)}, StartTimeout: 2 * soon})
	mark := "FAKE_MARK=" + must(h.server("a")).c.Env["FAKE_MARK"]
	var pids []int
	level := -100
	for deadline := time.Now().Add(soon); level != want; <-time.After(10 * time.Millisecond) {
		if pids = processes(t, mark); len(pids) > 0 {
			level, err = niceness(syscall.PRIO_PROCESS, pids[0])
		}
		if time.Now().After(deadline) {
			t.Fatalf("while it starts its nice value is %d (%v), want %d; ours is %d", level, err, want, own)
		}
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	settled(t, h, "a")
	// At once, and not only after the longest time that a server may take to start.
	if level, err := niceness(syscall.PRIO_PROCESS, pids[0]); err != nil || level != own {
		t.Errorf("when it has started its nice value is %d (%v), want %d", level, err, own)
	}
}

// One that has chosen its own place keeps it.
func TestAServerMayChooseToComeAfterOthers(t *testing.T) {
	c := fakeServer("a", "plain")
	c.Command, c.Args = "nice", []string{"-n", "4", c.Command}
	h := running(t, Options{Servers: []Config{c}})
	settled(t, h, "a")
	if !canRestorePriority() {
		t.Skip("no priority may be raised here")
	}
	own, _ := niceness(syscall.PRIO_PROCESS, 0)
	if own == 19 {
		t.Skip("the tests have the lowest priority that there is")
	}
	pids := processes(t, "FAKE_MARK="+c.Env["FAKE_MARK"])
	if n, err := niceness(syscall.PRIO_PROCESS, pids[0]); err != nil || n <= own {
		t.Errorf("its nice value is %d, %v; ours is %d", n, err, own)
	}
}

// The process that has ended is left to whoever reaps it: until then nobody else gets its id.
func TestAwaitExit_LeavesTheProcessToBeReaped(t *testing.T) {
	cmd := exec.Command("sh", "-c", "exit 7")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !awaitExit(cmd.Process.Pid) {
		t.Error("the exit of a child cannot be awaited")
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("afterwards it is reaped with: %v", err)
	}
	if awaitExit(cmd.Process.Pid) {
		t.Error("a process that has been reaped was awaited")
	}
}
