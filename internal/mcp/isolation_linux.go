package mcp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// scopeABI is the first version of Landlock's interface that can restrict signals (Linux 6.12).
const scopeABI = 6

// networkABI is the first version that can restrict TCP (Linux 6.7).
const networkABI = 4

// Limits of a server's process.
const (
	// Far more than servers need, but a server that leaks cannot exhaust the machine.
	maxServerFiles    = 4096
	maxServerFileSize = 16 << 30
	serverOOMScore    = "500" // the kernel ends servers before the bot if memory runs out
)

const (
	readFile = landlock.AccessFSReadFile | landlock.AccessFSExecute
	// fileAccess are the rights in a rule for a file; the others apply to folders.
	fileAccess = readFile | landlock.AccessFSWriteFile | landlock.AccessFSTruncate | landlock.AccessFSIoctlDev
	// allAccess are the rights of ABI 1; accessOf adds later ones.
	allAccess = readFile | landlock.AccessFSWriteFile | landlock.AccessFSReadDir | landlock.AccessFSRemoveDir |
		landlock.AccessFSRemoveFile | landlock.AccessFSMakeChar | landlock.AccessFSMakeDir | landlock.AccessFSMakeReg |
		landlock.AccessFSMakeSock | landlock.AccessFSMakeFifo | landlock.AccessFSMakeBlock | landlock.AccessFSMakeSym
)

// accessOf returns the rights in a version of Landlock's interface (landlock(7), Linux 6.15).
func accessOf(abi int) uint64 {
	access := uint64(allAccess)
	if abi >= 2 {
		access |= landlock.AccessFSRefer
	}
	if abi >= 3 {
		access |= landlock.AccessFSTruncate
	}
	if abi >= 5 {
		access |= landlock.AccessFSIoctlDev
	}
	return access
}

// isolateThread isolates the calling thread, and so all processes that it starts. The thread must be locked to its
// goroutine and end with it. It describes the isolation that the system can enforce.
//
// Root covers hidden files in a mount namespace of the thread. Without the right to mount, Landlock allows everything
// except hidden files; new entries in a folder with a hidden file are then not allowed.
//
// It returns an error if withoutNetwork cannot be enforced, because the operator relies on it.
func isolateThread(g guarded, withoutNetwork bool) ([]string, error) {
	// An empty network namespace blocks everything. Landlock restricts only TCP (Linux 6.7).
	cut := withoutNetwork && syscall.Unshare(syscall.CLONE_NEWNET) == nil
	covered := coverPaths(g)
	allow := allowed{all: []string{"/"}}
	if !covered {
		allow = allowAround(g)
	}
	if g.isStrict {
		allow = allowed{g.writable, append(allow.all, allow.read...), allow.list}
	}
	dropCapabilities() // after the mounts, which need one of them
	abi, err := landlock.LandlockGetABIVersion()
	withoutTCP := withoutNetwork && !cut
	if err == nil {
		err = restrictThread(abi, allow, withoutTCP)
	}
	if g.isStrict && err != nil {
		return nil, fmt.Errorf("mcp.isolation strict requires a kernel with Landlock: %w", err)
	}
	notes, err := isolationOutcome{len(g.hidden), len(g.readOnly), covered, abi, err, cut, withoutTCP}.notes()
	if g.isStrict {
		notes = append(notes, "can write only to its own folders")
	}
	return notes, err
}

type isolationOutcome struct {
	hidden    int   // files and folders to hide
	readOnly  int   // files and folders to make read-only
	covered   bool  // they are covered by mounts
	abi       int   // the version of Landlock's interface
	landlock  error // the error if Landlock does not restrict the thread
	noNetwork bool
	noTCP     bool // Landlock must block TCP
}

// notes describes the outcome, or returns the error of isolateThread.
func (o isolationOutcome) notes() ([]string, error) {
	if o.noTCP && (o.landlock != nil || o.abi < networkABI) {
		return nil, errors.New("network none requires root, or Linux 6.7 with Landlock")
	}
	files := fmt.Sprintf("cannot open the bot's own files and the credentials in the home folder (%d hidden)", o.hidden)
	switch {
	case !o.covered && o.landlock != nil:
		files = "can open every file that the bot can: hiding files requires root, or a kernel with Landlock"
	case !o.covered:
		files += ", or create files directly in a folder that contains one: set its own cwd, or allowPaths"
	}
	processes := "cannot inspect other processes"
	switch {
	case o.landlock != nil:
		processes = fmt.Sprintf("can inspect and signal the processes of its user (no Landlock: %v)", o.landlock)
	case o.abi >= scopeABI:
		processes += " or signal them"
	}
	notes := []string{files, processes}
	if o.readOnly > 0 && (o.covered || o.landlock == nil) {
		notes = append(notes, fmt.Sprintf("cannot change programs of the bot and other servers, or skills and files of agents "+
			"(%d read-only)", o.readOnly))
	}
	switch {
	case o.noNetwork:
		notes = append(notes, "has no network")
	case o.noTCP:
		notes = append(notes, "can use UDP, but not TCP")
	}
	return notes, nil
}

