package bolt

import (
	"os"
	"syscall"
)

// isUnreachable reports whether nobody else can see what is in a file that is open for writing: it
// has no name, and nobody else has it open.
func isUnreachable(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || s.Nlink > 0 {
		return false
	}
	// The system grants a write lease only where there is no other descriptor of the file (fcntl(2)).
	// It ends when the file is closed.
	const setLease = 1024
	_, _, no := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), setLease, syscall.F_WRLCK)
	return no == 0
}
