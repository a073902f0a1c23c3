package bolt

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// fileIDOf returns the numbers of a file's device and inode, or zero where the system tells none.
func fileIDOf(info fs.FileInfo) fileID {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return fileID{s.Dev, s.Ino}
	}
	return fileID{}
}

// copyOwner gives a file the owner of another one, as far as this process may: a command of root leaves a store to the
// user that the bot runs as. By its descriptor, so that nobody can put a link to a file of root's in its place.
func copyOwner(f *os.File, of fs.FileInfo) {
	if s, ok := of.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(s.Uid), int(s.Gid)) // others than root keep what they make
	}
}

// bootID returns what names this run of the system, or "".
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// freeSpace returns the bytes that may be written to the disk of a folder, or false where that is
// not known.
func freeSpace(folder string) (int64, bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
