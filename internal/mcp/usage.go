package mcp

import (
	"fmt"
	"syscall"
	"time"
)

const (
	// usageEvery is how often the processes of a server are counted.
	usageEvery = 5 * time.Second
	// maxServerProcesses is how many processes a server may have: browsers that servers steer have some dozens.
	maxServerProcesses = 512
)

type groupUsage struct {
	memory    int64 // bytes in RAM, shared pages counted for each process
	processes int
}

// excess returns in words what a server uses too much of; empty: nothing.
func (u groupUsage) excess(maxMemory int64) string {
	switch {
	case maxMemory > 0 && u.memory > maxMemory:
		return fmt.Sprintf("its processes used %d MiB of memory, where maxMemoryMB allows %d", u.memory>>20, maxMemory>>20)
	case u.processes > maxServerProcesses:
		return fmt.Sprintf("it had %d processes, where %d are allowed", u.processes, maxServerProcesses)
	}
	return ""
}

// limitUsage ends the process group where it uses too much, until the connection has ended. What has left the group is
// not counted.
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
			// Before the signal: the first reason counts, and the end of the process must not hide this one.
			s.fail(fmt.Errorf("%s; it was ended", excess))
			s.signal(syscall.SIGKILL)
			return
		}
	}
}
