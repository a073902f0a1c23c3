package watchdog

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// orphansEvery is how often ReapOrphans looks. Whoever has started a process waits for its end, and reaps it within a
// second of it.
const orphansEvery = 10 * time.Second

// ReapOrphans reaps the ended children that nobody else waits for, until ctx ends; else each of them keeps a process id.
// Where this is the first process of a container it gets every process there whose parent has ended, such as what tool
// servers leave behind. Where this program has begun anew in its process, it has the tool servers of before.
func ReapOrphans(ctx context.Context) {
	look := time.NewTicker(orphansEvery)
	defer look.Stop()
	var ended map[child]bool
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			ended = reapOrphans(ended)
		}
	}
}

// reapOrphans reaps the children of this process that had ended at the look before, too, and returns those that have
// ended by now. Of the others somebody may be about to get the exit status.
func reapOrphans(before map[child]bool) map[child]bool {
	if !hasEndedChild() { // mostly, and the machine may have many processes
		return nil
	}
	ended := endedChildren()
	for c := range ended {
		if before[c] {
			_, _ = syscall.Wait4(c.pid, nil, syscall.WNOHANG, nil) // an error means that somebody has reaped it
		}
	}
	return ended
}

// hasEndedChild reports whether any child of this process has ended and is not reaped, see waitid(2).
func hasEndedChild() bool {
	const (
		anyChild = 0
		exited   = 0x4
		dontWait = 0x1
		dontReap = 0x1000000
	)
	var info [128]byte // begins with the number of a signal, which stays 0 where there is none
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, anyChild, 0, uintptr(unsafe.Pointer(&info)),
		exited|dontWait|dontReap, 0, 0)
	return errno == 0 && info != [128]byte{}
}

// child is a process. Its id alone is not enough: the system reuses it.
type child struct {
	pid   int
	began string // as the system counts
}

// endedChildren returns the children of this process that have ended and are not reaped.
func endedChildren() map[child]bool {
	ended := map[child]bool{}
	parent := strconv.Itoa(os.Getpid())
	paths, _ := filepath.Glob("/proc/[0-9]*/stat") // fails for bad patterns only
	for _, path := range paths {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it is gone
		}
		// The second field is the program's name in parentheses, which may hold blanks and parentheses itself. State,
		// parent and start are the fields 3, 4 and 22, see proc_pid_stat(5).
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		const first = 3
		if len(fields) <= 22-first || string(fields[0]) != "Z" || string(fields[4-first]) != parent {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil {
			ended[child{pid, string(fields[22-first])}] = true
		}
	}
	return ended
}
