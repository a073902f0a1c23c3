package mcp

import (
	"os/exec"
	"testing"
)

// awaitExit does not reap the process, whose id stays reserved until then.
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
