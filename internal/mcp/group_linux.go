package mcp

import (
	"errors"
	"os"
	"sync/atomic"
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

// modesty is how far below us in priority (nice) a server is while it starts.
const modesty = 15

// mayRise is unset when the system is found not to let us raise a priority again,
// for want of CAP_SYS_NICE and of a limit on it (RLIMIT_NICE) of 20.
var mayRise atomic.Bool

func init() { mayRise.Store(true) }

// yield lets a process group come after everybody else who wants the processor, until
// rise is called: starting one costs hundreds of milliseconds of it, which calls to
// other servers would wait for. A group that has since chosen a priority of its own
// keeps it, and where we could not undo it nothing is done.
func yield(group int) (rise func()) {
	own, err := nice(syscall.PRIO_PROCESS, 0)
	low := min(own+modesty, 18) // not the lowest: one that asks for less is told from it
	if err != nil || own >= low || !mayRise.Load() {
		return func() {}
	}
	set := func(to int) bool { return syscall.Setpriority(syscall.PRIO_PGRP, group, to) == nil }
	if !set(own+1) || !set(own) { // one step, there and back: all that a refusal costs
		mayRise.Store(false)
		return func() {}
	}
	set(low)
	return func() {
		if now, err := nice(syscall.PRIO_PGRP, group); err == nil && now == low {
			set(own)
		}
	}
}

// nice is the priority of a process, or the best one in a group: -20 to 19, where
// less is before others.
func nice(which, id int) (int, error) {
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
