// Package resident keeps the process's resident memory, as the system counts it, to what the work needs.
package resident

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Release gives back what the process has needed so far and may not need again, such as what only starting took: the
// free memory of the heap, and the pages of the program's file. The system keeps these in its cache, and maps those
// that are still used when they are: of a bot that does nothing 1 of 18 MB (measured 2026-11-28). That something cannot
// be released is no error.
func Release() {
	debug.FreeOSMemory()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	pages := programPages(maps)
	_ = mapOnlyTouched(pages)
	for _, m := range pages {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// programPages returns where code and constants of the program are, of a list of mappings in the form of
// proc_pid_smaps(5): those that cannot be written, and of which the file has every page as it is in memory. A page that
// was changed before it was protected, as the loader does with addresses, is anonymous memory.
func programPages(smaps []byte) (pages []mapping) {
	program, err := os.Readlink("/proc/self/exe")
	lines := bufio.NewScanner(bytes.NewReader(smaps))
	var m mapping
	isProgram := false
	for err == nil && lines.Scan() {
		line := lines.Text()
		var at mapping
		var access, offset, device, inode, path string
		n, _ := fmt.Sscanf(line, "%x-%x %s %s %s %s %s", &at.from, &at.to, &access, &offset, &device, &inode, &path)
		switch {
		case n >= 6:
			m, isProgram = at, path == program && (access == "r-xp" || access == "r--p")
		case isProgram && strings.HasPrefix(line, "Anonymous:"):
			if strings.Fields(line)[1] == "0" {
				pages = append(pages, m)
			}
		}
	}
	return pages
}

// Constants of userfaultfd(2) and ioctl_userfaultfd(2), by their names there; the requests as on amd64 and arm64.
const (
	uffdUserModeOnly     = 1 // needs no rights
	uffdAPI              = 0xaa
	uffdFeatureWPAsync   = 1 << 15
	uffdioRegisterModeWP = 1 << 1
	uffdioAPI            = 0xc018aa3f
	uffdioRegister       = 0xc020aa00
)

// mapOnlyTouched has the system map only the pages of some ranges of files that are touched from now on. As a rule it
// maps those around them as well, up to 64 KB, which are 25 MB where a busy bot uses 7 of the program (measured
// 2026-11-28).
//
// There is no setting for that. But Linux, since 6.7, maps single pages where a range is registered by userfaultfd(2)
// for write protection without notification (uffd_disable_fault_around in its include/linux/userfaultfd_k.h). Nothing
// is ever protected, so that the registration has no other effect. The error tells that the system is older, or does
// not allow the call, as under Docker's seccomp profile: then more is mapped. Or it was done before (EBUSY).
func mapOnlyTouched(ranges []mapping) (err error) {
	fd, _, e := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|uffdUserModeOnly, 0, 0)
	if e != 0 {
		return fmt.Errorf("userfaultfd: %w", e)
	}
	// The registration lasts as long as the descriptor is open, which is until the process ends.
	defer func() {
		if err != nil {
			_ = unix.Close(int(fd))
		}
	}()
	api := struct{ api, features, ioctls uint64 }{api: uffdAPI, features: uffdFeatureWPAsync}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, fd, uffdioAPI, uintptr(unsafe.Pointer(&api))); e != 0 {
		return fmt.Errorf("userfaultfd features: %w", e)
	}
	for _, r := range ranges {
		what := struct{ from, length, mode, ioctls uint64 }{from: uint64(r.from), length: uint64(r.to - r.from),
			mode: uffdioRegisterModeWP}
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, fd, uffdioRegister, uintptr(unsafe.Pointer(&what))); e != 0 {
			return fmt.Errorf("userfaultfd range %x-%x: %w", r.from, r.to, e)
		}
	}
	return nil
}
