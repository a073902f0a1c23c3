//go:build !unix

package watchdog

import (
	"os"
	"syscall"
)

func newSession() *syscall.SysProcAttr { return nil }

// killGroup kills only the first process of a group: this system has no process groups.
func killGroup(group int) {
	if p, err := os.FindProcess(group); err == nil {
		_ = p.Kill()
	}
}
