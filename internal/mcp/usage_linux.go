package mcp

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// usageOf returns the usage of a process group, or zero if it cannot be read.
func usageOf(group int) groupUsage { return countUsage()[group] }

func countUsage() map[int]groupUsage {
	groups := map[int]groupUsage{}
	files, _ := filepath.Glob("/proc/[1-9]*/stat") // fails only for a malformed pattern
	for _, file := range files {
		stat, _ := os.ReadFile(file) // empty if the process has ended
		// After the program's name in parentheses (proc_pid_stat(5)), counted from 0: the state, the parent, the group
		// (2), the pages in RAM (21).
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 22 || fields[0][0] == 'Z' { // a zombie uses nothing
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