var homeCaches = []string{".cache", ".local/share"}

// makeHomeCaches creates missing homeCaches. Landlock may keep a server from creating them, and its first start could
// fail.
func makeHomeCaches() {
	home, err := os.UserHomeDir()
	if err != nil {
		return
	}
	for _, name := range homeCaches {
		_ = os.MkdirAll(filepath.Join(home, name), 0o700) // the server reports the error
	}
}

// isMainThread reports whether the goroutine runs on the first thread of the process.
func isMainThread() bool { return syscall.Gettid() == os.Getpid() }

// droppedCapabilities are capabilities of root (capabilities(7)) that would allow a server to bypass its isolation.
var droppedCapabilities = []uintptr{
	2,  // CAP_DAC_READ_SEARCH
	16, // CAP_SYS_MODULE
	17, // CAP_SYS_RAWIO
	19, // CAP_SYS_PTRACE
	21, // CAP_SYS_ADMIN
	22, // CAP_SYS_BOOT
	27, // CAP_MKNOD
	32, // CAP_MAC_OVERRIDE
	33, // CAP_MAC_ADMIN
	34, // CAP_SYSLOG
	38, // CAP_PERFMON
	39, // CAP_BPF
	40, // CAP_CHECKPOINT_RESTORE
}

// dropCapabilities removes the capabilities from future children of the thread. It fails without CAP_SETPCAP, when
// hardly any are left.
func dropCapabilities() {
	for _, number := range droppedCapabilities {
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, number, 0, 0, 0)
	}
}

// coverPaths covers hidden files and folders with empty ones, and mounts others read-only, for this thread. It returns
// false if it cannot.
func coverPaths(g guarded) bool {
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return false
	}
	// Private first, so that the mounts do not appear in the whole system.
	if syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "") != nil {
		return false
	}
	// A mount point cannot be renamed, so that a folder with a guarded path stays in place. Writable paths come before
	// the read-only folder around them, whose mount includes them.
	for _, path := range slices.Concat(foldersAbove(slices.Concat(g.hidden, g.readOnly)), g.writable) {
		if !mountAgain(path, false) {
			return false
		}
	}
	for _, path := range g.readOnly {
		if !mountAgain(path, true) {
			return false
		}
	}
	for _, path := range g.hidden {
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue // it was deleted
		case err == nil && info.IsDir():
			err = syscall.Mount("none", path, "tmpfs", syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV, "size=4k,mode=000")
		case err == nil:
			err = syscall.Mount("/dev/null", path, "", syscall.MS_BIND, "")
		}
		if err != nil {
			return false
		}
	}
	return true
}

// mountAgain mounts a path on itself. It returns true if that worked, or if the path is gone.
func mountAgain(path string, readOnly bool) bool {
	var system syscall.Statfs_t
	err := syscall.Statfs(path, &system)
	if err == nil {
		err = syscall.Mount(path, path, "", syscall.MS_BIND|syscall.MS_REC, "")
	}
	if err == nil && readOnly {
		// A remount without these flags of the file system would remove them.
		kept := uintptr(system.Flags) & (syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC)
		err = syscall.Mount("none", path, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY|kept, "")
	}
	return err == nil || errors.Is(err, os.ErrNotExist)
}

