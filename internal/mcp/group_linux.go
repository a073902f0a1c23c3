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

// startNiceness is how far below us in priority (nice) a server is while it starts.
const startNiceness = 15

// canRestorePriority tells whether the system lets us raise a priority again that was lowered:
// for that it wants CAP_SYS_NICE, or a limit on it (RLIMIT_NICE) of 20.
var canRestorePriority = sync.OnceValue(func() bool {
	may := make(chan bool)
	go func() {
		runtime.LockOSThread() // and never unlocked: a thread that stays low ends here
		own, err := niceness(syscall.PRIO_PROCESS, 0)
		may <- err == nil && syscall.Setpriority(syscall.PRIO_PROCESS, 0, own+1) == nil &&
			syscall.Setpriority(syscall.PRIO_PROCESS, 0, own) == nil
	}()
	return <-may
})

// deprioritize lets a process group come after everybody else who wants the processor, until
// rise is called: starting one costs hundreds of milliseconds of it, which calls to
// other servers would wait for. A group that has chosen a priority of its own keeps it,
// and where we could not undo it nothing is done.
func deprioritize(group int) (rise func()) {
	own, err := niceness(syscall.PRIO_PROCESS, 0)
	low := min(own+startNiceness, 18) // not the lowest: one that asks for less is told from it
	if err != nil || own >= low || !canRestorePriority() {
		return func() {}
	}
	move := func(from, to int) {
		if now, err := niceness(syscall.PRIO_PGRP, group); err == nil && now == from {
			_ = syscall.Setpriority(syscall.PRIO_PGRP, group, to) // of one that has ended
		}
	}
	move(own, low)
	return func() { move(low, own) }
}

// niceness is the priority of a process, or the best one in a group: -20 to 19, where
// less is before others.
func niceness(which, id int) (int, error) {
	turned, err := syscall.Getpriority(which, id) // the kernel gives 20 less it
	return 20 - turned, err
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
