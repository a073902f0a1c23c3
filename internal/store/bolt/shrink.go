package bolt

import (
	"os"
	"time"
)

// A file system that frees gigabytes at once makes the fsyncs of others wait meanwhile, for 60 ms and
// more with 2 GB on ext4 (measured 2026-11-22). So a large file loses its name first, and then its
// contents in parts, unless it has another name or somebody else is reading it.
const (
	// A part of shrinkBy bytes is freed every shrinkRest, so that a file of 3 GB takes about a
	// second.
	shrinkBy   = 32 << 20
	shrinkRest = 10 * time.Millisecond
)

// removeLarge removes a file.
func removeLarge(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return os.Remove(path)
	}
	defer f.Close()
	if err := os.Remove(path); err != nil {
		return err
	}
	shrink(f, func() bool { return false })
	return nil
}

// shrink frees the contents of a file that has no name any more. When hurry returns true the rest is
// left for the system to free when the file is closed.
func shrink(f *os.File, hurry func() bool) {
	info, err := f.Stat()
	if err != nil || !isUnreachable(f) {
		return
	}
	for size := info.Size(); size > shrinkBy && !hurry(); {
		size -= shrinkBy
		if f.Truncate(size) != nil {
			return
		}
		time.Sleep(shrinkRest)
	}
}
