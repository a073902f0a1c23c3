//go:build !unix

package mcp

import (
	"os"
	"syscall"
)

// ownGroup has nothing to ask for where there are no process groups.
func ownGroup() *syscall.SysProcAttr { return nil }

// signalGroup ends the process alone, and by force, which is all that can be done.
func signalGroup(leader *os.Process, _ syscall.Signal) {
	_ = leader.Kill() // one that has ended is what we want
}

// yield does nothing where a priority that was lowered cannot be raised again.
func yield(int) (rise func()) { return func() {} }

// awaitExit cannot wait here without reaping.
func awaitExit(int) bool { return false }
