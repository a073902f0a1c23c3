package bolt

import (
	"os"
	"syscall"
)

// syncData waits until what was written to a file is on the disk.
func syncData(f *os.File) error {
	if err := syscall.Fdatasync(int(f.Fd())); err != nil {
		return os.NewSyscallError("fdatasync", err)
	}
	return nil
}
