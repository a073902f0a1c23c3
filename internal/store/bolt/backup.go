package bolt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/store"
)

// Backup copies the store to path, which must not exist; its folder is made. The copy is written
// under a temporary name, synced and checked as a whole before it gets its own. Others read and
// write meanwhile. It returns fs.ErrExist, wrapped, for a path that is taken, and the error of ctx;
// nothing is left then but, after a crash, the temporary file.
func (db *DB) Backup(ctx context.Context, path string) error {
	err := createFile(path, func(f *os.File) error {
		if err := db.copyTo(ctx, f); err != nil {
			return explainSystemError(path, err)
		}
		return Verify(ctx, f.Name())
	})
	if err != nil {
		return fmt.Errorf("back up store %s to %s: %w", db.path, path, err)
	}
	db.health.noteChecked(db.now()) // of all that the copy holds
	return nil
}

// BackupFile is Backup for a store that no process has open. It returns a
// *store.InUseError where one has.
func BackupFile(ctx context.Context, path, to string) error {
	err := requireStore(path)
	if err == nil {
		_, err = replayLogs(path)
	}
	if err != nil {
		return err
	}
	release, err := lock(path)
	if err != nil {
		return err
	}
	err = createFile(to, func(f *os.File) error {
		if err := copyFile(ctx, path, f); err != nil {
			return err
		}
		return upgradeCopy(ctx, path, f.Name())
	})
	if err = errors.Join(err, release()); err != nil {
		return fmt.Errorf("back up store %s to %s: %w", path, to, err)
	}
	return nil
}

// Receive writes a copy of a store that is read from r to path, which must not exist. The copy is
// checked as a whole before it gets its name: one that was cut off on its way is a
// *store.DamagedError.
func Receive(ctx context.Context, r io.Reader, path string) error {
	err := createFile(path, func(f *os.File) error {
		if _, err := io.Copy(&steadyWriter{ctx: ctx, f: f}, r); err != nil {
			return explainSystemError(path, err)
		}
		return errors.Join(f.Sync(), Verify(ctx, f.Name()))
	})
	if err != nil {
		return fmt.Errorf("write the backup %s: %w", path, err)
	}
	return nil
}

// copyTo writes the store as it is at one moment to a file, and syncs the file. Writers go on meanwhile.
func (db *DB) copyTo(ctx context.Context, f *os.File) error {
	err := db.view(func(tx *tx) error {
		_, err := tx.bolt.WriteTo(&steadyWriter{ctx: ctx, f: f})
		return cmp.Or(ctx.Err(), err) // bbolt returns a cancelled write as text only
	})
	return cmp.Or(err, f.Sync())
}

// steadyWriter writes to a file until ctx ends. It syncs the file at short intervals: what is not on
// the disk yet makes the fsyncs of others wait, for a third of a second with a backup of 3 GB
// (measured 2026-11-22).
type steadyWriter struct {
	ctx     context.Context
	f       *os.File
	pending int // bytes since the last sync
}

// maxUnsynced is after how many bytes a file is synced that is written beside an open store.
const maxUnsynced = 1 << 20

// Write syncs at intervals, so that a large copy does not leave one long sync behind which all writes would wait. It
// fails once ctx has ended.
func (w *steadyWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := w.f.Write(p)
	if w.pending += n; err == nil && w.pending >= maxUnsynced {
		w.pending, err = 0, w.f.Sync()
	}
	return n, err
}

// createFile makes a file at path that is either whole or not there, and replaces none: it returns
// fs.ErrExist. fill writes and syncs it under a temporary name in the same folder.
func createFile(path string, fill func(*os.File) error) error {
	if _, err := os.Lstat(path); err == nil {
		return fs.ErrExist
	}
	return writeBeside(path, fill, func(name string) error {
		// Unlike a rename, a link fails where the name was taken meanwhile.
		err := os.Link(name, path)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return errors.Join(err, os.Remove(name))
		}
		return os.Rename(name, path) // a file system without hard links
	})
}

// writeBeside has fill write a temporary file in the folder of path, which is made, and take move
// it into place. Where either fails, the temporary file is removed. When it returns nil the name is
// on the disk.
func writeBeside(path string, fill func(*os.File) error, take func(name string) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // mode 0600
	if tried := (*fs.PathError)(nil); errors.As(err, &tried) {
		return fmt.Errorf("write in the folder %s: %w", dir, tried.Err) // the name that was tried says nothing
	}
	if err != nil {
		return err
	}
	err = fill(f)
	if err = errors.Join(err, f.Close()); err == nil {
		err = take(f.Name())
	}
	if err != nil {
		_ = os.Remove(f.Name()) // or it is gone
		return err
	}
	return store.SyncFolder(dir)
}

