package mcp

import (
	"os/exec"
	"testing"
)

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
