package mcp

import (
	"fmt"
	"syscall"
	"time"
)

const (
	usageEvery = 5 * time.Second
	// maxServerProcesses bounds the processes of a server; browsers have some dozens.
	maxServerProcesses = 512
)

type groupUsage struct {
	memory    int64 // bytes in RAM, shared pages counted for each process
	processes int
}

// excess describes the limit that a server exceeds, or returns "".
func (u groupUsage) excess(maxMemory int64) string {
	switch {
	case maxMemory > 0 && u.memory > maxMemory:
		return fmt.Sprintf("its processes used %d MiB of memory, where maxMemoryMB allows %d", u.memory>>20, maxMemory>>20)
	case u.processes > maxServerProcesses:
		return fmt.Sprintf("it had %d processes, where %d are allowed", u.processes, maxServerProcesses)
	}
	return ""
}

// limitUsage ends the process group if it exceeds a limit. It does not count processes that left the group.
func (s *stdioTransport) limitUsage() {
	tick := time.NewTicker(usageEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
		}
		if excess := usageOf(s.cmd.Process.Pid).excess(s.c.MaxMemory); excess != "" {
			// First, so that the end of the process does not hide this reason.
			s.fail(fmt.Errorf("%s; it was ended", excess))
			s.signal(syscall.SIGKILL)
			return
		}
	}
}
