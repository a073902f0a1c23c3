package mcp

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// usageOf returns what a process group uses; zero where that cannot be read.
func usageOf(group int) groupUsage { return countUsage()[group] }

// countUsage reads /proc. Processes that end meanwhile are left out.
func countUsage() map[int]groupUsage {
	groups := map[int]groupUsage{}
	files, _ := filepath.Glob("/proc/[1-9]*/stat") // fails only for a malformed pattern
	for _, file := range files {
		stat, _ := os.ReadFile(file) // empty where the process has ended
		// The name of the program is in parentheses and may hold any byte (proc_pid_stat(5)). Behind it, counted
		// from 0: the state, the parent, the group (2), and the pages in RAM (21).
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 22 || fields[0][0] == 'Z' { // what has ended and waits for its parent uses nothing
			continue
		}
		group, _ := strconv.Atoi(string(fields[2])) // the kernel writes numbers here
		pages, _ := strconv.Atoi(string(fields[21]))
		u := groups[group]
		u.memory += int64(pages) * int64(os.Getpagesize())
		u.processes++
		groups[group] = u
	}
	return groups
}
