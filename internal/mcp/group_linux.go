package mcp

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// ownGroup puts a process into a group of its own, so that all it starts can be
// ended with it, and has the kernel kill it should we be killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func signalGroup(leader *os.Process, sig syscall.Signal) {
	_ = syscall.Kill(-leader.Pid, sig) // fails only where none of the group is left
}

// awaitExit waits until a child has ended, and leaves it to be reaped. It reports false if
// the system call fails.
func awaitExit(pid int) bool {
	const (
		idOfProcess = 1
		exited      = 0x4
		dontReap    = 0x1000000
	)
	var info [128]byte
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idOfProcess, uintptr(pid), uintptr(unsafe.Pointer(&info)),
			exited|dontReap, 0, // the resources that were used are not asked for
			0) // not read: the call has five arguments
		if !errors.Is(errno, syscall.EINTR) {
			return errno == 0
		}
	}
}
