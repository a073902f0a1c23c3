//go:build !unix

package mcp

import (
	"os"
	"syscall"
)

// ownGroup returns nil: there are no process groups here.
func ownGroup() *syscall.SysProcAttr { return nil }

func signalGroup(leader *os.Process, _ syscall.Signal) {
	_ = leader.Kill() // fails only if the process has ended
}
