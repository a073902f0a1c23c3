//go:build unix && !linux

package mcp

import (
	"os"
	"syscall"
)

// ownGroup puts a process into a group of its own, so that all it starts can be
// ended with it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func signalGroup(leader *os.Process, sig syscall.Signal) {
	_ = syscall.Kill(-leader.Pid, sig) // nobody left is what we want
}

// yield does nothing where a priority that was lowered cannot be raised again.
func yield(int) (rise func()) { return func() {} }

// awaitExit cannot wait here without reaping.
func awaitExit(int) bool { return false }
