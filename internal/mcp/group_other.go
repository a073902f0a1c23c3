//go:build !unix

package mcp

import (
	"os"
	"syscall"
)

// ownGroup returns nil: there are no process groups here.
func ownGroup() *syscall.SysProcAttr { return nil }

// signalGroup kills the process alone, which is all that can be done here.
func signalGroup(leader *os.Process, _ syscall.Signal) {
	_ = leader.Kill() // fails only where it has ended already
}

// awaitExit reports false: the exit cannot be awaited here without reaping the process.
func awaitExit(int) bool { return false }
