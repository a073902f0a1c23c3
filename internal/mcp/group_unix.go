//go:build unix && !linux

package mcp

import (
	"os"
	"syscall"
)

// ownGroup puts a process into a group of its own, so that all it starts can be ended with it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func signalGroup(leader *os.Process, sig syscall.Signal) {
	_ = syscall.Kill(-leader.Pid, sig) // fails only where none of the group is left
}

// awaitExit reports false: the exit cannot be awaited here without reaping the process.
func awaitExit(int) bool { return false }
