package mcp

import (
	"errors"
	"os"
	"runtime"
	"sync"
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

// startNiceness is added to our niceness for a server that starts.
const startNiceness = 15

// canRestorePriority reports whether the system lets us raise a priority again that was
// lowered, which takes CAP_SYS_NICE or an RLIMIT_NICE of 20. It tries once, on a thread of
// its own.
var canRestorePriority = sync.OnceValue(func() bool {
	may := make(chan bool)
	go func() {
		runtime.LockOSThread() // never unlocked: if the priority stays low, the thread ends with the goroutine
		own, err := niceness(syscall.PRIO_PROCESS, 0)
		may <- err == nil && syscall.Setpriority(syscall.PRIO_PROCESS, 0, own+1) == nil &&
			syscall.Setpriority(syscall.PRIO_PROCESS, 0, own) == nil
	}()
	return <-may
})

// deprioritize lowers the priority of a process group until restore is called: starting a
// server takes hundreds of milliseconds of processor time, for which calls to other
// servers would wait (see ARCHITECTURE for the measurement). A group that has set a
// priority of its own keeps it. Where the priority could not be restored, nothing is done.
func deprioritize(group int) (restore func()) {
	own, err := niceness(syscall.PRIO_PROCESS, 0)
	low := min(own+startNiceness, 18) // not 19: a process that lowers itself to the minimum is told apart
	if err != nil || own >= low || !canRestorePriority() {
		return func() {}
	}
	move := func(from, to int) {
		if now, err := niceness(syscall.PRIO_PGRP, group); err == nil && now == from {
			_ = syscall.Setpriority(syscall.PRIO_PGRP, group, to) // fails where the group has ended
		}
	}
	move(own, low)
	return func() { move(low, own) }
}

// niceness returns the niceness of a process, or the lowest in a group: -20 to 19, where
// less goes before others.
func niceness(which, id int) (int, error) {
	inverted, err := syscall.Getpriority(which, id) // the system call returns 20-nice, to stay positive
	return 20 - inverted, err
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
