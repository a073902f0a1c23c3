package mcp

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup puts a process into a group of its own, so that all it starts can be
// ended with it, and has the kernel kill it should we be killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func signalGroup(leader *os.Process, sig syscall.Signal) {
	_ = syscall.Kill(-leader.Pid, sig) // fails only where none of the group is left
}

// awaitExit waits until a child has ended, and leaves it to be reaped. It reports false if the system call fails.
func awaitExit(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
