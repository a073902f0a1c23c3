package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// closeProcess keeps other programs of the same user, such as tool servers, from reading the secrets of this process:
// its memory is closed to them (which also turns core dumps off), and its start environment is overwritten. Go keeps a
// copy of the variables, so that they can still be looked up. Programs that are started afterwards are not affected.
func closeProcess() error {
	// Needed besides, since root, as in many containers, may read a closed process, too. It comes first: once a process is
	// closed its files under /proc belong to root, and an ordinary user's process cannot write to them.
	erased := eraseEnvironment()
	const none = 0
	var closed error
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, none, none); errno != 0 {
		closed = fmt.Errorf("close the memory of the process to others: %w", errno)
	}
	return errors.Join(erased, closed)
}

// eraseEnvironment overwrites the environment that /proc/PID/environ shows.
func eraseEnvironment() error {
	begin, end, err := environmentRange()
	if err != nil {
		return fmt.Errorf("find the start environment: %w", err)
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("erase the start environment: %w", err)
	}
	_, err = memory.WriteAt(make([]byte, end-begin), begin)
	if err = errors.Join(err, memory.Close()); err != nil {
		return fmt.Errorf("erase the start environment: %w", err)
	}
	return nil
}

// environmentRange returns where in memory the start environment is: fields 50 and 51 of /proc/self/stat, see
// proc_pid_stat(5).
func environmentRange() (begin, end int64, err error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0, err
	}
	// Field 2 is the program's name in parentheses, which may hold blanks and parentheses itself.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const first = 3
	if len(fields) <= 51-first {
		return 0, 0, errors.New("/proc/self/stat has too few fields")
	}
	begin, err = strconv.ParseInt(string(fields[50-first]), 10, 64)
	if err == nil {
		end, err = strconv.ParseInt(string(fields[51-first]), 10, 64)
	}
	if err == nil && (begin <= 0 || end < begin) {
		err = errors.New("/proc/self/stat does not say where it is")
	}
	return begin, end, err
}

// diagnoseProcess says how far secrets in this process are kept from tool servers. It closes this process as the daemon
// closes itself.
func diagnoseProcess() finding {
	if err := closeProcess(); err != nil {
		return finding{
			Name:  "secrets in memory and environment",
			Cause: err.Error(),
			Lost:  "tool servers may read the bot's keys",
			Fix:   "run ravenbot with access to prctl and /proc/self/mem",
		}
	}
	return finding{Name: "secrets in memory and environment are closed to tool servers", OK: true}
}
