package bolt

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
)

func fileIDOf(info fs.FileInfo) fileID {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return fileID{s.Dev, s.Ino}
	}
	return fileID{}
}

// bootID returns what names this run of the system, or "".
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