// foldersAbove returns the folders that contain paths, outer ones first, without the root.
func foldersAbove(list []string) []string {
	var folders []string
	for _, path := range list {
		for path = filepath.Dir(path); path != "/"; path = filepath.Dir(path) {
			folders = append(folders, path)
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

type allowed struct {
	all  []string // including everything below them
	read []string // the same, for reading and running
	list []string // only the names in the folder
}

// allowAround returns the paths to allow so that guarded paths cannot be opened or changed. Paths that the bot itself
// cannot change need no guard.
func allowAround(g guarded) allowed {
	g.readOnly = slices.DeleteFunc(slices.Clone(g.readOnly), func(path string) bool {
		return unix.Access(path, unix.W_OK) != nil && unix.Access(filepath.Dir(path), unix.W_OK) != nil
	})
	a := allowed{}
	a.all, a.list = splitAround("/", slices.Concat(g.hidden, g.readOnly))
	for _, path := range g.readOnly {
		switch {
		case slices.ContainsFunc(g.hidden, func(h string) bool { return isWithin(path, h) }):
		case slices.ContainsFunc(g.hidden, func(h string) bool { return isWithin(h, path) }):
			read, list := splitAround(path, g.hidden)
			a.read, a.list = append(a.read, read...), append(a.list, list...)
		default:
			a.read = append(a.read, path)
		}
	}
	a.all = append(a.all, g.writable...)
	return a
}

// splitAround returns the paths to allow as a whole so that hidden paths stay hidden, and the folders around these,
// which can only be listed. It skips symbolic links, because their target counts.
func splitAround(folder string, hidden []string) (allow, listable []string) {
	listable = []string{folder}
	for _, name := range entryNames(folder) {
		path := filepath.Join(folder, name)
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&os.ModeSymlink != 0 {
			continue
		}
		isHidden, holdsHidden := false, false
		for _, h := range hidden {
			isHidden = isHidden || h == path
			holdsHidden = holdsHidden || strings.HasPrefix(h, path+"/")
		}
		switch {
		case isHidden:
		case holdsHidden:
			more, folders := splitAround(path, hidden)
			allow, listable = append(allow, more...), append(listable, folders...)
		default:
			allow = append(allow, path)
		}
	}
	return allow, listable
}

func restrictThread(abi int, allow allowed, withoutTCP bool) error {
	access := accessOf(abi)
	attr := landlock.RulesetAttr{HandledAccessFS: access}
	if withoutTCP && abi >= networkABI {
		attr.HandledAccessNet = landlock.AccessNetBindTCP | landlock.AccessNetConnectTCP
	}
	if abi >= scopeABI {
		attr.Scoped = landlock.ScopeSignal
	}
	ruleset, err := landlock.LandlockCreateRuleset(&attr, 0)
	if err != nil {
		return fmt.Errorf("make a ruleset: %w", err)
	}
	defer syscall.Close(ruleset)
	for _, rule := range []struct {
		paths  []string
		access uint64
	}{{allow.all, access}, {allow.read, readFile | landlock.AccessFSReadDir}, {allow.list, landlock.AccessFSReadDir}} {
		for _, path := range rule.paths {
			if err := allowPath(ruleset, path, rule.access); err != nil {
				return err
			}
		}
	}
	// The kernel demands this of everybody except root. It blocks programs such as sudo.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if err := landlock.LandlockRestrictSelf(ruleset, 0); err != nil {
		return fmt.Errorf("restrict the thread: %w", err)
	}
	return nil
}

// allowPath adds a rule for a path. It skips paths that are gone or that the bot cannot open.
func allowPath(ruleset int, path string, access uint64) error {
	fd, err := syscall.Open(path, unix.O_PATH|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	var info syscall.Stat_t
	if err := syscall.Fstat(fd, &info); err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	if info.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		access &= fileAccess
	}
	err = landlock.LandlockAddPathBeneathRule(ruleset, &landlock.PathBeneathAttr{ParentFd: fd, AllowedAccess: access}, 0)
	if err != nil {
		return fmt.Errorf("allow %s: %w", path, err)
	}
	return nil
}

// limitProcess limits the resources of a process, and describes the limits.
func limitProcess(pid int, maxMemory int64) string {
	var faults []error
	for resource, most := range map[int]uint64{
		unix.RLIMIT_CORE:   0, // a core dump would contain the server's data
		unix.RLIMIT_NOFILE: maxServerFiles,
		unix.RLIMIT_FSIZE:  maxServerFileSize,
	} {
		faults = append(faults, unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil))
	}
	err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(serverOOMScore), 0)
	if errors.Join(append(faults, err)...) != nil {
		return "has no limits of its resources"
	}
	memory := ", its memory is not limited"
	if maxMemory > 0 {
		memory = fmt.Sprintf(" or %d MiB of memory", maxMemory>>20)
	}
	return fmt.Sprintf("has at most %d open files, files of at most %d GiB and no core dumps, and is ended before the bot "+
		"where memory runs out, or with more than %d processes%s; its processor time is not limited",
		maxServerFiles, maxServerFileSize>>30, maxServerProcesses, memory)
}
