package mcp

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup puts a process into its own group, so that its descendants can be ended with it. The kernel kills the
// process if the bot is killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func signalGroup(leader *os.Process, sig syscall.Signal) {
	_ = syscall.Kill(-leader.Pid, sig) // fails only if the group is empty
}

// awaitExit waits until a child has ended, without reaping it. It returns false if the system call fails.
func awaitExit(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
