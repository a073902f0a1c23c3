package bolt

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// lockHolder returns the id of another process that holds a lock of the file at path, or 0 where that cannot be known:
// the process is in another container, or the file system (btrfs, some network file systems) counts its files otherwise
// than the list of locks does.
func lockHolder(path string) int {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	list, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer func() { _ = list.Close() }() // it was only read
	dev := uint64(sys.Dev)
	// As glibc's gnu_dev_major and gnu_dev_minor take a number of a device apart.
	major, minor := dev>>8&0xfff|dev>>32&^0xfff, dev&0xff|dev>>12&^0xff
	file := fmt.Sprintf("%02x:%02x:%d", major, minor, sys.Ino)
	for lines := bufio.NewScanner(list); lines.Scan(); {
		// 1: FLOCK  ADVISORY  WRITE 3731 fe:00:261733 0 EOF. Of who waits for a lock the second word is an arrow (proc(5)).
		words := strings.Fields(lines.Text())
		if len(words) < 6 || words[1] != "FLOCK" || words[5] != file {
			continue
		}
		// A process that is not seen from here has the id 0 or less.
		if id, err := strconv.Atoi(words[4]); err == nil && id > 0 && id != os.Getpid() {
			return id
		}
	}
	return 0
}
