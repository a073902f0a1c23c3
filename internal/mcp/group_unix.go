//go:build unix && !linux

package mcp

import (
	"os"
	"syscall"
)

// ownGroup puts a process into its own group, so that its descendants can be ended with it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func signalGroup(leader *os.Process, sig syscall.Signal) {
	_ = syscall.Kill(-leader.Pid, sig) // fails only if the group is empty
}
