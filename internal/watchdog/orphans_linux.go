package watchdog

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// orphansEvery is how often ReapOrphans looks. Whoever has started a process waits for its end, and reaps it within a
// second of it.
const orphansEvery = 10 * time.Second

// ReapOrphans reaps what tool servers leave behind, until ctx ends, where this is the first process of a container: it
// gets every process there whose parent has ended, and each of them keeps a process id when it ends. Elsewhere it
// returns at once, since the first process is another one.
func ReapOrphans(ctx context.Context) {
	if os.Getpid() != 1 {
		return
	}
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
	ended := endedChildren()
	for c := range ended {
		if before[c] {
			_, _ = syscall.Wait4(c.pid, nil, syscall.WNOHANG, nil) // an error means that somebody has reaped it
		}
	}
	return ended
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
