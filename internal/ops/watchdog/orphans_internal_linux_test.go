package watchdog

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// prSetChildSubreaper has this process get what its descendants leave behind, as the first process of a container does:
// PR_SET_CHILD_SUBREAPER of prctl(2).
const prSetChildSubreaper = 36

// What others have left behind is reaped once it has ended, and the exit status of a child stays for whoever waits.
func TestReapOrphans_LeavesOwnChildren(t *testing.T) {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		t.Skip("this system has no subreapers: ", errno)
	}
	// Other tests look for their own children.
	defer func() { _, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 0, 0) }()
	out, err := exec.Command("sh", "-c", `sleep 0.1 >/dev/null & echo $!`).Output()
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	wait := func(pid int, is bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); isEnded(pid) != is; <-time.After(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("process %d has ended and is not reaped: %v", pid, !is)
			}
		}
	}
	wait(orphan, true)
	first := reapOrphans(nil)
	// One that ended after the first look is not reaped by the second: somebody is about to.
	own := exec.Command("sh", "-c", "exit 7")
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	wait(own.Process.Pid, true)
	if !hasEndedChild() {
		t.Error("two children have ended, and none is noticed")
	}
	reapOrphans(first)
	wait(orphan, false)
	if err := own.Wait(); own.ProcessState.ExitCode() != 7 {
		t.Errorf("waiting for a child: %v, %v", own.ProcessState, err)
	}
	if hasEndedChild() {
		t.Error("all ended children are reaped, and one is noticed")
	}
}

// isEnded reports whether a child of this process has ended and is not reaped.
func isEnded(pid int) bool {
	for c := range endedChildren() {
		if c.pid == pid {
			return true
		}
	}
	return false
}
