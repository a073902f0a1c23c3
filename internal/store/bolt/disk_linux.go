package bolt

import (
	"io/fs"
	"os"
	"syscall"
)

// copyOwner gives a file the owner of another one, if this process may: a command of root leaves a store to the user
// that the bot runs as. It goes by the descriptor, so that nobody can put a link to a file of root's in its place.
func copyOwner(f *os.File, of fs.FileInfo) {
	if s, ok := of.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(s.Uid), int(s.Gid)) // users other than root keep what they make
	}
}

// freeSpace returns the bytes that may be written to the disk of a folder, or false if that is not known.
func freeSpace(folder string) (int64, bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
