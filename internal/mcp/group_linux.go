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
	_ = syscall.Kill(-leader.Pid, sig) // nobody left is what we want
}

// awaitExit waits until a child has ended, and leaves it to be reaped.
func awaitExit(pid int) bool {
	const (
		idOfProcess = 1
		exited      = 0x4
		dontReap    = 0x1000000
	)
	var info [128]byte
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idOfProcess, uintptr(pid),
			uintptr(unsafe.Pointer(&info)), exited|dontReap, 0, 0)
		if !errors.Is(errno, syscall.EINTR) {
			return errno == 0
		}
	}
}
