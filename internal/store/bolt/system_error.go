package bolt

import (
	"errors"
	"strings"
	"syscall"

	"ravenbot/internal/store"
)

// systemErrors are the errors of the system that say nothing about the store itself, each with what
// helps. The first that an error is, or names, counts.
var systemErrors = []struct {
	no     syscall.Errno
	what   string
	remedy string
}{
	{syscall.ENOSPC, "there is no space left on its disk",
		"free some, or delete files where `df -i` shows no inodes: a bot that runs goes on by itself, " +
			"a command has to be run again"},
	{syscall.EDQUOT, "the disk quota is used up",
		"free some: a bot that runs goes on by itself, a command has to be run again"},
	{
		syscall.EROFS,
		"its file system is read-only",
		"mount it for writing, or name a store elsewhere; after errors of a disk systems do this by themselves, and " +
			"dmesg tells",
	},
	{
		syscall.EACCES,
		"the file permissions forbid it",
		"give the user that the bot runs as the right to read and write the file and its folder",
	},
	{syscall.EPERM, "the system forbids it", "look at the owner and the attributes of the file and of its folder"},
	{
		syscall.ENOMEM,
		"there is not enough memory to map the file",
		"give the process more memory or address space (ulimit -v, LimitAS), or make the file smaller with ravenbot " +
			"store compact",
	},
	{syscall.EMFILE, "the process has too many files open", "raise its limit (ulimit -n, LimitNOFILE)"},
	{syscall.ENFILE, "the system has too many files open", "raise fs.file-max, or end what holds them open"},
	{
		syscall.ENOLCK,
		"its file system has no locks",
		"keep the store on a local disk: not every network file system has locks",
	},
	{
		syscall.EIO,
		"its disk cannot be read or written",
		"look at the system's log (dmesg) and at the disk; the records may be whole",
	},
	{syscall.ENOTDIR, "a part of its path is not a folder", "correct store in the configuration"},
	{syscall.EISDIR, "its path is a folder", "name a file as store in the configuration"},
	{syscall.ENAMETOOLONG, "its path is too long", "name a shorter one as store in the configuration"},
	{syscall.EFBIG, "the file has reached its maximum size", "raise the limit of the size of files (ulimit -f)"},
}

// explainSystemError returns a *store.SystemError for an error of the system. Any other error comes
// back unchanged.
func explainSystemError(path string, err error) error {
	var explained *store.SystemError
	if err == nil || errors.As(err, &explained) {
		return err
	}
	for _, e := range systemErrors {
		// bbolt returns the errors of growing a file as text only.
		if errors.Is(err, e.no) || strings.Contains(err.Error(), e.no.Error()) {
			return &store.SystemError{Path: path, What: e.what, Remedy: e.remedy, Err: err, Code: e.no}
		}
	}
	return err
}

// isFormatError reports whether bbolt refused a file for what is in it.
func isFormatError(err error) bool {
	for _, format := range formatErrors {
		if errors.Is(err, format) {
			return true
		}
	}
	return strings.Contains(err.Error(), "file size too small") // which bbolt returns as text only
}