// removeUnfinished removes what writeBeside has left beside the store at path when its process was killed. Whoever calls it
// holds the lock of the store, so that nobody writes such a file. The file keep stays, "": none has to.
func removeUnfinished(path, keep string) {
	source, _ := os.Stat(keep)
	list, _ := os.ReadDir(filepath.Dir(path)) // what cannot be read is tried the next time
	for _, entry := range list {
		number, ok := strings.CutPrefix(entry.Name(), "."+filepath.Base(path)+"-")
		info, err := entry.Info()
		if _, notNumber := strconv.ParseUint(number, 10, 64); !ok || notNumber != nil || err != nil {
			continue
		}
		if info.Mode().IsRegular() && !os.SameFile(info, source) {
			_ = os.Remove(filepath.Join(filepath.Dir(path), entry.Name()))
		}
	}
}

// Restore replaces the store at path, which may be damaged or missing, by a copy. The old
// store is kept under the name that is returned. The copy is checked first and must not
// change meanwhile. Restore returns a *store.InUseError where a process has the present
// store open.
func Restore(ctx context.Context, file, path string, now time.Time) (kept string, err error) {
	if _, err := replayLogs(file); err != nil { // of a store that was killed
		return "", err
	}
	release, err := lock(path)
	if err != nil {
		return "", err
	}
	// The lock is held from here on, so that no daemon starts between the check and the rename.
	if err := refuseSameFile(file, path); err != nil {
		return "", errors.Join(err, release())
	}
	place := followLink(path)
	removeUnfinished(place, file)
	err = writeBeside(place, func(f *os.File) error {
		if err := copyFile(ctx, file, f); err != nil {
			return err
		}
		if err := upgradeCopy(ctx, file, f.Name()); err != nil {
			return err
		}
		return copyRights(f, place)
	}, func(name string) (err error) {
		// The old file keeps its name too until the rename, so that a crash leaves a store.
		if kept, err = keepAs(place, place+".before-restore-"+now.UTC().Format(fileTimeFormat)); err != nil {
			return err
		}
		return errors.Join(os.Rename(name, place), writeMarker(path), keepLogs(path, kept))
	})
	if err = errors.Join(err, release()); err != nil {
		return kept, fmt.Errorf("restore store %s from %s: %w", path, file, err)
	}
	return kept, nil
}

// fileTimeFormat is the format of times in file names, in UTC.
const fileTimeFormat = "20060102-150405"

// refuseSameFile returns an error where file is the store itself.
func refuseSameFile(file, path string) error {
	a, err1 := os.Stat(file)
	b, err2 := os.Stat(path)
	if err1 == nil && err2 == nil && os.SameFile(a, b) {
		return fmt.Errorf("%s is the store itself, not a copy of it", file)
	}
	return nil
}

// copyFile copies a store that nobody writes to, after checking it.
func copyFile(ctx context.Context, from string, to *os.File) error {
	if err := Verify(ctx, from); err != nil {
		return err
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(&steadyWriter{ctx: ctx, f: to}, f); err != nil {
		return explainSystemError(to.Name(), err)
	}
	return to.Sync()
}

// keepAs gives the file at path a second name, so that there is a file at path at all
// times. It returns the name, or "" where there was no file.
func keepAs(path, name string) (string, error) {
	base := name
	err := os.Link(path, name)
	for i := 2; errors.Is(err, fs.ErrExist) && i < 100; i++ { // made within the same second
		name = fmt.Sprint(base, "-", i)
		err = os.Link(path, name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = os.Rename(path, name) // a file system without hard links
	}
	return name, err
}

// copyRights gives a file the mode and the owner of the one at path, where there is one: they may have been changed by
// hand.
func copyRights(f *os.File, path string) error {
	of, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	copyOwner(f, of)
	return f.Chmod(of.Mode().Perm())
}

// upgradeCopy brings a copy of the store at from to the newest format, with what the write-ahead log of an old store
// holds.
func upgradeCopy(ctx context.Context, from, path string) error {
	b, err := openFile(path, true)
	if err != nil {
		return err
	}
	isOld := false
	err = b.View(func(bolt *bbolt.Tx) error {
		format, err := (&tx{db: &DB{path: path}, bolt: bolt}).format()
		isOld = format < formatVersion
		return err
	})
	if err = errors.Join(err, b.Close()); err != nil || !isOld {
		return err
	}
	if b, err = openFile(path, false); err != nil {
		return err
	}
	db := newDB(path, b, time.Now)
	err = db.migrate(ctx, walPath(from))
	if err = errors.Join(err, b.Close()); err != nil {
		return err
	}
	return Verify(ctx, path)
}
