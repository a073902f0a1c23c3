package mcp

import (
	"syscall"
	"testing"
	"time"
)

// A server comes after others while it starts, with all that it has started, and not
// when its tools are known.
func TestAStartingServerComesAfterOthers(t *testing.T) {
	own, err := niceness(syscall.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	h := running(t, Options{Servers: []Config{fakeServer("a", "slow")}})
	s := must(h.server("a"))
	mark := "FAKE_MARK=" + s.c.Env["FAKE_MARK"]
	var pids []int
	for deadline := time.Now().Add(soon); len(pids) == 0; {
		if pids = processes(t, mark); time.Now().After(deadline) {
			t.Fatal("nothing is started")
		}
	}
	level := func() int { n, _ := niceness(syscall.PRIO_PROCESS, pids[0]); return n }
	starting := level()
	for deadline := time.Now().Add(time.Second); starting != own+startNiceness && s.status().State == Connecting &&
		time.Now().Before(deadline); starting = level() {
	}
	settled(t, h, "a")
	if !canRestorePriority() {
		t.Skip("no priority may be raised here")
	}
	if starting != own+startNiceness || level() != own {
		t.Errorf("its nice value is %d while it starts and %d then; ours is %d", starting, level(), own)
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
	pids := processes(t, "FAKE_MARK="+c.Env["FAKE_MARK"])
	if n, err := niceness(syscall.PRIO_PROCESS, pids[0]); err != nil || n <= own {
		t.Errorf("its nice value is %d, %v; ours is %d", n, err, own)
	}
}
