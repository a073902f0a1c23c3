package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"ravenbot/internal/store"
)

// markerMade is the text of the marker file beside the store: a store was made here. Without it a lost file would look
// like a first start.
const markerMade = "A store was made here; see the file next to this one.\n"

// markerPath returns the path of the marker file of a store.
func markerPath(path string) string { return path + ".initialized" }

// hasMarker reports whether there is a marker file. One that cannot be looked at counts as none.
func hasMarker(path string) bool {
	_, err := os.Stat(markerPath(path))
	return err == nil
}

// writeMarker makes the marker file, if there is none.
func writeMarker(path string) error {
	if hasMarker(path) {
		return nil
	}
	return os.WriteFile(markerPath(path), []byte(markerMade), 0o600)
}

// isUnused reports whether no store was ever made at path. An empty file without a marker
// is left by a first start that was cut short. A store that was made and is now missing
// or empty is a *store.DamagedError: a new one would hide the loss.
func isUnused(path string) (bool, error) {
	made := hasMarker(path)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && made:
		return false, damagedError(path, "the file is missing, although a store was made here before",
			"put the file or a backup back, or remove "+markerPath(path)+" to begin with an empty store")
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("open store: %w", explainSystemError(path, err))
	case info.Size() == 0 && !made:
		return true, nil
	case info.Size() == 0:
		return false, damagedError(path, "the file is empty",
			"put a backup in its place, or remove the file and "+markerPath(path)+" to begin with an empty store")
	}
	return false, nil
}

// damagedError returns a *store.DamagedError: what was found, and what the operator can do about
// it.
func damagedError(path, what, way string) error {
	return &store.DamagedError{Path: path, What: what, Remedy: way}
}

const (
	replaceRemedy = "put a backup in its place, or move the file away to begin with an empty store"
	restoreRemedy = replaceRemedy + "; ravenbot store salvage copies what can still be read of it"
	compactRemedy = "ravenbot store compact makes it whole again, perhaps without the last changes; " +
		"or put a backup in its place"
)

// openFile opens the file with bbolt, which locks it: exclusively, or with readOnly against writers
// alone. It waits a second for the lock. It returns a *store.InUseError where another process keeps
// it or has replaced the file meanwhile, a *store.DamagedError where bbolt does not know the file
// for its own, and a *store.SystemError where the system refuses.
func openFile(path string, readOnly bool) (b *bbolt.DB, err error) {
	b, _, err = openMapped(path, readOnly)
	return b, err
}

// openMapped is openFile that also returns how many bytes the file can have before more of it is mapped; 0 if that is not
// known.
func openMapped(path string, readOnly bool) (b *bbolt.DB, mapped int64, err error) {
	var opened *os.File
	defer func() {
		if err != nil && opened != nil {
			_ = opened.Close() // bbolt has closed it, unless a damaged page made it fault
		}
	}()
	defer catchFaults(path, &err)()
	o := &bbolt.Options{
		ReadOnly:     readOnly,
		Timeout:      time.Second, // for the file lock: a process that ends may need a moment
		FreelistType: bbolt.FreelistMapType,
		// With 300,000 free pages writing their list took 100 ms of processor time a message (measured 2026-11-22). It is
		// written when the store is closed.
		NoFreelistSync: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
			opened, err = os.OpenFile(name, flag, mode)
			return opened, err
		},
	}
	if !readOnly {
		o.InitialMmapSize = mapSize(path)
	}
	b, err = bbolt.Open(path, 0o600, o)
	if errors.Is(err, syscall.ENOMEM) && o.InitialMmapSize > 0 {
		o.InitialMmapSize = 0 // the address space is limited
		b, err = bbolt.Open(path, 0o600, o)
	}
	switch {
	case err == nil && !isFileAt(opened, path):
		// The process that had the lock has replaced the file by another one, which it has locked.
		return nil, 0, errors.Join(&store.InUseError{Path: path}, b.Close())
	case err == nil:
		b.AllocSize = allocSize
		return b, int64(o.InitialMmapSize), nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, 0, &store.InUseError{Path: path, Process: lockHolder(path)}
	case isFormatError(err):
		return nil, 0, damagedError(path, err.Error(), restoreRemedy)
	}
	// Not the store's fault: the file may be whole, so no backup is suggested.
	return nil, 0, fmt.Errorf("open store: %w", explainSystemError(path, err))
}

// allocSize is by how much the file grows at once. bbolt's own 16 MB are for small maps alone.
const allocSize = 1 << 20

// mappedAhead is how many bytes behind the end of the file are mapped, which takes addresses and no
// memory. A file that outgrows its map is mapped again, and each writer waits until all who read,
// such as a backup, have ended.
const mappedAhead int64 = 4 << 30

// mapSize returns how much of a file, which may not be there yet, bbolt maps when it opens it; 0: as
// much as there is.
func mapSize(path string) int {
	if strconv.IntSize < 64 || runtime.GOOS == "windows" { // where a map enlarges the file
		return 0
	}
	var size int64
	if info, err := os.Stat(path); err == nil {
		size = info.Size()
	}
	return int(size + mappedAhead)
}

// isFileAt reports whether an open file is the one at a path.
func isFileAt(f *os.File, path string) bool {
	a, err1 := f.Stat()
	b, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// followLink returns the path of the file that a path leads to, which may be missing.
func followLink(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	target, err := os.Readlink(path)
	switch {
	case err != nil:
		return path
	case filepath.IsAbs(target):
		return target
	}
	return filepath.Join(filepath.Dir(path), target)
}

// formatErrors are what bbolt says of a file that is no database of it.
var formatErrors = []error{bolterrors.ErrInvalid, bolterrors.ErrVersionMismatch, bolterrors.ErrChecksum}

// lock keeps other processes from writing to the file at path until release is called. A file that
// bbolt refuses to open, or that is not there, needs no lock: no process can open it as a store. It
// returns a *store.InUseError where a process has the store open.
func lock(path string) (release func() error, err error) {
	b, err := openFile(path, true)
	var broken *store.DamagedError
	switch {
	case err == nil:
		return b.Close, nil
	case errors.As(err, &broken), errors.Is(err, fs.ErrNotExist):
		return func() error { return nil }, nil
	}
	return nil, err
}

// catchFaults turns a memory fault or a panic into a *store.DamagedError in err. The
// caller defers the returned function. bbolt reads the file through mmap, so a damaged
// or truncated file shows as a fault.
func catchFaults(path string, err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			*err = damagedError(path, fmt.Sprint("reading it failed: ", r), restoreRemedy)
		}
	}
}

// fileState is what a file says of itself.
type fileState struct {
	isOurs, hasBuckets bool      // the bucket that every store has, and any
	isClosed           bool      // it was closed in good order
	checked            time.Time // when all of it was last read; the zero time: unknown
}

// look returns what the file at path says of itself, without reading all of it. It returns a *store.NewerError if a newer
// version has written it, and a *store.DamagedError if it cannot be read, or if a migration has not filled it.
func look(path string) (s fileState, err error) {
	b, err := openFile(path, true)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	defer catchFaults(path, &err)()
	return s, b.View(func(bolt *bbolt.Tx) error {
		t := &tx{db: &DB{path: path}, bolt: bolt}
		format, err := t.format()
		if err == nil {
			err = checkFormat(path, format)
		}
		if err != nil {
			return err
		}
		s.isOurs = t.top(formatBucket) != nil || t.top(inboxBucket) != nil
		first, _ := bolt.Cursor().First()
		s.hasBuckets = first != nil
		if b := t.named(formatBucket); b != nil && format == formatVersion {
			var closed closedRecord
			s.isClosed, err = b.get(closedKey, &closed)
			s.checked = closed.Checked
		}
		return err
	})
}

// inspect looks at the file at path before bbolt opens it for writing. It reads all of its pages, but those of large
// values, unless the file was closed in good order: bbolt reads them, too, when it looks for the free ones, in a goroutine
// in which a fault ends the process, and trusts what it reads.
//
// A file whose logs were replayed has a list of free pages, too.
func inspect(path string, replayed bool) (s fileState, err error) {
	s, err = look(path)
	var damaged *store.DamagedError
	if err != nil && (!errors.As(err, &damaged) || damaged.What == cutOff) {
		return s, err
	}
	if err != nil || !s.isClosed && !replayed || !isComplete(path) {
		release, lockErr := lock(path)
		if lockErr != nil {
			return s, lockErr
		}
		r, readErr := readFile(context.Background(), path, nil, nil)
		if readErr = errors.Join(readErr, release()); readErr != nil {
			return s, fmt.Errorf("check store: %w", explainSystemError(path, readErr))
		}
		s.checked = time.Time{}
		if found := r.damage(); found != nil {
			return s, found
		}
	}
	// Buckets of somebody else's file, or none in a store that was made.
	if err == nil && !s.isOurs && (s.hasBuckets || hasMarker(path)) {
		err = damagedError(path, "it holds no records of ravenbot", restoreRemedy)
	}
	return s, err
}

// isComplete reports whether both headers of the file at path are good, and all pages that they know of are there.
func isComplete(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	m, good, err := readMetas(f)
	if err != nil || good < 2 {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Size() >= int64(m.pages)*int64(m.pageSize)
}
